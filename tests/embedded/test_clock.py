"""The world's time."""

from __future__ import annotations

from twisted.internet.task import Clock

from merkatd.embedded.model.event_clock import Agenda, ScaledClock


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
