"""Runs the daemon on a large cloud behind HTTP, while a heartbeat watches its reactor."""

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
from merkatd.config.loader import parse
from merkatd.daemon.assembly import start
from tests.daemon.large import ADMIN
from tests.embedded.scale_probe import reactor, reference_s

if TYPE_CHECKING:
    from merkatd.scheduler.phases.announce import Announcement

BEAT_S = 0.002


class Heartbeat:
    """Knows the longest time for which the reactor could not turn because of this process.

    Between two beats as much time of the wall has passed as that, and as much CPU time of all
    threads of the process: others that use the machine lengthen the first, own threads that
    work while the reactor turns lengthen the second, and what computes while the reactor can't
    turn both. Waiting that costs nobody's CPU, for a disk say, is not seen.
    """

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._last = self._now()
        task.LoopingCall(self._beat).start(BEAT_S)

    def take(self) -> float:
        """The longest time since the last taking."""
        longest_s, self.longest_s = self.longest_s, 0.0
        return longest_s

    def _beat(self) -> None:
        now = self._now()
        passed = min(now[0] - self._last[0], now[1] - self._last[1])
        self.longest_s = max(self.longest_s, passed)
        self._last = now

    def _now(self) -> tuple[float, float]:
        return time.monotonic(), time.process_time()


async def probe(directory: Path, endpoint: str, periods: int) -> dict[str, Any]:
    """What happened in each period, and for how long the reactor was held."""
    (directory / "one_auth").write_text(f"{ADMIN}\n")
    config = parse(
        f"""
        [daemon]
        state_directory = "{directory}"
        [period]
        interval = "2s"
        settle = "1s"
        [cloud]
        kind = "opennebula"
        endpoint = "{endpoint}"
        auth_file = "one_auth"
        """
    )
    heart = Heartbeat()
    holds = ReactorHolds(reactor)
    holds.start()
    found: dict[str, Any] = {"reference_s": reference_s(), "periods": []}
    await task.deferLater(reactor, 0.5, lambda: None)
    heart.take()
    daemon = await start(reactor, config)
    found["start_s"] = heart.take()
    enough: Deferred[None] = Deferred()

    def listen(announcement: Announcement) -> None:
        steps = Counter(step.kind for step in announcement.decided.steps)
        found["periods"].append(
            {
                "held_s": heart.take(),
                "where": holds.take()[1],
                "refused": announcement.acted.refused,
                **steps,
            }
        )
        sys.stderr.write(f"period {len(found['periods'])} of {periods}\n")
        if len(found["periods"]) == periods:
            enough.callback(None)

    daemon.scheduler.listen(listen)
    await enough
    await daemon.stop()
    holds.stop()
    # Others may have come to the machine meanwhile.
    found["reference_s"] = max(found["reference_s"], reference_s())
    return found


def main(directory: Path, endpoint: str, periods: int) -> None:
    """Print what was measured in so many periods as JSON, and meanwhile how far it is."""
    outcomes: list[Any] = []
    with (directory / "log").open("w") as log:
        observer: Any = textFileLogObserver(log)
        globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False)

        def begin() -> None:
            done = ensureDeferred(probe(directory, endpoint, periods))
            done.addBoth(outcomes.append).addBoth(lambda _: reactor.stop())

        reactor.callWhenRunning(begin)
        reactor.run()
    (outcome,) = outcomes
    if not isinstance(outcome, dict):
        outcome.raiseException()
    sys.stdout.write(json.dumps(outcome))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
