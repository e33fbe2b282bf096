"""The plan of a dry run of the next period, and what plans change."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sqlalchemy as sa

from merkatd.base.quantities import finite
from merkatd.cluster import Decision, Deploy, Floats, Migrate, Plan, Snapshot
from merkatd.cluster.plan import Step
from merkatd.database.base.transactions import DryRunTransactions
from merkatd.database.fleets import fleet_store, group_vm_store
from merkatd.database.fleets.group_vm_store import Rate
from merkatd.database.fleets.order_reading import read_orders
from merkatd.database.scheduler import bid_store, journal, migration_history, period_store
from merkatd.database.scheduler.step_store import StoredStep
from merkatd.market.error import Assessment, assess_placement
from merkatd.market.explanation import hosts_after
from merkatd.market.price import charges
from merkatd.placement.base.strategy import Pricing
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.scheduler.charging.charge import payer_funds
from merkatd.scheduler.charging.used_cpu import charged_rates
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.failed_boots import waiting_for_administrator
from merkatd.scheduler.observation.observed import CloudReading
from merkatd.scheduler.observation.step_outcomes import judge_steps
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.phases.decide import within_permission, without_moving_proposed
from merkatd.scheduler.phases.market_decisions import read_memories
from merkatd.scheduler.phases.observe import changed_templates, observed_from, read_cloud
from merkatd.scheduler.phases.permission import EVERYTHING_PERMITTED, Permission
from merkatd.scheduler.terms.affordability import Afforded, messages_after_reasons
from merkatd.scheduler.terms.failed_migrations import window_s
from merkatd.scheduler.terms.paid_claims import affordable_cloud
from merkatd.service.base.callers import Caller, require_admin
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.period_view import costs


@dataclass(frozen=True, slots=True, eq=False)
class PlanCosts:
    """The costs of VMs; NaN if unknown."""

    cost: Floats
    """[vms]: credits for a period; if use is charged, the most credits."""
    rate: Floats
    """[vms]: credits per core used for a period, if use is charged."""


@dataclass(frozen=True, slots=True)
class PreviewedStep:
    """A step of a plan with the names of its hosts and VM, and the VM's cost."""

    step: Step
    source: str | None
    """The name of the host that its VM leaves."""
    host: str | None
    """The name of the host of the step."""
    name: str | None
    """The VM's name; None before the VM is created."""
    moves_mib: float | None
    """The memory that a migration transfers: all that the VM holds, or its cap if unknown."""
    cost: float | None
    rate: float | None


@dataclass(frozen=True, slots=True)
class PreviewedMarket:
    """A market before and after a plan."""

    price: Mapping[str, float | None]
    """The price by resource; None for infinity, the price of an overfull market."""
    shortfall_before: float
    shortfall_after: float
    largest_error_before: float
    largest_error_after: float


@dataclass(frozen=True, slots=True)
class PreviewedVm:
    """A VM before and after a plan; amounts are by resource, None for infinity."""

    id: int
    name: str
    host: str | None
    first: Mapping[str, float | None]
    share_before: Mapping[str, float | None]
    share: Mapping[str, float | None]
    error_before: float
    error: float


@dataclass(frozen=True, slots=True)
class UnfinishedStep:
    """A step of an earlier period that has not ended."""

    id: str
    kind: str
    vm: int
    state: str


@dataclass(frozen=True, slots=True)
class PlanPreview:
    """A decision and its changes."""

    period: int
    strategy: str
    took_ms: float
    resources: Sequence[str]
    steps: Sequence[PreviewedStep]
    """The steps that can be executed now."""
    reasons: Mapping[int, str]
    """The reasons of the decisions about VMs, by VM id."""
    markets: Mapping[str, PreviewedMarket]
    vms: Sequence[PreviewedVm]
    under_way: Sequence[UnfinishedStep] | None = None
    """None for a decision about a snapshot, which knows no earlier steps."""
    overfull: Mapping[int, str] | None = None
    """The hosts whose floors exceed them, by host id; None for a decision about a snapshot."""


