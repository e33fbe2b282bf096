"""Tasks of the bus that go on whatever a message does to them, and whose ends are noticed."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from twisted.logger import Logger

_log = Logger()
_PAUSE_S = 0.1
"""Before work that ended begins again: what fails at once must not use up the processor."""


class Tasks:
    """Starts tasks, and starts again those that end unasked."""

    def __init__(self) -> None:
        self.ended = 0
        """How many have ended unasked since the daemon's start."""

    def start(
        self, name: str, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> "asyncio.Task[None]":
        """Run work that goes on until its task is cancelled."""
        return asyncio.get_running_loop().create_task(self._kept(name, work))

    async def _kept(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await work()
                _log.error("The task {name} of the bus returned; it begins again", name=name)
            except Exception:  # noqa: BLE001 - one message is never the end of the others
                _log.failure("The task {name} of the bus failed; it begins again", name=name)
            self.ended += 1
            await asyncio.sleep(_PAUSE_S)
