"""VMs that may start before the next period, and the limits that each then gets.

These are the VMs that the period places or migrates, VMs that are off and may be resumed, and
running or busy VMs that their owners may restart. A restarted VM has a new domain without limits,
and gets the limits of the period. A migrated VM has those of its former host until then. A resumed
VM has no share. It gets the amounts that its charge pays for, as far as its payer has free credits.
Its weight is no higher than that of its neighbours, which paid for the whole host. All functions
are pure, except for the query of the payers' funds.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from merkatd.cluster import (
    ACTIVE,
    RESTING,
    Balloon,
    Bools,
    Deploy,
    Floats,
    Limit,
    Migrate,
    OnHost,
    Snapshot,
    Throttle,
    VmState,
)
from merkatd.cluster.columns import NO_HOST, NO_MARKET, is_one_of
from merkatd.limits.cpu_limits import limit_steps
from merkatd.limits.enforced_limits import BEYOND, MEMORY, UNSET, EnforcedLimits
from merkatd.limits.io_limits import throttle_steps
from merkatd.limits.occupancy import Occupancy, occupancy_of
from merkatd.scheduler.charging.contended_parts import contended
from merkatd.scheduler.charging.means_at_rest import MeansAtRest, means_in
from merkatd.scheduler.charging.used_cpu import CPU
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.phases.decide import PeriodDecision

_LITTLE = 0.02
"""The part of a host's cores below which a gone guest is no reason for an early period."""


@dataclass(frozen=True, slots=True)
class StartingGuests:
    """The VMs that may start, and the other VMs on their hosts."""

    steps: Mapping[int, tuple[OnHost, ...]] = field(default_factory=dict)
    """By VM id: the limits to set once the VM runs."""
    others: Mapping[int, int] = field(default_factory=dict)
    """By VM id: the hosts of all VMs that ran at the observation."""
    where: Mapping[int, int] = field(default_factory=dict)
    """By VM id: the hosts of VMs that will start, and of managed VMs that may restart."""
    leaving: Mapping[int, int] = field(default_factory=dict)
    """By id of migrated VMs: the hosts that they leave."""
    hosts: list[int] = field(default_factory=list)
    """The ids of these hosts, ascending; the receiver may change the list."""
    runs: dict[int, int] = field(default_factory=dict)
    """By VM id: the runs that have limits; the receiver may change the mapping."""
    missed: frozenset[int] = frozenset()
    """VMs with shares that other VMs on the host lack and can get once the VM is gone."""
    again: Callable[[Collection[int]], Sequence[OnHost]] = lambda _vms: ()
    """Returns the limits of some of these VMs after a restart."""


async def starting_guests(
    context: PeriodContext, observed: Observed, decided: PeriodDecision
) -> StartingGuests:
    """Return the VMs that may start after this period has acted."""
    placed = await context.executor.run(lambda: _placed(decided))
    off = is_one_of(observed.snapshot.vms.state, RESTING) & (
        observed.snapshot.vms.market != NO_MARKET
    )
    returning: dict[int, tuple[OnHost, ...]] = {}
    if off.any():
        means = await context.database.read(lambda c: means_in(c, context, observed.period))
        returning = await context.executor.run(
            lambda: _returning(context, observed, decided, means)
        )
    steps = {**{vm: some for vm, (_, some) in placed.items()}, **returning}
    runs, watched = await context.executor.run(lambda: _watched(observed, decided))
    if not steps and not watched:
        return StartingGuests()
    others, where = await context.executor.run(lambda: _places(observed, placed, steps, watched))
    leaving = await context.executor.run(lambda: _leaving(decided, placed))
    hosts = await context.executor.run(lambda: sorted({*where.values(), *leaving.values()}))
    again = partial(_again, context, observed, decided)
    missed = await context.executor.run(lambda: _missed(observed, decided))
    return StartingGuests(steps, others, where, leaving, hosts, runs, missed, again)


def _leaving(decided: PeriodDecision, placed: Collection[int]) -> dict[int, int]:
    """Return the hosts that migrated VMs leave, by VM id."""
    return {
        step.vm: step.source
        for step in decided.steps
        if isinstance(step, Migrate) and step.vm in placed
    }


def _places(
    observed: Observed,
    placed: Mapping[int, tuple[int, Any]],
    steps: Collection[int],
    watched: Collection[int],
) -> tuple[dict[int, int], dict[int, int]]:
    """Return, by VM id, the hosts of all running VMs, and of the VMs that may start."""
    vms, places = observed.observation.vm_id.tolist(), observed.observation.vm_host.tolist()
    there = dict(zip(vms, places, strict=True))
    on = is_one_of(observed.observation.vm_state, ACTIVE)
    others = {vm: there[vm] for vm in observed.observation.vm_id[on].tolist() if there[vm] >= 0}
    stay = {vm: there[vm] for vm in watched}
    begin = {vm: placed[vm][0] if vm in placed else there[vm] for vm in steps}
    return others, {**stay, **begin}


