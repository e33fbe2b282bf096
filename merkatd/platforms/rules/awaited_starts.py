"""What platforms wait for after a period: its new prices, room, and times; pure.

# Note [Waiting platforms start early]

A period reviews platforms before it decides, with the prices of the period before. So a platform
whose conditions are met by the new prices would start an interval later. After each period the
manager compares the conditions of all waiting platforms with the prices that the period announced.
If they are met for a platform for which they were not met before, the next period follows at once.
The next period also follows at once if VMs of a platform have ended while others wait. A patient
platform counts as one that could start once its VMs are created, and once it has stated its limit
order: so it takes part in the market some seconds after its submission. And the next period starts
at the time for which a platform waits: its `not_before`, its `latest`, its deadline, the last
moment at which it can still meet its deadline, the end of its rest after a suspension, or the next
attempt to create a VM that OpenNebula refused.

Example: platform 7 accepts a price of 0.02 for memory. Period 40 announces 0.018. Period 41 starts
a second later, and starts platform 7.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from merkatd.platforms.rules.lifecycle_events import COMING, WAITING, PlatformState
from merkatd.platforms.rules.start_conditions import (
    MarketOffer,
    StartAnswer,
    Terms,
    case_of,
    judge_start,
)
from merkatd.scheduler.base.early_periods import AwaitedTime

WAITS = frozenset({*WAITING, PlatformState.QUEUED, PlatformState.SUSPENDED})
"""The states of platforms that can use room or lower prices."""


@dataclass(frozen=True, slots=True)
class ReviewTimes:
    """The times of the last review of platforms, by both clocks."""

    at_s: float
    """The wall clock's time."""
    now_s: float
    """The believed time."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """What platforms wait for."""

    startable: Mapping[tuple[int, str], int]
    """The owners of waiting platforms that could start at the new prices, by platform and state."""
    freed: frozenset[int]
    """The owners of platforms whose VMs have ended, if other platforms wait."""
    times: Sequence[AwaitedTime]
    """The times until the next regular period."""


@dataclass(frozen=True, slots=True)
class StartOutlook:
    """A platform after a period."""

    starts: bool
    """Whether it could start, or state its order, in another period."""
    times: Sequence[float]
    """Times on the clock of deadlines."""


def start_outlook(state: str, terms: Terms, offer: MarketOffer, *, held: bool) -> StartOutlook:
    """Return whether a platform could start now, and the times for which it waits."""
    times = [terms.deadline_s]
    if state not in WAITS:
        # The VMs of a patient platform may exist now, so that it can state its order.
        return StartOutlook(terms.patient and state in COMING, _known(times))
    if terms.deadline_s is not None:
        times.append(terms.deadline_s - (terms.ideal_s or 0.0))
    times += [terms.not_before_s, terms.latest_s]
    if terms.suspended_s is not None:
        times.append(terms.suspended_s + case_of(terms, offer).rest_s)
    starts = not held and judge_start(terms, offer).answer is StartAnswer.START
    return StartOutlook(starts, _known(times))


def _known(times: Iterable[float | None]) -> list[float]:
    return [time_s for time_s in times if time_s is not None]


def times_ahead(
    times: Iterable[float], owner: int, reviewed_s: float, now_s: float, interval_s: float
) -> Iterator[AwaitedTime]:
    """Yield the times before the next regular period that the last review did not see."""
    for at_s in times:
        if at_s > reviewed_s and at_s - now_s < interval_s:
            yield AwaitedTime(at_s, at_s - now_s, owner)
