"""Work for many in one transaction: what fails for one is undone for it alone, and kept for it."""

from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa

from merkatd.database.base.transactions import ends_transaction

Result = TypeVar("Result")


class Apart:
    """Does work for one after the other in a transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self.failed: dict[int, Exception] = {}
        """By key: what was raised for each of those that failed."""

    def run(self, key: int, work: Callable[[], Result], otherwise: Result) -> Result:
        """Return what the work for one returns; `otherwise` where it fails.

        Where it fails nothing of what it wrote is kept. Nothing is done any more for one that has
        failed before. An error that ends the whole transaction is raised.
        """
        if key in self.failed:
            return otherwise
        savepoint = self._connection.begin_nested()
        found = self.look(key, work, otherwise)
        if key in self.failed:
            savepoint.rollback()
        else:
            savepoint.commit()
        return found

    def look(self, key: int, work: Callable[[], Result], otherwise: Result) -> Result:
        """Do the same for work that writes nothing."""
        if key in self.failed:
            return otherwise
        try:
            return work()
        except Exception as error:
            if ends_transaction(error):
                raise
            self.failed[key] = error
            return otherwise
