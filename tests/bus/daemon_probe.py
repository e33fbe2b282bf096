"""A daemon with only platforms' processes.

Its manager writes each action to a file before it answers, and reads the file after a restart. It
publishes a period every 0.1 seconds.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger, globalLogBeginner, textFileLogObserver

from merkatd.base.clock import asyncio_reactor
from merkatd.bus.platform_processes import PlatformProcesses
from merkatd.bus.settings import BusSettings
from merkatd.protocol.platform_messages import Action, ActionOutcome, SetSize
from tests.bus.rig import assignment, news, parts, watched

PERIOD_S = 0.1
QUICK = BusSettings(
    beat_s=0.5, silence_s=20.0, restart_least_s=0.05, restart_most_s=0.2, restart_tries=1_000
)


class Book:
    """A manager that remembers its actions and memories."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._done: set[str] = set()
        book = home / "actions"
        if book.exists():
            self._done = {line.split()[1] for line in book.read_text().splitlines()}
        self._file = book.open("a")

    async def act(self, platform: int, action_id: str, action: Action) -> ActionOutcome:
        """Record the action once."""
        assert isinstance(action, SetSize)
        if action_id not in self._done:
            self._done.add(action_id)
            self._file.write(f"{platform} {action_id} {action.reason}\n")
            self._file.flush()
        return ActionOutcome(accepted=True)

    async def remember(self, platform: int, memory: Any) -> None:
        """Store the memory atomically."""
        half = self._home / f"memory-{platform}.new"
        half.write_text(json.dumps(memory))
        half.rename(self._home / f"memory-{platform}")

    def remembered(self, platform: int) -> Any:
        """Return the stored memory."""
        kept = self._home / f"memory-{platform}"
        return json.loads(kept.read_text()) if kept.exists() else None

    async def ended(self, platform: int, why: str, *, final: bool) -> None:
        """Do nothing: the log shows it."""

    async def monitor_ended(self, platform: int, row: int, why: str) -> None:
        """Do nothing: the log shows it."""


def main(words: Sequence[str]) -> int:
    """Run this many platforms in this folder until killed."""
    home, platforms = Path(words[0]), int(words[1])
    reactor = asyncio_reactor()
    log: Any = textFileLogObserver
    globalLogBeginner.beginLoggingTo([log(sys.stderr)], redirectStandardIO=False)
    book = Book(home)

    async def begin() -> None:
        processes = PlatformProcesses(home, reactor, np.random.default_rng(), QUICK)
        processes.attend(book)
        for platform in range(1, platforms + 1):
            assigned = watched(
                assignment(platform, "counting", memory=book.remembered(platform)),
                "ticking",
                every_s=0.1,
            )
            await processes.start(assigned)
        periods = iter(range(1, 10**9))

        def announce() -> None:
            period = next(periods)
            latest = [news(platform, period) for platform in range(1, platforms + 1)]
            processes.announce(*parts(*latest))

        LoopingCall(announce).start(PERIOD_S)

    # asyncio's loop does not run yet when the reactor says so.
    reactor.callLater(
        0, lambda: ensureDeferred(begin()).addErrback(lambda why: Logger().failure("Failed", why))
    )
    reactor.run()
    return 0
