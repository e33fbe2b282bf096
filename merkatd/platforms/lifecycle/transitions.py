"""A platform's states, what leads from one to another, and what a period writes down of it.

It waits (submitted, postponed) until its conditions are met, starts and runs; it is suspended
and resumed, by way of suspending and resuming, as often as prices and its controller want it.
Whatever happens, it stops, and is done, cancelled or failed once none of its VMs is left.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from merkatd import ledger
from merkatd.base.quantities import utc_text
from merkatd.database.fleets import platform_store
from merkatd.database.fleets.platform_store import Doing, Platform
from merkatd.fleets.fleet import Counts
from merkatd.platforms.lifecycle.platform_template import OverBudget
from merkatd.platforms.lifecycle.start_conditions import Answer, Offer, Terms, judged


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


_LEAST_CREDITS = 0.001
"""Bids are lowered to what half of a budget pays, so the last of it would last for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """An event, why, what would be needed for another one, and how a platform ends by it."""

    event: Event
    why: str
    needs: str = ""
    ending: State = State.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """All that decides about a platform now."""

    state: State
    held: bool
    """Suspended by its tenant."""
    terms: Terms
    least: Mapping[str, int]
    """By cluster: how many VMs it needs."""
    over_budget: OverBudget
    counts: Counts
    failing: str = ""
    """Why no VMs are made anew any more, where each has failed."""


def happening(now: Standing, offer: Offer) -> Happening | None:
    """What happens now; None where everything stays as it is."""
    if now.state is State.STOPPING:
        gone = now.counts.left == 0
        return Happening(event=Event.GONE, why="") if gone else None
    if now.state in WAITING:
        return _waiting(now, offer)
    ending = _ending(now, offer)
    if ending is not None:
        return Happening(event=Event.STOP, why=ending)
    return _moving(now, offer)


def _moving(now: Standing, offer: Offer) -> Happening | None:
    """What happens to one that has started and goes on."""
    if now.state in {State.STARTING, State.RESUMING} and _is_up(now):
        return Happening(event=Event.UP, why="as many VMs run as it needs")
    if now.state is State.SUSPENDING and now.counts.active == 0:
        return Happening(event=Event.DOWN, why="")
    if now.state is State.SUSPENDED and not now.held:
        return _suspended(now, offer)
    return None


def _waiting(now: Standing, offer: Offer) -> Happening:
    found = judged(now.terms, offer)
    if found.answer is not Answer.CANCEL and now.held:
        return Happening(event=Event.WAIT, why="its tenant holds it back", needs="its resumption")
    if found.answer is Answer.START:
        return Happening(event=Event.START, why="its conditions are met")
    if found.answer is Answer.WAIT:
        return Happening(event=Event.WAIT, why=found.why, needs=found.needs)
    return Happening(event=Event.STOP, why=found.why, needs=found.needs, ending=State.CANCELLED)


def _suspended(now: Standing, offer: Offer) -> Happening:
    found = judged(now.terms, offer)
    if found.answer is Answer.START:
        return Happening(event=Event.RESUME, why="the price allows it")
    event = Event.WAIT if found.answer is Answer.WAIT else Event.STOP
    return Happening(event=event, why=found.why, needs=found.needs)


def _is_up(now: Standing) -> bool:
    return all(now.counts.running.get(name, 0) >= least for name, least in now.least.items())


def _ending(now: Standing, offer: Offer) -> str | None:
    """Why it can't go on."""
    deadline_s = now.terms.deadline_s
    if deadline_s is not None and offer.now_s >= deadline_s:
        return f"its deadline, {utc_text(deadline_s)}, has passed"
    spent = now.terms.purse.credits < _LEAST_CREDITS and now.state in UP_OR_COMING
    if spent and now.over_budget is OverBudget.STOP:
        return "its budget is used up"
    if now.state is State.STARTING and now.counts.trouble:
        return f"its VMs can't be made: {now.counts.trouble}"
    if now.state is State.STARTING and now.failing:
        return f"its VMs fail one after the other: {now.failing}"
    return None


MANAGER = "manager"


def passed(
    connection: sa.Connection,
    platform: Platform,
    what: Happening | None,
    at_s: float,
    who: str = MANAGER,
    action: str | None = None,
) -> Platform:
    """The platform after what happened; as it was, where that can't happen in its state."""
    if what is None:
        return platform
    ending = State(platform.ending) if platform.ending else what.ending
    state = leads_to(State(platform.state), what.event, ending)
    if state is None:
        return platform
    if state == platform.state:
        return _waits_on(connection, platform, what)
    why = what.why or platform.why
    values: dict[str, Any] = {
        "state": str(state),
        "why": why,
        "needs": what.needs,
        "since_s": at_s,
        "ending": str(what.ending) if state is State.STOPPING else None,
        "started_s": at_s if what.event is Event.START else platform.started_s,
    }
    platform_store.change(connection, platform.id, **values)
    text = why if state != State.POSTPONED or not what.needs else f"{why}; needed: {what.needs}"
    platform_store.add_action(
        connection,
        Doing(platform=platform.id, at_s=at_s, who=who, what=str(state), text=text, action=action),
    )
    if state in ENDS and platform.account is not None:
        ledger.end_application(connection, platform.account, at_s)
    return replace(platform, **values)


def resized(
    connection: sa.Connection,
    platform: Platform,
    sizes: Mapping[str, int],
    doing: Doing,
) -> Platform:
    """The platform with other sizes of its clusters."""
    merged = {**platform.sizes, **sizes}
    platform_store.change(connection, platform.id, sizes=merged)
    platform_store.add_action(connection, doing)
    return replace(platform, sizes=merged)


def _waits_on(connection: sa.Connection, platform: Platform, what: Happening) -> Platform:
    """It waits for something else than before, perhaps."""
    if (platform.why, platform.needs) == (what.why, what.needs):
        return platform
    platform_store.change(connection, platform.id, why=what.why, needs=what.needs)
    return replace(platform, why=what.why, needs=what.needs)
