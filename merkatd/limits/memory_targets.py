"""What each VM holds and should hold of memory, and what its host has for it.

All amounts are whole MiB. What a VM *holds* is the larger of what it was seen to hold and
what its balloon was told: a guest may take what it was told at any time without asking.
What crosses from one VM to another on the same host is settled in `balloon_steps.py`.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from merkatd.cluster import RESTING, Bools, Floats, Ints, Snapshot
from merkatd.cluster.columns import NOWHERE
from merkatd.limits.enforced_limits import MEMORY, EnforcedLimits
from merkatd.limits.occupancy import Occupancy
from merkatd.limits.settings import MemorySettings


@dataclass(frozen=True, slots=True, eq=False)
class GuestMemory:
    """[vms]: the memory of each VM, in MiB."""

    size: Floats
    """Its cap: more than this it can't hold."""
    floor: Floats
    share: Floats
    used: Floats
    """NaN where the guest does not tell."""
    held: Floats
    """NaN where nobody has seen it."""
    told: Ints
    """What its balloon was told; below 0 where it was told nothing."""
    keeps: Floats | None = None
    """The most of its use that it keeps; NaN where it keeps all. None: every VM keeps all."""
    whole: Floats | None = None
    """What it has when it boots, if that is not its size: a cap limits only what it keeps."""

    @property
    def boots_with(self) -> Floats:
        """[vms]: the memory of the guest itself, whatever cap its owner chose."""
        return self.size if self.whole is None else self.whole


def holdings(guests: GuestMemory) -> Ints:
    """What each VM holds, or may take at any time: all of its memory where nothing is known."""
    known = np.fmax(guests.held, np.where(guests.told >= 0, guests.told, np.nan))
    return np.ceil(np.where(np.isnan(known), guests.boots_with, known)).astype(np.int64)


def least(guests: GuestMemory, settings: MemorySettings) -> Ints:
    """What must not be taken: the floor, and of what it holds the measured use and its margin.

    A guest that does not tell its use keeps all it holds, unless the settings say otherwise.
    Using more lets nobody hold more: above the floor, only a share does. A guest that does not pay
    for its use, where others pay, keeps what the decision leaves to it.
    """
    margin = np.maximum(settings.margin_mib, settings.margin_part * guests.used)
    unmeasured = 0.0 if settings.shrink_unmeasured else np.inf
    in_use = np.where(np.isnan(guests.used), unmeasured, guests.used + margin)
    if guests.keeps is not None:
        in_use = np.fmin(in_use, guests.keeps)
    need = np.maximum(guests.floor, np.minimum(in_use, holdings(guests)))
    return _whole(np.minimum(np.ceil(need), np.floor(guests.size)))


def targets(guests: GuestMemory, least_mib: Ints, host: Ints, room_mib: Ints) -> Ints:
    """Where each balloon should end: the share, or the least where that is more.

    `host` is a row of `room_mib`, which is what a host has for these VMs together. Where they
    are due more than that, because some need more than their share, all that is above the
    least is scaled down alike. Where even the least does not fit, it is the target all the same.
    """
    due = np.minimum(np.floor(guests.share), np.floor(guests.size))
    above = np.maximum(_whole(due) - least_mib, 0)
    hosts = len(room_mib)
    spare = np.maximum(room_mib - np.bincount(host, least_mib, hosts), 0.0)
    wanted = np.bincount(host, above, hosts)
    scale = np.divide(spare, wanted, out=np.ones(hosts), where=wanted > spare)
    return least_mib + _whole(np.floor(above * scale[host]))


