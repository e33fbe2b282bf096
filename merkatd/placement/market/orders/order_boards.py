"""The boards on which limit orders take hosts, and all that changes as they take them.

# Note [Boards of a turn]

With local markets the orders take hosts in several turns (Note [Orders in local markets] in
`local_clearing.py`), and most turns differ from the last one in a few low orders only. All orders
above the first such order get the hosts that they got before. So a walk keeps copies of its boards
at some places, and the next turn begins at the last copy above the first order that differs.

Example: 3,000 orders, and copies before orders 1,500, 2,250 and 2,625. In the next turn the 2,400th
order is left out. The walk begins at the 2,250th.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from merkatd.cluster import Bools, Ints
from merkatd.cluster.columns import NO_HOST
from merkatd.market.limit_orders import Walk
from merkatd.market.market_view import MarketView
from merkatd.placement.base.board import Board
from merkatd.placement.base.gangs import GangBoard
from merkatd.placement.base.hard_constraints import HardConstraints
from merkatd.placement.market.orders.lone_orders import LoneOrders, StuckVms
from merkatd.placement.market.orders.room_by_moves import RoomByMoves

_NONE: Ints = np.zeros(0, dtype=np.int64)


class LastTurn(NamedTuple):
    """The orders of a walk and its result, and the orders that differ in the next turn."""

    ranked: Ints
    walk: Walk | None
    """None before the first walk."""
    changed: Bools
    """[orders]"""


@dataclass
class OrderBoards:
    """The boards, and the orders that have hosts on them."""

    view: MarketView
    rules: HardConstraints
    others: Ints
    """[VMs of the view]: the host of each VM that is in no order, or can't leave; else NO_HOST."""
    stuck: StuckVms
    moves: RoomByMoves
    lone: LoneOrders
    later: Bools
    """[orders]: whether it gets its hosts only once other VMs have left."""
    seen: Bools
    takes_part: Bools
    """[orders]: whether it has been looked at, and whether it has hosts since then."""
    leaving: list[int] = field(default_factory=list)
    """The rows of running VMs that must leave their hosts to make room."""
    kept: list[Ints] = field(default_factory=list)
    """VMs that surely keep their hosts, and are not yet on the board of later."""
    arrivals: bool = False
    """Whether an order has got other hosts than it had."""
    _board: GangBoard | None = None

    def copy(self, rules: HardConstraints) -> "OrderBoards":
        """Return a copy that changes on its own, under rules that allow VMs in no order the same.

        The walk so far must be the same under these rules.
        """
        same = self.view, self.others, self.stuck
        known: dict[int, Any] = {id(self.rules): rules, **{id(each): each for each in same}}
        known |= {id(self.lone): self.lone.under(rules), id(self.leaving): self.leaving.copy()}
        boards: OrderBoards = deepcopy(self, known)
        return boards

    @property
    def then(self) -> GangBoard:
        """Return the board with the VMs that are in no order, and those of the orders so far.

        Orders that surely keep their hosts are put there together, once the board is needed.
        """
        if self._board is not None and not self.kept:
            return self._board
        kept = np.concatenate([*self.kept, _NONE])
        self.kept.clear()
        if self._board is None and not len(self.stuck.rows):
            place = self.others.copy()
            place[kept] = self.view.place[kept]
            self._board = self._board_of(place, kept)
            return self._board
        if self._board is None:
            self._board = self._board_of(self.others)
        if len(kept):
            self._board.keep(kept, self.view.place[kept])
        return self._board

    @cached_property
    def now(self) -> GangBoard:
        """Return the board with all VMs that have a host, and those of orders that start."""
        return self._board_of(self.view.place)

    def _board_of(self, place: Ints, last: Ints = _NONE) -> GangBoard:
        running = np.bincount(
            self.view.place[self.view.place != NO_HOST], minlength=len(self.view.hosts)
        )
        board = GangBoard(self.view, Board(self.view, place, running), self.rules, last)
        board.hold(*self.stuck)
        return board

    def take_from_lowest(
        self, waiting: Ints, lowest_first: Ints, running: Callable[[Ints], Ints]
    ) -> bool:
        """Take hosts that fit if as few orders leave as possible, from the lowest; return success.

        So a higher order need not move, or leave because it can't move now. `lowest_first` are the
        orders with VMs that run, and `running` returns those of these VMs that can leave.
        """
        rest = lowest_first[~self.takes_part[lowest_first]]
        seen = self.seen[rest]
        # Those that leave anyway come first.
        first_to_leave = np.concatenate([rest[seen], rest[~seen]])
        failed, count, hosts = 0, 1, None
        while hosts is None and failed < len(first_to_leave):
            count = min(count, len(first_to_leave))
            hosts = self._hosts_without(running(first_to_leave[:count]), waiting)
            failed, count = (count, 2 * count) if hosts is None else (failed, count)
        while hosts is not None and count - failed > 1:
            middle = (failed + count) // 2
            fewer = self._hosts_without(running(first_to_leave[:middle]), waiting)
            failed, count = (middle, count) if fewer is None else (failed, middle)
            hosts = hosts if fewer is None else fewer
        if hosts is None or not self.then.keep(waiting, hosts):
            return False
        self.now.put(waiting, hosts)
        return True

    def _hosts_without(self, leave: Ints, waiting: Ints) -> Ints | None:
        """Return hosts for waiting VMs where these VMs have left; None if there are none."""
        self.now.leave(leave)
        hosts = self.now.hosts(waiting).copy() if self.now.take(waiting) else None
        self.now.leave(waiting)
        self.now.put(leave, self.view.place[leave])
        return hosts
