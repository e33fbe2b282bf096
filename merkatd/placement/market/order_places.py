"""The hosts that limit orders take, from the highest order to the lowest."""

import numpy as np

from merkatd.cluster import Ints, Snapshot
from merkatd.cluster.columns import NO_HOST
from merkatd.market.market_view import MarketView
from merkatd.placement.base.board import Board
from merkatd.placement.base.gangs import GangBoard
from merkatd.placement.base.hard_constraints import HardConstraints


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
        """[orders]: whether it gets its hosts only once orders below it have left."""
        rules = HardConstraints(snapshot, view)
        others = view.place.copy()
        others[members] = NO_HOST
        self._then = GangBoard(view, Board(view, others), rules)
        self._now = GangBoard(view, Board(view, view.place), rules)

    def take(self, order: int) -> bool:
        """Take hosts for the VMs of an order; return whether there are any."""
        vms, place = self.vms[order], self.view.place
        there, waiting = vms[place[vms] != NO_HOST], vms[place[vms] == NO_HOST]
        if not self._then.keep(there, place[there]):
            return False
        if not len(waiting):
            return True
        if self._now.take(waiting):
            if self._then.keep(waiting, self._now.hosts(waiting)):
                return True
            self._now.leave(waiting.tolist())
        if self._then.take(waiting):
            self.later[order] = True
            return True
        self._then.leave(there.tolist())
        return False
