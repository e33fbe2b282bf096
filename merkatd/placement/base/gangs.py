"""Places for gangs: all VMs of a limit order get hosts at their full size, or none of them does.

The largest VM is placed first, on the host with the least room that suffices. So the hosts with
most room stay free for other large VMs. If a VM then has no host, and the VMs may not all use the
same hosts, it is placed first in another attempt. VMs that must be together go to a host with room
for all of them, if there is one. If there is no room, other VMs may make it: on the host that lacks
least, the smallest VM that suffices moves away, or else the largest.
"""

from collections.abc import Sequence
from functools import reduce

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.market.market_view import MarketView
from merkatd.placement.base.board import Board
from merkatd.placement.base.hard_constraints import HardConstraints
from merkatd.placement.base.host_shelves import (
    ATTEMPTS,
    NEARLY,
    SHELVES_PER_ROW,
    Shelves,
    fill_shelves,
    find_fullest,
    fits_on_shelves,
    keep_all,
    leave_all,
    move_on_shelves,
    sort_by_size,
    take_all,
)

_TRIED = 8
"""The most hosts on which room is made for a VM."""
_ON_SHELF = 16
"""The hosts on a shelf, about, if their room is spread evenly."""
_NONE: Ints = np.zeros(0, dtype=np.int64)


