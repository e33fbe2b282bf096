"""Places for gangs: all VMs of a limit order get hosts at their full size, or none of them does.

The largest VM is placed first, on the host with the least room that suffices. So the hosts with
most room stay free for other large VMs. If there is no room, other VMs may make it: on the host
that lacks least, the smallest VM that suffices moves away, or else the largest.
"""

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.market.market_view import MarketView
from merkatd.placement.base.board import Board
from merkatd.placement.base.hard_constraints import HardConstraints
from merkatd.placement.base.host_shelves import (
    NEARLY,
    Shelves,
    fill_shelves,
    find_fullest,
    fits_on_shelves,
    keep_all,
    leave_all,
    move_on_shelves,
    take_all,
)

_TRIED = 8
"""The most hosts on which room is made for a VM."""


_ON_SHELF = 16
"""The hosts on a shelf, about, if their room is spread evenly."""


class GangBoard:
    """A board on which gangs take places."""

    def __init__(self, view: MarketView, board: Board, rules: HardConstraints) -> None:
        self._view = view
        self._board = board
        self._rules = rules
        self._free: Floats = view.capacity.copy()
        typical = np.maximum(view.capacity.max(axis=0, initial=0.0), 1.0)
        self._size: Floats = (view.floor / typical).max(axis=1)
        self._typical = typical
        hosts, goods = self._free.shape
        shelves = max(hosts // _ON_SHELF, 16)
        self._shelves = Shelves(
            *(board.place, board.rows, board.start, board.count, board.slots, board.capacity),
            floor=view.floor,
            typical=typical,
            size=self._size,
            free=self._free,
            room=np.zeros(hosts),
            roomiest=np.zeros(hosts, dtype=np.int64),
            first=np.full((shelves, goods), NO_HOST),
            most=np.full((shelves, goods, goods), -np.inf),
            after=np.full(hosts, NO_HOST),
            before=np.full(hosts, NO_HOST),
            fullest=np.full(hosts, NO_HOST),
        )
        fill_shelves(self._shelves)

    def take(self, vms: Ints) -> bool:
        """Place all these VMs; if one fits nowhere, place none."""
        if not (self._rules.all_plain or self._rules.plain[vms].all()):
            return self._take_by_rules(vms)
        ordered, at = vms.copy(), 0
        while at < len(ordered):
            at, full = take_all(
                self._shelves, ordered, at, self._rules.classes, self._rules.requirement
            )
            if at < len(ordered) and full == NO_HOST:
                self.leave(vms)
                return False
            self._widen(full)
        return True

    def _take_by_rules(self, vms: Ints) -> bool:
        for vm in self._from_largest(vms).tolist():
            host = self._fullest_that_fits(vm)
            if host == NO_HOST:
                self.leave(vms)
                return False
            self._move(vm, host)
        return True

    def take_with_moves(self, vms: Ints, may_leave: Bools) -> list[int] | None:
        """Place all these VMs where others make room; return those, or None if it can't be done.

        `may_leave` is [vms]: whether a VM may get another host.
        """
        before, may = self._board.place.copy(), may_leave.copy()
        for vm in self._from_largest(vms).tolist():
            host = self._fullest_that_fits(vm)
            if host == NO_HOST:
                host = self._make_room(vm, may)
            if host == NO_HOST:
                self._restore(before)
                return None
            self._move(vm, host)
        moved: list[int] = np.flatnonzero(
            (before != NO_HOST) & (self._board.place != before)
        ).tolist()
        return moved

    def keep(self, vms: Ints, hosts: Ints) -> bool:
        """Place these VMs on these hosts; if one does not fit there, place none."""
        at = 0
        while at < len(vms):
            at, full = keep_all(self._shelves, vms, hosts, at)
            if at < len(vms) and full == NO_HOST:
                self.leave(vms)
                return False
            self._widen(full)
        return True

    def hosts(self, vms: Ints) -> Ints:
        """Return the hosts of these VMs."""
        hosts: Ints = self._board.place[vms]
        return hosts

    def leave(self, vms: Ints) -> None:
        """Take these VMs off the board."""
        leave_all(self._shelves, vms)

    def _from_largest(self, vms: Ints) -> Ints:
        return vms[np.argsort(-self._size[vms], kind="stable")]

    def _make_room(self, vm: int, may: Bools) -> int:
        """Move VMs that may leave away from the host that lacks least; return the host."""
        lacks = (np.maximum(self._view.floor[vm] - self._free, 0.0) / self._typical).max(axis=1)
        hosts = np.flatnonzero(self._rules.allowed(vm, self._board.place))
        before = self._board.place.copy()
        for host in hosts[np.argsort(lacks[hosts], kind="stable")][:_TRIED].tolist():
            there = self._board.on(host)
            candidates = there[may[there]].tolist()
            while candidates and not self._fits(vm, host):
                other = self._best_to_leave(vm, host, candidates)
                candidates.remove(other)
                to = self._fullest_that_fits(other, host)
                if to != NO_HOST:
                    self._move(other, to)
            if self._fits(vm, host):
                may[self._board.place != before] = False
                return int(host)
            self._restore(before)
        return NO_HOST

    def _best_to_leave(self, vm: int, host: int, candidates: list[int]) -> int:
        """Return the smallest VM that makes room enough, or else the largest."""
        missing = np.maximum(self._view.floor[vm] - self._free[host], 0.0)
        enough = [
            other for other in candidates if (self._view.floor[other] >= missing * NEARLY).all()
        ]
        if enough:
            return min(enough, key=lambda other: (float(self._size[other]), other))
        return max(candidates, key=lambda other: (float(self._size[other]), -other))

    def _fits(self, vm: int, host: int) -> bool:
        allowed = self._rules.allowed(vm, self._board.place)[host]
        return bool(allowed) and fits_on_shelves(self._shelves, vm, host)

    def _fullest_that_fits(self, vm: int, but: int = NO_HOST) -> int:
        """Return the host with the least room that suffices, but not this one; NO_HOST if none."""
        allowed = self._rules.allowed(vm, self._board.place)
        count = find_fullest(self._shelves, vm, allowed, but)
        if not count:
            return NO_HOST
        return self._rules.preferred(vm, np.sort(self._shelves.fullest[:count]))

    def _move(self, vm: int, host: int) -> None:
        """Move a VM from any place to any place, or off the board."""
        if host != NO_HOST and self._board.count[host] == self._board.slots[host]:
            self._widen(host)
        move_on_shelves(self._shelves, vm, host)

    def _widen(self, host: int) -> None:
        """Provide more slots for a host's VMs."""
        if host != NO_HOST:
            self._board.widen(host)
            self._shelves = self._shelves._replace(rows=self._board.rows)

    def _restore(self, place: Ints) -> None:
        """Move all VMs to these places."""
        for vm in np.flatnonzero(self._board.place != place).tolist():
            self._move(vm, int(place[vm]))


def place_gangs(view: MarketView, board: Board, rules: HardConstraints) -> None:
    """Place the pending VMs of each limit order whose VMs all fit, by priority."""
    pending = np.flatnonzero((view.place == NO_HOST) & (rules.order != NO_ROW))
    if not len(pending):
        return
    gangs = GangBoard(view, board, rules)
    by_order = pending[np.argsort(-rules.priority[pending], kind="stable")]
    starts = np.flatnonzero(np.diff(rules.order[by_order])) + 1
    for vms in np.split(by_order, starts):
        gangs.take(vms)
