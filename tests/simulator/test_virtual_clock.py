"""Virtual time passes from call to call."""

import pytest

from simulator.kernel.event_queue import EventKind
from simulator.market.virtual_clock import VirtualClock


def test_calls_come_in_order_of_time_kind_and_making() -> None:
    """At the same time, calls of earlier kinds come first."""
    clock, made = VirtualClock(10.0), list[tuple[float, str]]()

    def call(name: str) -> None:
        made.append((clock.seconds(), name))

    clock.callLater(5.0, call, "second")
    clock.callLater(5.0, call, "third")
    clock.call_at(15.0, lambda: call("first"), EventKind.VM_ENDS)
    clock.callLater(0.0, call, "at once")
    for _ in range(4):
        clock.advance_to_next()
    assert made == [(10.0, "at once"), (15.0, "first"), (15.0, "second"), (15.0, "third")]
    with pytest.raises(IndexError):
        clock.advance_to_next()


def test_a_cancelled_call_lets_no_time_pass() -> None:
    """The next call that was not cancelled is made instead."""
    clock, made = VirtualClock(0.0), list[float]()
    clock.callLater(1.0, lambda: made.append(-1.0)).cancel()
    clock.callLater(3.0, lambda: made.append(clock.seconds()))
    clock.advance_to_next()
    assert made == [3.0]


def test_time_never_goes_back() -> None:
    """A call for a time that has passed is made now."""
    clock, made = VirtualClock(8.0), list[float]()
    clock.call_at(2.0, lambda: made.append(clock.seconds()))
    clock.advance_to_next()
    assert made == [8.0]
