"""CPU use of VMs: idle VMs leave the rest of their share to other VMs.

If use is charged, an idle VM pays nothing. If its share stayed reserved, a group with a high rate
could block a host for nothing.

# Note [Shares of idle VMs]

A VM's share is limited to twice its highest use in the last two samples, plus a tenth of a core.
So the VM pays for half of its reserved share, or for all of it every second period. The rest of
the host goes to all its VMs in proportion, up to their caps. A VM without samples counts with all
that it can use.

Example: a VM on a full host was idle and computes now. It gets 10, 30, 70, 150 and 310 percent of
a core in the next periods, if its rate buys as much. A VM of three cores has its whole share after
five periods, a VM of eight cores after seven. If the host is not full, it has its share at once.
"""

from dataclasses import replace

import numpy as np

from merkatd.cluster import Decision, Floats, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_MARKET, NO_ROW
from merkatd.market.explanation import hosts_after
from merkatd.market.market_view import market_view
from merkatd.market.share import share

CPU = 0
LOOKS = 2
"""The number of samples whose highest use counts."""
FACTOR = 2.0
"""The factor by which that use is multiplied."""
MARGIN = 10.0
"""The percentage of a core that is added to it."""
_LESS = 1 - 1e-6


def limited_to_use(snapshot: Snapshot) -> Snapshot:
    """Return the cloud with caps and floors limited to a little more than the VMs' recent use."""
    vms, history = snapshot.vms, snapshot.history
    if history is None or not len(history.vms):
        return snapshot
    used = np.fmax.reduce(history.vms[-LOOKS:, :, CPU], axis=0)
    cap, floor = vms.cap.copy(), vms.floor.copy()
    inside = (vms.market != NO_MARKET) & (vms.host != NO_HOST)
    wanted = np.where(np.isnan(used) | ~inside, np.inf, used * FACTOR + MARGIN)
    cap[:, CPU] = np.minimum(cap[:, CPU], wanted)
    floor[:, CPU] = np.minimum(floor[:, CPU], wanted)
    return replace(snapshot, vms=replace(vms, cap=cap, floor=floor))


def with_leftovers(snapshot: Snapshot, decision: Decision) -> Floats:
    """Return the allocations plus the rest of each host's cores, in proportion to the allocations.

    In proportion to rates, an idle VM with a high rate would take what a busy neighbour needs.
    """
    amounts = decision.allocations.copy()
    host = hosts_after(snapshot, decision.plan)
    local = np.full(len(snapshot.hosts) + 1, NO_ROW)
    for market in range(len(snapshot.markets)):
        view = market_view(snapshot, market)
        local[:] = NO_ROW
        local[view.hosts] = np.arange(len(view.hosts))
        pool = local[host[view.vms]]
        there = np.flatnonzero((pool != NO_ROW) & (view.bid[:, CPU] > 0))
        rows = view.vms[there]
        has = amounts[rows, CPU]
        others = np.flatnonzero((pool != NO_ROW) & (view.bid[:, CPU] <= 0))
        taken = np.bincount(pool[others], amounts[view.vms[others], CPU], minlength=len(view.hosts))
        room = np.maximum(view.capacity[:, CPU] - taken, 0.0)
        most = np.maximum(view.cap[there, CPU], has)
        more = share(has, has, most, pool[there], room).allocation
        amounts[rows, CPU] = np.maximum(has, more)
    return amounts


def why_idle(snapshot: Snapshot, lately: Snapshot, allocations: Floats) -> dict[int, str]:
    """Return, by id of each idle VM, why it gets less than its rate would buy."""
    vms, least = snapshot.vms, lately.vms.cap[:, CPU]
    has = allocations[:, CPU]
    short = (least < vms.cap[:, CPU] * _LESS) & (has > 0) & (has < vms.cap[:, CPU] * _LESS)
    short &= has <= least / _LESS
    return {
        int(vms.id[row]): (
            f"it used little CPU lately, so {has[row]:.0f} % of a core is reserved for it; other"
            " VMs get the rest of its share. The reserve doubles in each period in which it is used"
        )
        for row in np.flatnonzero(short).tolist()
    }
