"""Run the daemon on a large cloud over HTTP, with a heartbeat that watches its reactor."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twisted.internet import task
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import globalLogBeginner, textFileLogObserver

from merkatd.api.metrics.reactor_metrics import ReactorHolds
from merkatd.api.values.plain_values import members
from merkatd.config.loader import parse
from merkatd.daemon.assembly import start
from merkatd.database.scheduler.order_store import Mode
from merkatd.service.base.callers import LOCAL
from merkatd.service.modes import ModeService
from tests.daemon.large import ADMIN
from tests.embedded.scale_probe import reactor
from tests.machine_speed import reference_s

if TYPE_CHECKING:
    from merkatd.scheduler.period import Scheduler
    from merkatd.scheduler.phases.announce import Announcement

BEAT_S = 0.002


class Heartbeat:
    """Measures the longest time for which this process held the reactor.

    Between two beats it takes the smaller of wall time and CPU time of the process. Other programs
    lengthen only the wall time, and worker threads beside a free reactor only the CPU time. A
    computation that holds the reactor lengthens both. Idle waits, as for a disk, are not measured.
    """

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._last = self._now()
        task.LoopingCall(self._beat).start(BEAT_S)

    def take(self) -> float:
        """Return the longest time since the last call."""
        longest_s, self.longest_s = self.longest_s, 0.0
        return longest_s

    def _beat(self) -> None:
        now = self._now()
        passed = min(now[0] - self._last[0], now[1] - self._last[1])
        self.longest_s = max(self.longest_s, passed)
        self._last = now

    def _now(self) -> tuple[float, float]:
        return time.monotonic(), time.process_time()


async def probe(directory: Path, endpoint: str, periods: int, mode: str) -> dict[str, Any]:
    """Return the steps of each period, and how long the reactor was held.

    In mode ask, the plan of the first period is approved.
    """
    (directory / "one_auth").write_text(f"{ADMIN}\n")
    config = parse(
        f"""
        [daemon]
        state_directory = "{directory}"
        [period]
        interval = "2s"
        settle = "1s"
        [acting]
        mode = "{mode}"
        [cloud]
        kind = "opennebula"
        endpoint = "{endpoint}"
        auth_file = "one_auth"
        """
    )
    heart = Heartbeat()
    holds = ReactorHolds(reactor)
    holds.start()
    measures: dict[str, Any] = {"reference_s": reference_s(), "periods": []}
    await task.deferLater(reactor, 0.5, lambda: None)
    heart.take()
    daemon = await start(reactor, config)
    measures["start_s"] = heart.take()
    enough: Deferred[None] = Deferred()

    def listen(announcement: Announcement) -> None:
        steps = Counter(step.kind for step in announcement.decided.steps)
        measures["periods"].append(
            {
                "held_s": heart.take(),
                "where": holds.take()[1],
                "refused": announcement.acted.refused,
                **steps,
            }
        )
        sys.stderr.write(f"period {len(measures['periods'])} of {periods}\n")
        if mode == Mode.ASK and len(measures["periods"]) == 1:
            ensureDeferred(_approve(daemon.scheduler, heart, measures))
        if len(measures["periods"]) == periods:
            enough.callback(None)

    daemon.scheduler.listen(listen)
    await enough
    await daemon.stop()
    holds.stop()
    # Other programs may have started on the machine meanwhile.
    measures["reference_s"] = max(measures["reference_s"], reference_s())
    return measures


async def _approve(scheduler: Scheduler, heart: Heartbeat, measures: dict[str, Any]) -> None:
    """Approve the plan that waits, and turn it into an answer, as the control socket does."""
    heart.take()
    began_s = time.monotonic()
    plan = await ModeService(scheduler).approve(LOCAL, "root", None, frozenset())
    await scheduler.world.executor.run(lambda: members(plan))
    took_s = time.monotonic() - began_s
    measures["approval"] = {"held_s": heart.take(), "steps": len(plan.steps), "took_s": took_s}


def main(directory: Path, endpoint: str, periods: int, mode: str = "on") -> None:
    """Print the measurements of this number of periods as JSON, and the progress to stderr."""
    outcomes: list[Any] = []
    with (directory / "log").open("w") as log:
        observer: Any = textFileLogObserver(log)
        globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False)

        def begin() -> None:
            done = ensureDeferred(probe(directory, endpoint, periods, mode))
            done.addBoth(outcomes.append).addBoth(lambda _: reactor.stop())

        reactor.callWhenRunning(begin)
        reactor.run()
    (outcome,) = outcomes
    if not isinstance(outcome, dict):
        outcome.raiseException()
    sys.stdout.write(json.dumps(outcome))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
