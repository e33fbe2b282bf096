"""Reading of what platforms wait for after a period (`rules/awaited_starts.py`)."""

from collections.abc import Iterator, Mapping, Sequence
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
from merkatd.platforms.lifecycle.template_reader import market_of, parsed
from merkatd.platforms.rules.awaited_starts import (
    WAITS,
    Awaited,
    ReviewTimes,
    StartOutlook,
    start_outlook,
    times_ahead,
)
from merkatd.platforms.rules.early_starts import EarlyStarts
from merkatd.platforms.rules.lifecycle_events import UP_OR_COMING
from merkatd.platforms.rules.start_conditions import MarketOffer
from merkatd.scheduler.base.early_periods import AwaitedTime
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.phases.announce import Announcement


async def await_starts(
    context: PeriodContext,
    announcement: Announcement,
    reviewed: ReviewTimes,
    early: EarlyStarts,
) -> None:
    """Start the next period early if waiting platforms need it."""
    if announcement.mode.watches:
        return
    work = partial(
        awaited_by_platforms,
        context=context,
        announcement=announcement,
        reviewed=reviewed,
        now=ReviewTimes(context.now(), context.believed.now(context)),
    )
    early.after_period(context.early, await context.database.read(work))


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
    interval_s = context.rhythm.interval_s
    for platform in living:
        offered = apart.look(platform.id, partial(view.judge, platform), None)
        if offered is None:
            continue
        if offered.starts:
            startable[platform.id, platform.state] = platform.owner
        times += times_ahead(offered.times, platform.owner, reviewed.now_s, now.now_s, interval_s)
    times += _retries(connection, context, living, reviewed, now)
    owners = {platform.owner for platform in living if platform.state in WAITS}
    freed = _freed(connection, reviewed.at_s) if owners else frozenset[int]()
    return Awaited(startable, freed, times)


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

    def judge(self, platform: PlatformRow) -> StartOutlook:
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
            free=market.is_free,
        )
        return start_outlook(platform.state, terms, offer, held=platform.held)


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
        if retry_s is not None:
            owner, interval_s = owners[member.platform], context.rhythm.interval_s
            yield from times_ahead([retry_s], owner, reviewed.at_s, now.at_s, interval_s)


def _freed(connection: sa.Connection, since_s: float) -> frozenset[int]:
    """Return the owners of platforms whose VMs the last review has found to be gone."""
    gone = PLATFORM_VMS.gone_since(connection, since_s)
    platforms = platform_store.of_ids(connection, gone)
    return frozenset(platform.owner for platform in platforms)
