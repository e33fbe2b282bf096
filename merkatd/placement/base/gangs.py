"""Places for gangs: all VMs of a limit order get hosts at their full size, or none of them does.

The largest VM is placed first, on the host with the least room that suffices. So the hosts with
most room stay free for other large VMs. If a VM then has no host, and the VMs may not all use the
same hosts, it is placed first in another attempt. VMs that must be together go to a host with room
for all of them, if there is one. If there is no room, other VMs may make it: on the host that lacks
least, the smallest VM that suffices moves away, or else the largest.
"""

from collections.abc import Iterable, Sequence

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
_ATTEMPTS = 8
"""The most attempts to place a gang, each with another VM first."""


class GangBoard:
    """A board on which gangs take places."""

    def __init__(self, view: MarketView, board: Board, rules: HardConstraints) -> None:
        self._view = view
        self._board = board
        self._floor: Floats = view.floor.copy()
        """What each VM takes from its host now: its floor, or less while it is only held there."""
        self._held: dict[int, tuple[int, Floats]] = {}
        """By VM that can't leave its host: the host, and what the VM keeps there in any case."""
        self._rules = rules
        there = board.place != NO_HOST
        self._free: Floats = view.capacity.copy()
        np.subtract.at(self._free, board.place[there], view.floor[there])
        typical = np.maximum(view.capacity.max(axis=0, initial=0.0), 1.0)
        self._size: Floats = (view.floor / typical).max(axis=1)
        self._typical = typical

    def take(self, vms: Ints) -> bool:
        """Place all these VMs; if one fits nowhere, place none."""
        order = self._from_largest(vms)
        for _ in range(1 if self._rules.alike(vms) else _ATTEMPTS):
            failed = self._place(order)
            if failed is None:
                return True
            self.leave(vms)
            if failed == order[0]:
                return False
            order.remove(failed)
            order.insert(0, failed)
        return False

    def _place(self, vms: list[int]) -> int | None:
        """Place these VMs in this order; return the first that fits nowhere, None if all fit."""
        self._lift(vms)
        for at, vm in enumerate(vms):
            host = self._fullest_that_fits(vm, beside=vms[at + 1 :])
            if host == NO_HOST:
                return vm
            self._move(vm, host)
        return None

    def hold(self, vms: Ints, floor: Floats) -> None:
        """Let these VMs keep at least this much on their hosts, whatever else happens."""
        for vm, least in zip(vms.tolist(), floor, strict=True):
            self._held[vm] = (int(self._board.place[vm]), least)
        self.leave(vms)

    def fill(self, vms: Iterable[int]) -> None:
        """Give VMs that are held their whole floor on their hosts, whether it fits or not."""
        for vm in vms:
            self._move(vm, self._held[vm][0])

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
        self._lift(vms.tolist())
        for vm, host in zip(vms.tolist(), hosts.tolist(), strict=True):
            if (self._free[host] < self._view.floor[vm] * _NEARLY).any():
                self.leave(vms)
                return False
            self._move(vm, host)
        return True

    def hosts(self, vms: Ints) -> Ints:
        """Return the hosts of these VMs."""
        hosts: Ints = self._board.place[vms]
        return hosts

    def leave(self, vms: Iterable[int]) -> None:
        """Take these VMs off the board, except for what those that are held keep."""
        for vm in vms:
            host, least = self._held.get(int(vm), (NO_HOST, None))
            self._move(int(vm), host, least)

    def _lift(self, vms: list[int]) -> None:
        """Take those of these VMs that are held off the board, before they get a place."""
        for vm in self._held.keys() & vms:
            self._move(vm, NO_HOST)

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
            self._floor,
        )
        return fitting

    def _fullest_that_fits(self, vm: int, but: int = NO_HOST, beside: Sequence[int] = ()) -> int:
        """Return the host with the least room that suffices, but not this one; NO_HOST if none.

        Prefer hosts with room for those of the VMs `beside` that must be on the same host.
        """
        hosts = np.flatnonzero(self._where_fits(vm))
        hosts = hosts[hosts != but]
        if not len(hosts):
            return NO_HOST
        if self._rules.bound[vm]:
            partners = self._rules.partners(vm, np.array(beside, dtype=np.int64))
            needed = self._view.floor[[vm, *partners]].sum(axis=0)
            roomy = hosts[(self._free[hosts] >= needed * _NEARLY).all(axis=1)]
            hosts = roomy if len(roomy) else hosts
        room = (self._free[hosts] / self._typical).max(axis=1)
        return self._rules.preferred(vm, hosts[room == room.min()])

    def _move(self, vm: int, host: int, floor: Floats | None = None) -> None:
        """Move a VM from any place to any place, or off the board, with this or its own floor."""
        source = int(self._board.place[vm])
        if source != NO_HOST:
            self._free[source] += self._floor[vm]
        self._floor[vm] = self._view.floor[vm] if floor is None else floor
        if host != NO_HOST:
            self._free[host] -= self._floor[vm]
        self._board.move(vm, host)

    def _restore(self, place: Ints) -> None:
        """Move all VMs to these places."""
        for vm in np.flatnonzero(self._board.place != place).tolist():
            self._move(vm, int(place[vm]))


def starting_gangs(view: MarketView, rules: HardConstraints) -> Bools:
    """Return [vms]: whether the VM waits for a host and is in a limit order."""
    starting: Bools = (view.place == NO_HOST) & (rules.order != NO_ROW)
    return starting


def place_gangs(view: MarketView, board: Board, rules: HardConstraints) -> None:
    """Place the pending VMs of each limit order whose VMs all fit, by priority."""
    pending = np.flatnonzero(starting_gangs(view, rules))
    if not len(pending):
        return
    gangs = GangBoard(view, board, rules)
    by_order = pending[np.argsort(-rules.priority[pending], kind="stable")]
    starts = np.flatnonzero(np.diff(rules.order[by_order])) + 1
    for vms in np.split(by_order, starts):
        gangs.take(vms)
