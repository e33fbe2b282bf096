"""The news after a period: of a market for its platforms, of a platform for its controller."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import sqlalchemy as sa

from merkatd.cluster import VmState
from merkatd.cluster.columns import NO_ROW, row_of
from merkatd.cluster.orders import LimitOrder
from merkatd.currency import MICRO
from merkatd.database.base.savepoints import SeparateWork
from merkatd.database.fleets import platform_store
from merkatd.database.fleets.fleet_store import PLATFORM_VMS, PlatformMember
from merkatd.database.fleets.platform_store import PlatformRow
from merkatd.database.ledger import budget_store
from merkatd.database.ledger.budget_store import BudgetRow
from merkatd.database.scheduler import limit_order_store, price_store
from merkatd.market.market_view import market_view
from merkatd.platforms.lifecycle.controller_failures import trouble_of
from merkatd.platforms.lifecycle.funds import wanted_amounts
from merkatd.platforms.lifecycle.new_vms import OUT_OF_SIGHT
from merkatd.platforms.lifecycle.platform_orders import books_of, order_status
from merkatd.platforms.lifecycle.platform_template import (
    NO_CONTROLLER,
    PATIENT,
    PlatformTemplate,
)
from merkatd.platforms.lifecycle.template_reader import market_of, parsed
from merkatd.platforms.rules.lifecycle_events import ATTENDED, PlatformState
from merkatd.protocol.platform_messages import (
    HISTORY_PERIODS,
    MOST_EARLY,
    UNBUYABLE_PRICE,
    Assignment,
    BookOrder,
    MarketNow,
    PlatformStatus,
    VmNow,
)
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.phases.announce import Announcement


@dataclass(frozen=True, slots=True, eq=False)
class ControlledPlatform:
    """A platform whose controller must run."""

    assignment: Assignment
    standing: PlatformStatus
    grace_s: float


@dataclass(frozen=True, slots=True, eq=False)
class PeriodNews:
    """The news to send after a period."""

    attended: Mapping[int, ControlledPlatform] = field(default_factory=dict)
    markets: Sequence[MarketNow] = ()
    failed: Mapping[int, Exception] = field(default_factory=dict)
    """The failures by platform; a failed platform gets no news."""


def news_of(
    context: PeriodContext, announcement: Announcement, connection: sa.Connection
) -> PeriodNews:
    """Return the news of all markets and of all platforms with a controller."""
    living = platform_store.living(connection)
    if not living:
        return PeriodNews()
    apart = SeparateWork(connection)
    attended = attended_platforms(connection, living, announcement, context, apart)
    orders = limit_order_store.living(connection)
    books = books_of(announcement.seen.snapshot, announcement.prices, orders)
    now = markets_now(connection, announcement, context.markets, context.rhythm.interval_s, books)
    return PeriodNews(attended, now, apart.failed)


def attended_platforms(
    connection: sa.Connection,
    living: Sequence[PlatformRow],
    announcement: Announcement,
    context: PeriodContext,
    apart: SeparateWork,
) -> dict[int, ControlledPlatform]:
    """Return by id the platforms whose controllers must run now, except platforms that fail.

    While the wall clock is ahead, the deadlines sent to controllers are shifted by the same amount.
    So controllers see the believed remaining time, and compare times of one clock only.
    """
    attended = [platform for platform in living if PlatformState(platform.state) in ATTENDED]
    if not attended:
        return {}
    members: dict[int, list[PlatformMember]] = {platform.id: [] for platform in attended}
    for member in PLATFORM_VMS.living(connection):
        members.get(member.platform, []).append(member)
    held = {budget.application: budget for budget in budget_store.open_ones(connection)}
    orders = limit_order_store.of_platforms(connection)
    ahead_s = context.believed.ahead_s

    def look(platform: PlatformRow) -> ControlledPlatform | None:
        template = parsed(platform.template)
        if not _needs_processes(platform, template):
            return None
        budget = None if platform.account is None else held.get(platform.account)
        order = orders.get(platform.id)
        standing = _standing(platform, members[platform.id], budget, order, announcement, ahead_s)
        assignment = _assignment(platform, standing, context)
        return ControlledPlatform(assignment, standing, template.grace_s)

    news_of_platform = {
        platform.id: apart.look(platform.id, partial(look, platform), None) for platform in attended
    }
    return {platform: news for platform, news in news_of_platform.items() if news is not None}


def _needs_processes(platform: PlatformRow, template: PlatformTemplate) -> bool:
    """Return whether a platform's controller, or its monitors without one, must run now.

    While a patient platform waits for its order there is nothing to control. But a controller that
    failed must work again before its order can run.
    """
    if template.controller == NO_CONTROLLER:
        return template.processes > 0
    if template.controller != PATIENT:
        return True
    state = PlatformState(platform.state)
    if state is PlatformState.QUEUED:
        return bool(trouble_of(platform))
    return state in {PlatformState.RUNNING, PlatformState.SUSPENDING}


def _assignment(
    platform: PlatformRow,
    standing: PlatformStatus,
    context: PeriodContext,
) -> Assignment:
    template = parsed(platform.template)
    return Assignment(
        platform=platform.id,
        name=platform.name,
        owner=platform.owner,
        market=market_of(template, context.markets).name,
        controller=template.controller,
        parameters=template.parameters,
        clusters=tuple(
            cluster.terms(wanted_amounts(cluster, platform.vm_templates[cluster.name]))
            for cluster in template.clusters
        ),
        deadline_s=standing.deadline_s,
        ideal_s=template.goal.ideal_s,
        performance=standing.performance,
        started_s=platform.started_s,
        interval_s=context.rhythm.interval_s,
        budget=standing.budget,
        replenishment=standing.replenishment,
        replenishment_s=context.money.replenishment_s,
        give_up=template.goal.give_up,
        memory=platform.memory,
    )


def _standing(
    platform: PlatformRow,
    members: Sequence[PlatformMember],
    budget: BudgetRow | None,
    order: LimitOrder | None,
    announcement: Announcement,
    ahead_s: float,
) -> PlatformStatus:
    return PlatformStatus(
        platform=platform.id,
        period=announcement.period,
        at_s=announcement.at_s,
        state=platform.state,
        vms=tuple(vms_now(members, announcement)),
        balance=0.0 if budget is None else budget.balance / MICRO,
        budget=0.0 if budget is None else budget.initial / MICRO,
        replenishment=0.0 if budget is None else budget.replenishment / MICRO,
        deadline_s=None if platform.deadline_s is None else platform.deadline_s + ahead_s,
        performance=wanted_performance(platform),
        sizes=platform.sizes,
        order=order_status(order),
    )


def wanted_performance(platform: PlatformRow) -> float | None:
    """Return the performance that the platform must reach, in its controller's measure."""
    if platform.performance is not None:
        return platform.performance
    return parsed(platform.template).goal.performance