def _missed(observed: Observed, decided: PeriodDecision) -> frozenset[int]:
    """Return the VMs with more than a small share of a host on which another VM lacks cores."""
    snapshot, decision = observed.snapshot, decided.decision
    host = occupancy_of(snapshot, decision.plan).then
    rows = np.flatnonzero(contended(snapshot, decision)[:, CPU])
    much = decision.allocations[rows, CPU] > _LITTLE * snapshot.hosts.capacity[host[rows], CPU]
    return frozenset(snapshot.vms.id[rows[much]].tolist())


def _watched(observed: Observed, decided: PeriodDecision) -> tuple[dict[int, int], frozenset[int]]:
    """Return the runs that have limits, by VM id, and the VMs that stay on their hosts.

    A VM that was busy without limits (it booted or was shut down) has no run here. It gets limits
    as soon as its guest is seen.
    """
    if observed.use.run is None:
        return {}, frozenset()
    vms, in_force = observed.snapshot.vms, observed.in_force
    scene = occupancy_of(observed.snapshot, decided.decision.plan)
    stays = _stays(observed.snapshot, scene)
    limited = scene.limited | (in_force.global_quota_us > 0) | (in_force.vcpu_quota_us > 0)
    ids = set(vms.id[stays & limited].tolist())
    known = zip(observed.use.vm_id.tolist(), observed.use.run.tolist(), strict=True)
    return {vm: run for vm, run in known if vm in ids}, frozenset(vms.id[stays].tolist())


def _stays(snapshot: Snapshot, occupancy: Occupancy) -> Bools:
    """[vms]: whether the VM is managed and stays on its host, running or busy."""
    vms = snapshot.vms
    on_host = (
        (occupancy.now != NO_HOST) & (occupancy.now == occupancy.then) & (vms.market != NO_MARKET)
    )
    busy = on_host & (vms.state == VmState.BUSY)
    stays: Bools = busy | (on_host & occupancy.limited & (vms.state == VmState.RUNNING))
    stays[list(occupancy.arrival)] = False
    return stays


def _again(
    context: PeriodContext, observed: Observed, decided: PeriodDecision, vms: Collection[int]
) -> tuple[OnHost, ...]:
    """Return the limits of VMs that have restarted, since a new domain has no limits."""
    snapshot, allocations = observed.snapshot, decided.decision.allocations
    scene = occupancy_of(snapshot, decided.decision.plan)
    scene = replace(scene, limited=_stays(snapshot, scene) & is_one_of(snapshot.vms.id, vms))
    in_force = _unset(snapshot, observed.in_force)
    share = allocations[:, CPU]
    limits = limit_steps(snapshot, scene, share, frozenset(), in_force, context.limits.cpu)
    balloons = _balloons(observed, decided, scene.limited)
    return (*limits, *throttle_steps(snapshot, scene, allocations, in_force), *balloons)


def _unset(snapshot: Snapshot, in_force: EnforcedLimits) -> EnforcedLimits:
    """Return the limits of new domains: unset, where they can be set."""
    free = {
        name: np.where(there == BEYOND, BEYOND, UNSET) for name, there in in_force.further.items()
    }
    nothing = EnforcedLimits.nothing(snapshot)
    return replace(nothing, pin_policy=in_force.pin_policy, further=free)


def _balloons(observed: Observed, decided: PeriodDecision, again: Bools) -> list[Balloon]:
    """Return the earlier memory targets of VMs that have restarted.

    A booting guest has all of its size, and no data in it yet.
    """
    balloon_mib = {
        step.vm: step.memory_mib for step in decided.limits.plan if isinstance(step, Balloon)
    }
    vms, before = observed.snapshot.vms, observed.in_force.memory_mib
    size = observed.in_force.boots_with(vms.cap[:, observed.snapshot.resources.index(MEMORY)])
    balloons = []
    for row in np.flatnonzero(again & observed.in_force.balloon).tolist():
        vm, kept = int(vms.id[row]), int(before[row])
        memory_mib = balloon_mib.get(vm, kept)
        if 0 <= memory_mib < size[row]:
            why = f"from its size to {memory_mib} MiB, as before it was started again"
            balloons.append(
                Balloon(period=observed.period, vm=vm, reason=why, memory_mib=memory_mib)
            )
    return balloons


