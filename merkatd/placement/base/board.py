"""The board: a placement that changes one move at a time, and the test whether floors fit.

One long array stores the VMs of all hosts. The VMs of a host stand together, ascending, with
a few free slots behind them. So compiled code can iterate over them, and a move is cheap.
"""

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import NO_HOST
from merkatd.market.market_view import MarketView
from merkatd.market.share import narrow
from merkatd.placement.base.compiled import compiled


class Board:
    """A placement that can be changed. `place` and the lists of VMs by host always agree."""

    def __init__(self, view: MarketView, place: Ints, room_for: Ints | int = 0) -> None:
        """`room_for` is [hosts]: the number of VMs for which each host gets slots at once."""
        self.capacity: Floats = np.ascontiguousarray(view.capacity)
        self.place: Ints = place.copy()
        placed = np.flatnonzero(place != NO_HOST)
        self.count: Ints = np.bincount(place[placed], minlength=len(view.hosts))
        slots = np.maximum(self.count, room_for)
        slots += slots // 2 + 4
        self.slots: Ints = slots
        """[hosts]: the places for VMs in `rows`."""
        self.start: Ints = np.cumsum(slots) - slots
        self.rows: Ints = np.full(int(slots.sum()) + 16, NO_HOST)
        order = placed[np.argsort(narrow(place[placed], len(view.hosts)), kind="stable")]
        host = place[order]
        behind = np.arange(len(order)) - (np.cumsum(self.count) - self.count)[host]
        self.rows[self.start[host] + behind] = order
        self._end = int(slots.sum())

    def on(self, host: int) -> Ints:
        """Return the VMs of a host, ascending, as a view: it changes with the board."""
        first = int(self.start[host])
        return self.rows[first : first + int(self.count[host])]

    def move(self, vm: int, host: int) -> None:
        """Move the VM to the host from any place; NO_HOST takes it off the board."""
        if self.place[vm] != NO_HOST:
            self._take_off(vm, int(self.place[vm]))
        if host != NO_HOST:
            self._put_on(vm, host)
        self.place[vm] = host

    def _take_off(self, vm: int, host: int) -> None:
        there = self.on(host)
        at = int(np.searchsorted(there, vm))
        there[at:-1] = there[at + 1 :]
        self.count[host] -= 1

    def _put_on(self, vm: int, host: int) -> None:
        if self.count[host] == self.slots[host]:
            self.widen(host)
        at = int(np.searchsorted(self.on(host), vm))
        self.count[host] += 1
        there = self.on(host)
        there[at + 1 :] = there[at:-1].copy()
        there[at] = vm

    def widen(self, host: int) -> None:
        """Move the host's VMs to the end of the long array, with twice as many slots."""
        there, slots = self.on(host).copy(), 2 * int(self.count[host]) + 4
        begin, self._end = self._end, self._end + slots
        if self._end > len(self.rows):
            longer = np.full(self._end + len(self.rows) // 2, NO_HOST)
            longer[:begin] = self.rows[:begin]
            self.rows = longer
        self.slots[host], self.start[host] = slots, begin
        self.rows[begin : begin + len(there)] = there


@compiled
def with_vm(rows: Ints, start: int, count: int, vm: int, out: Ints) -> int:
    """Write the host's VMs and `vm` to `out`, ascending; return their number."""
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
    """Write the host's VMs without `vm` to `out`; return their number."""
    size = 0
    for i in range(count):
        if rows[start + i] != vm:
            out[size] = rows[start + i]
            size += 1
    return size


@compiled
def floors_fit(rows: Ints, count: int, capacity: Floats, floor: Floats) -> bool:
    """Return whether the host has capacity for the floors of all these VMs."""
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
    """Return [hosts]: whether the host is allowed and its floors still fit with this VM."""
    fitting = np.zeros(len(allowed), dtype=np.bool_)
    group = np.empty(count.max() + 1, dtype=np.int64)
    for host in range(len(allowed)):
        if allowed[host]:
            size = with_vm(rows, start[host], count[host], vm, group)
            fitting[host] = floors_fit(group, size, capacity[host], floor)
    return fitting


def excess(view: MarketView, place: Ints) -> Floats:
    """Return [hosts, resources]: the amount by which the VMs' floors exceed the host's capacity."""
    there = place != NO_HOST
    floors = np.stack(
        [np.bincount(place[there], column[there], len(view.hosts)) for column in view.floor.T],
        axis=1,
    )
    over: Floats = np.maximum(floors - view.capacity, 0.0)
    return over


def on_overfull(view: MarketView) -> Bools:
    """Return [vms]: whether the VM runs on a host that is overfull now."""
    over = np.append((excess(view, view.place) > 0).any(axis=1), False)
    on_full: Bools = over[view.place]
    return on_full
