"""The plan of a dry run of the next period, and plans as JSON values."""

import copy
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import sqlalchemy as sa

from merkatd.base.quantities import finite
from merkatd.cluster import Decision, Deploy, Floats, Migrate, Plan, Snapshot
from merkatd.cluster.plan import Step
from merkatd.database.base.transactions import DryRunTransactions
from merkatd.database.fleets import fleet_store, group_vm_store
from merkatd.database.fleets.group_vm_store import Rate
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
from merkatd.scheduler.observation.failed_boots import given_up
from merkatd.scheduler.observation.observed import CloudReading
from merkatd.scheduler.observation.step_outcomes import judge_steps
from merkatd.scheduler.phases.decide import within_permission, without_moving_proposed
from merkatd.scheduler.phases.observe import changed_templates, observed_from, read_cloud
from merkatd.scheduler.phases.permission import EVERYTHING_PERMITTED, Permission
from merkatd.scheduler.terms.affordability import Afforded, messages_after_reasons
from merkatd.scheduler.terms.failed_migrations import window_s
from merkatd.scheduler.terms.paid_claims import affordable_cloud
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.period_view import costs


@dataclass(frozen=True, slots=True, eq=False)
class PlanCosts:
    """The costs of VMs; NaN if unknown."""

    cost: Floats
    """[vms]: credits for a period; if use is charged, the most credits."""
    rate: Floats
    """[vms]: credits per core used for a period, if use is charged."""


def plan_value(
    snapshot: Snapshot,
    decision: Decision,
    plan: Plan,
    strategy: str,
    took_ms: float,
    reasons: Mapping[int, str],
    costs: PlanCosts,
) -> dict[str, Any]:
    """Return a decision and its changes; `plan` has the steps that can be executed now."""
    host = hosts_after(snapshot, decision.plan)
    before, after = assess_placement(snapshot, snapshot.vms.host), assess_placement(snapshot, host)
    return {
        "period": snapshot.period,
        "strategy": strategy,
        "took_ms": round(took_ms, 3),
        "resources": list(snapshot.resources),
        "steps": [_step(snapshot, step, costs) for step in plan],
        "reasons": {str(vm): reason for vm, reason in sorted(reasons.items())},
        "markets": {
            name: _market(snapshot, decision, market, before, after)
            for market, name in enumerate(snapshot.markets.name)
        },
        "vms": [
            {
                "id": int(snapshot.vms.id[row]),
                "name": snapshot.vms.name[row],
                "host": _host_name(snapshot, int(host[row])),
                "first": _by_resource(snapshot, after.first[row]),
                "share_before": _by_resource(snapshot, before.shares[row]),
                "share": _by_resource(snapshot, decision.allocations[row]),
                "error_before": float(before.errors[row]),
                "error": float(after.errors[row]),
            }
            for row in range(len(snapshot.vms))
        ],
    }


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
) -> dict[str, Any]:
    return {
        "price": _by_resource(snapshot, decision.prices[market]),
        "shortfall_before": float(before.shortfall[market]),
        "shortfall_after": float(after.shortfall[market]),
        "largest_error_before": float(before.largest_error[market]),
        "largest_error_after": float(after.largest_error[market]),
    }


def _step(snapshot: Snapshot, step: Step, costs: PlanCosts) -> dict[str, Any]:
    """Return the step with the names of its hosts and VM, and the VM's cost."""
    found: dict[str, Any] = {"id": step.id, "kind": step.kind, **asdict(step)}
    del found["period"]
    for role in ("source", "host"):
        if role in found:
            found[role] = _host_name(snapshot, snapshot.host_row(found[role]))
    if step.vm >= 0:
        row = snapshot.vm_row(step.vm)
        found["name"] = snapshot.vms.name[row]
        if isinstance(step, Migrate):
            found["moves_mib"] = _moves_mib(snapshot, row)
        if isinstance(step, Deploy):
            found["cost"] = finite(costs.cost[row])
            found["rate"] = finite(costs.rate[row])
    return found


def _moves_mib(snapshot: Snapshot, row: int) -> float | None:
    """Return the memory to transfer: the memory that the VM holds, or its cap if unknown."""
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


async def dry_run(world: PeriodContext, leave: Permission = EVERYTHING_PERMITTED) -> dict[str, Any]:
    """Return the plan of a period that would start now, within its permission, as JSON values.

    Raise InvalidRequestError if the cloud can't be reached.
    """
    try:
        looked = await read_cloud(world)
    except CloudUnreachableError as error:
        raise InvalidRequestError(f"the cloud can't be reached: {error}") from error
    label = "+".join(market.strategy for market in world.markets)
    stored = await world.database.read(
        lambda connection: (
            _known_bids(connection, looked),
            journal.outstanding(connection),
            period_store.memory(connection, label),
            period_store.newest(connection),
            payer_funds(connection, world, looked.observation, charged=False),
            fleet_store.applications(connection),
            _rates(connection, looked),
            migration_history.recent(connection, looked.observation.at_s, window_s(world)),
            given_up(connection, looked.observation, world.rhythm.boot_retries),
        )
    )
    present, outstanding, memory, newest, purse, applications, rates, known_moves, lost = stored
    number = 1 if newest is None else newest.number + 1
    own = replace(world, rng=copy.deepcopy(world.rng))  # so the real period draws the same numbers

    def could() -> Afforded:
        verdicts = judge_steps(outstanding, looked.observation, own.rhythm, handing=own.handing)
        look_from = observed_from(
            own, number, looked, verdicts, present, applications, rates, known_moves, lost
        )
        return affordable_cloud(own, look_from, purse)

    affordable = await world.executor.run(could)
    proposed = await world.proposals(DryRunTransactions(world.database), affordable.seen)

    def work() -> dict[str, Any]:
        seen = without_moving_proposed(affordable.seen, proposed)
        begin = time.perf_counter()
        decision, limits = within_permission(own, seen, memory, affordable.unpaid, proposed, leave)
        took_ms = (time.perf_counter() - begin) * 1e3
        reasons = {
            **decision.reasons,
            **messages_after_reasons(decision.reasons, affordable.messages),
        }
        reasons |= limits.postponed
        host = hosts_after(seen.snapshot, decision.plan)
        rate = charged_rates(seen, own.markets)
        cost = costs(seen.snapshot, decision, limits, host, own.markets, rate).sum(axis=1)
        value = plan_value(
            seen.snapshot, decision, limits.plan, label, took_ms, reasons, PlanCosts(cost, rate)
        )
        return value | {
            "under_way": [_under_way(one) for one in seen.verdicts.waiting],
            "overfull": {str(host): why for host, why in limits.overfull.items()},
        }

    return await world.executor.run(work)


def _known_bids(connection: sa.Connection, looked: CloudReading) -> dict[int, Mapping[str, float]]:
    """Return the bids in force, including new bids in changed templates."""
    changed = {one.vm: one.bid for one in changed_templates(connection, looked)}
    return {**bid_store.amounts(connection), **changed}


def _rates(connection: sa.Connection, looked: CloudReading) -> dict[int, Rate]:
    """Return the VMs' parts of spending rates, including VMs seen for the first time."""
    seen = looked.observation
    owners = dict(zip(seen.vm_id.tolist(), seen.vm_owner.tolist(), strict=True))
    new = group_vm_store.rates_of_new(connection, seen.keys, owners)
    return group_vm_store.rates(connection) | new


def _under_way(stored: StoredStep) -> dict[str, Any]:
    return {
        "id": stored.id,
        "kind": stored.step.kind,
        "vm": stored.step.vm,
        "state": str(stored.state),
    }
