"""Failed migrations: growing waits before the next attempt, with reasons for the owner.

A waiting VM is not movable for the strategies, so it uses up no other VM's turn in the limits on
migrations.
"""

from collections.abc import Mapping

import numpy as np

from merkatd.base.backoff import Backoff
from merkatd.cluster import HostState, Snapshot
from merkatd.cluster.columns import is_one_of
from merkatd.database.scheduler.migration_history import FailingVm, RecentMigrations
from merkatd.placement import strategy_named
from merkatd.scheduler.context import PeriodContext

LONGEST_REST_S = 3600.0
"""The longest wait between two attempts to migrate a VM."""


def rest_s(failing: FailingVm, interval_s: float) -> float:
    """Return the wait after the last attempt: two periods at first, doubled each time."""
    backoff = Backoff(first_s=2.0 * interval_s, longest_s=LONGEST_REST_S)
    return backoff.wait_s(failing.attempts)


def resting(moves: RecentMigrations, at_s: float, interval_s: float) -> frozenset[int]:
    """Return the ids of the VMs that must not be migrated now.

    An attempt with a date that far in the future, from a wrong clock, blocks no VM.
    """
    return frozenset(
        vm
        for vm, failing in moves.failing.items()
        if abs(at_s - failing.last_s) < rest_s(failing, interval_s)
    )


def window_s(context: PeriodContext) -> float:
    """Return the age up to which a confirmed migration still blocks its VM from moving."""
    settings = (
        context.strategies.get(market.strategy, strategy_named(market.strategy).settings)
        for market in context.markets
    )
    hold_s = max((getattr(setting, "hold_s", 0.0) for setting in settings), default=0.0)
    return float(hold_s + context.rhythm.migration_limit_s)


def failing_to_leave(snapshot: Snapshot, moves: RecentMigrations) -> Mapping[int, str]:
    """Return, by VM id, why VMs that must leave their hosts are still there."""
    hosts, vms = snapshot.hosts, snapshot.vms
    rows = np.flatnonzero(is_one_of(vms.id, moves.failing) & (vms.host >= 0))
    reasons = {}
    for row in rows.tolist():
        host = int(vms.host[row])
        if vms.leaves[row] or hosts.state[host] == HostState.DRAINED:
            failing = moves.failing[int(vms.id[row])]
            times = "once" if failing.attempts == 1 else f"{failing.attempts} times"
            reasons[int(vms.id[row])] = (
                f"fails to leave {hosts.name[host]}: migration failed {times}, most recently with"
                f" {failing.why!r}; further attempts follow at growing intervals"
            )
    return reasons


def reasons_by_host(snapshot: Snapshot, moves: RecentMigrations) -> Mapping[int, str]:
    """Return, by host id, the VMs that fail to leave, and why."""
    vms_of_host: dict[int, list[int]] = {}
    for vm in failing_to_leave(snapshot, moves):
        host = int(snapshot.vms.host[snapshot.vm_row(vm)])
        vms_of_host.setdefault(int(snapshot.hosts.id[host]), []).append(vm)
    return {host: _note(vms, moves) for host, vms in vms_of_host.items()}


def _note(vms: list[int], moves: RecentMigrations) -> str:
    others = f" (and {len(vms) - 1} others)" if len(vms) > 1 else ""
    return f"VM {vms[0]} fails to leave{others}: {moves.failing[vms[0]].why}"
