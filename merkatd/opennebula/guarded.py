"""A transport that lets nothing through that changes anything, unless we may act right now.

Between the look at a VM and the call that deploys it the process can be stopped for minutes,
and another daemon have begun to act. So the last question before a call is put here.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from merkatd.database.scheduler.lease_store import LeaseLostError
from merkatd.opennebula.transport import Transport

_LOOKS = (
    "info",
    "infoextended",
    "infoset",
    "monitoring",
    "version",
    "config",
    "raftstatus",
    "table",
)
"""What calls are called that change nothing."""


class Guarded:
    """Implements `transport.Transport` over another one."""

    def __init__(self, transport: Transport, certain: Callable[[], Awaitable[None]]) -> None:
        """`certain` raises LeaseLostError where another daemon may be acting already."""
        self._transport = transport
        self._certain = certain

    async def call(self, method: str, *arguments: Any) -> list[Any]:
        """As the other transport. Raises ConnectionAbortedError where we may not act."""
        if not method.endswith(_LOOKS):
            try:
                await self._certain()
            except LeaseLostError as error:
                raise ConnectionAbortedError(f"not sent: {error}") from error
        return await self._transport.call(method, *arguments)
