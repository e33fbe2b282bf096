"""Subscribers to periods: an exception of one disturbs neither the period nor the beat."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from merkatd.scheduler.base.settings import Rhythm
from merkatd.scheduler.phases.announce import PeriodOutcome
from merkatd.scheduler.timer import PeriodTimer
from tests.scheduler.frontend import Frontend


@pytest.fixture
def logged() -> Iterator[Sequence[dict[str, Any]]]:
    """The events that are logged."""
    with capturedLogs() as events:
        yield events


def failing(*_: object) -> None:
    """A subscriber that always raises an exception."""
    raise RuntimeError("no room on the disk")


def raised(logged: Sequence[dict[str, Any]]) -> int:
    """How often the log says so."""
    return sum("log_failure" in one and "no room" in str(one["log_failure"]) for one in logged)


def test_a_listener_that_raises_leaves_the_period_done(
    frontend: Frontend, logged: Sequence[dict[str, Any]]
) -> None:
    """The period counts as done, the other listeners hear of it, and the exception is counted."""
    heard: list[int] = []
    outcomes: list[PeriodOutcome] = []
    frontend.scheduler.listen(failing)
    frontend.scheduler.listen(lambda announcement: heard.append(announcement.period))
    frontend.scheduler.count(lambda outcome, _: outcomes.append(outcome))
    frontend.scheduler.start()
    frontend.clock.advance(60)
    frontend.result(frontend.stopped())
    assert outcomes == [PeriodOutcome.DONE, PeriodOutcome.DONE]
    assert heard == [1, 2]
    assert frontend.scheduler.failures == 0
    assert frontend.scheduler.subscriber_errors == 2
    assert raised(logged) == 2


def test_a_counter_that_raises_does_not_end_the_beat(
    frontend: Frontend, logged: Sequence[dict[str, Any]]
) -> None:
    """The next periods begin when they are due, and the other counters hear of each."""
    outcomes: list[PeriodOutcome] = []
    frontend.scheduler.count(failing)
    frontend.scheduler.count(lambda outcome, _: outcomes.append(outcome))
    frontend.scheduler.start()
    for _ in range(3):
        frontend.clock.advance(60)
    frontend.result(frontend.stopped())
    assert outcomes == [PeriodOutcome.DONE] * 4
    assert frontend.scheduler.subscriber_errors == 4
    assert raised(logged) == 4


def test_a_period_that_raises_does_not_end_the_beat() -> None:
    """The beat does not depend on what it calls: the next call comes when it is due."""
    clock, begun = Clock(), []

    async def period() -> None:
        begun.append(clock.seconds())
        raise RuntimeError("no room on the disk")

    beat = PeriodTimer(clock, Rhythm(interval_s=60.0), period)
    beat.start()
    clock.pump([60.0] * 3)
    over = ensureDeferred(beat.stop())
    assert begun == [0.0, 60.0, 120.0, 180.0]
    assert over.called
