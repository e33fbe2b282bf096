"""Room on hosts for VMs that are on their way, or failed: they keep what they had there."""

from collections.abc import Sequence

import numpy as np

from merkatd.cluster import Deploy, Floats, Ints, Migrate, Snapshot, VmState
from merkatd.database.steps import StoredStep
from merkatd.market.view import NOWHERE
from merkatd.scheduler.ports import Observation
from merkatd.scheduler.settings import RESOURCES


def rows_of(ids: Ints, wanted: Ints) -> Ints:
    """The row of each wanted id, NOWHERE for those that are not there."""
    if len(ids) == 0:
        return np.full(len(wanted), NOWHERE)
    rows = np.searchsorted(ids, wanted)
    rows = np.minimum(rows, len(ids) - 1)
    return np.where(ids[rows] == wanted, rows, NOWHERE)


def under_way(
    seen: Observation, host: Ints, waiting: Sequence[StoredStep]
) -> tuple[Ints, Ints, list[tuple[int, int]]]:
    """States and hosts with the steps under way, and the VMs that keep a floor where they leave."""
    state, host = seen.vm_state.copy(), host.copy()
    leaving = []
    for stored in waiting:
        step = stored.step
        row = int(rows_of(seen.vm_id, np.array([step.vm]))[0])
        if row == NOWHERE:
            continue
        if isinstance(step, Deploy | Migrate):
            target = int(rows_of(seen.host_id, np.array([step.host]))[0])
            if target != NOWHERE:
                host[row] = target
        if isinstance(step, Migrate):
            source = int(rows_of(seen.host_id, np.array([step.source]))[0])
            if source not in {NOWHERE, int(host[row])}:
                leaving.append((row, source))
        if state[row] in {VmState.PENDING, VmState.RUNNING} and host[row] != NOWHERE:
            state[row] = VmState.BUSY
    return state, host, leaving


def failed_on_hosts(state: Ints, host: Ints) -> list[tuple[int, int]]:
    """Return the VMs that are on a host and hold no place there: those that failed, with it."""
    rows = np.flatnonzero((state == VmState.ABSENT) & (host != NOWHERE)).tolist()
    return [(row, int(host[row])) for row in rows]


def less(capacity: Floats, reserved: Sequence[tuple[int, int]], amount: Floats) -> Floats:
    """Return the room of each host without the reservations of these VMs."""
    if not reserved:
        return capacity
    rows, hosts = np.array(reserved, dtype=np.int64).T
    taken = np.zeros_like(capacity)
    np.add.at(taken, hosts, amount[rows])
    left: Floats = np.maximum(capacity - taken, 0.0)
    return left


def kept_from(whole: Floats, left: Floats) -> Floats:
    """[hosts, resources]: the reservations; no columns where there are none."""
    found = whole - left
    return found if found.any() else np.zeros((len(whole), 0))


def reserved_again(
    seen: Observation, snapshot: Snapshot, waiting: Sequence[StoredStep], floor: Floats
) -> Floats:
    """Return the capacity of hosts less what VMs keep there that leave them, or failed, by `floor`.

    A VM that is migrated keeps on the host that it leaves what it pays for, and no claim beyond.
    """
    vms = snapshot.vms
    _, _, leaving = under_way(seen, rows_of(seen.host_id, seen.vm_host), waiting)
    found = snapshot.hosts.capacity
    if not leaving:
        return found
    outside = (vms.market == NOWHERE)[:, np.newaxis]
    amount = np.where(outside, vms.cap, floor)[:, : len(RESOURCES)]
    reserved = [*leaving, *failed_on_hosts(vms.state, vms.host)]
    found = found.copy()
    found[:, : len(RESOURCES)] = less(seen.host_capacity, reserved, amount)
    return found
