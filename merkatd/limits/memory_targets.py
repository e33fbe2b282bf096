"""Memory targets: present and wanted memory of each VM, and the room on its host.

All amounts are whole MiB. A VM *holds* the larger of its monitored memory and its balloon's target:
a guest may grow to the target at any time without a request. `balloon_steps.py` decides how memory
passes between VMs of a host.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from merkatd.cluster import RESTING, Bools, Floats, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_MARKET, is_one_of
from merkatd.limits.enforced_limits import MEMORY, EnforcedLimits
from merkatd.limits.occupancy import Occupancy
from merkatd.limits.settings import MemorySettings


@dataclass(frozen=True, slots=True, eq=False)
class GuestMemory:
    """The memory of each VM, [vms], in MiB."""

    size: Floats
    """The cap: the most that the VM can hold."""
    floor: Floats
    share: Floats
    used: Floats
    """Use as the guest reports it; NaN if it does not report."""
    held: Floats
    """Monitored memory; NaN if unknown."""
    balloon: Ints
    """Target of the balloon; below 0 if it has none."""
    keeps: Floats | None = None
    """The most memory in use that the VM keeps; NaN if it keeps all. None: every VM keeps all."""
    at_boot: Floats | None = None
    """Memory at boot, if it differs from the size: a cap limits only what the VM keeps."""

    @property
    def boots_with(self) -> Floats:
        """Return [vms]: the memory that the guest boots with, independent of its owner's cap."""
        return self.size if self.at_boot is None else self.at_boot


def holdings(guests: GuestMemory) -> Ints:
    """Return what each VM holds or may take at any time; all of its memory if unknown."""
    known = np.fmax(guests.held, np.where(guests.balloon >= 0, guests.balloon, np.nan))
    return np.ceil(np.where(np.isnan(known), guests.boots_with, known)).astype(np.int64)


def least(guests: GuestMemory, settings: MemorySettings) -> Ints:
    """Return each VM's least memory: its floor, or its measured use plus a margin, as far as held.

    A guest that does not report its use keeps all it holds, unless `shrink_unmeasured` is set. More
    use does not let a VM hold more: above the floor, only a larger share does. If a VM does not pay
    for its use while others bid for the memory, it keeps what the decision leaves to it.
    """
    margin = np.maximum(settings.margin_mib, settings.margin_part * guests.used)
    unmeasured = 0.0 if settings.shrink_unmeasured else np.inf
    in_use = np.where(np.isnan(guests.used), unmeasured, guests.used + margin)
    if guests.keeps is not None:
        in_use = np.fmin(in_use, guests.keeps)
    need = np.maximum(guests.floor, np.minimum(in_use, holdings(guests)))
    return _whole(np.minimum(np.ceil(need), np.floor(guests.size)))


def targets(guests: GuestMemory, least_mib: Ints, host: Ints, room_mib: Ints) -> Ints:
    """Return the target of each balloon: the share, or the least memory if that is more.

    `host` is a row of `room_mib`, the room of a host for these VMs together. If the targets exceed
    the room, because some VMs need more than their share, all amounts above the least are scaled
    down equally. If even the least memory does not fit, it is the target all the same.
    """
    due = np.minimum(np.floor(guests.share), np.floor(guests.size))
    above = np.maximum(_whole(due) - least_mib, 0)
    hosts = len(room_mib)
    spare = np.maximum(room_mib - np.bincount(host, least_mib, hosts), 0.0)
    wanted = np.bincount(host, above, hosts)
    scale = np.divide(spare, wanted, out=np.ones(hosts), where=wanted > spare)
    return least_mib + _whole(np.floor(above * scale[host]))


def steps(guests: GuestMemory, target: Ints, least_mib: Ints, settings: MemorySettings) -> Ints:
    """Return each balloon's value after this period, if the host has the memory.

    The settings limit the change. But a VM below its least memory gets that at once, and a VM
    returns unpaid memory at once: its least already includes what it may keep for now. The value is
    unchanged if the target is near enough; floors are met to the MiB.
    """
    holds = holdings(guests)
    gap = target - holds
    most = np.minimum(settings.most_step_mib, settings.most_step_part * guests.boots_with)
    most = np.maximum(_whole(np.floor(most)), 1)
    up = np.maximum(most, least_mib - holds)
    bounded = True if guests.keeps is None else np.isnan(guests.keeps)
    moved = holds + np.clip(gap, -np.where(bounded, most, holds), up)
    falling = gap < 0
    behind = falling & (guests.balloon >= 0) & (guests.balloon < moved)
    moved = np.where(behind, np.maximum(guests.balloon, target), moved)
    worth = np.abs(gap) >= settings.least_step_mib
    worth |= holds < np.minimum(guests.floor, np.floor(guests.size))
    return np.where(worth, moved, holds)


