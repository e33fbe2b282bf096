"""How many calls a server is sent, and what became of them."""

from collections import Counter
from typing import Any

from merkatd.opennebula import Transport

ANSWERED, FAILED = "answered", "failed"


class Calls:
    """Counts the calls to one server."""

    def __init__(self) -> None:
        self.ended: Counter[str] = Counter({ANSWERED: 0, FAILED: 0})
        """By outcome. A refusal is an answer; that nobody knows what a call did is a failure."""
        self.under_way = 0

    def through(self, transport: Transport) -> Transport:
        """The same way, watched."""
        return _Watched(transport, self)


class _Watched:
    def __init__(self, transport: Transport, calls: Calls) -> None:
        self._transport = transport
        self._calls = calls

    async def call(self, method: str, *arguments: Any) -> list[Any]:
        """As the other way does."""
        self._calls.under_way += 1
        outcome = FAILED
        try:
            answer = await self._transport.call(method, *arguments)
            outcome = ANSWERED
        finally:
            self._calls.under_way -= 1
            self._calls.ended[outcome] += 1
        return answer
