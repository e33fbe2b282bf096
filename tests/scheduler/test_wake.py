"""Where something happened the next period begins early, and periods never follow too closely."""

from itertools import pairwise

import pytest

from tests.scheduler.frontend import Frontend


def starts_of(frontend: Frontend) -> list[float]:
    """When periods begin from now on, counted from the first."""
    starts: list[float] = []
    frontend.scheduler.listen(lambda told: starts.append(told.seen.started_s))
    frontend.scheduler.start()
    return starts


def test_something_that_happens_is_looked_at_soon(frontend: Frontend) -> None:
    """The interval counts from there; what happens in between changes nothing."""
    starts = starts_of(frontend)
    frontend.clock.pump([1.0] * 20)
    frontend.scheduler.wake()
    frontend.clock.pump([1.0] * 65)
    first = starts[0]
    assert [start - first for start in starts] == pytest.approx([0, 20, 80], abs=1.5)
    frontend.result(frontend.stopped())


def test_periods_keep_their_distance(frontend: Frontend) -> None:
    """However much happens."""
    starts = starts_of(frontend)
    for _ in range(60):
        frontend.clock.advance(0.5)
        frontend.scheduler.wake()
    gaps = [late - soon for soon, late in pairwise(starts)]
    least_s = frontend.scheduler.world.rhythm.least_interval_s
    assert len(gaps) >= 4
    assert all(least_s <= gap <= least_s + 1 for gap in gaps)
    frontend.result(frontend.stopped())


def test_what_happens_during_a_period_begins_another(frontend: Frontend) -> None:
    """It may have come too late for the one under way."""
    frontend.bench.ok(
        "embedded.fault.add",
        {"kind": "delay", "method": "one.hostpool.info", "seconds": 10.0, "count": 1},
    )
    starts = starts_of(frontend)
    frontend.clock.pump([1.0] * 5)
    frontend.scheduler.wake()
    frontend.clock.pump([1.0] * 10)
    assert [start - starts[0] for start in starts] == pytest.approx([0, 10], abs=1.5)
    frontend.result(frontend.stopped())


def test_what_happens_after_the_end_begins_nothing(frontend: Frontend) -> None:
    """Nor before the beginning."""
    frontend.scheduler.wake()
    starts = starts_of(frontend)
    frontend.clock.pump([1.0] * 5)
    frontend.result(frontend.stopped())
    frontend.scheduler.wake()
    frontend.clock.pump([1.0] * 100)
    assert len(starts) == 1