def _whole(amount: Floats) -> Ints:
    return amount.astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class MemoryHoldings:
    """The memory of VMs and hosts, in whole MiB.

    The columns are [vms]; `free`, `room`, `needed` and `leaving` are [hosts].
    """

    guests: GuestMemory
    holds: Ints
    """Present memory: the full size for a VM outside every market, the floor for a resting VM."""
    least: Ints
    target: Ints
    moved: Ints
    """Value of the balloon after this period, if the host has room."""
    adjustable: Bools
    """Whether the VM runs, its balloon works, and its memory is known."""
    free: Ints
    """Free memory of the host; below 0 if VMs hold more than its capacity."""
    room: Ints
    """Room of the host for the VMs that get limits, without the memory of other VMs."""
    needed: Ints
    """Least memory of the VMs that get limits; the host is overfull if it exceeds the room."""
    brings: Ints
    """Memory of a VM at the moment that the plan resumes it, 0 for all others."""
    leaving: Ints
    """Memory of VMs that migrate to other hosts, beyond what is reserved for them. `free` and
    `room` exclude it until the VMs have left."""

    def unpaid(self, vm: int) -> bool:
        """Return whether the VM in this row must return memory that it uses but doesn't pay for."""
        keeps = self.guests.keeps
        return keeps is not None and not math.isnan(float(keeps[vm]))


def memory_holdings(
    snapshot: Snapshot,
    share: Floats,
    occupancy: Occupancy,
    in_force: EnforcedLimits,
    settings: MemorySettings,
    keeps: Floats | None = None,
) -> MemoryHoldings:
    """Return the memory of all VMs and hosts; `share` is [vms], in MiB.

    `keeps` is [vms]: the most MiB in use that each VM keeps, NaN if it keeps all.

    A VM without a balloon, or in the middle of an operation, has no target: it counts with what it
    holds. A VM that the plan starts counts with its floor, a VM that it resumes with what it holds
    from its first moment. A migrating VM counts on both hosts: its memory stays on the source until
    it has arrived, and for longer if the migration fails.
    """
    guests = _guests(snapshot, share, in_force, keeps)
    starting = occupancy.starting
    floor = np.ceil(guests.floor).astype(np.int64)
    holds = _held_by_all(snapshot, guests, floor)
    adjustable = occupancy.limited & ~starting & in_force.balloon & ~np.isnan(guests.held)
    chosen = adjustable | (occupancy.limited & starting)
    need = np.where(starting, floor, least(guests, settings))

    capacity = np.floor(snapshot.hosts.capacity[:, snapshot.resources.index(MEMORY)])
    leaving = _leaving(snapshot, holds)
    capacity_mib = capacity.astype(np.int64) - leaving
    free = capacity_mib - _by_host(occupancy.now, holds, len(capacity_mib))
    least_each = np.where(chosen, need, holds)
    brings = _brought(
        occupancy,
        guests,
        holds,
        capacity_mib - _by_host(occupancy.then, least_each, len(capacity_mib)),
    )
    more = np.maximum(brings - holds, 0)
    others = np.where(occupancy.limited, NO_HOST, occupancy.then)
    room = capacity_mib - _by_host(others, holds + more, len(capacity_mib))
    rigid = np.where(occupancy.limited & ~chosen, occupancy.then, NO_HOST)
    target = holds.copy()
    at = np.flatnonzero(chosen)
    due = _rows(guests, at)
    given = (
        room
        - _by_host(rigid, holds, len(capacity_mib))
        - _of_waiting(occupancy, holds, len(capacity_mib))
    )
    target[at] = targets(due, need[at], occupancy.then[at], given)

    moved = np.where(adjustable, steps(guests, target, need, settings), holds)
    brought = np.where(starting, need, moved)
    lifted = np.where(adjustable, np.maximum(need - holds, 0), 0)
    takes = np.where(occupancy.then != occupancy.now, brought, lifted) + more
    pressed = _pressed(occupancy, free, holds - moved, takes)
    to_the_mib = replace(settings, least_step_mib=1)
    closer = adjustable & pressed & (target < holds)
    moved = np.where(closer, steps(guests, target, need, to_the_mib), moved)
    return MemoryHoldings(
        guests=guests,
        holds=holds,
        least=need,
        target=target,
        moved=moved,
        adjustable=adjustable,
        free=free,
        room=room,
        needed=_by_host(
            np.where(occupancy.limited, occupancy.then, NO_HOST), least_each, len(capacity_mib)
        ),
        brings=brings,
        leaving=leaving,
    )


