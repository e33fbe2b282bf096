"""The hosts that limit orders take, from the highest order to the lowest."""

from copy import copy
from functools import cached_property

import numpy as np

from merkatd.cluster import Bools, Floats, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST
from merkatd.cluster.orders import are_stuck, held_amounts
from merkatd.market.limit_orders import Walk
from merkatd.market.market_view import MarketView
from merkatd.market.share import narrow
from merkatd.placement.base.hard_constraints import HardConstraints
from merkatd.placement.base.placement_problem import are_held
from merkatd.placement.market.orders.lone_orders import LoneOrders, StuckVms, calm_hosts
from merkatd.placement.market.orders.order_boards import LastTurn, OrderBoards
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
    take_over,
    walk_calm,
    walk_on,
)
from merkatd.placement.market.orders.room_by_moves import RoomByMoves

_COPIED = 0.5, 0.75, 0.875
"""The parts of the walk after which the boards are copied for the next turn."""
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
        parts = self.order * 2 + (view.place[members] == NO_HOST)
        self._by_part = members[np.argsort(narrow(parts, 2 * len(self.orders)), kind="stable")]
        self._ends = np.append(0, np.cumsum(np.bincount(parts, minlength=2 * len(self.orders))))
        self._postponed = snapshot.orders.postponed[self.orders]
        self._lowest_first = np.arange(len(self.orders))
        self.must_move = np.zeros(len(self.orders), dtype=bool)
        """[orders]: whether some of its VMs must leave their hosts, or all of them wait."""
        rules = HardConstraints(snapshot, view)
        held = are_held(snapshot, HOLD_S)[view.vms]
        may_leave = view.movable & ~held & ~rules.stays
        may_leave[members] = False
        owner = snapshot.vms.owner[view.vms]
        self.stuck = np.zeros(len(view.vms), dtype=bool)
        """[VMs of the view]: whether a VM of an order stays on its host even if it is displaced."""
        self.stuck[members] = are_stuck(snapshot, view.vms[members])
        rows = np.flatnonzero(self.stuck)
        others = view.place.copy()
        others[members] = NO_HOST
        others[rows] = view.place[rows]
        stuck, alone = StuckVms(rows, held_amounts(snapshot, view.vms[rows])), may_leave.copy()
        lone = LoneOrders(
            view, rules, members, self.order, others, stuck, RoomByMoves(owner, alone)
        )
        none = np.zeros((3, len(self.orders)), dtype=bool)
        self._begin_with(
            OrderBoards(view, rules, others, stuck, RoomByMoves(owner, may_leave), lone, *none)
        )
        self._copies: list[tuple[int, OrderBoards]] = []
        """The places in the walk before which the boards were copied, and the copies."""
        self.last_turn: LastTurn | None = None
        self._walked: tuple[Ints, Walk | None]

    def _begin_with(self, boards: OrderBoards) -> None:
        self._boards, self.rules = boards, boards.rules
        self.later, self.leaving = boards.later, boards.leaving

    def rank(self, height: Floats) -> None:
        """Note the heights of the orders, before the first of them takes hosts."""
        self._lowest_first = np.argsort(height, kind="stable")

    @cached_property
    def _calm(self) -> Bools:
        """Return [orders]: whether its VMs all run, on hosts with room for all that run there.

        Such an order keeps its hosts, unless it must move, or VMs of others come to them.
        """
        calm = calm_hosts(self.view)[self.view.place[self.members]]
        return self._all(calm & ~self.stuck[self.members])

    def _all(self, marked: Bools) -> Bools:
        """Return [orders]: whether all VMs of the order are marked; `marked` is [members]."""
        all_marked: Bools = np.bincount(self.order[~marked], minlength=len(self.orders)) == 0
        return all_marked

    def _vms(self, order: int) -> tuple[Ints, Ints]:
        """Return the rows of an order's VMs in the view: those with a host, and those without."""
        first, waiting, end = self._ends[2 * order : 2 * order + 3]
        return self._by_part[first:waiting], self._by_part[waiting:end]

    def _running(self, orders: Ints) -> Ints:
        """Return the rows of the VMs of these orders that have a host, order by order."""
        first, behind = self._ends[2 * orders], self._ends[2 * orders + 1]
        ends = np.cumsum(behind - first)
        at = np.arange(ends[-1:].sum()) + np.repeat(behind - ends, behind - first)
        vms: Ints = self._by_part[at]
        return vms

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
        by_priority = pending[np.argsort(-self.rules.priority[pending], kind="stable")]
        placed: Ints = by_priority[[self._boards.now.take(vm) for vm in by_priority[:, np.newaxis]]]
        place[placed] = self._boards.now.hosts(placed)
        self._boards.now.leave(placed)
        return place

    def coming(self) -> Ints:
        """Return, for each member, the host on which it starts once others have left; NO_HOST."""
        if not self.later.any():
            return np.full(len(self.members), NO_HOST)
        waits = self.later[self.order] & (self.view.place[self.members] == NO_HOST)
        return np.where(waits, self._boards.then.hosts(self.members), NO_HOST)

    def taken(self, members: Bools) -> Ints:
        """Return the hosts of these members' VMs once the orders have taken their places."""
        vms = self.members[members]
        return self._boards.then.hosts(vms) if self._boards.arrivals else self.view.place[vms]

    def going(self) -> Ints:
        """Return, for each VM that must leave its host, the host to which it must go."""
        if not self.leaving:
            return np.zeros(0, dtype=np.int64)
        return self._boards.then.hosts(np.array(self.leaving, dtype=np.int64))

    def in_turns(self) -> None:
        """Keep copies of the boards, before any order takes hosts (Note [Boards of a turn])."""
        self._copies = [(0, self._boards.copy(self.rules))]
        self._walked = np.zeros(0, dtype=np.int64), None

    def next_turn(self, snapshot: Snapshot, must_move: Bools, changed: Bools) -> "OrderPlaces":
        """Return the orders before they take hosts again.

        In the snapshot, the VMs of orders may have other requirements. `changed` is [orders]:
        whether these, or `must_move`, differ from those of this turn.
        """
        places = copy(self)
        places.must_move, places.rules = must_move, HardConstraints(snapshot, self.view)
        places.last_turn = LastTurn(*self._walked, changed)
        return places

    def walk(self, ranked: Ints, bundle: Floats, room: Floats) -> Walk:
        """Look at these orders from the highest, and take hosts; see `OrderBook.walk`."""
        begin = self._begin(ranked)
        walk = self._walk_of(ranked, bundle, room)
        if self.last_turn is not None:
            take_over(walk, begin, self.last_turn.walk)
        for part in _COPIED if self._copies else ():
            if begin < (place := int(len(ranked) * part)):
                self._walk_to(walk._replace(ranked=ranked[:place]))
                self._copies.append((place, self._boards.copy(self.rules)))
        self._walk_to(walk)
        result = Walk(walk.runs, walk.placeless, walk.exist, walk.before, walk.lacking)
        self._walked = ranked, result
        return result

    def _begin(self, ranked: Ints) -> int:
        """Take over the boards before the first order that differs from the last turn.

        Return its place in the walk.
        """
        before = self.last_turn
        if before is None:
            return 0
        count = min(len(ranked), len(before.ranked))
        differ = (ranked[:count] != before.ranked[:count]) | before.changed[ranked[:count]]
        same = int(differ.argmax()) if differ.any() else count
        self._copies = [each for each in self._copies if each[0] <= same]
        place, boards = self._copies[-1]
        self._begin_with(boards.copy(self.rules))
        return place

    def _walk_to(self, walk: OrderWalk) -> None:
        """Look at the orders that this walk has left."""
        while (answer := self._walk_on(walk)) != DONE:
            self._go_on(walk, answer)

    def _walk_on(self, walk: OrderWalk) -> int:
        """Look at the next orders by machine code; return why the walk stops."""
        boards = self._boards
        if not boards.arrivals:
            return walk_calm(walk)
        answer = walk_on(walk, boards.then.shelves, boards.now.shelves)
        boards.leaving += walk.leaving[: walk.state[LEFT]].tolist()
        walk.state[LEFT] = 0
        return answer

    def _walk_of(self, ranked: Ints, bundle: Floats, room: Floats) -> OrderWalk:
        """Return the orders before the first look at one."""
        members, rules, (count, goods) = self.members, self.rules, bundle.shape
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
            calm=self._calm & ~self.must_move,
            surely=np.zeros(len(self.orders), dtype=bool),
            plain=self._all(rules.plain[members] & ~self.stuck[members]) & ~self.must_move,
            movable=self._all(~stays),
            postponed=self._postponed,
            later=self.later,
            seen=self._boards.seen,
            takes_part=self._boards.takes_part,
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
            self._boards.kept = [self._running(calm)]
            self._boards.arrivals = True
        elif answer in (WIDEN_THEN, WIDEN_NOW):
            board = self._boards.then if answer == WIDEN_THEN else self._boards.now
            board.widen(int(walk.state[HOST]))
        elif answer == EXISTS:
            walk.surely[:] = self._boards.lone.surely
            exists = self.exist(order)
            note_look(walk, lacks, lacks and exists, exists)
        else:
            took = self.take(order) if answer == WHOLE else self._start_later(order)
            self._boards.takes_part[order] = took
            note_look(walk, False, took, took or self.exist(order))

    def take(self, order: int) -> bool:
        """Take hosts for the VMs of an order; return whether there are any."""
        self._boards.seen[order] = True
        self._boards.takes_part[order] = took = self._take(order)
        return took

    def _take(self, order: int) -> bool:
        there, waiting = self._vms(order)
        keeps = not self.must_move[order]
        if keeps and self._calm[order] and not self._boards.arrivals:
            self._boards.kept.append(there)
            return True
        if keeps and self._boards.then.keep(there, self.view.place[there]):
            if self.stuck[there].any():
                self._boards.now.fill(there[self.stuck[there]])
            if not len(waiting):
                return True
            took = self._start(order, waiting)
        else:
            took = self._move_all(order)
        self._boards.arrivals |= took
        return took

    def exist(self, order: int) -> bool:
        """Return whether there are hosts for the VMs of an order without all other orders."""
        self._boards.seen[order] = True
        return self._boards.lone.fits(order, *self._vms(order))

    @property
    def surely_exist(self) -> Bools:
        """Return [orders]: whether `exist` is known to be true, without a search."""
        return self._boards.lone.surely

    def _start(self, order: int, waiting: Ints) -> bool:
        """Take hosts for the waiting VMs of an order beside its others; return success."""
        if self._boards.now.take(waiting):
            if self._boards.then.keep(waiting, self._boards.now.hosts(waiting)):
                self.later[order] = self._postponed[order]
                return True
            self._boards.now.leave(waiting)
        return self._start_later(order)

    def _start_later(self, order: int) -> bool:
        """Take hosts on which waiting VMs have room once others have left; return success."""
        there, waiting = self._vms(order)
        self.later[order] = True
        if self._boards.take_from_lowest(
            waiting, self._running_lowest_first, self._that_can_leave
        ) or self._boards.then.take(waiting):
            return True
        moved = self._boards.moves.take(self._boards.then, waiting)
        if moved is not None:
            self.leaving += moved
            self._boards.moves.may_leave[moved] = False
            return True
        self.later[order] = False
        self._boards.then.leave(there)
        return False

    @cached_property
    def _running_lowest_first(self) -> Ints:
        """Return the orders with VMs that run, from the lowest."""
        runs = np.diff(self._ends)[::2] > 0
        return self._lowest_first[runs[self._lowest_first]]

    def _that_can_leave(self, orders: Ints) -> Ints:
        """Return the VMs of these orders that have a host and can leave it."""
        vms: Ints = np.concatenate([self._vms(order)[0] for order in orders.tolist()])
        return vms[~self.stuck[vms]]

    def _move_all(self, order: int) -> bool:
        """Take other hosts for an order whose VMs have no room where they are; return success."""
        there, waiting = self._vms(order)
        vms = np.sort(np.concatenate([there, waiting]))
        if not self.view.movable[there].all() or not self._boards.then.take(vms):
            return False
        self.leaving += there[self._boards.then.hosts(there) != self.view.place[there]].tolist()
        self.later[order] = len(waiting) > 0
        return True