class GangBoard:
    """A board on which gangs take places."""

    def __init__(
        self, view: MarketView, board: Board, rules: HardConstraints, last: Ints = _NONE
    ) -> None:
        """The VMs `last` came to the board after the others, in this order."""
        self._view = view
        self._board = board
        self._floor: Floats = view.floor.copy()
        """What each VM takes from its host now: its floor, or less while it is only held there."""
        self._held: dict[int, tuple[int, Floats]] = {}
        """By VM that can't leave its host: the host, and what the VM keeps there in any case."""
        self._rules = rules
        self._free: Floats = view.capacity.copy()
        typical = np.maximum(view.capacity.max(axis=0, initial=0.0), 1.0)
        self._size: Floats = reduce(np.maximum, (view.floor / typical).T)
        self._typical = typical
        hosts, goods = self._free.shape
        shelves = max(hosts // _ON_SHELF, 16)
        self._shelves = Shelves(
            *(board.place, board.rows, board.start, board.count, board.slots, board.capacity),
            floor=self._floor,
            typical=typical,
            size=self._size,
            free=self._free,
            room=np.zeros(hosts),
            roomiest=np.zeros(hosts, dtype=np.int64),
            first=np.full((shelves, goods), NO_HOST),
            most=np.full((shelves, goods, goods), -np.inf),
            most_in_row=np.full((-(-shelves // SHELVES_PER_ROW), goods, goods), -np.inf),
            after=np.full(hosts, NO_HOST),
            before=np.full(hosts, NO_HOST),
            fullest=np.full(hosts, NO_HOST),
        )
        fill_shelves(self._shelves, last)

    def take(self, vms: Ints) -> bool:
        """Place all these VMs; if one fits nowhere, place none."""
        order = self._from_largest(vms)
        plain = self._rules.all_plain or self._rules.plain[vms].all()
        place = self._place if plain else self._place_by_rules
        for attempt in range(ATTEMPTS):
            self._lift(order)
            count = place(order)
            if count == len(order):
                return True
            self.leave(order)
            if count == 0 or (attempt == 0 and self._rules.alike(vms)):
                return False
            order = np.concatenate([order[count : count + 1], np.delete(order, count)])
        return False

    def _place(self, vms: Ints) -> int:
        """Place these VMs in this order until one fits nowhere; return how many are placed."""
        at, full = take_all(self._shelves, vms, 0, self._rules.classes, self._rules.requirement)
        while full != NO_HOST:
            self.widen(full)
            at, full = take_all(
                self._shelves, vms, at, self._rules.classes, self._rules.requirement
            )
        return at

    def _place_by_rules(self, vms: Ints) -> int:
        """Do as `_place` does, for VMs with roles or ranked hosts."""
        ordered = vms.tolist()
        for at, vm in enumerate(ordered):
            host = self._fullest_that_fits(vm, beside=ordered[at + 1 :])
            if host == NO_HOST:
                return at
            self._move(vm, host)
        return len(ordered)

    def hold(self, vms: Ints, floor: Floats) -> None:
        """Let these VMs keep at least this much on their hosts, whatever else happens."""
        for vm, least in zip(vms.tolist(), floor, strict=True):
            self._held[vm] = (int(self._board.place[vm]), least)
        self.leave(vms)

    def fill(self, vms: Ints) -> None:
        """Give VMs that are held their whole floor on their hosts, whether it fits or not."""
        for vm in vms.tolist():
            self._move(vm, self._held[vm][0])

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
        self._lift(vms)
        at = 0
        while at < len(vms):
            at, full = keep_all(self._shelves, vms, hosts, at)
            if at < len(vms) and full == NO_HOST:
                self.leave(vms)
                return False
            self.widen(full)
        return True

    def put(self, vms: Ints, hosts: Ints) -> None:
        """Place these VMs on these hosts, whether they fit there or not."""
        for vm, host in zip(vms.tolist(), hosts.tolist(), strict=True):
            self._move(vm, host)

    def hosts(self, vms: Ints) -> Ints:
        """Return the hosts of these VMs."""
        hosts: Ints = self._board.place[vms]
        return hosts

    def leave(self, vms: Ints) -> None:
        """Take these VMs off the board, except for what those that are held keep."""
        leave_all(self._shelves, vms)
        for vm in self._held_of(vms):
            self._move(vm, *self._held[vm])

    def _lift(self, vms: Ints) -> None:
        """Take those of these VMs that are held off the board, before they get a place."""
        for vm in self._held_of(vms):
            self._move(vm, NO_HOST)

    def _held_of(self, vms: Ints) -> list[int]:
        return [vm for vm in vms.tolist() if vm in self._held] if self._held else []

    def _from_largest(self, vms: Ints) -> Ints:
        ordered = vms.copy()
        sort_by_size(ordered, self._size)
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
        others = np.array(candidates)
        size, enough = (
            self._size[others],
            (self._view.floor[others] >= missing * NEARLY).all(axis=1),
        )
        if enough.any():
            size = np.where(enough, size, np.inf)
            return int(others[size == size.min()].min())
        return int(others[size == size.max()].min())

    def _fits(self, vm: int, host: int) -> bool:
        allowed = self._rules.allowed(vm, self._board.place)[host]
        return bool(allowed) and fits_on_shelves(self._shelves, vm, host)

    def _fullest_that_fits(self, vm: int, but: int = NO_HOST, beside: Sequence[int] = ()) -> int:
        """Return the host with the least room that suffices, but not this one; NO_HOST if none.

        Prefer hosts with room for those of the VMs `beside` that must be on the same host.
        """
        allowed, count = self._rules.allowed(vm, self._board.place), 0
        if self._rules.bound[vm]:
            partners = self._rules.partners(vm, np.array(beside, dtype=np.int64))
            needed = self._view.floor[[vm, *partners]].sum(axis=0)
            roomy = (self._free >= needed * NEARLY).all(axis=1)
            count = find_fullest(self._shelves, vm, allowed & roomy, but)
        count = count or find_fullest(self._shelves, vm, allowed, but)
        if not count:
            return NO_HOST
        return self._rules.preferred(vm, np.sort(self._shelves.fullest[:count]))

    def _move(self, vm: int, host: int, floor: Floats | None = None) -> None:
        """Move a VM from any place to any place, or off the board, with this or its own floor."""
        if self._held:
            move_on_shelves(self._shelves, vm, NO_HOST)
            self._floor[vm] = self._view.floor[vm] if floor is None else floor
        if host != NO_HOST and self._board.count[host] == self._board.slots[host]:
            self.widen(host)
        move_on_shelves(self._shelves, vm, host)

    @property
    def shelves(self) -> Shelves:
        """Return the hosts by their room, until a host gets more slots."""
        return self._shelves

    def widen(self, host: int) -> None:
        """Provide more slots for a host's VMs."""
        if host != NO_HOST:
            self._board.widen(host)
            self._shelves = self._shelves._replace(rows=self._board.rows)

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
