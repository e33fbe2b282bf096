"""Room on hosts for VMs in transition or failed: they keep their floors there."""

from collections.abc import Sequence

import numpy as np

from merkatd.cluster import Deploy, Floats, HostState, Ints, Migrate, Snapshot, VmState
from merkatd.cluster.columns import NO_HOST, NO_MARKET, row_of, rows_of
from merkatd.cluster.hosts import less
from merkatd.database.scheduler.step_store import StoredStep
from merkatd.scheduler.base.ports import Observation
from merkatd.scheduler.base.settings import RESOURCES


def under_way(
    seen: Observation, host: Ints, waiting: Sequence[StoredStep]
) -> tuple[Ints, Ints, Ints]:
    """[vms]: states and target hosts with all outstanding steps, and the source hosts.

    A migration ordered by others, or one that was given up and continues, counts like our own. If
    the cloud shows a VM between two hosts, that takes precedence over our own steps.
    """
    state, (host, source) = seen.vm_state.copy(), _between_hosts(seen, host)
    for stored in waiting:
        step = stored.step
        row = row_of(seen.vm_id, step.vm)
        if row is None or source[row] != NO_HOST:
            continue
        if isinstance(step, Deploy | Migrate):
            target = row_of(seen.host_id, step.host)
            if target is not None:
                host[row] = target
        if isinstance(step, Migrate):
            left = row_of(seen.host_id, step.source)
            source[row] = NO_HOST if left is None or left == host[row] else left
        if state[row] in {VmState.PENDING, VmState.RUNNING} and host[row] != NO_HOST:
            state[row] = VmState.BUSY
    return state, host, source


def _between_hosts(seen: Observation, host: Ints) -> tuple[Ints, Ints]:
    """[vms]: the target host of each VM, as the cloud shows it, and the source host.

    A VM whose target host can't be reached stays at its source for now.
    """
    source = np.full(len(host), NO_HOST)
    if seen.vm_coming is None:
        return host.copy(), source
    coming = rows_of(seen.host_id, seen.vm_coming)
    reached = np.append(seen.host_state, HostState.OFF)[coming] != HostState.OFF
    goes = reached & (seen.vm_state == VmState.BUSY) & (host != NO_HOST) & (host != coming)
    source[goes] = host[goes]
    return np.where(goes, coming, host), source


def on_sources(source: Ints) -> list[tuple[int, int]]:
    """Return the migrating VMs, each with its source host."""
    rows = np.flatnonzero(source != NO_HOST)
    return list(zip(rows.tolist(), source[rows].tolist(), strict=True))


def failed_on_hosts(state: Ints, host: Ints) -> list[tuple[int, int]]:
    """Return the failed VMs that are still on a host, each with its host."""
    rows = np.flatnonzero((state == VmState.ABSENT) & (host != NO_HOST)).tolist()
    return [(row, int(host[row])) for row in rows]


def reserved_again(seen: Observation, snapshot: Snapshot, floor: Floats) -> Floats:
    """Return the capacity of hosts without the floors of VMs that leave them, or failed there.

    A migrating or failed VM keeps its paid floor there, but no claim beyond that.
    """
    vms = snapshot.vms
    reserved = [*on_sources(vms.source), *failed_on_hosts(vms.state, vms.host)]
    capacity = snapshot.hosts.capacity
    if not reserved:
        return capacity
    outside = (vms.market == NO_MARKET)[:, np.newaxis]
    amount = np.where(outside, vms.cap, floor)[:, : len(RESOURCES)]
    capacity = capacity.copy()
    capacity[:, : len(RESOURCES)] = less(seen.host_capacity, reserved, amount)
    return capacity
