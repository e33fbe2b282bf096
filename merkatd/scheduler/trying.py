"""Transactions that come to nothing: what would be written is seen, and not kept."""

from collections.abc import Callable
from typing import Generic, TypeVar

import sqlalchemy as sa

from merkatd.scheduler.transactions import Transactions

Result = TypeVar("Result")


class _Undone(Exception, Generic[Result]):  # noqa: N818 - nothing went wrong
    """Takes a result out of a transaction, which is rolled back for it."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result


class Trying:
    """A database for a dry run."""

    def __init__(self, database: Transactions) -> None:
        self._database = database

    async def run(self, work: Callable[[sa.Connection], Result]) -> Result:
        """What `work` returns; all that it wrote is rolled back."""

        def undone(connection: sa.Connection) -> Result:
            raise _Undone(work(connection))

        try:
            return await self._database.run(undone)
        except _Undone as done:
            result: Result = done.result
            return result

    async def read(self, work: Callable[[sa.Connection], Result]) -> Result:
        """What `work` returns."""
        return await self._database.read(work)
