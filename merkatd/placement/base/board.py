"""A placement that can be changed one move at a time, and whether floors fit.

The VMs of a host stand together in one long array, ascending, with a little room behind
them, so that compiled code can walk them and a move costs nothing worth mentioning.
"""

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import NOWHERE
from merkatd.market.market_view import MarketView
from merkatd.placement.base.compiled import compiled


class Board:
    """A placement that can be changed. `place` and the rosters always agree."""

    def __init__(self, view: MarketView, place: Ints) -> None:
        self.capacity: Floats = np.ascontiguousarray(view.capacity)
        self.place: Ints = place.copy()
        placed = np.flatnonzero(place != NOWHERE)
        self.count: Ints = np.bincount(place[placed], minlength=len(view.hosts))
        slots = self.count + self.count // 2 + 4
        self._slots: Ints = slots
        self.start: Ints = np.cumsum(slots) - slots
        self.rows: Ints = np.full(int(slots.sum()) + 16, NOWHERE)
        order = placed[np.argsort(place[placed], kind="stable")]
        host = place[order]
        behind = np.arange(len(order)) - (np.cumsum(self.count) - self.count)[host]
        self.rows[self.start[host] + behind] = order

    def on(self, host: int) -> Ints:
        """The VMs of a host, ascending. A view: it changes when the board does."""
        first = int(self.start[host])
        return self.rows[first : first + int(self.count[host])]

    def move(self, vm: int, host: int) -> None:
        """Put the VM on the host, wherever it was; NOWHERE takes it off the board."""
        if self.place[vm] != NOWHERE:
            self._take_off(vm, int(self.place[vm]))
        if host != NOWHERE:
            self._put_on(vm, host)
        self.place[vm] = host

    def _take_off(self, vm: int, host: int) -> None:
        there = self.on(host)
        at = int(np.searchsorted(there, vm))
        there[at:-1] = there[at + 1 :]
        self.count[host] -= 1

    def _put_on(self, vm: int, host: int) -> None:
        if self.count[host] == self._slots[host]:
            self._widen(host)
        at = int(np.searchsorted(self.on(host), vm))
        self.count[host] += 1
        there = self.on(host)
        there[at + 1 :] = there[at:-1].copy()
        there[at] = vm

    def _widen(self, host: int) -> None:
        """Give the host's VMs twice the room, at the end of the long array."""
        there = self.on(host).copy()
        end = len(self.rows)
        self._slots[host] = 2 * len(there) + 4
        self.rows = np.concatenate([self.rows, np.full(int(self._slots[host]), NOWHERE)])
        self.start[host] = end
        self.rows[end : end + len(there)] = there


@compiled
def with_vm(rows: Ints, start: int, count: int, vm: int, out: Ints) -> int:
    """The host's VMs and one more, ascending; returns how many."""
    at = 0
    while at < count and rows[start + at] < vm:
        out[at] = rows[start + at]
        at += 1
    out[at] = vm
    for i in range(at, count):
        out[i + 1] = rows[start + i]
    return count + 1


@compiled
def without_vm(rows: Ints, start: int, count: int, vm: int, out: Ints) -> int:
    """The host's VMs but one; returns how many."""
    size = 0
    for i in range(count):
        if rows[start + i] != vm:
            out[size] = rows[start + i]
            size += 1
    return size


@compiled
def floors_fit(rows: Ints, count: int, capacity: Floats, floor: Floats) -> bool:
    """Whether the host can give all these VMs what they can't live without."""
    for resource in range(capacity.shape[0]):
        total = 0.0
        for i in range(count):
            total += floor[rows[i], resource]
        if total > capacity[resource]:
            return False
    return True


@compiled
def where_floors_fit(
    vm: int, allowed: Bools, rows: Ints, start: Ints, count: Ints, capacity: Floats, floor: Floats
) -> Bools:
    """[hosts]: allowed, and its floors still fit with this VM on it."""
    fitting = np.zeros(len(allowed), dtype=np.bool_)
    group = np.empty(count.max() + 1, dtype=np.int64)
    for host in range(len(allowed)):
        if allowed[host]:
            size = with_vm(rows, start[host], count[host], vm, group)
            fitting[host] = floors_fit(group, size, capacity[host], floor)
    return fitting


def excess(view: MarketView, place: Ints) -> Floats:
    """Return [hosts, resources]: by how much the floors of the VMs on each host exceed it."""
    there = place != NOWHERE
    floors = np.stack(
        [np.bincount(place[there], column[there], len(view.hosts)) for column in view.floor.T],
        axis=1,
    )
    over: Floats = np.maximum(floors - view.capacity, 0.0)
    return over


def on_overfull(view: MarketView) -> Bools:
    """Return [vms]: whether each runs on a host that is overfull now."""
    over = np.append((excess(view, view.place) > 0).any(axis=1), False)
    found: Bools = over[view.place]
    return found
