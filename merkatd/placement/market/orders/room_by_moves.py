"""Room that VMs with bids make for limit orders by moving, and room that they leave to them.

# Note [Attempts of an owner]

A search for moves that make room costs milliseconds in a cloud of some hundred hosts, and an owner
can have a thousand orders whose VMs fit nowhere. Such a period lasted 19 s. So only this number of
an owner's orders may fail to find moves in a period, from the highest. For its other orders no VM
moves in this period.

# Note [Hosts that are being cleared]

An order that displaces others starts once they have left its hosts. Until then its VMs are absent,
so a strategy would use the rest of these hosts: it moved a VM with a floor there, which stayed for
its hold time, and the order waited. So only as many VMs may come as fit beside the order: waiting
VMs first, then others, each by id. Example: a host of 100 has a displaced VM of 60, and an order
for 80 comes. Only VMs with floors of 20 in all may come before it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from merkatd.cluster import ON_HOST, Bools, Ints, Snapshot, Stop
from merkatd.cluster.columns import NO_HOST, is_one_of
from merkatd.cluster.orders import OrderTerms
from merkatd.cluster.plan import Step
from merkatd.placement.base.gangs import GangBoard
from merkatd.placement.base.narrowed_hosts import narrowed_to

MOST_FAILED = 30
"""The most orders of an owner for which no moves are found in a period."""
_ROUNDING = 1e-6


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


def leaving_room(seen: Snapshot, terms: OrderTerms, steps: Sequence[Step]) -> Snapshot:
    """Return the cloud in which other VMs take no room that is being cleared for orders.

    `seen` has the terms of the orders, and `steps` stop displaced VMs. See Note [Hosts that are
    being cleared].
    """
    vms, comes = seen.vms, terms.coming != NO_HOST
    if not comes.any():
        return seen
    displaced = terms.lingers | terms.priced | terms.stuck
    stops = [seen.vm_row(step.vm) for step in steps if isinstance(step, Stop)]
    gone = is_one_of(np.arange(len(vms)), [*terms.rows[displaced], *stops, *terms.leaving])
    stays = is_one_of(vms.state, ON_HOST) & (vms.host != NO_HOST) & ~gone
    free = seen.hosts.capacity.copy()
    np.subtract.at(free, vms.host[stays], vms.floor[stays])
    np.subtract.at(free, terms.going, vms.floor[terms.leaving])
    np.subtract.at(free, terms.coming[comes], terms.size[comes])
    others = ~is_one_of(np.arange(len(vms)), [*terms.rows, *terms.leaving])
    may_come = np.flatnonzero(others & (vms.waiting | vms.movable))
    may_come = may_come[np.argsort(~vms.waiting[may_come], kind="stable")]
    open_to = np.ones((len(may_come), len(seen.hosts)), dtype=bool)
    for host in np.unique(terms.coming[comes]).tolist():
        elsewhere = vms.host[may_come] != host
        taken = np.cumsum(vms.floor[may_come] * elsewhere[:, np.newaxis], axis=0)
        fits = ((taken <= free[host] + _ROUNDING) | (vms.floor[may_come] <= 0)).all(axis=1)
        open_to[:, host] = fits | ~elsewhere
    kept_out = np.flatnonzero(~open_to.all(axis=1))
    hosts = dict(zip(may_come[kept_out].tolist(), open_to[kept_out], strict=True))
    return narrowed_to(seen, hosts, "the hosts that are not being cleared for a limit order")
