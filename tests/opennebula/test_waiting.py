"""Waiting only so long."""

import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from merkatd.opennebula.waiting import within


@pytest.mark.parametrize("seconds", [2.0, 0.0, -0.03])
def test_who_takes_too_long_is_given_up(seconds: float) -> None:
    """Also where the time was over before it began; what was waited for is cancelled, and heard."""
    clock = Clock()
    cancelled: list[Exception] = []

    async def never() -> None:
        try:
            await Deferred()
        except Exception as error:
            cancelled.append(error)
            raise

    waiting = ensureDeferred(within(seconds, clock, never()))
    clock.advance(1.9)
    assert bool(cancelled) is (seconds < 1.9)
    clock.advance(0.1)
    assert len(cancelled) == 1
    outcomes: list[object] = []
    waiting.addBoth(outcomes.append)
    (outcome,) = outcomes
    assert isinstance(outcome, Failure)
    assert isinstance(outcome.value, TimeoutError)
