"""A platform's states, and the events that lead from one to another.

A platform waits (submitted, postponed) until its conditions are met; then it starts and runs. It is
suspended and resumed, through suspending and resuming, as often as prices and its controller
demand. In the end it stops, and is done, cancelled or failed once all its VMs are gone.

A patient platform states a limit order once all its VMs exist. It is queued while the order waits,
at first and whenever the order is displaced, and runs while the order runs. Its VMs are then
pending or saved, and stay so: the order starts them again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from merkatd.base.quantities import utc_text
from merkatd.platforms.rules.start_conditions import (
    MarketOffer,
    StartAnswer,
    Terms,
    judge_start,
    least_cost,
    too_late,
)


class BudgetPolicy(StrEnum):
    """The treatment of a platform that has used up its budget."""

    STOP = "stop"
    GO_ON = "go on"
    """Continue with the credits of the replenishment."""


@dataclass(frozen=True, slots=True)
class FleetCounts:
    """The numbers of a fleet's VMs."""

    running: Mapping[str, int]
    """Running VMs by cluster, without those that are about to be ended."""
    kept: Mapping[str, int]
    """Remaining VMs by cluster, without those that are about to be ended."""
    active: int
    """The number of VMs that run, wait for a host or are being created."""
    left: int
    """The number of VMs that are not gone."""
    pending: int = 0
    """The number of VMs that wait for a host."""
    trouble: str = ""
    """Why VMs can't be created; empty if they can."""


class PlatformState(StrEnum):
    """The state of a platform in its lifecycle."""

    SUBMITTED = "submitted"
    POSTPONED = "postponed"
    STARTING = "starting"
    QUEUED = "queued"
    """All its VMs exist, and wait for room in the market."""
    RUNNING = "running"
    SUSPENDING = "suspending"
    SUSPENDED = "suspended"
    RESUMING = "resuming"
    STOPPING = "stopping"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Event(StrEnum):
    """An event in the lifecycle of a platform."""

    WAIT = "wait"
    """The platform's conditions are not met."""
    START = "start"
    UP = "up"
    """The least number of VMs runs in each cluster."""
    QUEUE = "queue"
    """Its VMs wait for room in the market, as its limit order does not run."""
    SUSPEND = "suspend"
    DOWN = "down"
    """No VM of the platform runs any more."""
    RESUME = "resume"
    STOP = "stop"
    GONE = "gone"
    """No VM of the platform is left."""


ENDS = (PlatformState.DONE, PlatformState.CANCELLED, PlatformState.FAILED)
WAITING = (PlatformState.SUBMITTED, PlatformState.POSTPONED)
UP_OR_COMING = (
    PlatformState.STARTING,
    PlatformState.QUEUED,
    PlatformState.RUNNING,
    PlatformState.RESUMING,
)
COMING = (PlatformState.STARTING, PlatformState.QUEUED, PlatformState.RESUMING)
"""The states before its VMs run."""
ATTENDED = (*UP_OR_COMING, PlatformState.SUSPENDING)
"""The states in which its controller may act."""
_LEADS: Mapping[tuple[PlatformState, Event], PlatformState] = {
    (PlatformState.SUBMITTED, Event.WAIT): PlatformState.POSTPONED,
    (PlatformState.POSTPONED, Event.WAIT): PlatformState.POSTPONED,
    (PlatformState.SUBMITTED, Event.START): PlatformState.STARTING,
    (PlatformState.POSTPONED, Event.START): PlatformState.STARTING,
    (PlatformState.STARTING, Event.UP): PlatformState.RUNNING,
    (PlatformState.QUEUED, Event.UP): PlatformState.RUNNING,
    (PlatformState.RESUMING, Event.UP): PlatformState.RUNNING,
    (PlatformState.STARTING, Event.QUEUE): PlatformState.QUEUED,
    (PlatformState.RESUMING, Event.QUEUE): PlatformState.QUEUED,
    (PlatformState.RUNNING, Event.QUEUE): PlatformState.QUEUED,
    (PlatformState.QUEUED, Event.WAIT): PlatformState.QUEUED,
    (PlatformState.STARTING, Event.SUSPEND): PlatformState.SUSPENDING,
    (PlatformState.QUEUED, Event.SUSPEND): PlatformState.SUSPENDING,
    (PlatformState.RUNNING, Event.SUSPEND): PlatformState.SUSPENDING,
    (PlatformState.RESUMING, Event.SUSPEND): PlatformState.SUSPENDING,
    (PlatformState.SUSPENDING, Event.DOWN): PlatformState.SUSPENDED,
    (PlatformState.SUSPENDING, Event.RESUME): PlatformState.RESUMING,
    (PlatformState.SUSPENDED, Event.RESUME): PlatformState.RESUMING,
    (PlatformState.SUSPENDED, Event.WAIT): PlatformState.SUSPENDED,
}


