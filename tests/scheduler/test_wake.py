"""After an event the next period starts early, but never too soon after the last one."""

from itertools import pairwise

import pytest

from tests.scheduler.frontend import Frontend


def record_starts(frontend: Frontend) -> list[float]:
    """Return a list of the start times of the following periods."""
    starts: list[float] = []
    frontend.scheduler.listen(lambda announcement: starts.append(announcement.seen.started_s))
    frontend.scheduler.start()
    return starts


def test_an_event_starts_a_period_soon(frontend: Frontend) -> None:
    """The next interval begins there; further events meanwhile change nothing."""
    starts = record_starts(frontend)
    frontend.clock.pump([1.0] * 20)
    frontend.scheduler.wake()
    frontend.clock.pump([1.0] * 65)
    first = starts[0]
    assert [start - first for start in starts] == pytest.approx([0, 20, 80], abs=1.5)
    frontend.result(frontend.stopped())


def test_periods_keep_their_minimum_distance(frontend: Frontend) -> None:
    """This holds for any number of events."""
    starts = record_starts(frontend)
    for _ in range(60):
        frontend.clock.advance(0.5)
        frontend.scheduler.wake()
    gaps = [late - soon for soon, late in pairwise(starts)]
    least_s = frontend.scheduler.world.rhythm.least_interval_s
    assert len(gaps) >= 4
    assert all(least_s <= gap <= least_s + 1 for gap in gaps)
    frontend.result(frontend.stopped())


def test_an_event_during_a_period_starts_another(frontend: Frontend) -> None:
    """The running period may have missed it."""
    frontend.bench.ok(
        "embedded.fault.add",
        {"kind": "delay", "method": "one.hostpool.info", "seconds": 10.0, "count": 1},
    )
    starts = record_starts(frontend)
    frontend.clock.pump([1.0] * 5)
    frontend.scheduler.wake()
    frontend.clock.pump([1.0] * 10)
    assert [start - starts[0] for start in starts] == pytest.approx([0, 10], abs=1.5)
    frontend.result(frontend.stopped())


def test_an_event_after_the_stop_starts_no_period(frontend: Frontend) -> None:
    """Neither does one before the start."""
    frontend.scheduler.wake()
    starts = record_starts(frontend)
    frontend.clock.pump([1.0] * 5)
    frontend.result(frontend.stopped())
    frontend.scheduler.wake()
    frontend.clock.pump([1.0] * 100)
    assert len(starts) == 1
