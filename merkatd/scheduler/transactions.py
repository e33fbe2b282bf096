"""What the period needs of a database: functions of a connection, each in a transaction."""

from collections.abc import Callable
from typing import Protocol, TypeVar

import sqlalchemy as sa

Result = TypeVar("Result")


class Transactions(Protocol):
    """A database, or one that is only open to whoever may act."""

    async def run(self, work: Callable[[sa.Connection], Result]) -> Result:
        """What `work` returns, once its transaction is committed."""

    async def read(self, work: Callable[[sa.Connection], Result]) -> Result:
        """What `work` returns, from one consistent state; it must not write."""
