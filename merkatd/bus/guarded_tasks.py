"""Tasks of the bus that restart after a failure, and a count of the failures."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from twisted.logger import Logger

_log = Logger()
_PAUSE_S = 0.1
"""Pause before a restart, so that a task that fails at once does not use up the processor."""


class Tasks:
    """Starts tasks, and restarts each that ends by itself."""

    def __init__(self) -> None:
        self.ended = 0
        """Number of unexpected ends since the daemon's start."""

    def start(
        self, name: str, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> "asyncio.Task[None]":
        """Run `work`, and restart it whenever it ends, until the task is cancelled."""
        return asyncio.get_running_loop().create_task(self._kept(name, work))

    async def _kept(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await work()
                _log.error("Bus task {name} returned; restarting it", name=name)
            except Exception:  # noqa: BLE001 - a failing message must not stop the others
                _log.failure("Bus task {name} failed; restarting it", name=name)
            self.ended += 1
            await asyncio.sleep(_PAUSE_S)
