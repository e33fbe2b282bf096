"""The world's time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from merkatd.embedded.model.event_clock import Agenda, PacedClock, ScaledClock


def test_events_see_the_time_at_which_they_were_due() -> None:
    """This holds for any jump of the clock, and for events that schedule further ones."""
    clock, seen = Clock(), list[float]()
    agenda = Agenda(clock, 1000.0, 0)

    def repeat() -> None:
        seen.append(agenda.now())
        if len(seen) < 4:
            agenda.at(agenda.now() + 2, repeat)

    agenda.at(1003.0, repeat)
    agenda.at(1004.0, lambda: seen.append(-1.0))
    clock.advance(100)
    assert seen == [1003.0, -1.0, 1005.0, 1007.0]
    assert agenda.now() == 1100.0


def test_an_earlier_event_comes_first_even_if_scheduled_later() -> None:
    """One delayed call serves all events and is moved if necessary."""
    clock, seen = Clock(), list[str]()
    agenda = Agenda(clock, 0.0, 0)
    agenda.at(10, lambda: seen.append("late"))
    agenda.at(5, lambda: seen.append("early"))
    assert len(clock.getDelayedCalls()) == 1
    clock.advance(6)
    assert seen == ["early"]
    clock.advance(6)
    assert seen == ["early", "late"]
    agenda.at(20, lambda: seen.append("never"))
    agenda.stop()
    clock.advance(50)
    assert seen == ["early", "late"]
    assert not clock.getDelayedCalls()


def test_the_turn_callback_follows_every_turn() -> None:
    """It runs once after each turn of due events."""
    clock, turns = Clock(), list[float]()
    agenda = Agenda(clock, 0.0, 0)
    agenda.after_turn = lambda: turns.append(clock.seconds())
    agenda.at(1, lambda: None)
    agenda.at(2, lambda: None)
    clock.advance(1.5)
    clock.advance(1)
    assert turns == [1.5, 2.5]


def test_a_scaled_clock_runs_faster() -> None:
    """Its seconds and delays are those of the simulated world."""
    clock, called = Clock(), list[float]()
    clock.advance(50)
    scaled = ScaledClock(clock, 10.0, 1000.0)
    assert scaled.seconds() == 1000.0
    scaled.callLater(20, lambda: called.append(scaled.seconds()))
    clock.advance(1.9)
    assert not called
    clock.advance(0.1)
    assert called == [1020.0]


@given(
    st.lists(
        st.tuples(st.sampled_from(["advance", "hold", "call"]), st.floats(0.0, 500.0)), max_size=60
    ),
    st.sampled_from([0.5, 1.0, 10.0, 60.0]),
)
def test_a_paced_clock_runs_each_call_at_its_due_time(
    steps: list[tuple[str, float]], factor: float
) -> None:
    """Its time never goes back, never passes a due call, and never exceeds its speed."""
    reactor = Clock()
    paced = PacedClock(reactor, factor, 1000.0)
    due, called, before = list[float](), list[float](), 1000.0

    def call_after(delay: float) -> None:
        due.append(paced.seconds() + delay)
        paced.callLater(delay, lambda: called.append(paced.seconds()))

    for what, amount in steps:
        if what == "advance":
            reactor.advance(amount / 100)
        elif what == "hold":
            paced.hold_at(paced.seconds() + amount)
        else:
            call_after(amount)
        now = paced.seconds()
        assert before <= now <= 1000.0 + reactor.seconds() * factor + 1e-6
        before = now
    for _ in due:
        reactor.advance(1e5)
    assert called == sorted(called)
    assert np.allclose(called, sorted(due), atol=1e-5)


def test_a_paced_clock_is_slow_beyond_its_limit() -> None:
    """It runs in real time there, and fast again once the limit moves."""
    reactor, called = Clock(), list[float]()
    paced = PacedClock(reactor, 60.0, 0.0)
    paced.hold_at(30.0)
    paced.callLater(32.0, lambda: called.append(reactor.seconds()))
    reactor.advance(0.5)
    assert paced.seconds() == 30.0
    reactor.advance(1.0)
    assert paced.seconds() == 31.0
    reactor.advance(1.0)
    assert called == [2.5]
    paced.hold_at(1000.0)
    reactor.advance(1.0)
    assert paced.seconds() == 92.0


def test_cancelled_calls_of_a_paced_clock_delay_nothing() -> None:
    """A call may also cancel another one that is due at the same time."""
    reactor, called = Clock(), list[str]()
    paced = PacedClock(reactor, 10.0, 0.0)
    first = paced.callLater(5.0, called.append, "first")
    second = paced.callLater(10.0, called.append, "second")
    paced.callLater(10.0, called.append, "third")
    assert first.active()
    first.cancel()
    assert not first.active()
    reactor.advance(0.6)
    assert paced.seconds() == 6.0
    second.cancel()
    reactor.advance(1.0)
    assert called == ["third"]
    assert not reactor.getDelayedCalls()


def test_a_busy_reactor_passes_no_due_call() -> None:
    """Until the call has run, the world's time is the call's; then it continues."""
    reactor, called = Clock(), list[float]()
    paced = PacedClock(reactor, 60.0, 0.0)
    paced.callLater(30.0, lambda: called.append(paced.seconds()))
    reactor.rightNow += 2.0
    assert paced.seconds() == 30.0
    reactor.advance(0)
    assert called == [30.0]
    assert paced.seconds() == 120.0
