"""Plans of several sources become one plan, and steps that can't be sent are taken out of it.

This package is the one place where plans are transformed: plan in, plan and reasons out. Memory is
the exception: `limits/balloon_steps.py` puts steps behind the balloons that make room for them, as
it needs the memory of all hosts for that.

# Note [Several steps for a VM]

The strategies, the platforms, the groups, and the daemon itself (unpaid floors, saved VMs) all ask
for steps. OpenNebula carries out one operation on a VM at a time and refuses a second one, so each
VM keeps one of these steps:

1. The operation that leaves the least of the VM wins: terminate, stop, suspend, resume, deploy,
   migrate, in this order.
2. Of two steps of one kind the one of the earlier source is kept; but a hard termination replaces
   a termination that asks the guest.
3. A step that had to wait for the replaced one waits for the step in its place, if that frees the
   VM's host as well. Otherwise it is taken out, too: it would lack the room.

Limits, pins, balloons and throttles are carried out by hosts, and are kept beside any of these.

Example: VM 7 is to move from host 1 to host 2, which makes room on host 1 for VM 8. Its tenant ends
VM 7 in the same period. The migration is taken out, and VM 8 starts after the end of VM 7. If VM 7
were suspended instead, it would still hold its floor on host 1, so VM 8 waits.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import TypeGuard

import numpy as np

from merkatd.cluster import (
    Deploy,
    HostState,
    Migrate,
    OnHost,
    Plan,
    Resume,
    Sleep,
    Snapshot,
    Step,
    Stop,
    Suspend,
    Terminate,
    Wake,
)
from merkatd.cluster.columns import NO_HOST, NO_MARKET, row_of

OPERATIONS: tuple[type[Step], ...] = (Terminate, Stop, Suspend, Resume, Deploy, Migrate)
"""The kinds of steps of which a VM keeps one, the strongest first."""

_RANK = {kind.kind: rank for rank, kind in enumerate(OPERATIONS)}
_FREES = (Terminate, Stop, Migrate)
"""The kinds of steps after which the VM holds nothing on its present host."""

NO_SWITCHES_HELD: Mapping[str, Mapping[int, str]] = {}


@dataclass(frozen=True, slots=True)
class ChangedPlan:
    """A plan after a change."""

    plan: Plan
    reasons: dict[int, str] = field(default_factory=dict)
    """By VM id: why a step for the VM was taken out, without steps that another one replaces."""


def joined_plan(*sources: Iterable[Step]) -> ChangedPlan:
    """Return one plan of all these steps with at most one operation for each VM.

    See Note [Several steps for a VM]. Raise CyclicPlanError if steps wait for each other.
    """
    kept: dict[str, Step] = {}
    chosen: dict[int, Step] = {}
    replaced: list[Step] = []
    for step in (step for source in sources for step in source):
        if step.kind in _RANK:
            other = chosen.get(step.vm)
            if other is not None and not _stronger(step, other):
                replaced.append(step)
                continue
            if other is not None:
                replaced.append(other)
                del kept[other.id]
            chosen[step.vm] = step
        kept.setdefault(step.id, step)
    steps = list(kept.values())
    if not replaced:
        return ChangedPlan(Plan.ordered(steps))
    gone = [step for step in replaced if step.id not in kept]
    return _without_dependents(steps, {step.id: chosen[step.vm] for step in gone}, gone)


def with_hosts_at_rest(
    snapshot: Snapshot,
    plan: Plan,
    busy: AbstractSet[int] = frozenset(),
    held: Mapping[str, Mapping[int, str]] = NO_SWITCHES_HELD,
) -> ChangedPlan:
    """Return the plan without steps on hosts that can't be done now.

    A host sleeps only if it can be woken, has no VM, and gets none by the plan. `busy` are the ids
    of hosts with an unfinished step. `held` are, by kind of step and host id, why a step must not
    be done now. The reasons of the result are by host id.
    """
    if not plan.of(Sleep) and not plan.of(Wake):
        return ChangedPlan(plan)
    coming = {step.host for step in plan if _arrives(step)}
    there = _vms_by_host(snapshot)
    reasons: dict[int, str] = {}
    kept: list[Step] = []
    first: set[int] = set()
    for step in plan:
        if isinstance(step, Sleep | Wake):
            why = _why_not_switched(snapshot, step, coming, there, busy | first)
            why = why or held.get(step.kind, {}).get(step.host, "")
            if why:
                reasons.setdefault(step.host, why)
                continue
            first.add(step.host)
        kept.append(step)
    return ChangedPlan(Plan(tuple(kept)), reasons)


def _vms_by_host(snapshot: Snapshot) -> Mapping[int, int]:
    """Return the lowest id of the VMs on each host, or on the way from it, by the host's row."""
    vms, first = snapshot.vms, dict[int, int]()
    for host in (vms.host, vms.source):
        rows, at = np.unique(host, return_index=True)
        for row, vm in zip(rows.tolist(), vms.id[at].tolist(), strict=True):
            first[row] = min(vm, first.get(row, vm))
    return first


def _why_not_switched(
    snapshot: Snapshot,
    step: Sleep | Wake,
    coming: AbstractSet[int],
    there: Mapping[int, int],
    busy: AbstractSet[int],
) -> str:
    row, hosts = row_of(snapshot.hosts.id, step.host), snapshot.hosts
    if row is None:
        return "there is no such host"
    sleeps, goes = bool(hosts.asleep[row]), isinstance(step, Sleep)
    cases = {
        "another step for the host is under way": step.host in busy,
        "it does not sleep": not goes and not sleeps,
        "it sleeps already": goes and sleeps,
        "it is drained, or no command switches it off and on": not hosts.can_sleep[row],
        "it is in no market": goes and hosts.market[row] == NO_MARKET,
        "it can't be reached": goes and hosts.state[row] == HostState.OFF,
        "an administrator keeps VMs away from it": goes and hosts.state[row] != HostState.ON,
        f"VM {there.get(row)} is on it": goes and row in there,
        "a VM is to come to it": goes and step.host in coming,
    }
    return next((why for why, holds in cases.items() if holds), "")


