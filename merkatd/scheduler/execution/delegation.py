"""Handover: deployments and migrations as a plan that OpenNebula carries out itself.

From 7.0 on, OpenNebula can ask for placements (`HandoverRequest`). A period then begins at its
request and decides only on the VMs it asked about; all other VMs stay, or keep waiting. The journal
records the steps of the plan as sent. Like all other steps, they are confirmed by observations.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from twisted.internet.defer import Deferred

from merkatd.cluster import Bools, Deploy, Migrate, Step
from merkatd.cluster.columns import is_one_of
from merkatd.cluster.left_out import waiting_with, with_their_orders
from merkatd.database.scheduler import journal
from merkatd.placement.base.narrowed_hosts import narrowed_to
from merkatd.placement.changes.migration_waves import migration_waves, vms_of_later_waves
from merkatd.scheduler.base.ports import Observation
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.phases.decide import PeriodDecision


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRoom:
    """A host's free capacity in OpenNebula's account: CPU in percent of a core, memory in MiB."""

    cpu: float
    memory_mib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverRequest:
    """OpenNebula's request for placements."""

    hosts: Mapping[int, frozenset[int]]
    """By VM id: the ids of the hosts that meet the VM's requirements and its owner's rights."""
    room: Mapping[int, HostRoom] = field(default_factory=dict)
    """By host id: the limit of OpenNebula's deployments there, regardless of shares."""
    cluster: int | None = None
    """The cluster in which migrations are requested; None for placements of waiting VMs."""


NOTHING = HandoverRequest(hosts={})


@dataclass(frozen=True, slots=True)
class DelegatedPlan:
    """The plan for OpenNebula."""

    steps: tuple[Deploy | Migrate, ...] = ()
    reasons: Mapping[int, str] = field(default_factory=dict)
    """By VM id, for VMs in the request: why the plan has no step for the VM."""
    left_out: frozenset[str] = frozenset()
    """The ids of decided steps that are not in the plan."""


class PendingHandover:
    """A plan that OpenNebula waits for."""

    def __init__(self, wanted: HandoverRequest, waits: Callable[[], bool]) -> None:
        """`waits` returns whether it still waits."""
        self.wanted = wanted
        self.waits = waits
        self.answer: Deferred[DelegatedPlan] = Deferred()

    def fail(self, error: Exception) -> None:
        """Answer with an error, unless there is an answer already."""
        if not self.answer.called:
            self.answer.errback(error)


def restricted_to_request(observed: Observed, wanted: HandoverRequest) -> Observed:
    """Return the cloud in which only the requested VMs can be placed or moved.

    A limit order starts only if all of its VMs that wait are requested.
    """
    snapshot = observed.snapshot
    vms = snapshot.vms
    asked = is_one_of(vms.id, wanted.hosts)
    waits = vms.waiting
    if wanted.cluster is None:
        kept_waiting, movable = waits & ~asked, vms.movable & asked
    else:
        inside = np.append(observed.observation.host_cluster == wanted.cluster, [False])
        kept_waiting, movable = waits, vms.movable & asked & inside[vms.host]
    # An order waits as long as OpenNebula does not ask for all of its waiting VMs.
    kept = set(vms.id[kept_waiting].tolist())
    kept_waiting |= is_one_of(vms.id, waiting_with(snapshot, kept).keys())
    given = {row: _given(observed, wanted, row) for row in np.flatnonzero(asked).tolist()}
    placeable = vms.placeable & ~kept_waiting
    now = replace(snapshot, vms=replace(vms, placeable=placeable, movable=movable))
    return replace(
        observed,
        snapshot=narrowed_to(now, given, "given by OpenNebula"),
        observation=_told(
            observed.observation, why_no_host(observed, wanted, np.flatnonzero(asked & waits))
        ),
    )


def _told(observation: Observation, why: Mapping[int, str]) -> Observation:
    """Add reasons for VMs that no host may take; earlier reasons are more specific."""
    rules = observation.constraints
    if rules is None or not why:
        return observation
    unplaceable = {**why, **rules.unplaceable}
    return replace(observation, constraints=replace(rules, unplaceable=unplaceable))


def _given(observed: Observed, wanted: HandoverRequest, row: int) -> Bools:
    """[hosts]: whether OpenNebula allows the VM in this row there, and has room for it."""
    vm = int(observed.snapshot.vms.id[row])
    hosts = [host for host in wanted.hosts[vm] if _fits(observed, wanted, row, host)]
    return is_one_of(observed.snapshot.hosts.id, hosts)


def why_no_host(
    observed: Observed, wanted: HandoverRequest, rows: Iterable[int]
) -> Mapping[int, str]:
    """Return, by VM id, why OpenNebula would deploy none of these rows' VMs on any host."""
    reasons = {}
    for row in map(int, rows):
        vm = int(observed.snapshot.vms.id[row])
        hosts = sorted(wanted.hosts[vm])
        if not hosts:
            reasons[vm] = "OpenNebula finds no host that meets all its requirements"
        elif not any(_fits(observed, wanted, row, host) for host in hosts):
            cpu, memory_mib = observed.observation.vm_reserved[row].tolist()
            most = max(hosts, key=lambda host: wanted.room[host].memory_mib)
            reasons[vm] = (
                f"reserves {cpu:g} % of CPU and {memory_mib:,.0f} MiB; none of the {len(hosts)}"
                " hosts that meet its requirements has that left in OpenNebula's account: host"
                f" {most} has {wanted.room[most].cpu:g} % and {wanted.room[most].memory_mib:,.0f}"
                " MiB"
            )
    return reasons


