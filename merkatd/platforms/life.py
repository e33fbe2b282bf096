"""The life of a platform: its states, and what leads from one to the other.

It waits (submitted, postponed) until its conditions are met, starts and runs; it is suspended
and resumed, by way of suspending and resuming, as often as prices and its controller want it.
Whatever happens, it stops, and is done, cancelled or failed once none of its VMs is left.
"""

from collections.abc import Mapping
from enum import StrEnum


class State(StrEnum):
    """Where a platform is in its life."""

    SUBMITTED = "submitted"
    POSTPONED = "postponed"
    STARTING = "starting"
    RUNNING = "running"
    SUSPENDING = "suspending"
    SUSPENDED = "suspended"
    RESUMING = "resuming"
    STOPPING = "stopping"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Event(StrEnum):
    """What can happen to it."""

    WAIT = "wait"
    """Its conditions are not met."""
    START = "start"
    UP = "up"
    """As many VMs run as it needs at least."""
    SUSPEND = "suspend"
    DOWN = "down"
    """None of its VMs runs any more."""
    RESUME = "resume"
    STOP = "stop"
    GONE = "gone"
    """None of its VMs is left."""


ENDS = (State.DONE, State.CANCELLED, State.FAILED)
WAITING = (State.SUBMITTED, State.POSTPONED)
UP_OR_COMING = (State.STARTING, State.RUNNING, State.RESUMING)
ATTENDED = (*UP_OR_COMING, State.SUSPENDING)
"""The states in which its controller and its monitors run."""

_LEADS: Mapping[tuple[State, Event], State] = {
    (State.SUBMITTED, Event.WAIT): State.POSTPONED,
    (State.POSTPONED, Event.WAIT): State.POSTPONED,
    (State.SUBMITTED, Event.START): State.STARTING,
    (State.POSTPONED, Event.START): State.STARTING,
    (State.STARTING, Event.UP): State.RUNNING,
    (State.RESUMING, Event.UP): State.RUNNING,
    (State.STARTING, Event.SUSPEND): State.SUSPENDING,
    (State.RUNNING, Event.SUSPEND): State.SUSPENDING,
    (State.RESUMING, Event.SUSPEND): State.SUSPENDING,
    (State.SUSPENDING, Event.DOWN): State.SUSPENDED,
    (State.SUSPENDING, Event.RESUME): State.RESUMING,
    (State.SUSPENDED, Event.RESUME): State.RESUMING,
    (State.SUSPENDED, Event.WAIT): State.SUSPENDED,
}


def leads_to(state: State, event: Event, ending: State = State.CANCELLED) -> State | None:
    """The state that an event leads to; None where it can't happen in this one.

    `ending` is what a platform will be that ends with this event.
    """
    if event is Event.STOP and state not in {*ENDS, State.STOPPING}:
        # Who has not started has no VMs that would have to go first.
        return ending if state in WAITING else State.STOPPING
    if event is Event.GONE and state is State.STOPPING:
        return ending
    return _LEADS.get((state, event))
