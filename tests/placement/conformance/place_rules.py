"""The rules for the places of VMs: requirements, floors, VM groups, and floors during a plan."""

import numpy as np

from merkatd.cluster import (
    Deploy,
    HostState,
    Ints,
    Migrate,
    OfHost,
    Resume,
    RolePolicy,
    Snapshot,
    Step,
    Stop,
    Suspend,
    Terminate,
    VmState,
)
from merkatd.market.market_view import market_view


def broken_rule(snapshot: Snapshot, host: Ints, vm: int) -> str:
    """Return the name of the first rule that the VM's place breaks, or ""."""
    return broken_alone(snapshot, int(host[vm]), vm) or broken_with_others(snapshot, host, vm)


def broken_alone(snapshot: Snapshot, at: int, vm: int) -> str:
    """Check the rules that concern only the VM and its host."""
    vms = snapshot.vms
    if snapshot.hosts.state[at] != HostState.ON:
        return "state"
    source = int(vms.host[vm])
    market = vms.market[vm] if source < 0 else snapshot.hosts.market[source]
    if snapshot.hosts.market[at] != market:
        return "market"
    if vms.requirement[vm] >= 0 and not snapshot.requirements.allowed[vms.requirement[vm], at]:
        return "requirement"
    return ""


def broken_with_others(snapshot: Snapshot, host: Ints, vm: int) -> str:
    """Check the rules that concern all VMs of the host."""
    at = int(host[vm])
    view = market_view(snapshot, int(snapshot.hosts.market[at]))
    inside = view.vms[host[view.vms] == at]
    row = int(np.searchsorted(view.hosts, at))
    floors = view.floor[np.searchsorted(view.vms, inside)].sum(axis=0)
    if (floors > view.capacity[row] * (1 + 1e-12)).any():
        return "floors"
    return broken_in_group(snapshot, host, vm)


def broken_in_group(snapshot: Snapshot, host: Ints, vm: int) -> str:
    """Check the rules of the VM's group, for members in any market and state."""
    role = int(snapshot.vms.role[vm])
    if role < 0:
        return ""
    members = np.flatnonzero((snapshot.vms.role >= 0) & (host >= 0))
    members = members[members != vm]
    alike = host[members[snapshot.vms.role[members] == role]]
    if snapshot.roles.policy[role] == RolePolicy.APART and host[vm] in alike:
        return "apart"
    were = snapshot.vms.host[members[snapshot.vms.role[members] == role]]
    beside = np.union1d(alike, were)  # A partner may move on if the group was never together.
    if snapshot.roles.policy[role] == RolePolicy.TOGETHER and len(alike) and host[vm] not in beside:
        return "together"
    pairs, beside_it = (
        snapshot.role_pairs,
        set(snapshot.vms.role[members[host[members] == host[vm]]].tolist()),
    )
    for first, second, policy in zip(pairs.first, pairs.second, pairs.policy, strict=True):
        if policy != RolePolicy.APART or role not in {first, second}:
            continue
        if (int(second) if role == first else int(first)) in beside_it:
            return "roles apart"
    return ""


def misplaced(snapshot: Snapshot, step: Step) -> str:
    """Return why a step that brings no VM to a host is not one of the market; "" if it is.

    A resumption on another host is a migration before it is sent.
    """
    if isinstance(step, OfHost):
        market = snapshot.hosts.market[snapshot.host_row(step.host)]
        return "" if market >= 0 else "its host is in no market"
    row = snapshot.vm_row(step.vm)
    runs = snapshot.vms.state[row] == VmState.RUNNING
    if isinstance(step, Suspend) and not runs:
        return "its VM does not run"
    if isinstance(step, Resume) and runs:
        return "its VM runs"
    return "" if snapshot.vms.market[row] >= 0 else "its VM is in no market"


def floors_while_all_others_stay(
    snapshot: Snapshot, steps: tuple[Step, ...], step: Deploy | Migrate
) -> str:
    """Check the floors if only the VMs that the step waits for have left its host."""
    view = market_view(snapshot, int(snapshot.hosts.market[snapshot.host_row(step.host)]))
    host = int(np.searchsorted(view.hosts, snapshot.host_row(step.host)))
    there = set(np.flatnonzero(view.place == host).tolist())
    for other in steps:
        leaves = isinstance(other, Stop | Terminate) or (
            isinstance(other, Migrate) and other.source == step.host
        )
        if leaves and other.id in step.after:
            there.discard(int(np.searchsorted(view.vms, snapshot.vm_row(other.vm))))
    there.add(int(np.searchsorted(view.vms, snapshot.vm_row(step.vm))))
    rows = sorted(there)
    fits = (view.floor[rows].sum(axis=0) <= view.capacity[host] * (1 + 1e-12)).all()
    return "" if fits else f"{step.vm} does not fit on {step.host}"
