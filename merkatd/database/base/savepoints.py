"""Savepoints: independent pieces of work in one transaction, each undone alone if it fails."""

from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa

from merkatd.database.base.transactions import ends_transaction

Result = TypeVar("Result")


class SeparateWork:
    """Runs work for several keys in one transaction, and records which keys failed."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self.failed: dict[int, Exception] = {}
        """The exception of each failed key."""

    def run(self, key: int, work: Callable[[], Result], otherwise: Result) -> Result:
        """Run the work of a key and return its result, or `otherwise` if it fails.

        The writes of failed work are undone. A key that failed before is skipped. An error that
        ends the whole transaction is raised.
        """
        if key in self.failed:
            return otherwise
        savepoint = self._connection.begin_nested()
        result = self.look(key, work, otherwise)
        if key in self.failed:
            savepoint.rollback()
        else:
            savepoint.commit()
        return result

    def look(self, key: int, work: Callable[[], Result], otherwise: Result) -> Result:
        """Do the same for work that only reads, without a savepoint."""
        if key in self.failed:
            return otherwise
        try:
            return work()
        except Exception as error:
            if ends_transaction(error):
                raise
            self.failed[key] = error
            return otherwise
