"""Failed migrations, stops and switches of hosts: growing waits before the next attempt.

The owners of VMs and the administrators get the reasons.

A waiting VM is not movable for the strategies, so it uses up no other VM's turn in the limits on
migrations. A displaced VM of a limit order that can't be stopped has what its bid buys meanwhile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from merkatd.base.backoff import Backoff
from merkatd.cluster import HostState, Sleep, Snapshot, Wake
from merkatd.cluster.columns import is_one_of
from merkatd.cluster.orders import OrderTerms
from merkatd.database.scheduler.migration_history import (
    FailingHost,
    FailingVm,
    RecentMigrations,
    RecentSwitches,
)
from merkatd.scheduler.base.ports import Observation
from merkatd.scheduler.base.settings import Rhythm

LONGEST_REST_S = 3600.0
"""The longest wait between two attempts to migrate a VM."""


def rest_s(failing: FailingVm | FailingHost, interval_s: float) -> float:
    """Return the wait after the last attempt: two periods at first, doubled each time."""
    backoff = Backoff(first_s=2.0 * interval_s, longest_s=LONGEST_REST_S)
    return backoff.wait_s(failing.attempts)


def resting(
    failing: Mapping[int, FailingVm] | Mapping[int, FailingHost], at_s: float, interval_s: float
) -> frozenset[int]:
    """Return the ids of the VMs, or hosts, for which the step must not be repeated now.

    An attempt with a date that far in the future, from a wrong clock, blocks none.
    """
    return frozenset(
        id_
        for id_, failed in failing.items()
        if abs(at_s - failed.last_s) < rest_s(failed, interval_s)
    )


def failing_to_leave(snapshot: Snapshot, moves: RecentMigrations) -> Mapping[int, str]:
    """Return, by VM id, why VMs that must leave their hosts are still there."""
    hosts, vms = snapshot.hosts, snapshot.vms
    rows = np.flatnonzero(is_one_of(vms.id, moves.failing) & (vms.host >= 0))
    reasons = {}
    for row in rows.tolist():
        host = int(vms.host[row])
        if vms.leaves[row] or hosts.state[host] == HostState.DRAINED:
            reasons[int(vms.id[row])] = (
                f"fails to leave {hosts.name[host]}: migration"
                f" {_attempts(moves.failing[int(vms.id[row])])}"
            )
    return reasons


def failing_to_stop(
    snapshot: Snapshot, moves: RecentMigrations, terms: OrderTerms | None, words: Sequence[str]
) -> Mapping[int, str]:
    """Return, by VM id, why displaced VMs of limit orders are still on their hosts.

    `words` are OpenNebula's words for the states of all VMs.
    """
    if terms is None:
        return {}
    reasons = {}
    for row in terms.rows[terms.stuck].tolist():
        vm = int(snapshot.vms.id[row])
        failing = moves.failing_stops.get(vm)
        why = f"it is {words[row]}" if failing is None else f"stopping it {_attempts(failing)}"
        reasons[vm] = f"it runs with what its limit buys, because {why}"
    return reasons


def _attempts(failing: FailingVm | FailingHost) -> str:
    """Return how often the attempts have failed, and why the last one did."""
    times = "once" if failing.attempts == 1 else f"{failing.attempts} times"
    return (
        f"failed {times}, most recently with {failing.why!r}; further attempts follow at growing"
        " intervals"
    )


def held_switches(
    switches: RecentSwitches, at_s: float, rhythm: Rhythm
) -> Mapping[str, Mapping[int, str]]:
    """Return, by kind of step and host id, why hosts must not be switched now."""
    held: dict[str, dict[int, str]] = {}
    for kind, failing in (
        (Sleep.kind, switches.failing_sleeps),
        (Wake.kind, switches.failing_wakes),
    ):
        rest = resting(failing, at_s, rhythm.interval_s)
        held[kind] = {host: f"the step {_attempts(failing[host])}" for host in rest}
    for host, off_s in switches.off_at_s.items():
        if abs(at_s - off_s) < rhythm.shutdown_s:
            held[Wake.kind][host] = "it may still be shutting down"
    return held


def with_unwoken_hosts(seen: Observation, switches: RecentSwitches) -> Observation:
    """Return the observation in which sleeping hosts that can't be woken are in trouble."""
    traits = seen.host_traits
    if traits is None or not switches.failing_wakes:
        return seen
    troubles = dict(seen.host_trouble)
    for host in seen.host_id[traits.asleep].tolist():
        if host in switches.failing_wakes:
            known = troubles.get(host, "asleep")
            troubles[host] = f"{known}; waking it {_attempts(switches.failing_wakes[host])}"
    return replace(seen, host_trouble=troubles)


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