def leads_to(
    state: PlatformState, event: Event, ending: PlatformState = PlatformState.CANCELLED
) -> PlatformState | None:
    """Return the state after an event; None if the event can't happen in this state.

    `ending` is the final state of a platform that ends by this event.
    """
    if event is Event.STOP and state not in {*ENDS, PlatformState.STOPPING}:
        # A platform that has not started has no VMs, and ends at once.
        return ending if state in WAITING else PlatformState.STOPPING
    if event is Event.GONE and state is PlatformState.STOPPING:
        return ending
    return _LEADS.get((state, event))


_LEAST_CREDITS = 0.001
"""Credits below which a budget is used up. Bids fall to what half of the budget pays, so without
this limit the rest would last for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleEvent:
    """An event, its reason, the needs for a better event, and the final state if it ends."""

    event: Event
    why: str
    needs: str = ""
    ending: PlatformState = PlatformState.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderInput:
    """The facts about a patient platform's limit order that decide its next event."""

    complete: bool
    """Whether all VMs of the platform exist."""
    runs: bool
    why: str
    """Why the order waits, as far as known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformInput:
    """The facts that decide a platform's next event."""

    state: PlatformState
    held: bool
    """Whether its tenant suspended it."""
    terms: Terms
    least: Mapping[str, int]
    """The least number of VMs by cluster."""
    over_budget: BudgetPolicy
    counts: FleetCounts
    failing: str = ""
    """The reason why failed VMs are no longer replaced; empty if they are."""
    has_run: bool = False
    """Whether its controller has reported yet."""
    order: OrderInput | None = None
    """None for platforms that bid."""


def next_event(now: PlatformInput, offer: MarketOffer) -> LifecycleEvent | None:
    """Return the platform's next event; None if nothing changes."""
    if now.state is PlatformState.STOPPING:
        gone = now.counts.left == 0
        return LifecycleEvent(event=Event.GONE, why="") if gone else None
    if now.state in WAITING:
        return _waiting(now, offer)
    ending = _ending(now, offer)
    if ending is not None:
        return LifecycleEvent(event=Event.STOP, why=ending)
    return _moving(now, offer)


def _moving(now: PlatformInput, offer: MarketOffer) -> LifecycleEvent | None:
    """Return the next event of a platform that has started and does not end."""
    if now.state in COMING and (_is_up(now) or _runs_without_the_rest(now)):
        return LifecycleEvent(event=Event.UP, why="enough of its VMs run")
    if now.state is PlatformState.SUSPENDING and _is_down(now):
        return LifecycleEvent(event=Event.DOWN, why="")
    if now.order is not None:
        event = _queued(now, now.order, offer)
        if event is not None:
            return event
    if now.state is PlatformState.SUSPENDED and not now.held:
        return _suspended(now, offer)
    return None


_QUEUED_NEEDS = "free capacity, or time: it offers more as its deadline approaches"


