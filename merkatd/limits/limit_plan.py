"""The limit plan: the steps on hosts, in order, that make limits follow the allocations.

Only limits that differ get a step. Balloons shrink before a VM comes or another balloon grows. A
VM's pins are removed before its migration and set again after it. Limits follow the step that
brings the VM. Only running VMs of a market, and VMs that the plan starts, get steps.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np

from merkatd.cluster import Balloon, Decision, Floats, Plan, Snapshot, Step
from merkatd.limits import limit_reasons
from merkatd.limits.balloon_steps import MemoryPlan, memory_steps
from merkatd.limits.cpu_limits import limit_steps
from merkatd.limits.enforced_limits import CPU, MEMORY, EnforcedLimits, Topology
from merkatd.limits.io_limits import throttle_steps
from merkatd.limits.memory_targets import MemoryHoldings, memory_holdings
from merkatd.limits.occupancy import Occupancy, occupancy_of
from merkatd.limits.pin_steps import after_removed_pins, pin_steps, wanted_pins
from merkatd.limits.settings import LimitsSettings, MemorySettings

NOBODY_COMES: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class LimitPlan:
    """The plan with the steps on hosts, and notices for the administrator."""

    plan: Plan
    """All feasible steps of this period, including those of the decision."""
    postponed: Mapping[int, str]
    """By VM id: why a step of the decision waits for memory and is left out of the plan."""
    overfull: Mapping[int, str]
    """By host id: why floors don't fit its memory. VMs keep their floors all the same."""
    holding_mib: Mapping[int, int]
    """By VM id: the memory of VMs that hold more than their share or can't change their memory."""
    hopeless: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """By id of postponed VMs without room in later periods: the ids of the hosts without room."""
    coming: Mapping[int, int] = field(default_factory=dict)
    """By id of VMs that the plan does not bring yet: the hosts that make room for them."""


def plan_limits(
    snapshot: Snapshot,
    decision: Decision,
    in_force: EnforcedLimits,
    topologies: Mapping[int, Topology],
    settings: LimitsSettings,
    rate: Floats | None = None,
    keeps: Floats | None = None,
    coming: Mapping[int, int] = NOBODY_COMES,
    later: AbstractSet[int] = frozenset(),
) -> LimitPlan:
    """Return the steps on hosts that enforce the allocations of the decision.

    `topologies` is by host id: only on these hosts virtual CPUs are pinned. `rate` is [vms]: the
    VM's spending rate for cores, NaN if shares alone decide which cores it gets. `keeps` is [vms]:
    the most MiB in use that the VM keeps, NaN if it keeps all. `coming`: by VM id, the hosts where
    balloons make room for VMs that the plan does not bring yet. `later`: the ids of VMs that the
    plan moves, but not in this period: their cores, networks and disks are limited on their
    present hosts. Limits of resources outside the snapshot are unchanged.
    """
    rates = np.full(len(snapshot.vms), np.nan) if rate is None else rate
    scene = occupancy_of(snapshot, decision.plan)
    room = MemoryPlan((), decision.plan.steps, {})
    balloons: list[Step] = []
    overfull: dict[int, str] = {}
    holding: dict[int, int] = {}
    if MEMORY in snapshot.resources:
        share = decision.allocations[:, snapshot.resources.index(MEMORY)]
        rows = {snapshot.vm_row(vm): snapshot.host_row(host) for vm, host in coming.items()}
        due = scene.expecting({row: at for row, at in rows.items() if row not in scene.arrival})
        stock = memory_holdings(snapshot, share, due, in_force, settings.memory, keeps)
        room = memory_steps(snapshot, decision.plan, scene, stock, settings.memory)
        balloons = list(_balloons(snapshot, scene, stock, room))
        overfull = _overfull(snapshot, stock)
        holding = _holding(snapshot, scene, stock, settings.memory)
    steps: list[Step] = list(room.steps)
    limited: list[Step] = []
    stay = later | {vm for vm in room.postponed if vm >= 0}
    scene = scene.without([snapshot.vm_row(vm) for vm in sorted(stay)])
    if CPU in snapshot.resources:
        cpu = decision.allocations[:, snapshot.resources.index(CPU)]
        cores = wanted_pins(snapshot, scene, cpu, in_force, topologies, settings.pins, rates)
        pinning = list(pin_steps(snapshot, scene, cores, in_force, topologies))
        steps = after_removed_pins(steps, pinning)
        limited = [
            *pinning,
            *limit_steps(snapshot, scene, cpu, set(cores), in_force, settings.cpu),
        ]
    throttles = throttle_steps(snapshot, scene, decision.allocations, in_force)
    plan = Plan.ordered([*balloons, *steps, *limited, *throttles])
    return LimitPlan(plan, room.postponed, overfull, holding, room.hopeless, coming)


def _balloons(
    snapshot: Snapshot, occupancy: Occupancy, stock: MemoryHoldings, room: MemoryPlan
) -> Iterator[Step]:
    starting = occupancy.starting
    for vm, memory_mib, after in room.changes:
        yield Balloon(
            period=snapshot.period,
            vm=int(snapshot.vms.id[vm]),
            memory_mib=memory_mib,
            # A guest that has just started has no data in memory to lose.
            unpaid=bool(starting[vm]) or (memory_mib < int(stock.holds[vm]) and stock.unpaid(vm)),
            after=after,
            reason=limit_reasons.why_balloon(
                snapshot, stock, vm, int(occupancy.then[vm]), memory_mib
            ),
        )


def _overfull(snapshot: Snapshot, stock: MemoryHoldings) -> dict[int, str]:
    room = np.maximum(stock.room + stock.leaving, 0)
    rows = np.flatnonzero(stock.needed > room).tolist()
    return {
        int(snapshot.hosts.id[row]): limit_reasons.why_overfull(snapshot, stock, row)
        for row in rows
    }


def _holding(
    snapshot: Snapshot, occupancy: Occupancy, stock: MemoryHoldings, settings: MemorySettings
) -> dict[int, int]:
    """Return, by id of VMs above their share or without control, their memory after this period.

    A guest that holds more than its balloon's last target is slow, or does not obey: it counts with
    what it holds now.
    """
    set_mib = stock.guests.balloon
    slow = (set_mib >= 0) & (stock.holds > set_mib + settings.least_step_mib)
    holds = np.where(slow, stock.holds, stock.moved)
    beyond = ~stock.adjustable | (holds > stock.guests.share)
    rows = np.flatnonzero(occupancy.limited & ~occupancy.starting & beyond).tolist()
    return {int(snapshot.vms.id[row]): int(holds[row]) for row in rows}
