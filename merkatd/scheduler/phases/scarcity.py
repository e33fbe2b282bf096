"""Scarce resources: VMs that come too late wait, and the rest is decided again.

A strategy checks for each VM alone whether a host would take it. If several VMs need the same last
device, lease or gigabyte, those after the first are removed (a new VM waits, a running one stays).
The rest is decided again, so that shares and prices are correct without them.

# Note [Owners whose VMs are late again and again]

An owner can let one VM after the other be late. Example: a network has one lease left, and each of
nine orders has two VMs that need one. Each order takes the whole cloud, so the next one is found
only once the one before is removed. When the rounds were used up, no order of any owner started, in
every period. So from the fourth round on the owner of a late VM gets no host for any other waiting
VM in this period. The same applies to owners of hopeless VMs from the second decision on, as hosts
that hopeless VMs want are closed to the VMs of all owners.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from merkatd.cluster import (
    Decision,
    Deploy,
    HostState,
    Migrate,
    Plan,
    Snapshot,
    urgent_vms,
)
from merkatd.cluster.columns import NO_HOST, is_one_of
from merkatd.cluster.left_out import (
    waiting_with,
    with_orders_postponed,
    with_their_orders,
    without_places,
    without_starting_orders,
)
from merkatd.limits import LimitPlan
from merkatd.placement.base.narrowed_hosts import narrowed_to
from merkatd.placement.changes.plan_changes import without_arrivals
from merkatd.scheduler.base.ports import CapacityPort
from merkatd.scheduler.clearing.unstocked_orders import never_starting
from merkatd.scheduler.phases.other_hosts import with_only_these_moves, without_hopeless_hosts

MOST_ROUNDS = 8
"""The most repeated decisions; after that, steps without stock are removed from the plan."""

_PATIENT_ROUNDS = 3
"""The rounds after which the owner of a late VM gets no other host in this period."""
_TURNS = 5
"""The most decisions because of missing memory; in the last one nothing is migrated."""


def within_capacity(
    snapshot: Snapshot,
    decide: Callable[[Snapshot], Decision],
    stock: Callable[[], CapacityPort] | None,
    staying: Callable[[Plan], AbstractSet[int]] = lambda _plan: frozenset(),
) -> Decision:
    """Return a decision in which no scarce resource is given to more VMs than it has places for.

    `staying` returns the ids of VMs that a plan moves although they must stay.
    """
    late = {} if stock is None else never_starting(snapshot, stock())
    stays: set[int] = set()
    owners: set[int] = set()
    decision = decide(without_places(snapshot, late.keys()))
    for turn in range(MOST_ROUNDS + 1):
        more = {} if stock is None else _left_out(snapshot, decision, stock())
        more = with_their_orders(snapshot, more)
        held = staying(decision.plan)
        late |= more
        stays |= held
        if not more and not held:
            break
        if turn >= _PATIENT_ROUNDS:
            owners |= _owners_of(snapshot, more.keys())
            late = _others_of(snapshot, owners) | late
        if turn < MOST_ROUNDS:
            now = without_places(snapshot, late.keys() | stays)
            if turn == MOST_ROUNDS - 1:
                now, others = without_starting_orders(now)
                late |= others
            decision = decide(now)
        else:
            plan = without_arrivals(decision.plan, late.keys() | stays)
            decision = replace(decision, plan=plan)
    return replace(decision, reasons={**decision.reasons, **late})


def within_memory(
    snapshot: Snapshot,
    decide: Callable[[Snapshot, Mapping[int, int]], tuple[Decision, LimitPlan]],
) -> tuple[Decision, LimitPlan]:
    """Return a decision without arrivals on hosts that do not have the memory yet.

    Such a VM would pay for a share of a host before it arrives there, and others would lack that
    share. So these VMs stay where they are, and all is decided again. Balloons make room where a VM
    was to go (`decide` receives these hosts by VM id), unless they never can: then the VM is
    hopeless. A hopeless VM that is new, or must leave its host, is tried on hosts that can take it.
    If hopeless VMs follow one another, their hosts take no more VMs. In the last decision only VMs
    move that must leave and have found room, and no limit order starts.

    See Note [Orders that wait for memory] in `left_out.py`.
    """
    late: dict[int, str] = {}
    tried: dict[int, str] = {}
    coming: dict[int, int] = {}
    gangs, owners = set[int](), set[int]()
    now, must = snapshot, urgent_vms(snapshot)
    for turn in range(_TURNS):
        decision, limits = decide(now, coming)
        hopeless = limits.hopeless.keys()
        owners |= _owners_of(snapshot, hopeless) if turn else set()
        new = limits.postponed.keys() - late.keys()
        if not new and not hopeless:
            break
        now, elsewhere = without_hopeless_hosts(now, limits.hopeless, must - late.keys())
        tried |= {vm: limits.postponed[vm] for vm in elsewhere}
        more = {vm: limits.postponed[vm] for vm in (new | hopeless) - elsewhere}
        late |= with_their_orders(now, more)
        to = _hosts_of(decision.plan, new - hopeless)
        in_time = new - hopeless - waiting_with(now, hopeless).keys()
        now, kept = with_orders_postponed(now, in_time, decision.plan)
        gangs |= kept.keys()
        coming = {vm: to for vm, to in {**coming, **to, **kept}.items() if vm not in hopeless}
        theirs = _others_of(snapshot, owners)
        late |= {vm: theirs[vm] for vm in theirs.keys() - tried.keys() - late.keys() - gangs}
        now = without_places(_only_there(now, kept), late.keys() - gangs)
        if turn >= _TURNS // 2:
            now = _closed(now, decision.plan, hopeless)
        if turn == _TURNS - 2:
            now = with_only_these_moves(
                now, _hosts_of(decision.plan, must - limits.postponed.keys())
            )
            now, others = without_starting_orders(now)
            late |= others
    gone = _hosts_of(decision.plan, tried.keys()).keys()
    still = {vm: why for vm, why in tried.items() if vm not in gone}
    postponed = {**still, **late, **limits.postponed}
    return decision, replace(limits, postponed=postponed)


def _only_there(snapshot: Snapshot, hosts: Mapping[int, int]) -> Snapshot:
    """Return the cloud in which these VMs (by id) may use these hosts only."""
    only = {snapshot.vm_row(vm): snapshot.hosts.id == host for vm, host in hosts.items()}
    return narrowed_to(snapshot, only, "the hosts that make room for its limit order")


def _hosts_of(plan: Plan, vms: AbstractSet[int]) -> dict[int, int]:
    """Return, by VM id, the hosts to which the plan would take these VMs."""
    steps = [step for step in plan if isinstance(step, Deploy | Migrate) and step.vm in vms]
    return {step.vm: step.host for step in steps}


def _closed(snapshot: Snapshot, plan: Plan, vms: AbstractSet[int]) -> Snapshot:
    """Return the cloud in which the planned target hosts of these VMs take no VM."""
    to = _hosts_of(plan, vms).values()
    hosts = snapshot.hosts
    closed = is_one_of(hosts.id, to) & (hosts.state == int(HostState.ON))
    state = np.where(closed, int(HostState.DISABLED), hosts.state)
    return replace(snapshot, hosts=replace(hosts, state=state))


def _owners_of(snapshot: Snapshot, vms: AbstractSet[int]) -> set[int]:
    """Return the owners of these VMs; ids below 0 are VMs that are to be created."""
    return {int(snapshot.vms.owner[snapshot.vm_row(vm)]) for vm in vms if vm >= 0}


def _others_of(snapshot: Snapshot, owners: AbstractSet[int]) -> dict[int, str]:
    """Return all VMs of these owners that wait for a host, by id, with the reason."""
    vms = snapshot.vms
    waits = vms.waiting & is_one_of(vms.owner, owners)
    return dict.fromkeys(vms.id[waits].tolist(), _OFTEN_LATE)


_OFTEN_LATE = "too many of its owner's VMs need a resource of which nothing is left in this period"


def _left_out(snapshot: Snapshot, decision: Decision, stock: CapacityPort) -> Mapping[int, str]:
    """Return the VMs for which nothing is left, with those that will start once others have left.

    Nobody is displaced for a limit order that could not start then.
    """
    late = vms_left_out(snapshot, decision.plan, stock)
    terms = decision.order_terms
    if terms is None:
        return late
    waits = terms.coming != NO_HOST
    vms, hosts = snapshot.vms.id[terms.rows[waits]], snapshot.hosts.id[terms.coming[waits]]
    pairs = zip(vms.tolist(), hosts.tolist(), strict=True)
    answers = ((vm, stock.take(vm, host)) for vm, host in pairs)
    return {**late, **{vm: why for vm, why in answers if why is not None}}


def vms_left_out(snapshot: Snapshot, plan: Plan, stock: CapacityPort) -> Mapping[int, str]:
    """Return, by id, the VMs for which nothing is left, with the resource that is missing.

    New VMs come first, by priority and id; then migrating ones.
    """
    steps = [step for step in plan if isinstance(step, Deploy | Migrate)]

    def turn(step: Deploy | Migrate) -> tuple[bool, float, int]:
        priority = float(snapshot.vms.priority[snapshot.vm_row(step.vm)])
        return isinstance(step, Migrate), -priority, step.vm

    answers = ((step.vm, stock.take(step.vm, step.host)) for step in sorted(steps, key=turn))
    return {vm: why for vm, why in answers if why is not None}
