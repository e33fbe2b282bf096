"""Migrations that are not done yet: VMs that are still on hosts which they are to leave.

Withheld migrations are planned but not sent yet, so hosts are divided without them.

A migration may wait for another one, or do harm without others (see `migration_waves.py`). Its VM
stays on its host at least for this period. Its present neighbours do not get its share yet, and its
future neighbours lose nothing yet. So the quotas of a host never exceed its cores. Memory follows
the plan: balloons move slowly, and make room only as far as there is some.

# Note [Quotas during a migration]

A guest that migrates runs on its source until the end, with the quota that it has. A slow transfer
takes several periods. From the first observation of the migration on, the VM counts on its target,
and what its quota takes on the source is not divided there. Example: a host of 400 % of a core has
VM 1 with a quota of 200 %, which is being migrated, and VM 2. VM 2 gets 200 %, and 400 % once VM 1
has left. Before, in the period that sends the migration, its neighbours have their new quotas
already: a transfer rarely takes longer than some seconds. Floors are never lowered.

If the transfer takes longer, these quotas are too large, and the next period lowers them. It can't
lower that of a VM which leaves too. So such a VM stays until its quota fits beside the others.
Example: 8 VMs have 50 % each on a host that is drained. 5 leave, and the other 3 get 133 % each. In
the next period the 5 still run there. The 3 get 50 % again, and leave in the period after that.

The same holds for a VM whose target host does not answer: it counts on its source, but it can't get
another quota there.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from merkatd.cluster import Decision, Deploy, Floats, Ints, Migrate, Plan, Snapshot, VmState
from merkatd.cluster.columns import NO_HOST, NO_MARKET, NO_ROW, is_one_of
from merkatd.cluster.snapshot import view_of_market
from merkatd.market.explanation import hosts_after
from merkatd.market.market_view import MarketView, market_view
from merkatd.placement.changes.decided_market import DecidedMarket
from merkatd.placement.changes.migration_waves import migration_waves, vms_of_later_waves
from merkatd.placement.contract import Allocation

_CPU, _MEMORY = "cpu", "memory"


def withheld_vms(
    markets: Sequence[DecidedMarket], snapshot: Snapshot, plan: Plan, *, one_wave: bool = False
) -> frozenset[int]:
    """Return the ids of VMs whose migrations are not sent in this period, if none is refused.

    OpenNebula's answers to its own plan are seen in the next period only: it gets one wave.
    """
    late = {step.vm for step in plan.of(Migrate) if step.after}
    ready = [step for step in plan if not step.after]
    waves = migration_waves(markets, snapshot, plan, ready)
    if one_wave:
        return frozenset(late) | vms_of_later_waves(waves)
    for market_waves in waves:
        remaining = market_waves.remaining(market_waves.first)
        while wave := remaining.wave():
            for row in wave:
                remaining.made(row)
        late |= {market_waves.step_of(row).vm for row in remaining.left}
    return frozenset(late)


def allocations_until_moved(
    markets: Sequence[DecidedMarket],
    snapshot: Snapshot,
    decision: Decision,
    later: AbstractSet[int],
) -> Floats:
    """Return the allocations that apply until these VMs are migrated."""
    amounts = decision.allocations
    if not later:
        return amounts
    amounts = amounts.copy()
    begun = _begun(decision.plan, later)
    host = hosts_after(snapshot, begun)
    touched = _touched(snapshot, decision.plan, later)
    others = np.flatnonzero([name != _MEMORY for name in snapshot.resources])
    moved = snapshot.vms.market[[snapshot.vm_row(vm) for vm in sorted(later)]]
    for row, market in enumerate(markets):
        if row not in moved:
            continue
        entry, own = market.entry, view_of_market(snapshot, row)
        view = market_view(entry.scene(own), row)
        local = np.full(len(snapshot.hosts) + 1, NO_ROW)
        local[view.hosts] = np.arange(len(view.hosts))
        given = np.zeros_like(amounts)
        if entry.allocates is Allocation.OWN:
            given[view.vms] = within_hosts(view, local[host[view.vms]], amounts[view.vms])
        else:
            given[view.vms] = view.on_hosts(local[host[view.vms]]).allocation
            given = entry.shares(own, replace(decision, plan=begun, allocations=given))
        rows = view.vms[is_one_of(host[view.vms], touched)]
        amounts[np.ix_(rows, others)] = given[np.ix_(rows, others)]
    return amounts


def allocations_beside_leaving(
    markets: Sequence[DecidedMarket],
    snapshot: Snapshot,
    decision: Decision,
    later: AbstractSet[int],
    quota: Floats,
) -> Floats:
    """Return the allocations that apply until migrating VMs have left their sources.

    `quota` is [vms]: the CPU that each guest may use now, in percent of a core, NaN if unknown.
    See Note [Quotas during a migration].
    """
    vms, amounts = snapshot.vms, decision.allocations
    if _CPU not in snapshot.resources:
        return amounts
    cpu = snapshot.resources.index(_CPU)
    # The capacity is without the floors of VMs that leave, and all of VMs in no market.
    kept = np.where(vms.market == NO_MARKET, vms.cap[:, cpu], vms.floor[:, cpu])
    leaves = vms.source != NO_HOST
    stuck = (vms.state == VmState.BUSY) & ~vms.stays & (vms.market != NO_MARKET) & ~leaves
    at = np.where(leaves, vms.source, vms.host)
    more = np.where(leaves, quota - kept, np.maximum(quota, amounts[:, cpu]))
    rows = np.flatnonzero((leaves | stuck) & (at != NO_HOST) & (np.nan_to_num(more) > 0))
    if not len(rows):
        return amounts
    taken = np.zeros(len(snapshot.hosts) + 1)  # the last one is for no host
    np.add.at(taken, at[rows], more[rows])
    amounts, host = amounts.copy(), hosts_after(snapshot, _begun(decision.plan, later))
    host[rows[stuck[rows]]] = NO_HOST
    for row in range(len(markets)):
        view = market_view(snapshot, row)
        local = np.full(len(snapshot.hosts) + 1, NO_ROW)
        local[view.hosts] = np.arange(len(view.hosts))
        capacity = view.capacity.copy()
        capacity[:, cpu] = np.maximum(capacity[:, cpu] - taken[view.hosts], 0.0)
        beside = np.flatnonzero(taken[host[view.vms]] > 0)
        given = within_hosts(
            replace(view, capacity=capacity), local[host[view.vms]], amounts[view.vms]
        )
        amounts[view.vms[beside], cpu] = given[beside, cpu]
    return amounts


def vms_with_advance_quotas(
    snapshot: Snapshot, quota: Floats, least: Floats, band: Floats, plan: Plan
) -> frozenset[int]:
    """Return the ids of VMs that a plan moves away with quotas too large for their hosts.

    Only on hosts that other VMs are leaving. `quota`, `least` and `band` are [vms], in percent of a
    core: the quota now, the least possible one, and the difference that needs no new one. See Note
    [Quotas during a migration].
    """
    vms = snapshot.vms
    if _CPU not in snapshot.resources or not (vms.source != NO_HOST).any():
        return frozenset()
    cpu = snapshot.resources.index(_CPU)
    at = np.where(vms.source != NO_HOST, vms.source, vms.host)
    known = np.flatnonzero((at != NO_HOST) & (vms.market != NO_MARKET) & (quota > 0))
    leaving = known[vms.source[known] != NO_HOST]
    # The capacity is without the floors of VMs that leave, which are in the sum as well.
    room = snapshot.hosts.capacity[:, cpu].copy()
    np.add.at(room, at[leaving], vms.floor[leaving, cpu])
    total, allowed = np.zeros_like(room), np.zeros_like(room)
    np.add.at(total, at[known], quota[known])
    np.add.at(allowed, at[known], band[known])
    over = (total > room + allowed) & is_one_of(np.arange(len(room)), at[leaving])
    moves = np.array([snapshot.vm_row(step.vm) for step in plan.of(Migrate)], dtype=np.int64)
    lowest = np.maximum(vms.floor[:, cpu], least) + band
    too_large = over[at[moves]] & (quota[moves] > lowest[moves])
    return frozenset(vms.id[moves[too_large]].tolist())


def _begun(plan: Plan, later: AbstractSet[int]) -> Plan:
    """Return the deployments and migrations of a plan without those of these VMs."""
    return Plan(
        tuple(
            step
            for step in plan
            if isinstance(step, Deploy) or (isinstance(step, Migrate) and step.vm not in later)
        )
    )


def _touched(snapshot: Snapshot, plan: Plan, later: AbstractSet[int]) -> list[int]:
    """Return the rows of the hosts between which these VMs are to move."""
    moves = [step for step in plan.of(Migrate) if step.vm in later]
    return sorted({snapshot.host_row(host) for step in moves for host in (step.source, step.host)})


def within_hosts(view: MarketView, place: Ints, amounts: Floats) -> Floats:
    """Return a strategy's own allocations, lowered on hosts that they exceed, [vms, resources].

    VMs keep their floors; all that they have above is lowered by the same part. `place` has the
    present hosts of VMs whose migrations are withheld.
    """
    there = np.flatnonzero(place >= 0)
    floors = np.minimum(view.floor, amounts)
    totals = np.zeros((2, *view.capacity.shape))
    np.add.at(totals[0], place[there], floors[there])
    np.add.at(totals[1], place[there], (amounts - floors)[there])
    free = np.maximum(view.capacity - totals[0], 0.0)
    part = np.divide(free, totals[1], out=np.ones_like(free), where=totals[1] > free)
    given = amounts.copy()
    given[there] = (floors + (amounts - floors) * part[place])[there]
    return given
