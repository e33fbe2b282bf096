"""Withheld migrations: planned but not sent yet, so hosts are divided without them.

A migration may wait for another one, or do harm without others (see `migration_waves.py`). Its VM
stays on its host at least for this period. Its present neighbours do not get its share yet, and its
future neighbours lose nothing yet. So the quotas of a host never exceed its cores. Memory follows
the plan: balloons move slowly, and make room only as far as there is some.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from merkatd.cluster import Decision, Deploy, Floats, Ints, Migrate, Plan, Snapshot
from merkatd.cluster.columns import NO_ROW, is_one_of
from merkatd.cluster.snapshot import view_of_market
from merkatd.market.explanation import hosts_after
from merkatd.market.market_view import MarketView, market_view
from merkatd.placement.changes.decided_market import DecidedMarket
from merkatd.placement.changes.migration_waves import migration_waves, vms_of_later_waves
from merkatd.placement.contract import Allocation

_MEMORY = "memory"


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
    begun = Plan(
        tuple(
            step
            for step in decision.plan
            if isinstance(step, Deploy) or (isinstance(step, Migrate) and step.vm not in later)
        )
    )
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
