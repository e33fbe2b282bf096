"""What has run out while places were given away: who comes too late waits, and all is decided anew.

A strategy sees for each VM alone whether a host would take it. Where several count on the
same last device, lease or gigabyte, those after the first are taken out (a new VM waits, one
that runs stays) and the rest is decided again, so that shares and prices are right without them.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from merkatd.cluster import (
    Decision,
    Deploy,
    HostState,
    Migrate,
    Plan,
    Snapshot,
    Step,
    VmState,
    urgent_vms,
)
from merkatd.limits import LimitPlan
from merkatd.scheduler.base.ports import CapacityPort
from merkatd.scheduler.phases.other_hosts import barred, still

MOST_ROUNDS = 8
"""How often a period decides anew; after that, steps without stock are left out of the plan."""

_TURNS = 5
"""How often it decides anew for want of memory; in the last of them nothing is migrated."""


def within_capacity(
    snapshot: Snapshot,
    decide: Callable[[Snapshot], Decision],
    stock: Callable[[], CapacityPort] | None,
) -> Decision:
    """A decision in which nothing is given to more VMs than can have it."""
    if stock is None:
        return decide(snapshot)
    late: dict[int, str] = {}
    decision = decide(snapshot)
    for _ in range(MOST_ROUNDS):
        more = too_late(snapshot, decision.plan, stock())
        if not more:
            return replace(decision, reasons={**decision.reasons, **late})
        late |= more
        decision = decide(without(snapshot, late))
    late |= too_late(snapshot, decision.plan, stock())
    plan = _without_steps(decision.plan, late)
    return replace(decision, plan=plan, reasons={**decision.reasons, **late})


def within_memory(
    snapshot: Snapshot,
    decide: Callable[[Snapshot, Mapping[int, int]], tuple[Decision, LimitPlan]],
) -> tuple[Decision, LimitPlan]:
    """Return a decision without arrivals for which their hosts don't have the memory yet.

    Such a VM would pay for a share of a host that it does not reach yet, and others would miss that
    share. So these VMs stay where they are, and all is decided again. Balloons make room where a VM
    was to go, unless they never can (the VM is hopeless): `decide` is told, by VM id, of the hosts.
    A hopeless VM that is new, or must leave its host, is tried on the hosts that can take it.
    Where hopeless VMs follow upon one another, nothing comes to their hosts, and at last nothing is
    migrated but VMs that must leave and have found room.
    """
    late: dict[int, str] = {}
    tried: dict[int, str] = {}
    coming: dict[int, int] = {}
    now, must = snapshot, urgent_vms(snapshot)
    for turn in range(_TURNS):
        decision, limits = decide(now, coming)
        hopeless = limits.hopeless.keys()
        new = limits.postponed.keys() - late.keys()
        if not new and not hopeless:
            break
        now, elsewhere = barred(now, limits.hopeless, must - late.keys())
        tried |= {vm: limits.postponed[vm] for vm in elsewhere}
        late |= {vm: limits.postponed[vm] for vm in (new | hopeless) - elsewhere}
        to = _hosts_of(decision.plan, new - hopeless)
        coming = {vm: to for vm, to in {**coming, **to}.items() if vm not in hopeless}
        now = without(now, late)
        if turn >= _TURNS // 2:
            now = _closed(now, decision.plan, hopeless)
        if turn == _TURNS - 2:
            now = still(now, _hosts_of(decision.plan, must - limits.postponed.keys()))
    gone = _hosts_of(decision.plan, tried.keys()).keys()
    kept = {vm: why for vm, why in tried.items() if vm not in gone}
    told = {**kept, **late, **limits.postponed}
    return decision, replace(limits, postponed=told)


def _hosts_of(plan: Plan, vms: AbstractSet[int]) -> dict[int, int]:
    """By VM id: where the plan would take these VMs."""
    steps = [step for step in plan if isinstance(step, Deploy | Migrate) and step.vm in vms]
    return {step.vm: step.host for step in steps}


def _closed(snapshot: Snapshot, plan: Plan, vms: AbstractSet[int]) -> Snapshot:
    """Return the same cloud, in which the hosts that these VMs were to go to take no VM."""
    to = _hosts_of(plan, vms).values()
    hosts = snapshot.hosts
    closed = np.isin(hosts.id, list(to)) & (hosts.state == int(HostState.ON))
    state = np.where(closed, int(HostState.DISABLED), hosts.state)
    return replace(snapshot, hosts=replace(hosts, state=state))


def _without_steps(plan: Plan, late: Mapping[int, str]) -> Plan:
    """Return the plan without the arrivals of these VMs and all steps that come after them."""
    kept: list[Step] = []
    dropped: set[str] = set()
    for step in plan:
        arrives = isinstance(step, Deploy | Migrate) and step.vm in late
        if arrives or dropped & set(step.after):
            dropped.add(step.id)
        else:
            kept.append(step)
    return Plan(tuple(kept))


def too_late(snapshot: Snapshot, plan: Plan, stock: CapacityPort) -> Mapping[int, str]:
    """By id: the VMs for which nothing is left, and what that is.

    New VMs come first, by their priority and id; then those that move.
    """
    steps = [step for step in plan if isinstance(step, Deploy | Migrate)]

    def turn(step: Deploy | Migrate) -> tuple[bool, float, int]:
        priority = float(snapshot.vms.priority[snapshot.vm_row(step.vm)])
        return isinstance(step, Migrate), -priority, step.vm

    answers = ((step.vm, stock.take(step.vm, step.host)) for step in sorted(steps, key=turn))
    return {vm: why for vm, why in answers if why is not None}


def without(snapshot: Snapshot, late: Mapping[int, str]) -> Snapshot:
    """Return the same cloud, in which these VMs are given no other place."""
    if not late:
        return snapshot
    vms = snapshot.vms
    out = np.isin(vms.id, list(late))
    waits = out & (vms.state == int(VmState.PENDING))
    return replace(
        snapshot,
        vms=replace(
            vms,
            state=np.where(waits, int(VmState.ABSENT), vms.state),
            movable=vms.movable & ~out,
        ),
    )
