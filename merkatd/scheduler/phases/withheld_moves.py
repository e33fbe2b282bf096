"""Withheld migrations: planned but not sent yet, so hosts are divided without them.

A migration may wait for another one, or do harm without others (see `migration_waves.py`). Its VM
stays on its host at least for this period. Its present neighbours do not get its share yet, and its
future neighbours lose nothing yet. So the quotas of a host never exceed its cores. Memory follows
the plan: balloons move slowly, and make room only as far as there is some.
"""

from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from merkatd.cluster import Decision, Deploy, Floats, Migrate, Plan, Snapshot
from merkatd.cluster.columns import NO_ROW, is_one_of
from merkatd.limits.enforced_limits import MEMORY
from merkatd.market.explanation import hosts_after
from merkatd.market.market_view import market_view
from merkatd.placement import strategy_named
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.phases.market_decisions import view_of_market
from merkatd.scheduler.phases.migration_waves import migration_waves, vms_of_later_waves


def withheld_vms(context: PeriodContext, snapshot: Snapshot, plan: Plan) -> frozenset[int]:
    """Return the ids of VMs whose migrations are not sent in this period, if none is refused.

    OpenNebula's answers to its own plan are seen in the next period only: it gets one wave.
    """
    late = {step.vm for step in plan.of(Migrate) if step.after}
    ready = [step for step in plan if not step.after]
    waves = migration_waves(context, snapshot, plan, ready)
    if context.handing:
        return frozenset(late) | vms_of_later_waves(waves)
    for market_waves in waves:
        remaining = market_waves.remaining(market_waves.first)
        while wave := remaining.wave():
            for row in wave:
                remaining.made(row)
        late |= {market_waves.step_of(row).vm for row in remaining.left}
    return frozenset(late)


def allocations_until_moved(
    context: PeriodContext, snapshot: Snapshot, decision: Decision, later: AbstractSet[int]
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
    others = np.flatnonzero([name != MEMORY for name in snapshot.resources])
    moved = snapshot.vms.market[[snapshot.vm_row(vm) for vm in sorted(later)]]
    for row, market in enumerate(context.markets):
        if row not in moved:
            continue
        entry, own = strategy_named(market.strategy), view_of_market(snapshot, row)
        view = market_view(entry.scene(own), row)
        local = np.full(len(snapshot.hosts) + 1, NO_ROW)
        local[view.hosts] = np.arange(len(view.hosts))
        given = np.zeros_like(amounts)
        given[view.vms] = view.on_hosts(local[host[view.vms]]).allocation
        given = entry.shares(own, replace(decision, plan=begun, allocations=given))
        rows = view.vms[is_one_of(host[view.vms], touched)]
        amounts[np.ix_(rows, others)] = given[np.ix_(rows, others)]
    return amounts


def _touched(snapshot: Snapshot, plan: Plan, later: AbstractSet[int]) -> list[int]:
    """Return the rows of the hosts between which these VMs are to move."""
    moves = [step for step in plan.of(Migrate) if step.vm in later]
    return sorted({snapshot.host_row(host) for step in moves for host in (step.source, step.host)})