def preview_of(
    snapshot: Snapshot,
    decision: Decision,
    plan: Plan,
    strategy: str,
    took_ms: float,
    reasons: Mapping[int, str],
    costs: PlanCosts,
) -> PlanPreview:
    """Return a decision and its changes; `plan` has the steps that can be executed now."""
    host = hosts_after(snapshot, decision.plan)
    before, after = assess_placement(snapshot, snapshot.vms.host), assess_placement(snapshot, host)
    return PlanPreview(
        period=snapshot.period,
        strategy=strategy,
        took_ms=round(took_ms, 3),
        resources=snapshot.resources,
        steps=[_step(snapshot, step, costs) for step in plan],
        reasons=dict(sorted(reasons.items())),
        markets={
            name: _market(snapshot, decision, market, before, after)
            for market, name in enumerate(snapshot.markets.name)
        },
        vms=[
            PreviewedVm(
                id=int(snapshot.vms.id[row]),
                name=snapshot.vms.name[row],
                host=_host_name(snapshot, int(host[row])),
                first=_by_resource(snapshot, after.first[row]),
                share_before=_by_resource(snapshot, before.shares[row]),
                share=_by_resource(snapshot, decision.allocations[row]),
                error_before=float(before.errors[row]),
                error=float(after.errors[row]),
            )
            for row in range(len(snapshot.vms))
        ],
    )


def at_price(snapshot: Snapshot, decision: Decision, pricing: Pricing) -> PlanCosts:
    """Return the costs of VMs in markets that charge for shares; 0 for a VM of no market."""
    vms = snapshot.vms
    prices = np.append(decision.prices, np.zeros((1, len(snapshot.resources))), axis=0)
    owed = charges(
        vms.bid,
        decision.allocations,
        prices[vms.market],
        1.0,
        floors=vms.floor,
        reserve=pricing.reserve_prices(snapshot.resources),
    )
    return PlanCosts(owed.sum(axis=1), np.full(len(vms), np.nan))


def _market(
    snapshot: Snapshot, decision: Decision, market: int, before: Assessment, after: Assessment
) -> PreviewedMarket:
    return PreviewedMarket(
        price=_by_resource(snapshot, decision.prices[market]),
        shortfall_before=float(before.shortfall[market]),
        shortfall_after=float(after.shortfall[market]),
        largest_error_before=float(before.largest_error[market]),
        largest_error_after=float(after.largest_error[market]),
    )


def _step(snapshot: Snapshot, step: Step, costs: PlanCosts) -> PreviewedStep:
    source, host = getattr(step, "source", None), getattr(step, "host", None)
    row = snapshot.vm_row(step.vm) if step.vm >= 0 else None
    deployed = row if isinstance(step, Deploy) else None
    return PreviewedStep(
        step=step,
        source=None if source is None else _host_name(snapshot, snapshot.host_row(source)),
        host=None if host is None else _host_name(snapshot, snapshot.host_row(host)),
        name=None if row is None else snapshot.vms.name[row],
        moves_mib=_moves_mib(snapshot, row)
        if row is not None and isinstance(step, Migrate)
        else None,
        cost=None if deployed is None else finite(costs.cost[deployed]),
        rate=None if deployed is None else finite(costs.rate[deployed]),
    )


def _moves_mib(snapshot: Snapshot, row: int) -> float | None:
    if "memory" not in snapshot.resources:
        return None
    column = snapshot.resources.index("memory")
    held = float(snapshot.vms.held[row, column])
    return float(snapshot.vms.cap[row, column]) if np.isnan(held) else held


def _by_resource(snapshot: Snapshot, values: Any) -> dict[str, float | None]:
    """Return the values by resource name; None for infinity, the price of an overfull market."""
    return {
        name: float(value) if np.isfinite(value) else None
        for name, value in zip(snapshot.resources, values, strict=True)
    }


