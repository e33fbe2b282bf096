"""Pin steps: changed pins, pins removed before a migration, pins set after it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from merkatd.cluster import Floats, Migrate, Pin, Snapshot, Step
from merkatd.cluster.columns import is_one_of
from merkatd.limits import limit_reasons
from merkatd.limits.core_assignment import assign_cores
from merkatd.limits.enforced_limits import Cores, EnforcedLimits, Pinned, Topology
from merkatd.limits.occupancy import Occupancy
from merkatd.limits.settings import PinSettings


def wanted_pins(
    snapshot: Snapshot,
    occupancy: Occupancy,
    share: Floats,
    in_force: EnforcedLimits,
    topologies: Mapping[int, Topology],
    settings: PinSettings,
    rate: Floats,
) -> dict[int, Cores]:
    """Return, by row of each pinned VM, the cores of its virtual CPUs in the end.

    `rate` is [vms]: the VM's spending rate for cores, NaN if rates don't buy cores.
    """
    wanted = {}
    rows = np.flatnonzero(is_one_of(snapshot.vms.id, in_force.pins))
    for row in rows.tolist():
        standing = in_force.pinned(int(snapshot.vms.id[row]))
        if standing and (in_force.pin_policy[row] or not occupancy.limited[row]):
            wanted[row] = standing
    order = np.argsort(occupancy.then, kind="stable")
    for host in np.flatnonzero(is_one_of(snapshot.hosts.id, topologies)).tolist():
        first, last = np.searchsorted(occupancy.then[order], [host, host + 1])
        there = [
            _pinned(snapshot, occupancy, (share, rate), in_force, row)
            for row in order[first:last].tolist()
        ]
        topology = topologies[int(snapshot.hosts.id[host])]
        chosen = assign_cores(topology, there, settings.least_gain_units)
        wanted |= {row: tuple((core,) for core in cores) for row, cores in chosen.items()}
    return wanted


def _pinned(
    snapshot: Snapshot,
    occupancy: Occupancy,
    shares_and_rates: tuple[Floats, Floats],
    in_force: EnforcedLimits,
    row: int,
) -> Pinned:
    """Return the VM's input for the choice of cores; pins count only on the VM's present host."""
    stays = occupancy.now[row] == occupancy.then[row]
    share, rate = (float(column[row]) for column in shares_and_rates)
    return Pinned(
        vm=row,
        vcpus=int(snapshot.vms.vcpus[row]),
        share=share,
        rate=None if np.isnan(rate) else rate,
        cores=in_force.pinned(int(snapshot.vms.id[row])) if stays else (),
        fixed=bool(in_force.pin_policy[row] or not occupancy.limited[row]),
    )


def pin_steps(
    snapshot: Snapshot,
    occupancy: Occupancy,
    wanted: Mapping[int, Cores],
    in_force: EnforcedLimits,
    topologies: Mapping[int, Topology],
) -> Iterator[Pin]:
    """Yield steps that remove pins, and steps that set pins that differ from the present ones."""
    known = np.flatnonzero(is_one_of(snapshot.vms.id, in_force.pins))
    for row in sorted({*wanted, *known.tolist()}):
        if not occupancy.limited[row] or in_force.pin_policy[row]:
            continue
        vm, host = int(snapshot.vms.id[row]), int(occupancy.then[row])
        arrival = occupancy.arrival.get(row)
        standing, cores = in_force.pinned(vm), wanted.get(row, ())
        if standing and (isinstance(arrival, Migrate) or not cores):
            why = limit_reasons.why_freed(snapshot, host if arrival else None)
            yield Pin(period=snapshot.period, vm=vm, cores=(), reason=why)
            standing = ()
        if cores != standing:
            usable = topologies[int(snapshot.hosts.id[host])].usable
            yield Pin(
                period=snapshot.period,
                vm=vm,
                cores=cores,
                after=(arrival.id,) if arrival else (),
                reason=limit_reasons.why_pinned(snapshot, host, len(cores), usable),
            )
        elif cores and vm in in_force.emulators_off:
            why = limit_reasons.why_emulator(snapshot, host)
            yield Pin(period=snapshot.period, vm=vm, cores=cores, reason=why)


def after_removed_pins(steps: list[Step], pinning: list[Pin]) -> list[Step]:
    """Return the steps, with each migration after the step that removes its VM's pins."""
    frees = {pin.vm: pin.id for pin in pinning if not any(pin.cores)}
    return [
        replace(step, after=(*step.after, frees[step.vm]))
        if isinstance(step, Migrate) and step.vm in frees
        else step
        for step in steps
    ]
