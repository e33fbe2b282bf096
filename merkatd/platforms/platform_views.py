"""Views of a platform for tenants: its progress, its costs, the conditions of its start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import isfinite
from typing import Any

import sqlalchemy as sa

from merkatd import ledger
from merkatd.currency import MICRO
from merkatd.database.fleets import platform_store
from merkatd.database.fleets.fleet_store import PLATFORM_VMS
from merkatd.database.fleets.platform_store import PlatformAction, PlatformRow
from merkatd.database.ledger import entry_store
from merkatd.database.ledger.entry_store import TransactionKind
from merkatd.database.scheduler import limit_order_store, period_store, price_store
from merkatd.platforms import tenant_orders
from merkatd.platforms.announcements import vms_now
from merkatd.platforms.application_texts import declaration_text, state_text
from merkatd.platforms.lifecycle.controller_failures import trouble_of
from merkatd.platforms.lifecycle.funds import usable_by_all
from merkatd.platforms.lifecycle.platform_orders import capacities
from merkatd.platforms.lifecycle.template_reader import market_of, parsed
from merkatd.platforms.order_quotes import limit_to_start
from merkatd.platforms.rules.lifecycle_events import PlatformState
from merkatd.platforms.rules.start_conditions import StartAnswer
from merkatd.protocol.platform_messages import VmNow
from merkatd.scheduler.base.troubles import TroubleKind
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.phases.announce import Announcement

NEWEST = 10
"""The number of latest actions shown."""
_BIDDING = frozenset({"running", "pending", "busy"})
_CHARGES = (TransactionKind.CHARGE, TransactionKind.REFUND)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformSummary:
    """The short view of a platform, for lists; amounts are credits."""

    id: int
    name: str
    owner: int
    controller: str
    state: str
    why: str
    """The reason for its state."""
    needs: str
    """The condition for leaving this state."""
    held: bool
    """Whether an order suspended it."""
    submitted_s: float
    since_s: float
    """The time of its last change of state."""
    started_s: float | None
    deadline_s: float | None
    on_track: bool | None
    projected_end_s: float | None
    slack_s: float | None
    """The seconds from its expected end to its deadline; negative if it is late."""
    performance: float | None
    reference: float | None
    """The performance that is its goal."""
    done: float | None
    """The part of its work that is done."""
    report: str | None
    trouble: str | None
    """The failure of its controller."""
    application: int | None
    budget: float
    replenishment: float
    balance: float
    spent: float
    sizes: Mapping[str, int]
    """The wanted number of VMs by cluster."""
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformVm:
    """A VM of a platform that the latest period has not seen."""

    vm: int
    cluster: str
    leaving: bool
    """Whether it is about to be ended."""
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPlatformVm(PlatformVm):
    """A VM of a platform, with its bids and allocations in the latest period."""

    bid_cpu: float | None
    bid_memory: float | None
    cpu: float | None
    memory: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAction:
    """An action on a platform."""

    at_s: float
    who: str
    what: str
    text: str
    refused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformDetails(PlatformSummary):
    """The full view of a platform."""

    unattended: str | None
    """The error with which the daemon fails to manage it."""
    market: str
    give_up: bool
    ideal_s: float | None
    prices: Mapping[str, float | None]
    full_cost: float | None
    """The cost of a period if its VMs get all that they can use."""
    bids: float
    limit: float | None
    """The most credits per period that its limit order states, or would state now; None if its VMs
    bid."""
    order_cost: float | None
    """The credits per period that its limit order pays; None if it has none."""
    limit_to_start: float | None
    """The least limit with which its order would run now, if hosts have room; None if it runs, or
    if no limit is enough."""
    declares: str | None
    """What its template declares of its application, in short; None if it declares nothing."""
    declared_state: str | None
    """The state of the declared application in the latest period."""
    outlook: str
    """The decision at these prices if it were to start now."""
    takes: str
    """The reason not to start now, and the condition for a start."""
    vms: Sequence[PlatformVm]
    actions: Sequence[ShownAction]


def _with(short: PlatformSummary, **more: Any) -> PlatformDetails:
    """Return the full view of a platform."""
    known = {field.name: getattr(short, field.name) for field in fields(short)}
    return PlatformDetails(**known, **more)


def platform_view(
    connection: sa.Connection,
    platform: PlatformRow,
    context: PeriodContext,
    latest: Announcement | None,
) -> PlatformDetails:
    """Return the full view of a platform."""
    template = parsed(platform.template)
    terms, at = template.application, None if latest is None else latest.seen.snapshot
    newest = period_store.newest_decided(connection)
    prices = None if newest is None else price_store.load_prices(connection, newest)
    outlook = tenant_orders.outlook(
        connection,
        platform,
        prices,
        context.rhythm.interval_s,
        context.money.replenishment_s,
        context.markets,
        context.believed.now(context),
        None if at is None else capacities(at, context.markets),
    )
    judged = outlook.judged
    order = limit_order_store.of_platforms(connection, platform.id).get(platform.id)
    stated = order if order is not None and order.vms else None
    short = summary(connection, platform)
    if platform.state == PlatformState.QUEUED and stated is not None and stated.why:
        short = replace(short, why=stated.why)  # newer than the platform's own row
    market = market_of(template, context.markets).name
    members = PLATFORM_VMS.living(connection, platform.id)
    seen = {} if latest is None else {each.vm: each for each in vms_now(members, latest)}
    return _with(
        short,
        unattended=context.troubles.why(TroubleKind.PLATFORM, platform.id),
        market=market,
        give_up=template.goal.give_up,
        ideal_s=template.goal.ideal_s,
        prices={} if prices is None else _finite(prices.get(market, {})),
        full_cost=outlook.full_cost if isfinite(outlook.full_cost) else None,
        bids=sum(sum(vm.bid.values()) for vm in seen.values() if vm.state in _BIDDING),
        limit=outlook.limit if stated is None else stated.limit,
        order_cost=None if stated is None else stated.cost,
        limit_to_start=None
        if latest is None or outlook.limit is None or (stated is not None and stated.runs)
        else _limit_to_start(connection, platform, context, latest),
        declares=None if terms is None else declaration_text(connection, terms, platform),
        declared_state=None if terms is None else state_text(terms, platform.account, at),
        outlook=str(judged.answer),
        takes="" if judged.answer is StartAnswer.START else f"{judged.why}; {judged.needs}",
        vms=[
            _vm(each.vm, each.cluster, seen.get(each.vm), leaving=each.leaving)
            for each in members
            if each.vm is not None
        ],
        actions=[_doing(each) for each in platform_store.recent(connection, platform.id, NEWEST)],
    )


def _limit_to_start(
    connection: sa.Connection,
    platform: PlatformRow,
    context: PeriodContext,
    latest: Announcement,
) -> float | None:
    template = parsed(platform.template)
    market = market_of(template, context.markets)
    orders = limit_order_store.living(connection)
    return limit_to_start(
        latest.seen.snapshot,
        context.markets.index(market),
        market,
        latest.prices.get(market.name, {}),
        usable_by_all(platform, template),
        [order for order in orders if order.platform != platform.id],
    )


def partial_view(
    connection: sa.Connection, platform: PlatformRow, context: PeriodContext, error: Exception
) -> PlatformDetails:
    """Return the available parts of a broken platform's view, and why the rest is missing."""
    template = parsed(platform.template)
    members = PLATFORM_VMS.living(connection, platform.id)
    reason = (
        context.troubles.why(TroubleKind.PLATFORM, platform.id)
        or f"{type(error).__name__}: {error}"
    )
    return _with(
        summary(connection, platform),
        unattended=reason,
        market=market_of(template, context.markets).name,
        give_up=template.goal.give_up,
        ideal_s=template.goal.ideal_s,
        prices={},
        full_cost=None,
        bids=0.0,
        limit=None,
        order_cost=None,
        limit_to_start=None,
        declares=None,
        declared_state=None,
        outlook=str(StartAnswer.WAIT),
        takes="",
        vms=[
            _vm(member.vm, member.cluster, None, leaving=member.leaving)
            for member in members
            if member.vm is not None
        ],
        actions=[
            _doing(action) for action in platform_store.recent(connection, platform.id, NEWEST)
        ],
    )