def steps(guests: GuestMemory, target: Ints, least_mib: Ints, settings: MemorySettings) -> Ints:
    """What each balloon would be told in this period, if the host can give what that takes.

    Bounded by the settings, but a VM below its least is lifted to it at once, and a VM that does
    not pay for what it holds gives it back at once: what it keeps for now is in its least already.
    Unchanged where the target is near enough; a floor is kept to the MiB.
    """
    holds = holdings(guests)
    gap = target - holds
    most = np.minimum(settings.most_step_mib, settings.most_step_part * guests.boots_with)
    most = np.maximum(_whole(np.floor(most)), 1)
    up = np.maximum(most, least_mib - holds)
    bounded = True if guests.keeps is None else np.isnan(guests.keeps)
    moved = holds + np.clip(gap, -np.where(bounded, most, holds), up)
    falling = gap < 0
    behind = falling & (guests.told >= 0) & (guests.told < moved)
    moved = np.where(behind, np.maximum(guests.told, target), moved)
    worth = np.abs(gap) >= settings.least_step_mib
    worth |= holds < np.minimum(guests.floor, np.floor(guests.size))
    return np.where(worth, moved, holds)


def _whole(amount: Floats) -> Ints:
    return amount.astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class MemoryHoldings:
    """[vms], but for `free`, `room`, `needed` and `leaving`, which are [hosts]; in whole MiB."""

    guests: GuestMemory
    holds: Ints
    """Now: all of its size for a VM outside every market, its floor for one that is off."""
    least: Ints
    target: Ints
    moved: Ints
    """What its balloon would be told in this period, if there is room for that."""
    adjustable: Bools
    """Is told something: it runs, its balloon works, and what it holds is known."""
    free: Ints
    """Below 0 where VMs hold more than there is."""
    room: Ints
    """For the VMs that are told something: without the others that will be there."""
    needed: Ints
    """What those VMs can't do without; the host is overfull where that is more than the room."""
    brings: Ints
    """[vms]: what a VM holds as soon as the plan resumes it, 0 for all others."""
    leaving: Ints
    """What VMs hold there that are on their way to other hosts, beyond what is reserved for them.
    It is neither in `free` nor in `room`, and will be once they have gone."""

    def unpaid(self, vm: int) -> bool:
        """Whether the VM in this row has to give back what it uses and does not pay for."""
        keeps = self.guests.keeps
        return keeps is not None and not math.isnan(float(keeps[vm]))


def memory_holdings(
    snapshot: Snapshot,
    share: Floats,
    scene: Occupancy,
    in_force: EnforcedLimits,
    settings: MemorySettings,
    keeps: Floats | None = None,
) -> MemoryHoldings:
    """Where each VM's memory is, and where it should go; `share` is in MiB, for each VM.

    `keeps` is the most of its use that each VM keeps, in MiB, NaN where it keeps all.

    A VM whose target can't be chosen, because it has no balloon or is in the middle of an
    operation, counts with what it holds. One that is about to start counts with its floor, one
    that is about to be resumed with what it holds from its first moment on. One that is being
    migrated counts on both hosts: its memory stays where it comes from until it has arrived, and
    for longer if the migration fails.
    """
    guests = _guests(snapshot, share, in_force, keeps)
    starting = scene.starting
    floor = np.ceil(guests.floor).astype(np.int64)
    holds = _held_by_all(snapshot, guests, floor)
    adjustable = scene.told & ~starting & in_force.balloon & ~np.isnan(guests.held)
    chosen = adjustable | (scene.told & starting)
    need = np.where(starting, floor, least(guests, settings))

    capacity = np.floor(snapshot.hosts.capacity[:, snapshot.resources.index(MEMORY)])
    leaving = _leaving(snapshot, holds)
    whole = capacity.astype(np.int64) - leaving
    free = whole - _by_host(scene.now, holds, len(whole))
    least_each = np.where(chosen, need, holds)
    brings = _brought(scene, guests, holds, whole - _by_host(scene.then, least_each, len(whole)))
    more = np.maximum(brings - holds, 0)
    others = np.where(scene.told, NOWHERE, scene.then)
    room = whole - _by_host(others, holds + more, len(whole))
    rigid = np.where(scene.told & ~chosen, scene.then, NOWHERE)
    target = holds.copy()
    at = np.flatnonzero(chosen)
    due = _rows(guests, at)
    given = room - _by_host(rigid, holds, len(whole)) - _of_waiting(scene, holds, len(whole))
    target[at] = targets(due, need[at], scene.then[at], given)

    moved = np.where(adjustable, steps(guests, target, need, settings), holds)
    brought = np.where(starting, need, moved)
    lifted = np.where(adjustable, np.maximum(need - holds, 0), 0)
    takes = np.where(scene.then != scene.now, brought, lifted) + more
    pressed = _pressed(scene, free, holds - moved, takes)
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
        needed=_by_host(np.where(scene.told, scene.then, NOWHERE), least_each, len(whole)),
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
        told=in_force.memory_mib,
        keeps=keeps,
        whole=in_force.boots_with(size),
    )


