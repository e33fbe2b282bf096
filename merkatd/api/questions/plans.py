"""A plan as JSON has it: steps with reason, gain, cost and what must come first; what changes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from merkatd.api.questions.words import finite
from merkatd.cluster import Decision, Deploy, Floats, Migrate, Plan, Snapshot
from merkatd.cluster.plan import Step
from merkatd.market.error import Assessment, assess
from merkatd.market.explanation import hosts_after
from merkatd.market.price import charges
from merkatd.placement.base.strategy import Pricing


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """What VMs cost; NaN where that is not known."""

    cost: Floats
    """[vms]: credits for a period, at most where use is charged."""
    rate: Floats
    """[vms]: credits for each core that is used for a period, where use is charged."""


def plan_value(
    snapshot: Snapshot,
    decision: Decision,
    plan: Plan,
    strategy: str,
    took_ms: float,
    reasons: Mapping[int, str],
    costs: Costs,
) -> dict[str, Any]:
    """A decision with what it changes; `plan` are the steps that can be carried out now."""
    host = hosts_after(snapshot, decision.plan)
    before, after = assess(snapshot, snapshot.vms.host), assess(snapshot, host)
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


def at_price(snapshot: Snapshot, decision: Decision, pricing: Pricing) -> Costs:
    """Return what VMs cost where shares are charged; a VM of no market costs nothing."""
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
    return Costs(owed.sum(axis=1), np.full(len(vms), np.nan))


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


def _step(snapshot: Snapshot, step: Step, costs: Costs) -> dict[str, Any]:
    """The step with hosts by name, the VM's name, and what it costs."""
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
    """The memory that has to be carried: what the VM holds, or all that it may hold."""
    if "memory" not in snapshot.resources:
        return None
    column = snapshot.resources.index("memory")
    held = float(snapshot.vms.held[row, column])
    return float(snapshot.vms.cap[row, column]) if np.isnan(held) else held


def _by_resource(snapshot: Snapshot, values: Any) -> dict[str, float | None]:
    """By name; null where there is no finite number, as no price clears an overfull market."""
    return {
        name: float(value) if np.isfinite(value) else None
        for name, value in zip(snapshot.resources, values, strict=True)
    }


def _host_name(snapshot: Snapshot, row: int) -> str | None:
    return None if row < 0 else snapshot.hosts.name[row]
