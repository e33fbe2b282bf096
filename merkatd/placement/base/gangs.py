"""Places for gangs: all VMs of a limit order get hosts at their full size, or none of them does.

The largest VM is placed first, on the host with the least room that suffices. So the hosts with
most room stay free for other large VMs. If there is no room, other VMs may make it: on the host
that lacks least, the smallest VM that suffices moves away, or else the largest.
"""

from collections.abc import Iterable

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.market.market_view import MarketView
from merkatd.placement.base.board import Board, where_floors_fit
from merkatd.placement.base.hard_constraints import HardConstraints

_NEARLY = 1.0 - 1e-9
"""The part of a floor that must fit where a VM is already: sums of floors have rounding errors."""
_TRIED = 8
"""The most hosts on which room is made for a VM."""


class GangBoard:
    """A board on which gangs take places."""

    def __init__(self, view: MarketView, board: Board, rules: HardConstraints) -> None:
        self._view = view
        self._board = board
        self._rules = rules
        there = board.place != NO_HOST
        self._free: Floats = view.capacity.copy()
        np.subtract.at(self._free, board.place[there], view.floor[there])
        typical = np.maximum(view.capacity.max(axis=0, initial=0.0), 1.0)
        self._size: Floats = (view.floor / typical).max(axis=1)
        self._typical = typical

    def take(self, vms: Ints) -> bool:
        """Place all these VMs; if one fits nowhere, place none."""
        for vm in self._from_largest(vms):
            host = self._fullest_that_fits(vm)
            if host == NO_HOST:
                self.leave(vms[self._board.place[vms] != NO_HOST])
                return False
            self._move(vm, host)
        return True

    def take_with_moves(self, vms: Ints, may_leave: Bools) -> list[int] | None:
        """Place all these VMs where others make room; return those, or None if it can't be done.

        `may_leave` is [vms]: whether a VM may get another host.
        """
        before, may = self._board.place.copy(), may_leave.copy()
        for vm in self._from_largest(vms):
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
        for vm, host in zip(vms.tolist(), hosts.tolist(), strict=True):
            if (self._free[host] < self._view.floor[vm] * _NEARLY).any():
                self.leave(vms[self._board.place[vms] != NO_HOST])
                return False
            self._move(vm, host)
        return True

    def hosts(self, vms: Ints) -> Ints:
        """Return the hosts of these VMs."""
        hosts: Ints = self._board.place[vms]
        return hosts

    def leave(self, vms: Iterable[int]) -> None:
        """Take these VMs off the board."""
        for vm in vms:
            self._move(int(vm), NO_HOST)

    def _from_largest(self, vms: Ints) -> list[int]:
        ordered: list[int] = vms[np.argsort(-self._size[vms], kind="stable")].tolist()
        return ordered

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
            other for other in candidates if (self._view.floor[other] >= missing * _NEARLY).all()
        ]
        if enough:
            return min(enough, key=lambda other: (float(self._size[other]), other))
        return max(candidates, key=lambda other: (float(self._size[other]), -other))

    def _fits(self, vm: int, host: int) -> bool:
        return bool(self._where_fits(vm)[host])

    def _where_fits(self, vm: int) -> Bools:
        board = self._board
        fitting: Bools = where_floors_fit(
            vm,
            self._rules.allowed(vm, board.place),
            board.rows,
            board.start,
            board.count,
            board.capacity,
            self._view.floor,
        )
        return fitting

    def _fullest_that_fits(self, vm: int, but: int = NO_HOST) -> int:
        """Return the host with the least room that suffices, but not this one; NO_HOST if none."""
        hosts = np.flatnonzero(self._where_fits(vm))
        hosts = hosts[hosts != but]
        if not len(hosts):
            return NO_HOST
        room = (self._free[hosts] / self._typical).max(axis=1)
        return self._rules.preferred(vm, hosts[room == room.min()])

    def _move(self, vm: int, host: int) -> None:
        """Move a VM from any place to any place, or off the board."""
        floor, source = self._view.floor[vm], int(self._board.place[vm])
        if source != NO_HOST:
            self._free[source] += floor
        if host != NO_HOST:
            self._free[host] -= floor
        self._board.move(vm, host)

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
