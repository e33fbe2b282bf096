"""What a transaction is to its callers, which failures are retried, and dry runs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import sqlalchemy as sa

from merkatd.database.base import engine

_MYSQL_PASSING = frozenset(
    {
        1020,  # a row changed since this transaction read it
        1205,  # waited too long for a lock
        1213,  # deadlock, this transaction was chosen to give way
        1040,  # too many connections
        1053,  # the server is being shut down
        1927,  # the connection was ended by an administrator
        2002,  # nobody answers at the socket: it may be starting again
        2003,  # nobody answers at the address
        2006,  # the server has gone away
        2013,  # connection lost during a query
        4031,  # disconnected because nothing was said for long
    }
)
_MYSQL_OF_DATA = frozenset(
    {
        1264,  # out of range for a column
        1366,  # not a value of the column's type
        1406,  # too long for a column
        1690,  # the result of a sum is out of range
    }
)


class LostRaceError(Exception):
    """Somebody else wrote the same thing at the same time; another look will show it."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a transaction is tried, and how long it waits in between."""

    attempts: int = 6
    first_wait_s: float = 0.05
    longest_wait_s: float = 2.0

    def wait_s(self, attempt: int, draw: float) -> float:
        """The wait after attempt 1, 2, ...; `draw` in [0, 1) takes up to half of it away."""
        full = min(self.longest_wait_s, self.first_wait_s * 2.0 ** (attempt - 1))
        return full * (1.0 - draw / 2.0)


def is_transient(error: Exception) -> bool:
    """Whether the same transaction may succeed when it is run again from its start."""
    if isinstance(error, LostRaceError):
        return True
    if not isinstance(error, sa.exc.DBAPIError) or error.orig is None:
        return False
    if error.connection_invalidated or engine.is_busy(error.orig):
        return True
    first = error.orig.args[0] if error.orig.args else None
    return first in _MYSQL_PASSING


def is_of_data(error: Exception) -> bool:
    """Return whether a value is one that no column can hold, however often it is stored."""
    if not isinstance(error, sa.exc.DBAPIError) or error.orig is None:
        return False
    first = error.orig.args[0] if error.orig.args else None
    return isinstance(error, sa.exc.DataError) or first in _MYSQL_OF_DATA


def ends_transaction(error: Exception) -> bool:
    """Return whether nothing more can be done in the transaction in which this was raised.

    Everything else is the fault of the value or the work at hand, and passes with them.
    """
    if isinstance(error, sa.exc.IntegrityError) or is_of_data(error):
        return False
    if isinstance(error, sa.exc.StatementError):  # also what a value can't be made into
        return isinstance(error, sa.exc.DBAPIError)
    return isinstance(error, sa.exc.SQLAlchemyError | LostRaceError)


Result = TypeVar("Result")


class Transactions(Protocol):
    """A database, or one that is only open to whoever may act."""

    async def run(self, work: Callable[[sa.Connection], Result]) -> Result:
        """What `work` returns, once its transaction is committed."""

    async def read(self, work: Callable[[sa.Connection], Result]) -> Result:
        """What `work` returns, from one consistent state; it must not write."""


class _Undone(Exception, Generic[Result]):  # noqa: N818 - nothing went wrong
    """Takes a result out of a transaction, which is rolled back for it."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result


class DryRunTransactions:
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
