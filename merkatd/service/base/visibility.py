"""What a caller may see of a period: its VMs, and the hosts on which they are."""

from collections.abc import Mapping, Sequence

import numpy as np

from merkatd.cluster import Bools, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST
from merkatd.service.base.callers import Caller, CallerRights, no_vm
from merkatd.service.base.errors import UnknownObjectError
from merkatd.service.base.period_view import PeriodView


async def permitted_vm_row(
    rights: CallerRights, caller: Caller, view: PeriodView, vm: int, right: str
) -> int:
    """Return the VM's row, after a check of the caller's right to it. Raise RequestError."""
    try:
        row = view.snapshot.vm_row(vm)
    except KeyError:
        raise no_vm(vm) from None
    await rights.require_vm(caller, vm, int(view.snapshot.vms.owner[row]), right)
    return row


def own_vm_rows(view: PeriodView, owner: int) -> Ints:
    """Return the rows of a tenant's VMs."""
    return np.flatnonzero(view.snapshot.vms.owner == owner)


def own_vm_ids(snapshot: Snapshot, owner: int) -> list[int]:
    """Return the ids of a tenant's VMs."""
    ids: list[int] = snapshot.vms.id[snapshot.vms.owner == owner].tolist()
    return ids


def visible_vm_rows(caller: Caller, view: PeriodView, which: Bools | None = None) -> list[int]:
    """Return the rows of the VMs in `which`, or of all VMs, that the caller may see in lists."""
    owner = view.snapshot.vms.owner
    wanted = np.ones(len(owner), bool) if which is None else which
    return _rows(wanted if caller.is_admin else wanted & (owner == caller.uid))


def _rows(which: Bools) -> list[int]:
    rows: list[int] = np.flatnonzero(which).tolist()
    return rows


def visible_host_rows(caller: Caller, view: PeriodView) -> Sequence[int]:
    """Return the rows of the hosts that the caller may see: all, or those with VMs of its own."""
    if caller.is_admin:
        return range(len(view.snapshot.hosts))
    return sorted(_own_host_rows(view, caller.uid))


def visible_hosts(caller: Caller, view: PeriodView) -> Mapping[str, int]:
    """Return the ids by name of the hosts that the caller may see."""
    table = view.snapshot.hosts
    return {table.name[row]: int(table.id[row]) for row in visible_host_rows(caller, view)}


def _own_host_rows(view: PeriodView, owner: int) -> set[int]:
    """Return the rows of hosts with VMs of a tenant."""
    hosts = np.unique(view.host[own_vm_rows(view, owner)])
    return set(hosts[hosts != NO_HOST].tolist())


def visible_host_row(caller: Caller, view: PeriodView, host: int) -> int:
    """Return the row of a host. Raise UnknownObjectError if the caller may not see it."""
    row = next(iter(_rows(view.snapshot.hosts.id == host)), NO_HOST)
    if row == NO_HOST or not (caller.is_admin or row in _own_host_rows(view, caller.uid)):
        raise UnknownObjectError(f"Error getting host [{host}].", host)
    return row