def _held_by_all(snapshot: Snapshot, guests: GuestMemory, floor: Ints) -> Ints:
    vms = snapshot.vms
    size = np.ceil(guests.boots_with).astype(np.int64)
    holds = np.where(vms.market == NOWHERE, size, holdings(guests))
    reserving = np.isin(vms.state, RESTING) & (vms.market != NOWHERE)
    return np.where(reserving, floor, holds)


def _leaving(snapshot: Snapshot, holds: Ints) -> Ints:
    """[hosts]: what VMs that leave hold there; the capacity is less what is reserved for them."""
    vms, column = snapshot.vms, snapshot.resources.index(MEMORY)
    reserved = np.where(vms.market == NOWHERE, vms.cap[:, column], vms.floor[:, column])
    beyond = np.maximum(holds - np.floor(reserved).astype(np.int64), 0)
    return _by_host(vms.source, beyond, len(snapshot.hosts))


def _brought(scene: Occupancy, guests: GuestMemory, holds: Ints, spare: Ints) -> Ints:
    """[vms]: what each VM that the plan resumes holds at once, 0 for all others.

    A guest comes back with all of its memory, and its balloon obeys only then. Where its host can't
    have all of that free, even with all others at their least, the VMs that come back divide what
    there can be, and have their floors in any case: else they could never be resumed.
    """
    brings = np.zeros(len(holds), dtype=np.int64)
    rows = np.array(sorted(scene.resumed), dtype=np.int64)
    if len(rows):
        whole, host = _due_in_full(_rows(guests, rows)), scene.now[rows]
        room = spare + np.bincount(host, holds[rows], len(spare)).astype(np.int64)
        brings[rows] = targets(whole, holds[rows], host, room)
    return brings


def _of_waiting(scene: Occupancy, holds: Ints, hosts: int) -> Ints:
    """[hosts]: what VMs hold that are to go elsewhere, and wait for memory there.

    Two VMs may be about to change places: each has to find room beside the other.
    """
    rows = np.array(sorted(scene.waits), dtype=np.int64)
    return _by_host(scene.now[rows], holds[rows], hosts)


def _pressed(scene: Occupancy, free: Ints, freed: Ints, takes: Ints) -> Bools:
    """[vms]: on its host, or where it goes, too little becomes free for those who must have it.

    Those are the VMs that come, and those that are lifted to their least.
    """
    hosts = len(free)
    left = free + _by_host(scene.now, np.maximum(freed, 0), hosts)
    short = np.append(left < _by_host(scene.then, takes, hosts), False)
    pressed: Bools = short[scene.now] | short[scene.then]
    return pressed


def _due_in_full(guests: GuestMemory) -> GuestMemory:
    """The same guests, each due all of its memory."""
    return replace(guests, share=guests.boots_with, size=guests.boots_with)


def _rows(guests: GuestMemory, rows: Ints) -> GuestMemory:
    return GuestMemory(
        guests.size[rows],
        guests.floor[rows],
        guests.share[rows],
        guests.used[rows],
        guests.held[rows],
        guests.told[rows],
        None if guests.keeps is None else guests.keeps[rows],
        guests.boots_with[rows],
    )


def _by_host(host: Ints, amount: Ints, hosts: int) -> Ints:
    """[hosts]: the sum over the VMs there; those NOWHERE are left out."""
    there = host != NOWHERE
    sums: Ints = np.bincount(host[there], amount[there], hosts).astype(np.int64)
    return sums
