"""Waiting with a timeout."""

import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from merkatd.base.deferreds import few_at_once, within


@pytest.mark.parametrize("seconds", [2.0, 0.0, -0.03])
def test_a_slow_call_is_cancelled_at_its_timeout(seconds: float) -> None:
    """The timeout may have passed before; the call is cancelled and its error handled."""
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


def test_only_a_few_run_at_once_with_results_in_order() -> None:
    """The next starts when one ends; an error is raised after the rest."""
    waiting: list[Deferred[int]] = []

    async def answer(number: int) -> int:
        waiting.append(Deferred())
        return number * await waiting[number]

    running = ensureDeferred(few_at_once((answer(number) for number in range(5)), 2))
    assert len(waiting) == 2
    waiting[1].callback(10)
    assert len(waiting) == 3
    waiting[0].callback(10)
    assert len(waiting) == 4
    for late in (3, 2, 4):
        waiting[late].callback(10)
    assert running.result == [0, 10, 20, 30, 40]


def test_fewer_than_the_limit_is_possible() -> None:
    """An empty sequence ends at once."""
    assert ensureDeferred(few_at_once(iter(()), 8)).result == []


def test_an_error_is_raised_after_the_others_have_ended() -> None:
    """Nothing continues in the background."""
    slow: Deferred[None] = Deferred()

    async def fails() -> None:
        raise ValueError

    async def waits() -> None:
        await slow

    running = ensureDeferred(few_at_once(iter((fails(), waits())), 2))
    assert not running.called
    slow.callback(None)
    assert isinstance(running.result, Failure)
    assert isinstance(running.result.value, ValueError)
    running.addErrback(lambda _: None)
