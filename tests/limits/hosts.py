"""Hosts that obey every step: the other side of decisions about limits."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from merkatd.cluster import (
    Balloon,
    Decision,
    Deploy,
    Floats,
    Limit,
    Migrate,
    Pin,
    Plan,
    Snapshot,
    Step,
    VmState,
)
from merkatd.limits import UNSET, EnforcedLimits, LimitPlan, LimitsSettings, Topology, plan_limits
from merkatd.market.market_view import market_view
from merkatd.placement import strategy_named
from tests.clouds import cloud, hosts_table, tangled, vms_table

CPU, MEMORY = 0, 1


def one_host(capacity: Sequence[float], **columns: Any) -> Snapshot:
    """Return host 0 with VMs of these columns, by default of 100 units and 1,024 MiB each."""
    bid = np.asarray(columns.pop("bid"), dtype=float)
    cap = columns.pop("cap", np.tile([100.0, 1024.0], (len(bid), 1)))
    host = columns.pop("host", np.zeros(len(bid), dtype=np.int64))
    columns = {name: np.asarray(value) for name, value in columns.items()}
    return cloud(
        hosts_table(np.array([capacity], dtype=float)), vms_table(host, bid, cap, **columns)
    )


def decide_shares(snapshot: Snapshot, *steps: Step) -> Decision:
    """Return these steps, and the market's shares where the steps place the VMs."""
    allocations = np.zeros_like(snapshot.vms.bid)
    for market in range(len(snapshot.markets)):
        view = market_view(snapshot, market)
        local = {int(snapshot.hosts.id[row]): at for at, row in enumerate(view.hosts)}
        place = view.place.copy()
        for step in steps:
            if isinstance(step, Deploy | Migrate):
                place[np.searchsorted(view.vms, snapshot.vm_row(step.vm))] = local[step.host]
        allocations[view.vms] = view.on_hosts(place).allocation
    return Decision(Plan(steps), allocations, np.zeros((len(snapshot.markets), 2)))


def make_decision(snapshot: Snapshot, allocations: Floats, *steps: Step) -> Decision:
    """Return a decision of these steps and these shares."""
    shares = np.asarray(allocations, dtype=float)
    return Decision(Plan(steps), shares, np.zeros((len(snapshot.markets), 2)))


def limits_of(
    snapshot: Snapshot,
    decision: Decision,
    in_force: EnforcedLimits | None = None,
    topologies: dict[int, Topology] | None = None,
    settings: LimitsSettings | None = None,
) -> LimitPlan:
    """Return the limits, by default with nothing in force and nothing pinned."""
    known = EnforcedLimits.nothing(snapshot) if in_force is None else in_force
    return plan_limits(snapshot, decision, known, topologies or {}, settings or LimitsSettings())


def measured(snapshot: Snapshot, used_mib: Sequence[float], **columns: Any) -> EnforcedLimits:
    """Return the limits in force of guests without any limit that use this much memory."""
    return replace(
        EnforcedLimits.nothing(snapshot), used_mib=np.asarray(used_mib, dtype=float), **columns
    )


def confirmed(
    snapshot: Snapshot, in_force: EnforcedLimits, steps: Sequence[Step]
) -> tuple[Snapshot, EnforcedLimits]:
    """Return the observation after the hosts have executed all these steps."""
    vms = snapshot.vms
    host, state, held = vms.host.copy(), vms.state.copy(), vms.held.copy()
    columns = {
        name: getattr(in_force, name).copy()
        for name in ("vcpu_quota_us", "global_quota_us", "shares", "memory_mib")
    }
    pins = dict(in_force.pins)
    for step in steps:
        row = snapshot.vm_row(step.vm)
        match step:
            case Deploy(host=target) | Migrate(host=target):
                host[row] = snapshot.host_row(target)
                state[row] = VmState.RUNNING
                if isinstance(step, Deploy):
                    held[row, MEMORY] = np.ceil(min(vms.floor[row, MEMORY], vms.cap[row, MEMORY]))
            case Balloon(memory_mib=memory_mib):
                held[row, MEMORY] = columns["memory_mib"][row] = memory_mib
            case Limit():
                columns["vcpu_quota_us"][row] = step.vcpu_quota_us or UNSET
                columns["global_quota_us"][row] = step.global_quota_us or UNSET
                columns["shares"][row] = step.shares
            case Pin(cores=cores):
                pins[step.vm] = cores
    after = replace(
        snapshot,
        period=snapshot.period + 1,
        vms=replace(vms, host=host, state=state, held=held),
    )
    return after, replace(in_force, **columns, pins=pins)


def observed(seed: int) -> tuple[Snapshot, Decision, EnforcedLimits, dict[int, Topology]]:
    """Return a tangled cloud, a strategy's decision, and the reports of its hosts."""
    rng = np.random.default_rng([seed, 1])
    snapshot = tangled(seed)
    vms = snapshot.vms
    count = len(vms)
    held = vms.held.copy()
    low = np.minimum(vms.floor[:, MEMORY], vms.cap[:, MEMORY])
    on_host = (vms.state != VmState.PENDING) & (rng.random(count) < 0.95)
    part = rng.choice([0.0, 0.3, 0.7, 1.0], count)
    held[:, MEMORY] = np.where(on_host, np.floor(low + part * (vms.cap[:, MEMORY] - low)), np.nan)
    vcpus = rng.integers(1, 4, count)
    snapshot = replace(snapshot, vms=replace(vms, held=held, vcpus=vcpus))
    decision = strategy_named("paper").decide(snapshot)
    limits_mib = np.where(np.isnan(held[:, MEMORY]) | (rng.random(count) < 0.5), UNSET, 0)
    limits_mib = np.where(limits_mib == 0, np.nan_to_num(held[:, MEMORY]), UNSET).astype(np.int64)
    used = np.where(rng.random(count) < 0.9, held[:, MEMORY] * rng.uniform(0, 1, count), np.nan)
    stays = ~np.isin(snapshot.vms.id, [step.vm for step in decision.plan])
    pin_policy = stays & (rng.random(count) < 0.1)
    pins = {int(vm): ((0,),) for vm, fixed in zip(vms.id, pin_policy, strict=True) if fixed}
    in_force = measured(
        snapshot,
        used.tolist(),
        memory_mib=limits_mib,
        balloon=rng.random(count) < 0.9,
        pin_policy=pin_policy,
        pins=pins,
    )
    topologies = {
        int(host): Topology({core: core // 2 for core in range(int(cores) // 100)})
        for host, cores in zip(snapshot.hosts.id, snapshot.hosts.capacity[:, CPU], strict=True)
        if rng.random() < 0.7
    }
    return snapshot, decision, in_force, topologies
