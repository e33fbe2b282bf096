"""Room that VMs with bids make for limit orders by moving to other hosts.

# Note [Attempts of an owner]

A search for moves that make room costs milliseconds in a cloud of some hundred hosts, and an owner
can have a thousand orders whose VMs fit nowhere. Such a period lasted 19 s. So only this number of
an owner's orders may fail to find moves in a period, from the highest. For its other orders no VM
moves in this period.
"""

from collections import Counter
from dataclasses import dataclass, field

from merkatd.cluster import Bools, Ints
from merkatd.placement.base.gangs import GangBoard

MOST_FAILED = 30
"""The most orders of an owner for which no moves are found in a period."""


@dataclass(slots=True)
class RoomByMoves:
    """The VMs that may move for limit orders, and the failed attempts."""

    owner: Ints
    """[VMs of the view]"""
    may_leave: Bools
    """[VMs of the view]: whether the VM may get another host."""
    _failed: Counter[int] = field(default_factory=Counter)

    def take(self, board: GangBoard, vms: Ints) -> list[int] | None:
        """Place all VMs of an order where others make room; return those, or None without room."""
        if not len(vms):
            return []
        owner = int(self.owner[vms[0]])
        if self._failed[owner] >= MOST_FAILED:
            return None
        moved = board.take_with_moves(vms, self.may_leave)
        self._failed[owner] += moved is None
        return moved
