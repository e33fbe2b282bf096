"""The interface of transactions, the classes of their errors, and dry runs."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import sqlalchemy as sa

from merkatd.database.base import engine

_MYSQL_PASSING = frozenset(
    {
        1020,  # a row changed since this transaction read it
        1205,  # lock wait timeout
        1213,  # deadlock; the server rolled this transaction back
        1040,  # too many connections
        1053,  # the server is shutting down
        1927,  # an administrator closed the connection
        2002,  # no server at the socket; it may be restarting
        2003,  # no server at the address
        2006,  # the server has gone away
        2013,  # connection lost during a query
        4031,  # disconnected because the connection was idle
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
    """Another transaction wrote the same row at the same time; a retry will read it."""


def is_transient(error: Exception) -> bool:
    """Return whether the same transaction may succeed if it is run again from its start."""
    if isinstance(error, LostRaceError):
        return True
    if not isinstance(error, sa.exc.DBAPIError) or error.orig is None:
        return False
    if error.connection_invalidated or engine.is_busy(error.orig):
        return True
    first = error.orig.args[0] if error.orig.args else None
    return first in _MYSQL_PASSING


def is_of_data(error: Exception) -> bool:
    """Return whether a value does not fit its column, so that a retry can't help."""
    if not isinstance(error, sa.exc.DBAPIError) or error.orig is None:
        return False
    first = error.orig.args[0] if error.orig.args else None
    return isinstance(error, sa.exc.DataError) or first in _MYSQL_OF_DATA


def ends_transaction(error: Exception) -> bool:
    """Return whether the error makes the whole transaction unusable.

    Any other error concerns only the current value or work; the transaction can continue.
    """
    if isinstance(error, sa.exc.IntegrityError) or is_of_data(error):
        return False
    if isinstance(error, sa.exc.StatementError):  # also values that can't be converted
        return isinstance(error, sa.exc.DBAPIError)
    return isinstance(error, sa.exc.SQLAlchemyError | LostRaceError)


Result = TypeVar("Result")


class Transactions(Protocol):
    """A database, or a wrapper that lets only the leading daemon use it."""

    async def run(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Return the result of `work` after its transaction is committed."""

    async def read(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Return the result of `work`, which reads one consistent state and must not write."""


class _Undone(Exception, Generic[Result]):  # noqa: N818 - nothing went wrong
    """Carries a result out of a transaction so that the transaction is rolled back."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result


class DryRunTransactions:
    """A database that rolls back every transaction, for dry runs."""

    def __init__(self, database: Transactions) -> None:
        self._database = database

    async def run(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Return the result of `work`, and roll back its writes."""

        def undone(connection: sa.Connection) -> Result:
            raise _Undone(work(connection))

        try:
            return await self._database.run(undone)
        except _Undone as done:
            result: Result = done.result
            return result

    async def read(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Return the result of `work`."""
        return await self._database.read(work)
