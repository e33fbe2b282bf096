"""Waiting only so long."""

import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from merkatd.base.deferreds import few_at_once, within


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


def test_only_a_few_are_under_way_and_each_has_its_answer_in_order() -> None:
    """The next begins when one is over; so does the rest where one fails, which is raised."""
    waiting: list[Deferred[int]] = []

    async def one(number: int) -> int:
        waiting.append(Deferred())
        return number * await waiting[number]

    found = ensureDeferred(few_at_once((one(number) for number in range(5)), 2))
    assert len(waiting) == 2
    waiting[1].callback(10)
    assert len(waiting) == 3
    waiting[0].callback(10)
    assert len(waiting) == 4
    for late in (3, 2, 4):
        waiting[late].callback(10)
    assert found.result == [0, 10, 20, 30, 40]


def test_fewer_than_may_be_under_way_are_enough() -> None:
    """None at all are over at once."""
    assert ensureDeferred(few_at_once(iter(()), 8)).result == []


def test_the_error_of_one_is_raised_once_the_others_are_over() -> None:
    """Nothing goes on behind it."""
    slow: Deferred[None] = Deferred()

    async def fails() -> None:
        raise ValueError

    async def waits() -> None:
        await slow

    found = ensureDeferred(few_at_once(iter((fails(), waits())), 2))
    assert not found.called
    slow.callback(None)
    assert isinstance(found.result, Failure)
    assert isinstance(found.result.value, ValueError)
    found.addErrback(lambda _: None)
