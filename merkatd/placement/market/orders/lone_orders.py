"""Whether a limit order's VMs would fit on hosts without the other orders.

# Note [Orders that surely fit]

An order without room in the market raises prices only if it could ever run: beside the floors of
VMs that bid, which may have to migrate, but without the other orders. A cloud may have thousands of
such orders, and most of them fit easily. So all are tested at once first: an order surely fits if
its running VMs have room where they are, and if as many of the roomiest hosts as it has waiting VMs
have room for its largest, even beside the running VMs of all orders. The requirement of each of its
waiting VMs must allow so many of these hosts. For placing one VM after the other, each on the
fullest host with room, always leaves one of these hosts to the next. Only the VMs of other orders
are placed for the test.

Without the floors of bids, an order could raise prices that could never run. Example: each of two
hosts of 100 units has a VM with a floor of 60, which bids 50 for 90 units. An order of 50 units for
30 credits fits on no host, but in the market. It lacks room there, as the bids ask for 180 units,
and would raise their price from 0.001 to 0.6.
"""

from collections.abc import Sequence
from copy import deepcopy
from functools import cached_property
from typing import NamedTuple

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import NO_HOST
from merkatd.market.market_view import MarketView
from merkatd.placement.base.board import Board
from merkatd.placement.base.gangs import GangBoard
from merkatd.placement.base.hard_constraints import HardConstraints
from merkatd.placement.market.orders.room_by_moves import RoomByMoves

_SPARE = 1.0 - 1e-9
"""The part of a host that floors use at most, so that rounding errors do not matter."""
_ROOMY = 64
"""The number of roomiest hosts that count."""
_ERROR = 1e-6
"""The part of a floor that must be free besides it, because of rounding errors."""


def calm_hosts(view: MarketView) -> Bools:
    """Return [hosts + 1]: whether a host has room for all VMs there; False without a host."""
    there = np.flatnonzero(view.place != NO_HOST)  # also those in no order
    calm = np.ones(len(view.hosts) + 1, dtype=bool)
    calm[NO_HOST] = False
    for capacity, floor in zip(view.capacity.T, view.floor.T, strict=True):
        floors = np.bincount(view.place[there], floor[there], len(view.hosts))
        calm[:-1] &= floors <= capacity * _SPARE
    return calm


class StuckVms(NamedTuple):
    """VMs of orders that stay on their hosts even if they are displaced."""

    rows: Ints
    """Rows of the view."""
    held: Floats
    """[rows, resources]: what each keeps in any case."""


