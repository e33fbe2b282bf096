"""What platforms wait for after a period: its new prices, room, and times.

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
from functools import partial

import sqlalchemy as sa

from merkatd.database.base.savepoints import SeparateWork
from merkatd.database.fleets import fleet_store, platform_store
from merkatd.database.fleets.fleet_store import PLATFORM_VMS
from merkatd.database.fleets.platform_store import PlatformRow
from merkatd.database.ledger import budget_store
from merkatd.database.ledger.budget_store import BudgetRow
from merkatd.fleets.fleet import FleetView
from merkatd.platforms.lifecycle.fleet_plan import PlatformFleetView
from merkatd.platforms.lifecycle.funds import platform_funds, terms_of
from merkatd.platforms.lifecycle.platform_orders import capacities
from merkatd.platforms.lifecycle.start_conditions import (
    MarketOffer,
    StartAnswer,
    case_of,
    judge_start,
)
from merkatd.platforms.lifecycle.template_reader import market_of, parsed
from merkatd.platforms.lifecycle.transitions import (
    COMING,
    UP_OR_COMING,
    WAITING,
    PlatformState,
)
from merkatd.scheduler.base.early_periods import AwaitedTime
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.phases.announce import Announcement

_WAITS = frozenset({*WAITING, PlatformState.QUEUED, PlatformState.SUSPENDED})


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


def awaited_by_platforms(
    connection: sa.Connection,
    context: PeriodContext,
    announcement: Announcement,
    reviewed: ReviewTimes,
    now: ReviewTimes,
) -> Awaited:
    """Return what platforms wait for after a period; platforms that fail are left out.

    A time between the review and now counts as well: the review did not see it.
    """
    living = platform_store.living(connection)
    apart = SeparateWork(connection)
    view = _AfterPeriod(connection, context, announcement, now)
    startable: dict[tuple[int, str], int] = {}
    times: list[AwaitedTime] = []
    for platform in living:
        offered = apart.look(platform.id, partial(view.judge, platform), None)
        if offered is None:
            continue
        if offered.starts:
            startable[platform.id, platform.state] = platform.owner
        ahead = ((at_s, at_s - now.now_s) for at_s in offered.times if at_s > reviewed.now_s)
        times += _soon(ahead, platform.owner, context)
    times += _retries(connection, context, living, reviewed, now)
    owners = {platform.owner for platform in living if platform.state in _WAITS}
    freed = _freed(connection, reviewed.at_s) if owners else frozenset[int]()
    return Awaited(startable, freed, times)


@dataclass(frozen=True, slots=True)
class _Judged:
    """A platform after a period."""

    starts: bool
    times: Sequence[float]
    """Times on the clock of deadlines."""


class _AfterPeriod:
    """The conditions of platforms at the prices that a period announced."""

    def __init__(
        self,
        connection: sa.Connection,
        context: PeriodContext,
        announcement: Announcement,
        now: ReviewTimes,
    ) -> None:
        self._context = context
        self._prices = announcement.prices
        self._now_s = now.now_s
        self._capacities = capacities(announcement.seen.snapshot, context.markets)
        self._budgets: Mapping[int, BudgetRow] = {
            budget.application: budget for budget in budget_store.open_ones(connection)
        }

    def judge(self, platform: PlatformRow) -> _Judged:
        """Return whether a platform could start now, and the times for which it waits."""
        context, template = self._context, parsed(platform.template)
        budget = None if platform.account is None else self._budgets.get(platform.account)
        purse = platform_funds(budget, context.money.replenishment_s)
        terms, market = terms_of(platform, template, purse), market_of(template, context.markets)
        offer = MarketOffer(
            now_s=self._now_s,
            interval_s=context.rhythm.interval_s,
            prices=self._prices.get(market.name),
            capacity=self._capacities.get(market.name),
        )
        times = [terms.deadline_s]
        if platform.state not in _WAITS:
            # The VMs of a patient platform may exist now, so that it can state its order.
            return _Judged(terms.patient and platform.state in COMING, _known(times))
        if terms.deadline_s is not None:
            times.append(terms.deadline_s - (terms.ideal_s or 0.0))
        times += [terms.not_before_s, terms.latest_s]
        if terms.suspended_s is not None:
            times.append(terms.suspended_s + case_of(terms, offer).rest_s)
        starts = not platform.held and judge_start(terms, offer).answer is StartAnswer.START
        return _Judged(starts, _known(times))


def _known(times: Iterable[float | None]) -> list[float]:
    return [time_s for time_s in times if time_s is not None]


def _soon(
    ahead: Iterable[tuple[float, float]], owner: int, context: PeriodContext
) -> Iterator[AwaitedTime]:
    """Yield the times before the next regular period, given with the time from now until then."""
    for at_s, in_s in ahead:
        if in_s < context.rhythm.interval_s:
            yield AwaitedTime(at_s, in_s, owner)


def _retries(
    connection: sa.Connection,
    context: PeriodContext,
    living: Sequence[PlatformRow],
    reviewed: ReviewTimes,
    now: ReviewTimes,
) -> Iterator[AwaitedTime]:
    """Yield the times of the next attempts to create VMs that OpenNebula refused."""
    owners = {platform.id: platform.owner for platform in living if platform.state in UP_OR_COMING}
    unmade = [
        member
        for member in PLATFORM_VMS.living(connection)
        if member.vm is None and not member.leaving and member.platform in owners
    ]
    if not unmade:
        return
    refused = fleet_store.refusals(connection, [member.key for member in unmade])
    view: FleetView = PlatformFleetView(
        period=0,
        at_s=now.at_s,
        interval_s=context.rhythm.interval_s,
        states={},
        refused=refused,
    )
    for member in unmade:
        retry_s = view.retry_s(member)
        if retry_s is not None and retry_s > reviewed.at_s:
            ahead = [(retry_s, retry_s - now.at_s)]
            yield from _soon(ahead, owners[member.platform], context)


def _freed(connection: sa.Connection, since_s: float) -> frozenset[int]:
    """Return the owners of platforms whose VMs the last review has found to be gone."""
    gone = PLATFORM_VMS.gone_since(connection, since_s)
    platforms = platform_store.of_ids(connection, gone)
    return frozenset(platform.owner for platform in platforms)