def _placed(decided: PeriodDecision) -> dict[int, tuple[int, tuple[OnHost, ...]]]:
    """Return, by id of each deployed or migrated VM, its host and the limits that follow."""
    arrivals = {step.id: step for step in decided.steps if isinstance(step, Deploy | Migrate)}
    limits_of_vm: dict[int, tuple[int, tuple[OnHost, ...]]] = {}
    for step in decided.limits.plan if arrivals else ():
        if not isinstance(step, Limit | Throttle | Balloon):
            continue
        if step.after and arrivals.keys() >= set(step.after):
            before = limits_of_vm.get(step.vm, (0, ()))[1]
            limits_of_vm[step.vm] = (arrivals[step.after[0]].host, (*before, step))
    return limits_of_vm


def _returning(
    context: PeriodContext,
    observed: Observed,
    decided: PeriodDecision,
    means: Mapping[int, MeansAtRest],
) -> dict[int, tuple[OnHost, ...]]:
    """Return, by VM id, the limits of each VM that is off, for the case that it is resumed."""
    snapshot, vms = observed.snapshot, observed.snapshot.vms
    off = is_one_of(vms.state, RESTING) & is_one_of(vms.id, means)
    if not off.any():
        return {}
    scene = occupancy_of(snapshot, decided.decision.plan)
    there = scene.bidding & (vms.market != NO_MARKET) & (scene.then != NO_HOST)
    highest = np.zeros(len(snapshot.hosts))
    np.maximum.at(highest, scene.then[there], vms.bid[there, CPU])
    shares, bid = decided.decision.allocations.copy(), vms.bid.copy()
    for row in np.flatnonzero(off).tolist():
        own, beside = means[int(vms.id[row])], float(highest[scene.then[row]])
        shares[row] = own.amounts
        shares[row, CPU] = own.units
        # Weights of neighbours stay unchanged, so no VM may weigh more than the heaviest neighbour.
        bid[row, CPU] = min(own.weighs, beside) if beside > 0 else own.weighs
    state = np.where(off, int(VmState.RUNNING), vms.state)
    after = replace(snapshot, vms=replace(vms, bid=bid, state=state))
    scene = replace(occupancy_of(after, decided.decision.plan), limited=off)
    throttles = throttle_steps(after, scene, shares, _unset(snapshot, observed.in_force))
    limits_of_vm: dict[int, tuple[OnHost, ...]] = {}
    limits = _limits(context, after, decided, shares[:, CPU], observed.in_force)
    steps: list[OnHost] = [*limits, *throttles, *_balloons_of_returning(observed, decided, off)]
    for step in steps:
        if off[snapshot.vm_row(step.vm)]:
            limits_of_vm[step.vm] = (*limits_of_vm.get(step.vm, ()), step)
    return limits_of_vm


def _balloons_of_returning(
    observed: Observed, decided: PeriodDecision, off: Bools
) -> list[Balloon]:
    """Return the memory of each VM that is off, if resumed: its floor and a part of the rest.

    A guest returns with all of its size. Its host keeps its floor free. The host's free memory is
    divided among all VMs that are off.
    """
    snapshot, vms = observed.snapshot, observed.snapshot.vms
    if MEMORY not in snapshot.resources:
        return []
    column = snapshot.resources.index(MEMORY)
    then = occupancy_of(snapshot, decided.decision.plan).then
    there, resting = then != NO_HOST, off & (then != NO_HOST)
    given = decided.decision.allocations[:, column]
    holds = np.where(is_one_of(vms.state, RESTING), vms.floor[:, column], vms.held[:, column])
    holds = np.where(vms.market == NO_MARKET, vms.cap[:, column], np.fmax(holds, given))
    hosts = len(snapshot.hosts)
    free = snapshot.hosts.capacity[:, column] - np.bincount(then[there], holds[there], hosts)
    boots_mib = observed.in_force.boots_with(vms.cap[:, column])
    each = np.maximum(free, 0.0) / np.maximum(np.bincount(then[resting], minlength=hosts), 1)
    steps = []
    for row in np.flatnonzero(resting).tolist():
        cap, floor = float(vms.cap[row, column]), float(vms.floor[row, column])
        memory_mib = int(min(np.ceil(floor) + each[then[row]], cap))
        if memory_mib < boots_mib[row]:
            why = f"from its size to {memory_mib} MiB, which its host has free, as it was resumed"
            vm, anew = int(vms.id[row]), vms.state[row] == VmState.POWERED_OFF
            # A booting guest has no data in its memory yet; a suspended guest has.
            step = Balloon(
                period=observed.period, vm=vm, reason=why, memory_mib=memory_mib, unpaid=bool(anew)
            )
            steps.append(step)
    return steps


def _limits(
    context: PeriodContext,
    snapshot: Snapshot,
    decided: PeriodDecision,
    share: Floats,
    in_force: EnforcedLimits,
) -> list[Limit]:
    scene = occupancy_of(snapshot, decided.decision.plan)
    return list(limit_steps(snapshot, scene, share, frozenset(), in_force, context.limits.cpu))
