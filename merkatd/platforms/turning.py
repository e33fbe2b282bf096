"""What happens to a platform in a period: one event at most, from what was seen of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from merkatd.platforms.conditions import Answer, Offer, Terms, judged
from merkatd.platforms.fleet import Counts
from merkatd.platforms.life import UP_OR_COMING, WAITING, Event, State
from merkatd.platforms.template import OverBudget
from merkatd.platforms.words import at

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
        return f"its deadline, {at(deadline_s)}, has passed"
    spent = now.terms.purse.credits < _LEAST_CREDITS and now.state in UP_OR_COMING
    if spent and now.over_budget is OverBudget.STOP:
        return "its budget is used up"
    if now.state is State.STARTING and now.counts.trouble:
        return f"its VMs can't be made: {now.counts.trouble}"
    if now.state is State.STARTING and now.failing:
        return f"its VMs fail one after the other: {now.failing}"
    return None
