"""How an interface runs a long read of a service: at once, in turn, or within a time limit.

A service checks the rights of its caller first, outside of this: only the read waits.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class ReadRunner(Protocol):
    """Runs a read and returns its result."""

    async def __call__(self, read: Callable[[], Awaitable[Result]], /) -> Result:
        """Return the result of the read."""


async def run_at_once(read: Callable[[], Awaitable[Result]], /) -> Result:
    """Return the result of a read that starts now."""
    return await read()