def summary(connection: sa.Connection, platform: PlatformRow) -> PlatformSummary:
    """Return the short view of a platform, for lists."""
    template = parsed(platform.template)
    budget = None if platform.account is None else ledger.budget_of(connection, platform.account)
    report: Mapping[str, Any] = platform.report or {}
    end_s = report.get("projected_end_s")
    known = platform.deadline_s is not None and end_s is not None
    return PlatformSummary(
        id=platform.id,
        name=platform.name,
        owner=platform.owner,
        controller=template.controller,
        state=platform.state,
        why=platform.why,
        needs=platform.needs,
        held=platform.held,
        submitted_s=platform.submitted_s,
        since_s=platform.since_s,
        started_s=platform.started_s,
        deadline_s=platform.deadline_s,
        on_track=_on_track(platform, report),
        projected_end_s=end_s,
        slack_s=(platform.deadline_s or 0.0) - end_s if known and end_s is not None else None,
        performance=report.get("performance"),
        reference=report.get("reference"),
        done=report.get("done"),
        report=report.get("text") or None,
        trouble=trouble_of(platform) or None,
        application=platform.account,
        budget=0.0 if budget is None else budget.initial / MICRO,
        replenishment=0.0 if budget is None else budget.replenishment / MICRO,
        balance=0.0 if budget is None else budget.balance / MICRO,
        spent=0.0 if platform.account is None else _spent(connection, platform.account),
        sizes=dict(platform.sizes),
        size=sum(platform.sizes.values()),
    )


def _on_track(platform: PlatformRow, report: Mapping[str, Any]) -> bool | None:
    """Return whether a platform is on track: as reported, or by its projected end."""
    on_track = report.get("on_track")
    if (
        on_track is None
        and report.get("projected_end_s") is not None
        and platform.deadline_s is not None
    ):
        return bool(report["projected_end_s"] <= platform.deadline_s)
    return on_track


def _spent(connection: sa.Connection, account: int) -> float:
    """Return the credits charged for an application's VMs, less refunds."""
    moved = entry_store.sums(connection, account, 0.0, None)
    return -sum(moved.get(kind, 0) for kind in _CHARGES) / MICRO


def _vm(vm: int, cluster: str, now: VmNow | None, *, leaving: bool) -> PlatformVm:
    if now is None:
        return PlatformVm(vm=vm, cluster=cluster, leaving=leaving, state="unseen")
    return SeenPlatformVm(
        vm=vm,
        cluster=cluster,
        leaving=leaving,
        state=now.state,
        bid_cpu=now.bid.get("cpu"),
        bid_memory=now.bid.get("memory"),
        cpu=now.allocation.get("cpu"),
        memory=now.allocation.get("memory"),
    )


def _doing(action: PlatformAction) -> ShownAction:
    return ShownAction(
        at_s=action.at_s, who=action.who, what=action.what, text=action.text, refused=action.refused
    )


def _finite(prices: Mapping[str, float]) -> dict[str, float | None]:
    return {name: None if price == float("inf") else price for name, price in prices.items()}


def rows(connection: sa.Connection, platforms: Sequence[PlatformRow]) -> list[PlatformSummary]:
    """Return the short views of platforms."""
    return [summary(connection, platform) for platform in platforms]