def _guests(
    snapshot: Snapshot, share: Floats, in_force: EnforcedLimits, keeps: Floats | None
) -> GuestMemory:
    vms, column = snapshot.vms, snapshot.resources.index(MEMORY)
    size = vms.cap[:, column]
    return GuestMemory(
        size=size,
        floor=np.minimum(vms.floor[:, column], size),
        share=share,
        used=in_force.used_mib,
        held=vms.held[:, column],
        balloon=in_force.memory_mib,
        keeps=keeps,
        at_boot=in_force.boots_with(size),
    )


def _held_by_all(snapshot: Snapshot, guests: GuestMemory, floor: Ints) -> Ints:
    vms = snapshot.vms
    size = np.ceil(guests.boots_with).astype(np.int64)
    holds = np.where(vms.market == NO_MARKET, size, holdings(guests))
    reserving = is_one_of(vms.state, RESTING) & (vms.market != NO_MARKET)
    return np.where(reserving, floor, holds)


def _leaving(snapshot: Snapshot, holds: Ints) -> Ints:
    """Return [hosts]: the memory of leaving VMs beyond their reserve, which capacity excludes."""
    vms, column = snapshot.vms, snapshot.resources.index(MEMORY)
    reserved = np.where(vms.market == NO_MARKET, vms.cap[:, column], vms.floor[:, column])
    beyond = np.maximum(holds - np.floor(reserved).astype(np.int64), 0)
    return _by_host(vms.source, beyond, len(snapshot.hosts))


def _brought(occupancy: Occupancy, guests: GuestMemory, holds: Ints, spare: Ints) -> Ints:
    """Return [vms]: what each VM that the plan resumes holds at once, 0 for all others.

    A guest resumes with all of its memory, and its balloon works only afterwards. If its host can't
    free that much, even with all other VMs at their least, the resumed VMs divide what can be
    freed. They count with at least their floors; otherwise they could never be resumed.
    """
    brings = np.zeros(len(holds), dtype=np.int64)
    rows = np.array(sorted(occupancy.resumed), dtype=np.int64)
    if len(rows):
        due, host = _due_in_full(_rows(guests, rows)), occupancy.now[rows]
        room = spare + np.bincount(host, holds[rows], len(spare)).astype(np.int64)
        brings[rows] = targets(due, holds[rows], host, room)
    return brings


def _of_waiting(occupancy: Occupancy, holds: Ints, hosts: int) -> Ints:
    """Return [hosts]: the memory of VMs that are to leave and wait for memory elsewhere.

    Two VMs may be about to swap places: each needs room beside the other.
    """
    rows = np.array(sorted(occupancy.waits), dtype=np.int64)
    return _by_host(occupancy.now[rows], holds[rows], hosts)


def _pressed(occupancy: Occupancy, free: Ints, freed: Ints, takes: Ints) -> Bools:
    """Return [vms]: whether too little memory becomes free on the VM's present or next host.

    The memory is for VMs that come, and for VMs that are raised to their least.
    """
    hosts = len(free)
    left = free + _by_host(occupancy.now, np.maximum(freed, 0), hosts)
    short = np.append(left < _by_host(occupancy.then, takes, hosts), False)
    pressed: Bools = short[occupancy.now] | short[occupancy.then]
    return pressed


def _due_in_full(guests: GuestMemory) -> GuestMemory:
    """Return the same guests with all of their memory as share."""
    return replace(guests, share=guests.boots_with, size=guests.boots_with)


def _rows(guests: GuestMemory, rows: Ints) -> GuestMemory:
    return GuestMemory(
        guests.size[rows],
        guests.floor[rows],
        guests.share[rows],
        guests.used[rows],
        guests.held[rows],
        guests.balloon[rows],
        None if guests.keeps is None else guests.keeps[rows],
        guests.boots_with[rows],
    )


def _by_host(host: Ints, amount: Ints, hosts: int) -> Ints:
    """Return [hosts]: the sum over the VMs there, without VMs that are NO_HOST."""
    there = host != NO_HOST
    sums: Ints = np.bincount(host[there], amount[there], hosts).astype(np.int64)
    return sums
