"""The hosts that limit orders take, without any shortcut: each order on the board, one by one."""

import numpy as np

from merkatd.cluster import Bools, Floats, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST
from merkatd.market.market_view import MarketView
from merkatd.placement.base.board import Board
from merkatd.placement.base.gangs import GangBoard
from merkatd.placement.base.hard_constraints import HardConstraints
from merkatd.placement.base.placement_problem import are_held
from merkatd.placement.market.orders.order_places import HOLD_S, OrderPlaces


class PlainPlaces(OrderPlaces):
    """The same rules, transcribed from Note [Orders and places]."""

    walk = None  # type: ignore[assignment]
    """The market looks at the orders one by one."""

    def __init__(self, snapshot: Snapshot, view: MarketView, members: Ints) -> None:
        super().__init__(snapshot, view, members)
        rules = HardConstraints(snapshot, view)
        others = view.place.copy()
        others[members] = NO_HOST
        self.then = GangBoard(view, Board(view, others), rules)
        self.now = GangBoard(view, Board(view, view.place), rules)
        self.alone = GangBoard(view, Board(view, others), rules)
        self.may_leave = view.movable & ~are_held(snapshot, HOLD_S)[view.vms] & ~rules.stays
        self.may_leave[members] = False
        self.may_ever_leave = self.may_leave.copy()
        self.ranked: list[int] = []
        self.with_hosts: set[int] = set()
        self.looked_at: list[int] = []

    def in_turns(self) -> None:
        """Keep nothing: each turn begins from the start."""

    def next_turn(self, snapshot: Snapshot, must_move: Bools, _changed: Bools) -> "PlainPlaces":
        """Return the orders before any takes hosts."""
        places = PlainPlaces(snapshot, self.view, self.members)
        places.ranked, places.must_move = self.ranked, must_move
        return places

    def parts(self, order: int) -> tuple[Ints, Ints]:
        """Return an order's VMs with a host, and those without."""
        vms = self.members[self.order == order]
        there = self.view.place[vms] != NO_HOST
        return vms[there], vms[~there]

    def coming(self) -> Ints:
        """Return the hosts of VMs that start later."""
        waits = self.later[self.order] & (self.view.place[self.members] == NO_HOST)
        return np.where(waits, self.then.hosts(self.members), NO_HOST)

    def taken(self, members: Bools) -> Ints:
        """Return the hosts of these members' VMs."""
        return self.then.hosts(self.members[members])

    def rank(self, height: Floats) -> None:
        """Note the orders from the lowest."""
        self.ranked = np.argsort(height, kind="stable").tolist()

    def take(self, order: int) -> bool:
        """Take hosts, and note it."""
        self.looked_at.append(order)
        takes = self.takes(order)
        self.with_hosts |= {order} if takes else set()
        return takes

    def takes(self, order: int) -> bool:
        """Keep the hosts of VMs that run, and take hosts for those that wait: now, or later."""
        there, waiting = self.parts(order)
        place, vms = self.view.place, np.sort(np.concatenate([there, waiting]))
        if self.must_move[order] or not self.then.keep(there, place[there]):
            if not self.view.movable[there].all() or not self.then.take(vms):
                return False
            self.leaving += there[self.then.hosts(there) != place[there]].tolist()
            self.later[order] = len(waiting) > 0
            return True
        if self.now.take(waiting):
            if self.then.keep(waiting, self.now.hosts(waiting)):
                return True
            self.now.leave(waiting)
        moved: list[int] | None = []
        if not self.take_from_lowest(waiting) and not self.then.take(waiting):
            moved = None
        if moved is None:
            moved = self.then.take_with_moves(waiting, self.may_leave)
        if moved is None:
            self.then.leave(there)
            return False
        self.later[order] = True
        self.leaving += moved
        self.may_leave[moved] = False
        return True

    def take_from_lowest(self, waiting: Ints) -> bool:
        """Take hosts that fit if as few orders leave as possible, from the lowest."""
        without_hosts = [order for order in self.ranked if order not in self.with_hosts]
        first = [order for order in without_hosts if order in self.looked_at]
        first += [order for order in without_hosts if order not in self.looked_at]
        first = [order for order in first if len(self.parts(order)[0])]
        tries = {
            count: self.fits_without(first[:count], waiting) for count in range(len(first) + 1)
        }
        count = 1
        while count < len(first) and tries[count] is None:
            count = min(2 * count, len(first))
        below = count // 2
        while count - below > 1:
            middle = (count + below) // 2
            below, count = (middle, count) if tries[middle] is None else (below, middle)
        hosts = tries.get(count) if first else None
        if hosts is None or not self.then.keep(waiting, hosts):
            return False
        self.now.put(waiting, hosts)
        return True

    def fits_without(self, orders: list[int], waiting: Ints) -> Ints | None:
        """Return hosts for these VMs where these orders have left."""
        for order in orders:
            self.now.leave(self.parts(order)[0])
        hosts = self.now.hosts(waiting).copy() if self.now.take(waiting) else None
        self.now.leave(waiting)
        for order in orders:
            there = self.parts(order)[0]
            self.now.put(there, self.view.place[there])
        return hosts

    def exist(self, order: int) -> bool:
        """Try all VMs of the order on the board without other orders."""
        self.looked_at.append(order)
        there, waiting = self.parts(order)
        vms = np.sort(np.concatenate([there, waiting]))
        if self.alone.keep(there, self.view.place[there]):
            exist = self.fit_alone(waiting)
        else:
            exist = bool(self.view.movable[there].all()) and self.fit_alone(vms)
        self.alone.leave(vms)
        return exist

    def fit_alone(self, vms: Ints) -> bool:
        """Place these VMs where VMs that bid may move; return success."""
        if self.alone.take(vms):
            return True
        moved = self.alone.take_with_moves(vms, self.may_ever_leave)
        if moved is None:
            return False
        self.alone.leave(vms)
        self.alone.put(np.array(moved, dtype=np.int64), self.view.place[moved])
        return True
