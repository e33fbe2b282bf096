"""The hosts that limit orders take, from the highest order to the lowest."""

from functools import cached_property

import numpy as np

from merkatd.cluster import Bools, Floats, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST
from merkatd.cluster.orders import are_stuck, held_amounts
from merkatd.market.limit_orders import Walk
from merkatd.market.market_view import MarketView
from merkatd.market.share import narrow
from merkatd.placement.base.board import Board
from merkatd.placement.base.gangs import GangBoard
from merkatd.placement.base.hard_constraints import HardConstraints
from merkatd.placement.base.placement_problem import are_held
from merkatd.placement.market.orders.lone_orders import LoneOrders, StuckVms, calm_hosts
from merkatd.placement.market.orders.order_walk import (
    AT,
    BOARDS,
    DONE,
    EXISTS,
    HOST,
    LEFT,
    LOOK,
    PART,
    WHOLE,
    WIDEN_NOW,
    WIDEN_THEN,
    OrderWalk,
    note_look,
    walk_calm,
    walk_on,
)
from merkatd.placement.market.orders.room_by_moves import RoomByMoves

HOLD_S = 600.0
"""The time after a migration for which a VM makes no room for orders."""


class OrderPlaces:
    """The orders of a market, and the places that they take."""

    def __init__(self, snapshot: Snapshot, view: MarketView, members: Ints) -> None:
        """`members` are the rows in the view of the VMs in orders."""
        self.view, self.members = view, members
        order = snapshot.vms.order[view.vms[members]]
        known = np.bincount(order) > 0
        self.orders, self.order = np.flatnonzero(known), (np.cumsum(known) - 1)[order]
        """Rows of the snapshot's orders, and the order of each member."""
        waits = view.place[members] == NO_HOST
        parts = self.order * 2 + waits
        self._by_part = members[np.argsort(narrow(parts, 2 * len(self.orders)), kind="stable")]
        counts = np.bincount(parts, minlength=2 * len(self.orders))
        self._ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        self._postponed = snapshot.orders.postponed[self.orders]
        self.later = np.zeros(len(self.orders), dtype=bool)
        """[orders]: whether it gets its hosts only once other VMs have left."""
        self.leaving: list[int] = []
        """The rows of running VMs that must leave their hosts to make room."""
        self._lowest_first = np.arange(len(self.orders))
        self._seen = np.zeros(len(self.orders), dtype=bool)
        self._takes_part = np.zeros(len(self.orders), dtype=bool)
        """[orders]: whether it has been looked at, and whether it has hosts since then."""
        self.must_move = np.zeros(len(self.orders), dtype=bool)
        """[orders]: whether some of its VMs must leave their hosts, or all of them wait."""
        rules = HardConstraints(snapshot, view)
        self._priority = rules.priority
        held = are_held(snapshot, HOLD_S)[view.vms]
        may_leave = view.movable & ~held & ~rules.stays
        may_leave[members] = False
        self._moves = RoomByMoves(snapshot.vms.owner[view.vms], may_leave)
        self.stuck = np.zeros(len(view.vms), dtype=bool)
        """[VMs of the view]: whether a VM of an order stays on its host even if it is displaced."""
        self.stuck[members] = are_stuck(snapshot, view.vms[members])
        stuck = np.flatnonzero(self.stuck)
        others = view.place.copy()
        others[members] = NO_HOST
        others[stuck] = view.place[stuck]
        self.rules, self._others = rules, others
        self._stuck = StuckVms(stuck, held_amounts(snapshot, view.vms[stuck]))
        self._kept: list[Ints] = []
        self._arrivals = False
        alone = RoomByMoves(self._moves.owner, may_leave.copy())
        self._lone = LoneOrders(view, rules, members, self.order, others, self._stuck, alone)

    def rank(self, height: Floats) -> None:
        """Note the heights of the orders, before the first of them takes hosts."""
        self._lowest_first = np.argsort(height, kind="stable")

    @property
    def _then(self) -> GangBoard:
        """Return the board with the VMs that are in no order, and those of the orders so far.

        Orders that surely keep their hosts are put there together, once the board is needed.
        """
        board = self._board
        if self._kept:
            kept = np.concatenate(self._kept)
            self._kept.clear()
            board.keep(kept, self.view.place[kept])
        return board

    @cached_property
    def _board(self) -> GangBoard:
        return self._board_of(self._others)

    @cached_property
    def _calm(self) -> Bools:
        """Return [orders]: whether its VMs all run, on hosts with room for all that run there.

        Such an order keeps its hosts, unless VMs of others come to them.
        """
        calm = calm_hosts(self.view)[self.view.place[self.members]]
        return self._all(calm & ~self.stuck[self.members]) & ~self.must_move

    def _all(self, marked: Bools) -> Bools:
        """Return [orders]: whether all VMs of the order are marked; `marked` is [members]."""
        others = np.bincount(self.order[~marked], minlength=len(self.orders))
        all_marked: Bools = others == 0
        return all_marked

    @cached_property
    def _now(self) -> GangBoard:
        return self._board_of(self.view.place)

    def _board_of(self, place: Ints) -> GangBoard:
        running = np.bincount(
            self.view.place[self.view.place != NO_HOST], minlength=len(self.view.hosts)
        )
        board = GangBoard(self.view, Board(self.view, place, running), self.rules)
        board.hold(*self._stuck)
        return board

    def _vms(self, order: int) -> tuple[Ints, Ints]:
        """Return the rows of an order's VMs in the view: those with a host, and those without."""
        first, waiting, end = self._ends[2 * order : 2 * order + 3]
        return self._by_part[first:waiting], self._by_part[waiting:end]

    def bidding(self) -> Ints:
        """Return the host of each VM that bids: where it is, or where it would start now.

        VMs that wait get hosts beside all VMs that have one, so that all of them fit together.
        """
        place = self.view.place.copy()
        place[self.members] = NO_HOST
        waits = (self.view.place == NO_HOST) & (self.view.bid > 0).any(axis=1)
        waits[self.members] = False
        if not len(self.view.hosts) or not waits.any():
            return place
        pending = np.flatnonzero(waits)
        by_priority = pending[np.argsort(-self._priority[pending], kind="stable")]
        gets_one = [self._now.take(vm) for vm in by_priority[:, np.newaxis]]
        placed: Ints = by_priority[np.array(gets_one, dtype=bool)]
        place[placed] = self._now.hosts(placed)
        self._now.leave(placed)
        return place

    def coming(self) -> Ints:
        """Return, for each member, the host on which it starts once others have left; NO_HOST."""
        if not self.later.any():
            return np.full(len(self.members), NO_HOST)
        waits = self.later[self.order] & (self.view.place[self.members] == NO_HOST)
        return np.where(waits, self._then.hosts(self.members), NO_HOST)

    def taken(self, members: Bools) -> Ints:
        """Return the hosts of these members' VMs once the orders have taken their places."""
        vms = self.members[members]
        return self._then.hosts(vms) if self._arrivals else self.view.place[vms]

    def going(self) -> Ints:
        """Return, for each VM that must leave its host, the host to which it must go."""
        if not self.leaving:
            return np.zeros(0, dtype=np.int64)
        return self._then.hosts(np.array(self.leaving, dtype=np.int64))

    def walk(self, ranked: Ints, bundle: Floats, room: Floats) -> Walk:
        """Look at these orders from the highest, and take hosts; see `OrderBook.walk`."""
        walk = self._walk_of(ranked, bundle, room)
        answer = walk_calm(walk)
        while answer != DONE:
            self._go_on(walk, answer)
            if self._arrivals:
                answer = walk_on(walk, self._then.shelves, self._now.shelves)
                self.leaving += walk.leaving[: walk.state[LEFT]].tolist()
                walk.state[LEFT] = 0
            else:
                answer = walk_calm(walk)
        return Walk(walk.runs, walk.placeless, walk.exist, walk.before, walk.lacking)

    def _walk_of(self, ranked: Ints, bundle: Floats, room: Floats) -> OrderWalk:
        """Return the orders before the first look at one."""
        members, rules, (count, goods) = self.members, self.rules, bundle.shape
        required = rules.requirement[members]
        first = np.zeros(len(self.orders), dtype=np.int64)
        first[self.order] = required
        alike = required == first[self.order]
        stays = (self.view.place[members] != NO_HOST) & ~self.view.movable[members]
        found = np.zeros((3, count), dtype=bool)
        space = np.zeros((3, len(members)), dtype=np.int64)
        return OrderWalk(
            ranked=ranked,
            bundle=bundle,
            room=room,
            runs=found[0],
            placeless=found[1],
            exist=found[2],
            before=np.zeros((count + 1, goods)),
            lacking=np.full(goods, count),
            calm=self._calm,
            surely=np.zeros(len(self.orders), dtype=bool),
            plain=self._all(rules.plain[members] & ~self.stuck[members] & alike) & ~self.must_move,
            movable=self._all(~stays),
            postponed=self._postponed,
            later=self.later,
            seen=self._seen,
            takes_part=self._takes_part,
            by_part=self._by_part,
            hosts=self.view.place[self._by_part],
            ends=self._ends,
            classes=rules.classes,
            requirement=rules.requirement,
            state=np.zeros(LEFT + 1, dtype=np.int64),
            leaving=space[0],
            vms=space[1],
            to=space[2],
        )

    def _go_on(self, walk: OrderWalk, answer: int) -> None:
        """Do what the machine code does not, so that the walk can go on."""
        order, lacks = int(walk.ranked[walk.state[AT]]), walk.state[PART] == LOOK
        if answer == BOARDS:
            calm = walk.ranked[: walk.state[AT]][walk.runs[: walk.state[AT]]]
            self._kept = [self._vms(each)[0] for each in calm.tolist()]
            self._arrivals = True
        elif answer in (WIDEN_THEN, WIDEN_NOW):
            (self._then if answer == WIDEN_THEN else self._now).widen(int(walk.state[HOST]))
        elif answer == EXISTS:
            walk.surely[:] = self._lone.surely
            exists = self.exist(order)
            note_look(walk, lacks, lacks and exists, exists)
        else:
            took = self.take(order) if answer == WHOLE else self._start_later(order)
            self._takes_part[order] = took
            note_look(walk, False, took, took or self.exist(order))

    def take(self, order: int) -> bool:
        """Take hosts for the VMs of an order; return whether there are any."""
        self._seen[order] = True
        self._takes_part[order] = took = self._take(order)
        return took

    def _take(self, order: int) -> bool:
        there, waiting = self._vms(order)
        if self._calm[order] and not self._arrivals:
            self._kept.append(there)
            return True
        if not self.must_move[order] and self._then.keep(there, self.view.place[there]):
            if self.stuck[there].any():
                self._now.fill(there[self.stuck[there]])
            if not len(waiting):
                return True
            took = self._start(order, waiting)
        else:
            took = self._move_all(order)
        self._arrivals |= took
        return took

    def exist(self, order: int) -> bool:
        """Return whether there are hosts for the VMs of an order without all other orders."""
        self._seen[order] = True
        return self._lone.fits(order, *self._vms(order))

    def _start(self, order: int, waiting: Ints) -> bool:
        """Take hosts for the waiting VMs of an order beside its others; return success."""
        if self._now.take(waiting):
            if self._then.keep(waiting, self._now.hosts(waiting)):
                self.later[order] = self._postponed[order]
                return True
            self._now.leave(waiting)
        return self._start_later(order)

    def _start_later(self, order: int) -> bool:
        """Take hosts on which waiting VMs have room once others have left; return success."""
        there, waiting = self._vms(order)
        self.later[order] = True
        if self._take_from_lowest(waiting) or self._then.take(waiting):
            return True
        moved = self._moves.take(self._then, waiting)
        if moved is not None:
            self.leaving += moved
            self._moves.may_leave[moved] = False
            return True
        self.later[order] = False
        self._then.leave(there)
        return False

    def _take_from_lowest(self, waiting: Ints) -> bool:
        """Take hosts that fit if as few orders leave as possible, from the lowest; return success.

        So a higher order need not move, or leave because it can't move now.
        """
        first_to_leave = self._first_to_leave()
        failed, count, hosts = 0, 1, None
        while hosts is None and failed < len(first_to_leave):
            count = min(count, len(first_to_leave))
            hosts = self._hosts_without(first_to_leave[:count], waiting)
            failed, count = (count, 2 * count) if hosts is None else (failed, count)
        while hosts is not None and count - failed > 1:
            middle = (failed + count) // 2
            fewer = self._hosts_without(first_to_leave[:middle], waiting)
            failed, count = (middle, count) if fewer is None else (failed, middle)
            hosts = hosts if fewer is None else fewer
        if hosts is None or not self._then.keep(waiting, hosts):
            return False
        self._now.put(waiting, hosts)
        return True

    def _first_to_leave(self) -> Ints:
        """Return the running orders without hosts so far: those that leave, then the lowest."""
        rest = self._running_lowest_first
        rest = rest[~self._takes_part[rest]]
        seen = self._seen[rest]
        return np.concatenate([rest[seen], rest[~seen]])

    @cached_property
    def _running_lowest_first(self) -> Ints:
        """Return the orders with VMs that run, from the lowest."""
        runs = np.diff(self._ends)[::2] > 0
        return self._lowest_first[runs[self._lowest_first]]

    def _hosts_without(self, orders: Ints, waiting: Ints) -> Ints | None:
        """Return hosts for waiting VMs where these orders have left; None if there are none."""
        leave = np.concatenate([self._vms(order)[0] for order in orders.tolist()])
        leave = leave[~self.stuck[leave]]
        self._now.leave(leave)
        hosts = self._now.hosts(waiting).copy() if self._now.take(waiting) else None
        self._now.leave(waiting)
        self._now.put(leave, self.view.place[leave])
        return hosts

    def _move_all(self, order: int) -> bool:
        """Take other hosts for an order whose VMs have no room where they are; return success."""
        there, waiting = self._vms(order)
        vms = np.sort(np.concatenate([there, waiting]))
        if not self.view.movable[there].all() or not self._then.take(vms):
            return False
        self.leaving += there[self._then.hosts(there) != self.view.place[there]].tolist()
        self.later[order] = len(waiting) > 0
        return True