class LoneOrders:
    """The orders of a market, each one alone beside VMs that can't leave their hosts."""

    def __init__(
        self,
        view: MarketView,
        rules: HardConstraints,
        rows: Ints,
        order: Ints,
        others: Ints,
        stuck: StuckVms,
        moves: RoomByMoves,
    ) -> None:
        """`rows` are the rows in the view of the VMs in orders, and `order` their orders.

        `others` is [VMs of the view]: the host of each VM in no order, and of each that can't leave
        it; else NO_HOST.
        """
        self._view, self._rules = view, rules
        self._rows, self._order = rows, order
        self._others, self._stuck = others, stuck
        self._moves = moves

    def under(self, rules: HardConstraints) -> "LoneOrders":
        """Return these orders under rules that allow the VMs in no order the same."""
        rest = self._rows, self._order, self._others, self._stuck
        return LoneOrders(self._view, rules, *rest, deepcopy(self._moves))

    @cached_property
    def _alone(self) -> GangBoard:
        board = GangBoard(self._view, Board(self._view, self._others), self._rules)
        board.hold(*self._stuck)
        return board

    @cached_property
    def surely(self) -> Bools:
        """Return [orders]: whether it fits by the first test."""
        view, rows, order = self._view, self._rows, self._order
        floor, place = view.floor[rows] * (1 + _ERROR), view.place[rows]
        beside = view.capacity - _by_host(self._others, view.floor, len(view.hosts))
        together = _by_host(place, floor, len(view.hosts))
        tight = np.append((together > beside).any(axis=1), False)
        odd = ~self._rules.plain[rows] | self._lacks_room(beside, floor, tight[place])
        beside -= together
        count = int(order.max(initial=-1)) + 1
        surely: Bools = np.bincount(order, odd, count) == 0
        waits = np.flatnonzero((place == NO_HOST) & surely[order])
        waiting = np.bincount(order[waits], minlength=count)
        largest = np.zeros((count, floor.shape[1]))
        np.maximum.at(largest, order[waits], floor[waits])
        required = self._rules.requirement[rows[waits]]
        classes, of_class = np.unique(required, return_inverse=True)
        pairs = np.unique(order[waits] * len(classes) + of_class)
        needs, row = np.divmod(pairs, max(len(classes), 1))
        roomiest = self._roomiest(beside, classes)
        has_room = np.ones((len(pairs), _ROOMY), dtype=bool)
        for good in range(floor.shape[1]):
            has_room &= roomiest[row, :, good] >= largest[needs, good, np.newaxis]
        surely[needs[has_room.sum(axis=1) < waiting[needs]]] = False
        return surely

    def _lacks_room(self, beside: Floats, floor: Floats, tight: Bools) -> Bools:
        """Return [VMs in orders]: whether its host lacks room for all VMs of its order there.

        `tight` is [VMs in orders]: whether its host lacks room for those of all orders together.
        """
        place, hosts = self._view.place[self._rows], len(self._view.hosts)
        there = np.flatnonzero(tight)
        pairs, pair = np.unique(self._order[there] * hosts + place[there], return_inverse=True)
        lacks = np.zeros(len(pairs), dtype=bool)
        for free, needed in zip(beside.T, floor.T, strict=True):
            lacks |= np.bincount(pair, needed[there], len(pairs)) > free[pairs % max(hosts, 1)]
        lacking = np.zeros(len(place), dtype=bool)
        lacking[there] = lacks[pair]
        return lacking

    def _roomiest(self, free: Floats, classes: Ints) -> Floats:
        """Return [classes, _ROOMY, resources]: what is free on the roomiest hosts of each."""
        typical = np.maximum(self._view.capacity.max(axis=0, initial=0.0), 1.0)
        best = np.argsort(-(free / typical).min(axis=1), kind="stable")
        roomiest = np.full((len(classes), _ROOMY, free.shape[1]), -1.0)
        for row, of in enumerate(classes.tolist()):
            hosts = best[self._rules.classes[of, best]][:_ROOMY]
            roomiest[row, : len(hosts)] = free[hosts]
        return roomiest

    def fits(self, order: int, there: Ints, waiting: Ints) -> bool:
        """Return whether there are hosts for the VMs of an order without all other orders.

        `there` are its VMs with a host, and `waiting` those without. VMs that bid may move. So the
        answer does not depend on any limit.
        """
        if self.surely[order]:
            return True
        place = self._view.place[there]
        if self._alone.keep(there, place):
            fits = self._fit(waiting)
            self._alone.leave(there)
            return fits
        both = np.sort(np.concatenate([there, waiting]))
        return bool(self._view.movable[there].all()) and self._fit(both)

    def _fit(self, vms: Ints) -> bool:
        """Return whether these VMs fit; none of them stays on the board."""
        moved: Sequence[int] | None = ()
        if not self._alone.take(vms):
            moved = self._moves.take(self._alone, vms)
        if moved is None:
            return False
        self._alone.leave(vms)
        back = np.array(moved, dtype=np.int64)
        self._alone.put(back, self._others[back])
        return True


def _by_host(place: Ints, amounts: Floats, hosts: int) -> Floats:
    """Return [hosts, resources]: the amounts of all VMs on each host."""
    there = np.flatnonzero(place != NO_HOST)
    columns = [np.bincount(place[there], column[there], hosts) for column in amounts.T]
    totals: Floats = np.stack(columns, axis=1)
    return totals
