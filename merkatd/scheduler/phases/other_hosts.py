"""Other hosts for VMs whose chosen host can never have enough memory.

This concerns only VMs that wait for a host, or must leave theirs; all others stay where they are.
Members of VM groups that must be together are retried together.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from merkatd.cluster import Bools, HostState, RolePolicy, Snapshot
from merkatd.cluster.columns import is_one_of
from merkatd.placement.base.narrowed_hosts import narrowed_to


def without_hopeless_hosts(
    snapshot: Snapshot, hopeless: Mapping[int, AbstractSet[int]], may: AbstractSet[int]
) -> tuple[Snapshot, frozenset[int]]:
    """Return the cloud in which these VMs do not go to hosts that can never have their memory.

    `hopeless` are the ids of these hosts by VM id. The second value are those VMs that `may` be
    tried elsewhere and have a host left.
    """
    vms, hosts = snapshot.vms, snapshot.hosts
    together = _together(snapshot)
    going = is_one_of(vms.id, may) & vms.movable
    allowed: dict[int, Bools] = {}
    for vm in sorted(hopeless.keys() & may):
        row = snapshot.vm_row(vm)
        roles = together.get(int(vms.role[row]), frozenset())
        partners = np.flatnonzero(is_one_of(vms.role, roles) & going).tolist()
        for partner in {row, *partners}:
            before = allowed.get(partner, _required(snapshot, partner))
            allowed[partner] = before & ~is_one_of(hosts.id, hopeless[vm])
    each = np.arange(len(hosts))
    kept = {
        row: may_be
        for row, may_be in allowed.items()
        if (may_be & (hosts.state == HostState.ON) & (each != vms.host[row])).any()
    }
    tried = frozenset(vms.id[list(kept)].tolist()) & hopeless.keys()
    return narrowed_to(snapshot, kept, "has the memory"), tried


def with_only_these_moves(snapshot: Snapshot, hosts: Mapping[int, int]) -> Snapshot:
    """Return the cloud in which only these VMs move (by id), each only to its host."""
    vms = snapshot.vms
    rows = {snapshot.vm_row(vm): host for vm, host in hosts.items()}
    movable = vms.movable & is_one_of(np.arange(len(vms)), rows)
    going = {row: snapshot.hosts.id == host for row, host in rows.items() if movable[row]}
    return narrowed_to(replace(snapshot, vms=replace(vms, movable=movable)), going, "had room")


def _required(snapshot: Snapshot, row: int) -> Bools:
    """[hosts]: whether the VM in this row may be there by its requirements."""
    required = int(snapshot.vms.requirement[row])
    if required < 0:
        return np.ones(len(snapshot.hosts), dtype=bool)
    allowed: Bools = snapshot.requirements.allowed[required]
    return allowed


def _together(snapshot: Snapshot) -> Mapping[int, frozenset[int]]:
    """Return, by role, all roles whose members must share a host with its own, with itself."""
    pairs = snapshot.role_pairs
    own = np.flatnonzero(snapshot.roles.policy == RolePolicy.TOGETHER).tolist()
    both = np.flatnonzero(pairs.policy == RolePolicy.TOGETHER).tolist()
    groups: dict[int, frozenset[int]] = {role: frozenset({role}) for role in own}
    for row in both:
        first, second = int(pairs.first[row]), int(pairs.second[row])
        joined = groups.get(first, frozenset({first})) | groups.get(second, frozenset({second}))
        groups |= dict.fromkeys(joined, joined)
    return groups
