"""The hosts that limit orders take, from the highest order to the lowest."""

import numpy as np

from merkatd.cluster import Ints, Snapshot
from merkatd.cluster.columns import NO_HOST
from merkatd.market.market_view import MarketView
from merkatd.placement.base.board import Board
from merkatd.placement.base.gangs import GangBoard
from merkatd.placement.base.hard_constraints import HardConstraints
from merkatd.placement.base.placement_problem import are_held

HOLD_S = 600.0
"""The time after a migration for which a VM makes no room for orders."""


class OrderPlaces:
    """The orders of a market, and the places that they take."""

    def __init__(self, snapshot: Snapshot, view: MarketView, members: Ints) -> None:
        """`members` are the rows in the view of the VMs in orders."""
        self.view, self.members = view, members
        order = snapshot.vms.order[view.vms[members]]
        self.orders, self.order = np.unique(order, return_inverse=True)
        """Rows of the snapshot's orders, and the order of each member."""
        by_order = np.argsort(self.order, kind="stable")
        ends = np.cumsum(np.bincount(self.order, minlength=len(self.orders)))
        self.vms: list[Ints] = np.split(members[by_order], ends[:-1])
        """By order: the rows of its VMs in the view."""
        self.later = np.zeros(len(self.orders), dtype=bool)
        """[orders]: whether it gets its hosts only once other VMs have left."""
        self.leaving: list[int] = []
        """The rows of running VMs that must leave their hosts to make room."""
        rules = HardConstraints(snapshot, view)
        self._priority = rules.priority
        held = are_held(snapshot, HOLD_S)[view.vms]
        self._may_leave = view.movable & ~held & ~rules.stays
        self._may_leave[members] = False
        others = view.place.copy()
        others[members] = NO_HOST
        self._then = GangBoard(view, Board(view, others), rules)
        self._now = GangBoard(view, Board(view, view.place), rules)
        fixed = np.where(view.movable & ~rules.stays, NO_HOST, others)
        self._alone = GangBoard(view, Board(view, fixed), rules)

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
        waits = self.later[self.order] & (self.view.place[self.members] == NO_HOST)
        return np.where(waits, self._then.hosts(self.members), NO_HOST)

    def take(self, order: int) -> bool:
        """Take hosts for the VMs of an order; return whether there are any."""
        vms, place = self.vms[order], self.view.place
        there, waiting = vms[place[vms] != NO_HOST], vms[place[vms] == NO_HOST]
        if not self._then.keep(there, place[there]):
            return self._move_all(order)
        if not len(waiting):
            return True
        if self._now.take(waiting):
            if self._then.keep(waiting, self._now.hosts(waiting)):
                return True
            self._now.leave(waiting)
        self.later[order] = True
        if self._then.take(waiting):
            return True
        moved = self._then.take_with_moves(waiting, self._may_leave)
        if moved is not None:
            self.leaving += moved
            self._may_leave[moved] = False
            return True
        self.later[order] = False
        self._then.leave(there)
        return False

    def exist(self, order: int) -> bool:
        """Return whether there are hosts for the VMs of an order without all other orders.

        VMs that bid may leave. So the answer does not depend on any limit.
        """
        vms, place = self.vms[order], self.view.place
        there, waiting = vms[place[vms] != NO_HOST], vms[place[vms] == NO_HOST]
        if self._alone.keep(there, place[there]):
            exist = self._alone.take(waiting)
            self._alone.leave(there)
        else:
            exist = bool(self.view.movable[there].all()) and self._alone.take(vms)
            waiting = vms
        if exist:
            self._alone.leave(waiting)
        return exist

    def _move_all(self, order: int) -> bool:
        """Take other hosts for an order whose VMs have no room where they are; return success."""
        vms, place = self.vms[order], self.view.place
        runs = vms[place[vms] != NO_HOST]
        if not self.view.movable[runs].all() or not self._then.take(vms):
            return False
        self.leaving += runs[self._then.hosts(runs) != place[runs]].tolist()
        self.later[order] = len(runs) < len(vms)
        return True
