"""An exception in a subscriber disturbs neither the period nor the timer."""

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
    """Return the logged events."""
    with capturedLogs() as events:
        yield events


def failing(*_: object) -> None:
    """Raise an exception, as a faulty subscriber does."""
    raise RuntimeError("no room on the disk")


def count_failures(logged: Sequence[dict[str, Any]]) -> int:
    """Return how many log events report the exception."""
    return sum(
        "log_failure" in event and "no room" in str(event["log_failure"]) for event in logged
    )


def test_a_listener_that_raises_leaves_the_period_complete(
    frontend: Frontend, logged: Sequence[dict[str, Any]]
) -> None:
    """The other listeners are notified, and the exception is counted."""
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
    assert count_failures(logged) == 2


def test_a_counter_that_raises_does_not_stop_the_timer(
    frontend: Frontend, logged: Sequence[dict[str, Any]]
) -> None:
    """The next periods start on time, and the other counters count each of them."""
    outcomes: list[PeriodOutcome] = []
    frontend.scheduler.count(failing)
    frontend.scheduler.count(lambda outcome, _: outcomes.append(outcome))
    frontend.scheduler.start()
    for _ in range(3):
        frontend.clock.advance(60)
    frontend.result(frontend.stopped())
    assert outcomes == [PeriodOutcome.DONE] * 4
    assert frontend.scheduler.subscriber_errors == 4
    assert count_failures(logged) == 4


def test_a_period_that_raises_does_not_stop_the_timer() -> None:
    """The next period starts on time."""
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