def markets_now(
    connection: sa.Connection,
    announcement: Announcement,
    markets: Sequence[MarketRules],
    interval_s: float,
    books: Mapping[str, tuple[BookOrder, ...]],
) -> list[MarketNow]:
    """Return the news of each market."""
    snapshot = announcement.seen.snapshot
    names = snapshot.resources
    vms_shown = []
    for row, market in enumerate(markets):
        past: dict[str, list[float]] = {name: [] for name in names}
        most = HISTORY_PERIODS * MOST_EARLY * len(names)
        points = price_store.history(connection, market.name, 0.0, most)
        for point in price_store.spaced(points, interval_s):
            past.setdefault(point.resource, []).append(_sayable(point.price))
        now = announcement.prices.get(market.name, {})
        vms_shown.append(
            MarketNow(
                name=market.name,
                period=announcement.period,
                at_s=announcement.at_s,
                next_s=announcement.seen.started_s + interval_s,
                prices={name: _sayable(price) for name, price in now.items()},
                capacity=_amounts(names, market_view(snapshot, row).total.tolist()),
                reserve=_amounts(names, market.pricing.reserve_prices(names).tolist()),
                past={name: tuple(last[-HISTORY_PERIODS:]) for name, last in past.items()},
                orders=books.get(market.name, ()),
            )
        )
    return vms_shown


def _sayable(price: float) -> float:
    """Return a price that JSON can carry: JSON has no infinity."""
    return min(price, UNBUYABLE_PRICE)


def vms_now(members: Sequence[PlatformMember], announcement: Announcement) -> list[VmNow]:
    """Return the state of each of these VMs that the last period saw."""
    snapshot = announcement.seen.snapshot
    vms, allocations = snapshot.vms, announcement.decided.decision.allocations
    vms_shown = []
    for member in members:
        row = None if member.vm is None else row_of(vms.id, member.vm)
        if member.vm is None or row is None:
            continue
        vms_shown.append(
            VmNow(
                vm=member.vm,
                cluster=member.cluster,
                state=_state(announcement.seen, row),
                bid=_amounts(snapshot.resources, vms.bid[row].tolist()),
                allocation=_amounts(snapshot.resources, allocations[row].tolist()),
                key=member.key,
                leaving=member.leaving,
            )
        )
    return vms_shown


def _state(observed: Observed, row: int) -> str:
    """Return a VM's state for its controller.

    Two states count as powered off in the market. A VM without a guest yet, whose disks are copied
    or which boots, is "busy". A VM to which OpenNebula has lost contact is "unknown". A VM that
    waits with its limit order takes no part in the market, and is pending.
    """
    state, shown = VmState(int(observed.snapshot.vms.state[row])), observed.observation
    if observed.snapshot.vms.order[row] != NO_ROW and shown.vm_state[row] == VmState.PENDING:
        state = VmState.PENDING
    if state is VmState.POWERED_OFF and shown.vm_state[row] != state:
        state = VmState.BUSY
    unknown = state is VmState.POWERED_OFF and shown.vm_words[row] == OUT_OF_SIGHT
    return "unknown" if unknown else state.name.lower()


def _amounts(names: Sequence[str], values: Sequence[float]) -> Mapping[str, float]:
    return dict(zip(names, values, strict=True))