def _fits(observed: Observed, wanted: HandoverRequest, row: int, host: int) -> bool:
    """Return whether OpenNebula would deploy the VM there; migrations are not checked."""
    room = wanted.room.get(host)
    if room is None or not observed.snapshot.vms.waiting[row]:
        return True
    cpu, memory_mib = observed.observation.vm_reserved[row].tolist()
    return bool(cpu <= room.cpu and memory_mib <= room.memory_mib)


async def hand_over(
    context: PeriodContext,
    observed: Observed,
    decided: PeriodDecision,
    wanted: HandoverRequest,
    waits: Callable[[], bool],
) -> DelegatedPlan:
    """Choose the plan and record its steps as sent; `waits`: whether OpenNebula still waits."""
    new = [step for step in _placements(decided.steps) if step.vm in wanted.hosts]
    waiting = _placements(row.step for row in observed.verdicts.waiting)
    there = set(observed.snapshot.vms.id.tolist())  # a VM may have ended since the request
    again = [step for step in waiting if step.vm in there and _still_wanted(step, wanted)]
    left_out = dict.fromkeys(
        [step.id for step in new if step.after],
        "another step must come first; OpenNebula asks again",
    )
    ready, plan = [step for step in new if not step.after], decided.decision.plan
    late = await context.executor.run(
        lambda: vms_of_later_waves(migration_waves(context.markets, observed.snapshot, plan, ready))
    )
    left_out |= dict.fromkeys(
        [step.id for step in ready if step.vm in late],
        "other migrations must come first; OpenNebula asks again",
    )
    fitting, too_much = _together(
        observed, wanted, [*again, *(step for step in ready if step.id not in left_out)]
    )
    left_out |= too_much
    left_out |= _with_their_orders(observed, new, left_out)
    fitting = [step for step in fitting if step.id not in left_out]
    if not waits():
        left_out = dict.fromkeys([step.id for step in new], "OpenNebula did not wait for the plan")
        fitting = []
    at_s, ids = context.now(), {step.id for step in new} - left_out.keys()
    await context.database.run(lambda c: journal.mark_sent(c, ids, at_s))
    await context.database.run(lambda c: journal.expire(c, left_out, at_s))
    by_vm = {step.vm: left_out[step.id] for step in new if step.id in left_out}
    placed = {step.vm for step in fitting} | late  # no error: these run where they are
    reasons = {**decided.decision.reasons, **by_vm}
    return DelegatedPlan(
        tuple(fitting),
        {vm: why for vm, why in reasons.items() if vm in wanted.hosts and vm not in placed},
        frozenset(left_out),
    )


def _with_their_orders(
    observed: Observed, new: Sequence[Deploy | Migrate], left_out: Mapping[str, str]
) -> dict[str, str]:
    """Return the further deployments that wait, because others of their limit order do."""
    starts = [step for step in new if isinstance(step, Deploy)]
    late = {step.vm: left_out[step.id] for step in starts if step.id in left_out}
    all_late = with_their_orders(observed.snapshot, late) if late else {}
    return {
        step.id: all_late[step.vm]
        for step in starts
        if step.vm in all_late and step.id not in left_out
    }


def _placements(steps: Iterable[Step]) -> list[Deploy | Migrate]:
    """Return the steps that OpenNebula can carry out itself: it alone says how it migrates."""
    return [
        step
        for step in steps
        if isinstance(step, Deploy) or (isinstance(step, Migrate) and step.live)
    ]


def _still_wanted(step: Deploy | Migrate, wanted: HandoverRequest) -> bool:
    """Return whether to repeat a step: its plan may be lost, or refused because of another one."""
    return isinstance(step, Deploy) and step.host in wanted.hosts.get(step.vm, ())


def _together(
    observed: Observed, wanted: HandoverRequest, steps: Sequence[Deploy | Migrate]
) -> tuple[list[Deploy | Migrate], dict[str, str]]:
    """Return the steps that fit OpenNebula's room one after another, and why others wait."""
    left = {host: (room.cpu, room.memory_mib) for host, room in wanted.room.items()}
    fitting: list[Deploy | Migrate] = []
    without: dict[str, str] = {}
    for step in steps:
        if isinstance(step, Deploy) and step.host in left:
            row = observed.snapshot.vm_row(step.vm)
            cpu, memory_mib = observed.observation.vm_reserved[row].tolist()
            has = left[step.host]
            if cpu > has[0] or memory_mib > has[1]:
                without[step.id] = (
                    f"OpenNebula has {has[0]:g} % of CPU and {has[1]:.0f} MiB left to reserve on"
                    f" host {step.host}; the VM reserves {cpu:g} % and {memory_mib:.0f} MiB"
                )
                continue
            left[step.host] = (has[0] - cpu, has[1] - memory_mib)
        fitting.append(step)
    return fitting, without


async def answer_handover(
    context: PeriodContext, observed: Observed, decided: PeriodDecision, handover: PendingHandover
) -> Mapping[str, bool]:
    """Answer OpenNebula; return by id of all steps that are its own: whether the plan has it."""
    handed = await hand_over(context, observed, decided, handover.wanted, handover.waits)
    if not handover.answer.called:
        handover.answer.callback(handed)
    own = (step.id for step in _placements(decided.steps))
    return {vm: vm not in handed.left_out for vm in own}