def _queued(now: PlatformInput, order: OrderInput, offer: MarketOffer) -> LifecycleEvent | None:
    """Return the next event of a platform whose VMs wait for its limit order."""
    if now.state is PlatformState.RUNNING:
        displaced = not order.runs and _is_down(now)
        return LifecycleEvent(event=Event.QUEUE, why=order.why) if displaced else None
    if now.state not in COMING:
        return None
    terms = now.terms
    if now.has_run and terms.ideal_s is not None:
        # Work since the last report may have taken a period off the rest.
        terms = replace(terms, ideal_s=max(terms.ideal_s - offer.interval_s, 0.0))
    hopeless = too_late(terms, offer)
    if hopeless is not None:
        ending = PlatformState.FAILED if now.has_run else PlatformState.CANCELLED
        return LifecycleEvent(
            event=Event.STOP, why=hopeless.why, needs=hopeless.needs, ending=ending
        )
    if now.state is PlatformState.QUEUED:
        return LifecycleEvent(event=Event.WAIT, why=order.why, needs=_QUEUED_NEEDS)
    if order.complete:
        return LifecycleEvent(event=Event.QUEUE, why=order.why, needs=_QUEUED_NEEDS)
    return None


def _waiting(now: PlatformInput, offer: MarketOffer) -> LifecycleEvent:
    verdict = judge_start(now.terms, offer)
    if verdict.answer is not StartAnswer.CANCEL and now.held:
        return LifecycleEvent(
            event=Event.WAIT,
            why="an order paused it before its start",
            needs="an order to resume it",
        )
    if verdict.answer is StartAnswer.START:
        return LifecycleEvent(event=Event.START, why="its conditions are met")
    if verdict.answer is StartAnswer.WAIT:
        return LifecycleEvent(event=Event.WAIT, why=verdict.why, needs=verdict.needs)
    return LifecycleEvent(
        event=Event.STOP, why=verdict.why, needs=verdict.needs, ending=PlatformState.CANCELLED
    )


def _suspended(now: PlatformInput, offer: MarketOffer) -> LifecycleEvent:
    verdict = judge_start(now.terms, offer)
    if verdict.answer is StartAnswer.START:
        return LifecycleEvent(event=Event.RESUME, why="the price allows it")
    event = Event.WAIT if verdict.answer is StartAnswer.WAIT else Event.STOP
    return LifecycleEvent(event=event, why=verdict.why, needs=verdict.needs)


def _is_up(now: PlatformInput) -> bool:
    return all(now.counts.running.get(name, 0) >= least for name, least in now.least.items())


def _runs_without_the_rest(now: PlatformInput) -> bool:
    """Return whether all VMs run that its limit order can start; others may be off.

    Its controller must run, as it replaces these.
    """
    running = sum(now.counts.running.values())
    return now.order is not None and now.order.runs and 0 < running == now.counts.active


def _is_down(now: PlatformInput) -> bool:
    """Return whether no VM runs, or is about to; VMs that wait for their order stay pending."""
    waiting = 0 if now.order is None else now.counts.pending
    return now.counts.active == waiting


def _ending(now: PlatformInput, offer: MarketOffer) -> str | None:
    """Return why a platform must end; None if it goes on."""
    deadline_s = now.terms.deadline_s
    if deadline_s is not None and offer.now_s >= deadline_s:
        return f"its deadline, {utc_text(deadline_s)}, has passed"
    least = _LEAST_CREDITS
    if now.order is not None:  # its VMs have their full size, or nothing
        least = max(least, least_cost(now.terms, offer) * offer.advance_periods)
    spent = now.terms.purse.credits < least and now.state in UP_OR_COMING
    if spent and not offer.free and now.over_budget is BudgetPolicy.STOP:
        return "its budget is used up"
    if now.state is PlatformState.STARTING and now.counts.trouble:
        return f"its VMs can't be created: {now.counts.trouble}"
    never_ran = now.state is PlatformState.QUEUED and not now.has_run
    if (now.state is PlatformState.STARTING or never_ran) and now.failing:
        return f"its VMs fail one after the other: {now.failing}"
    return None