def moved_first(snapshot: Snapshot, plan: Plan) -> Plan:
    """Return the plan with a cold migration in place of each resumption on another host.

    OpenNebula moves a saved VM, and then resumes it: two operations. The strategy decides again
    once the VM is there.
    """
    if not any(step.host is not None for step in plan.of(Resume)):
        return plan
    changed = {step.id: _moved(snapshot, step) for step in plan.of(Resume)}
    ids = {old: step.id for old, step in changed.items()}
    return Plan(
        tuple(
            replace(
                changed.get(step.id, step),
                after=tuple(ids.get(first, first) for first in step.after),
            )
            for step in plan
        )
    )


def _moved(snapshot: Snapshot, step: Resume) -> Step:
    now = int(snapshot.vms.host[snapshot.vm_row(step.vm)])
    if step.host is None or now == NO_HOST or snapshot.hosts.id[now] == step.host:
        return step
    return Migrate(
        period=step.period,
        vm=step.vm,
        reason=f"to be resumed there: {step.reason}",
        after=step.after,
        source=int(snapshot.hosts.id[now]),
        host=step.host,
        live=False,
    )


def _stronger(step: Step, other: Step) -> bool:
    """Return whether the first step replaces the other one, of an earlier source."""
    if isinstance(step, Terminate) and isinstance(other, Terminate):
        return step.hard and not other.hard
    return _RANK[step.kind] < _RANK[other.kind]


def _without_dependents(
    steps: list[Step], instead: dict[str, Step], gone: Iterable[Step]
) -> ChangedPlan:
    """Return the steps, those that waited for a step that is gone after the one in its place."""
    lost = {
        step.id: instead[step.id]
        for step in gone
        if isinstance(step, _FREES) and not isinstance(instead[step.id], _FREES)
    }
    moved: list[Step] = []
    for step in steps:
        after = tuple(dict.fromkeys(_in_place(first, instead, lost) for first in step.after))
        moved.append(step if after == step.after else replace(step, after=after))
    return _without_steps(Plan.ordered(moved), lost)


def _in_place(first: str, instead: dict[str, Step], lost: dict[str, Step]) -> str:
    return first if first in lost or first not in instead else instead[first].id


def _without_steps(plan: Plan, lost: dict[str, Step]) -> ChangedPlan:
    """Return the plan without the steps that wait for a lost step, directly or not.

    `lost` has the step in the place of each lost one.
    """
    reasons: dict[int, str] = {}
    kept: list[Step] = []
    without = dict(lost)
    for step in plan:
        first = next((without[id_] for id_ in step.after if id_ in without), None)
        if first is None:
            kept.append(step)
            continue
        without[step.id] = first
        if step.vm != first.vm and not isinstance(step, OnHost):
            reasons[step.vm] = f"waits for VM {first.vm}, which keeps its room: {first.reason}"
    return ChangedPlan(Plan(tuple(kept)), reasons)


def without_arrivals(plan: Plan, late: Collection[int]) -> Plan:
    """Return the plan without the arrivals of these VMs and all steps that depend on them."""
    kept: list[Step] = []
    dropped: set[str] = set()
    for step in plan:
        if (_arrives(step) and step.vm in late) or dropped & set(step.after):
            dropped.add(step.id)
        else:
            kept.append(step)
    return Plan(tuple(kept))


def without_hosts(plan: Plan, hosts: Collection[int], vms: AbstractSet[int]) -> Plan:
    """Return the plan without limits on these hosts, where these VMs are: the hosts do not answer.

    VMs arrive there all the same, without limits.
    """
    arrivals = {step.id for step in plan if _arrives(step) and step.host in hosts}
    return Plan(
        tuple(
            step
            for step in plan
            if not isinstance(step, OnHost) or not (step.vm in vms or arrivals & set(step.after))
        )
    )


def permitted_steps(plan: Iterable[Step], given: Callable[[Step], bool]) -> list[Step]:
    """Return the permitted steps, without those that depend on other steps."""
    kept: list[Step] = []
    without: set[str] = set()
    for step in plan:
        if given(step) and not without & set(step.after):
            kept.append(step)
        else:
            without.add(step.id)
    return kept


def of_this_period(plan: Plan) -> Plan:
    """Return the plan without limits that follow a VM's arrival; the next period decides these."""
    arrivals = {step.id for step in plan if not isinstance(step, OnHost)}
    kept: list[Step] = []
    later: set[str] = set()
    for step in plan:
        if isinstance(step, OnHost) and (arrivals | later) & set(step.after):
            later.add(step.id)
        else:
            kept.append(step)
    return Plan(tuple(kept))


def ready_steps(
    steps: Iterable[Step], done: AbstractSet[str], refused: AbstractSet[str]
) -> tuple[dict[str, Step], dict[str, str]]:
    """Return the steps that OpenNebula can be asked for by id, and why the others must wait.

    Hosts have carried out the steps that are `done`, and refused others.
    """
    there = {step.id: step for step in steps}
    ready = {
        id_: step
        for id_, step in there.items()
        if not isinstance(step, OnHost) and all(first in done for first in step.after)
    }
    late = there.keys() - done - refused - ready.keys()
    return ready, dict.fromkeys(late, "another step must come first; the next period decides again")


def _arrives(step: Step) -> TypeGuard[Deploy | Migrate]:
    return isinstance(step, Deploy | Migrate)
