"""Claims of migrating VMs: a VM stays where its bid pays for its claim.

# Note [Claims on another host]

A claim holds as far as the bid pays for it at the price of the VM's own host. A strategy sees only
the part that holds now, and takes it along to every host. On a more expensive host it would hold in
the period of the migration, at the neighbours' expense, and then shrink. The VM would go back, and
so on for ever.

So a running VM does not go to a host on which its bid would pay for much less of its claim, unless
it must leave its own. All planned migrations are judged together, with the prices that they result
in.

Example: a bid of 1 pays for a claim of 100 beside another bid of 1. On a host of 400 with a bid of
100 it would pay for 4.
"""

from dataclasses import replace

from merkatd.cluster import Floats, Migrate, Plan, Snapshot, urgent_vms
from merkatd.market.floors import bought
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.terms.affordability import reserve_prices
from merkatd.scheduler.terms.paid_claims import present_prices

LEAST_PART = 0.95
"""The part of a claim that must hold on the new host. Prices change a little with each move."""
_ROUNDING = 1e-9


def vms_with_lost_claims(
    context: PeriodContext, snapshot: Snapshot, kept: Floats, plan: Plan
) -> frozenset[int]:
    """Return the ids of VMs whose claims would shrink much by the migrations of a plan.

    `kept`, [vms, resources], are the amounts that VMs have regardless of their bids.
    """
    vms, must = snapshot.vms, urgent_vms(snapshot)
    moves = {snapshot.vm_row(step.vm): step for step in plan.of(Migrate)}
    rows = [row for row, step in moves.items() if step.vm not in must]
    claimed = vms.floor[rows] > kept[rows] * (1 + _ROUNDING)
    if not claimed.any():
        return frozenset()
    host = vms.host.copy()
    for row, step in moves.items():
        host[row] = snapshot.host_row(step.host)
    after = replace(snapshot, vms=replace(vms, host=host))
    prices, least = present_prices(context, after), reserve_prices(context, after)
    paid = bought(vms.bid, prices, least)[rows]
    lost = (claimed & (paid < vms.floor[rows] * LEAST_PART)).any(axis=1)
    return frozenset(vms.id[rows][lost].tolist())
