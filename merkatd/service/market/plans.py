"""The plan of a dry run of the next period, and what plans change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from merkatd.base.quantities import finite
from merkatd.cluster import Decision, Deploy, Floats, Migrate, Plan, Scale, Snapshot, VmState
from merkatd.cluster.plan import Step
from merkatd.market.error import Assessment, assess_placement
from merkatd.market.explanation import hosts_after
from merkatd.service.market.listings import displayed_errors


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
    cost: float | None
    """The credits of a period after the plan; None if unknown."""
    waits: bool
    """Whether it waits for a host, unless the plan gives it one."""


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
    wishes: Sequence[Scale] = ()
    """The numbers of VMs that strategies wish for applications."""
    left_hosts: Mapping[int, str] = field(default_factory=dict)
    """By host id: why a strategy's step on the host is not done."""
    messages: Mapping[int, str] = field(default_factory=dict)
    """By VM id: a message about credits for its owner."""


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
    cap = snapshot.vms.cap
    error_before, error = (
        displayed_errors(assessed.first, assessed.shares, cap).max(axis=1, initial=0.0)
        for assessed in (before, after)
    )
    return PlanPreview(
        period=snapshot.period,
        strategy=strategy,
        took_ms=round(took_ms, 3),
        resources=snapshot.resources,
        steps=[_step(snapshot, step, costs) for step in plan],
        reasons=dict(sorted((_unplaced(snapshot) | dict(reasons)).items())),
        wishes=decision.wishes,
        left_hosts=decision.left_hosts,
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
                error_before=float(error_before[row]),
                error=float(error[row]),
                cost=finite(costs.cost[row]),
                waits=bool(snapshot.vms.state[row] == VmState.PENDING),
            )
            for row in range(len(snapshot.vms))
        ],
    )


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


def _unplaced(snapshot: Snapshot) -> dict[int, str]:
    """Return a reason for each VM that may get no host now, in case that nothing else says why."""
    vms = snapshot.vms
    waits = (vms.state == VmState.PENDING) & ~vms.placeable
    return dict.fromkeys(vms.id[waits].tolist(), "it may get no host in this period")


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