def _host_name(snapshot: Snapshot, row: int) -> str | None:
    return None if row < 0 else snapshot.hosts.name[row]


class PlanService:
    """The plan of the next period."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def dry_run(self, caller: Caller) -> PlanPreview:
        """Return the plan of a period that would start now. Raise RequestError."""
        require_admin(caller, "ADMIN PLAN")
        return await dry_run(self._scheduler.world, self._scheduler.leave)


async def dry_run(context: PeriodContext, leave: Permission = EVERYTHING_PERMITTED) -> PlanPreview:
    """Return the plan of a period that would start now, within its permission.

    Raise InvalidRequestError if the cloud can't be reached.
    """
    try:
        looked = await read_cloud(context)
    except CloudUnreachableError as error:
        raise InvalidRequestError(f"the cloud can't be reached: {error}") from error
    label = "+".join(market.strategy for market in context.markets)
    stored = await context.database.read(
        lambda connection: (
            _known_bids(connection, looked),
            journal.outstanding(connection),
            read_memories(connection, context.markets),
            period_store.newest(connection),
            payer_funds(connection, context, looked.observation, charged=False),
            fleet_store.applications(connection),
            _rates(connection, looked),
            migration_history.recent(connection, looked.observation.at_s, window_s(context)),
            waiting_for_administrator(connection, looked.observation, context.rhythm.boot_retries),
            read_orders(connection),
        )
    )
    present, outstanding, memory, newest, purse, applications, rates, moves, lost, orders = stored
    number = 1 if newest is None else newest.number + 1

    def could() -> Afforded:
        verdicts = judge_steps(
            outstanding,
            looked.observation,
            context.rhythm,
            handing=context.handing,
            in_flight=frozenset(context.in_flight),
        )
        look_from = observed_from(
            context, number, looked, verdicts, present, applications, rates, moves, lost, orders
        )
        return affordable_cloud(context, look_from, purse)

    affordable = await context.executor.run(could)
    proposed = await context.proposals(DryRunTransactions(context.database), affordable.seen)

    def work() -> PlanPreview:
        seen = without_moving_proposed(affordable.seen, proposed)
        begin = time.perf_counter()
        decision, limits = within_permission(
            context, seen, memory, affordable.unpaid, proposed, leave
        )
        took_ms = (time.perf_counter() - begin) * 1e3
        reasons = {
            **decision.reasons,
            **messages_after_reasons(decision.reasons, affordable.messages),
        }
        reasons |= limits.postponed
        host = hosts_after(seen.snapshot, decision.plan)
        rate = charged_rates(seen, context.markets)
        cost = costs(seen.snapshot, decision, limits, host, context.markets, rate).sum(axis=1)
        preview = preview_of(
            seen.snapshot, decision, limits.plan, label, took_ms, reasons, PlanCosts(cost, rate)
        )
        return replace(
            preview,
            under_way=[_unfinished(step) for step in seen.verdicts.waiting],
            overfull=dict(limits.overfull),
        )

    return await context.executor.run(work)


def _known_bids(connection: sa.Connection, looked: CloudReading) -> dict[int, Mapping[str, float]]:
    """Return the bids in force, including new bids in changed templates."""
    changed = {change.vm: change.bid for change in changed_templates(connection, looked)}
    return {**bid_store.amounts(connection), **changed}


def _rates(connection: sa.Connection, looked: CloudReading) -> dict[int, Rate]:
    """Return the VMs' parts of spending rates, including VMs seen for the first time."""
    seen = looked.observation
    owners = dict(zip(seen.vm_id.tolist(), seen.vm_owner.tolist(), strict=True))
    new = group_vm_store.rates_of_new(connection, seen.keys, owners)
    return group_vm_store.rates(connection, owners) | new


def _unfinished(stored: StoredStep) -> UnfinishedStep:
    return UnfinishedStep(stored.id, stored.step.kind, stored.step.vm, str(stored.state))
