"""What VMs use of their cores: idle VMs leave the rest of their share to others.

Where use is charged, an idle VM pays nothing. If its share were kept for it, a group with a high
rate could keep a host from all others for nothing.

# Note [Shares of idle VMs]

A VM's share counts for no more than twice what it used in one of the last two looks, and a tenth
of a core. So it pays for half of what is kept for it, or for all of it every second period. What
is left of a host once all have this goes to all in proportion, up to their caps. On a full host a
VM that was idle and computes now has 10, 30, 70, 150 and 310 percent of a core in the periods that
follow, where its rate buys as much: a VM of three cores has its whole share after five, one of
eight cores after seven. On a host that is not full it has it at once. A VM of which no look is
known counts with all that it can use.
"""

from dataclasses import replace

import numpy as np

from merkatd.cluster import Decision, Floats, Snapshot
from merkatd.cluster.columns import NOWHERE
from merkatd.market.explanation import hosts_after
from merkatd.market.market_view import market_view
from merkatd.market.share import share

CPU = 0
LOOKS = 2
"""The highest use of so many looks counts,"""
FACTOR = 2.0
"""so many times,"""
MARGIN = 10.0
"""and so many percent of a core more."""
_LESS = 1 - 1e-6


def computing(snapshot: Snapshot) -> Snapshot:
    """Return the same cloud, in which VMs can use little more than they used lately."""
    vms, history = snapshot.vms, snapshot.history
    if history is None or not len(history.vms):
        return snapshot
    used = np.fmax.reduce(history.vms[-LOOKS:, :, CPU], axis=0)
    cap, floor = vms.cap.copy(), vms.floor.copy()
    inside = (vms.market != NOWHERE) & (vms.host != NOWHERE)
    wanted = np.where(np.isnan(used) | ~inside, np.inf, used * FACTOR + MARGIN)
    cap[:, CPU] = np.minimum(cap[:, CPU], wanted)
    floor[:, CPU] = np.minimum(floor[:, CPU], wanted)
    return replace(snapshot, vms=replace(vms, cap=cap, floor=floor))


def with_leftovers(snapshot: Snapshot, decision: Decision) -> Floats:
    """Return the allocations with what is left of each host's cores, in proportion to them.

    By rates an idle VM with a high one would have what a busy neighbour needs.
    """
    found = decision.allocations.copy()
    host = hosts_after(snapshot, decision.plan)
    local = np.full(len(snapshot.hosts) + 1, NOWHERE)
    for market in range(len(snapshot.markets)):
        view = market_view(snapshot, market)
        local[:] = NOWHERE
        local[view.hosts] = np.arange(len(view.hosts))
        pool = local[host[view.vms]]
        there = np.flatnonzero((pool != NOWHERE) & (view.bid[:, CPU] > 0))
        rows = view.vms[there]
        has = found[rows, CPU]
        others = np.flatnonzero((pool != NOWHERE) & (view.bid[:, CPU] <= 0))
        taken = np.bincount(pool[others], found[view.vms[others], CPU], minlength=len(view.hosts))
        room = np.maximum(view.capacity[:, CPU] - taken, 0.0)
        most = np.maximum(view.cap[there, CPU], has)
        more = share(has, has, most, pool[there], room).allocation
        found[rows, CPU] = np.maximum(has, more)
    return found


def why_idle(snapshot: Snapshot, lately: Snapshot, allocations: Floats) -> dict[int, str]:
    """By VM id: why a VM has less than its rate would buy, of those that were idle."""
    vms, least = snapshot.vms, lately.vms.cap[:, CPU]
    has = allocations[:, CPU]
    short = (least < vms.cap[:, CPU] * _LESS) & (has > 0) & (has < vms.cap[:, CPU] * _LESS)
    short &= has <= least / _LESS
    return {
        int(vms.id[row]): (
            f"it used little CPU lately, so {has[row]:.0f} % of a core are kept for it, and others"
            " have the rest of its share: that doubles in each period in which it uses it"
        )
        for row in np.flatnonzero(short).tolist()
    }
