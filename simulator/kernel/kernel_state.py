"""The state of a data centre as arrays: which VM is where, what each host has free.

Amounts are whole numbers of grains, thousandths of a unit. So sums and differences are exact in any
order: what VMs take from a host and give back leaves no rounding error, and ten VMs of 0.1 units
fit on a host of one unit.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

import numpy as np

from merkatd.cluster import Bools, Floats, Hosts, HostState, Ints
from merkatd.cluster.columns import NO_HOST
from simulator.workloads.vm_requests import VmRequests

GRAINS: Final = 1000.0
"""Grains of a unit."""
MOST_AMOUNT: Final = 2.0**33
LONGEST_REST_S: Final = 3600.0
"""As in the daemon: the longest wait between two attempts to migrate a VM."""
_ROUNDING: Final = 0.01
"""Parts of a grain that count as rounding errors of given amounts."""


class GuestPhase(IntEnum):
    """The phase of a VM's life."""

    AWAITED = 0
    """Not requested yet."""
    PENDING = 1
    """Waits for a host."""
    STARTING = 2
    """Boots, or continues from its saved memory."""
    RUNNING = 3
    MIGRATING = 4
    """Runs on its source while its memory is copied; has room on both hosts."""
    RELOCATING = 5
    """Stands still while it is saved, moved and continued; has room on both hosts."""
    SUSPENDING = 6
    SUSPENDED = 7
    """Saved on its host, which keeps its room."""
    STOPPING = 8
    """Is saved to leave its host; then waits for another one."""
    ENDED = 9
    REJECTED = 10


ON_A_HOST: Final = np.isin(np.arange(len(GuestPhase)), range(2, 9))
"""Whether a VM has a host, by phase."""
COMPUTES: Final = np.isin(np.arange(len(GuestPhase)), (GuestPhase.RUNNING, GuestPhase.MIGRATING))
"""Whether the guest computes, by phase."""


class KernelState:
    """All VMs and hosts at the present moment."""

    def __init__(self, hosts: Hosts, requests: VmRequests) -> None:
        for name, amounts in (("capacity", hosts.capacity), ("size", requests.size)):
            if amounts.size and not amounts.max() < MOST_AMOUNT:
                raise ValueError(f"{name}: must be less than 2^33 (got {amounts.max():g})")
        count = len(requests)
        self.now_s = 0.0
        self.capacity: Floats = np.floor(hosts.capacity * GRAINS + _ROUNDING)
        self.floor: Floats = np.ceil(requests.floor * GRAINS - _ROUNDING) + 0.0
        """[vms, resources], in grains, as `capacity` and `free`."""
        self.free = self.capacity.copy()
        """[hosts, resources]: the capacity without the floors of VMs there, and on their way."""
        self.guests = np.zeros(len(hosts), dtype=np.int64)
        """[hosts]: the number of VMs with room there."""
        self.takes_vms: Bools = hosts.state == HostState.ON
        """[hosts]: whether its administrator lets the host take VMs."""
        self.is_cut_off = np.zeros(len(hosts), dtype=bool)
        self.is_asleep = np.zeros(len(hosts), dtype=bool)
        self.is_waking = np.zeros(len(hosts), dtype=bool)
        self.changed = np.ones(len(hosts), dtype=bool)
        """[hosts]: whether free room or the host's state changed since the last decision."""
        self.phase = np.zeros(count, dtype=np.int8)
        self.host = np.full(count, NO_HOST, dtype=np.int64)
        self.source = np.full(count, NO_HOST, dtype=np.int64)
        """[vms]: the host that a VM leaves by a migration."""
        self.left_s = requests.lifetime_s.copy()
        """[vms]: the time at full speed until its end, at the time `since_s`."""
        self.speed = np.zeros(count)
        self.given = np.full((count, len(requests.resources)), np.inf)
        """[vms, resources]: what a strategy states each VM; infinite for all that it demands."""
        self.since_s = np.zeros(count)
        self.turn = np.zeros(count, dtype=np.int64)
        """[vms]: a number that grows with each change of phase or speed. Events that were expected
        in an earlier turn do not happen."""
        self.saved = np.zeros(count, dtype=bool)
        self.waits_since_s = requests.arrival_s.copy()
        self.waited_s = np.zeros(count)
        """[vms]: the time that it waited for hosts in all."""
        self.arrived: Bools = np.zeros(count, dtype=bool)
        """[vms]: whether a migration has ended since the last period."""
        self.moved_at_s = np.full(count, np.nan)
        """[vms]: the period that first saw the VM on its host after its last migration."""
        self.broken: Bools = np.zeros(count, dtype=bool)
        """[vms]: whether a failure has ended a migration since the last period."""
        self.failed_moves = np.zeros(count, dtype=np.int64)
        """[vms]: the migrations that failed since the last one that did not."""
        self.failed_at_s = np.full(count, -np.inf)
        self.started_s = np.full(count, np.nan)
        """[vms]: the time since which the guest is on its host and starts or computes."""
        self.resources = requests.resources

    @property
    def is_open(self) -> Bools:
        """Return [hosts]: whether the host takes VMs now."""
        closed = self.is_cut_off | self.is_asleep | self.is_waking
        is_open: Bools = self.takes_vms & ~closed
        return is_open

    @property
    def works(self) -> Bools:
        """Return [hosts]: whether the host runs its VMs."""
        works: Bools = ~(self.is_cut_off | self.is_asleep | self.is_waking)
        return works

    def rows_in(self, *phases: GuestPhase) -> Ints:
        """Return the VMs in any of these phases."""
        chosen = self.phase == int(phases[0])  # numpy takes longer to compare with a member
        for phase in phases[1:]:
            chosen |= self.phase == int(phase)
        return np.flatnonzero(chosen)

    def reserve(self, vms: Ints, hosts: Ints) -> None:
        """Take the floors of VMs from the free room of hosts."""
        np.subtract.at(self.free, hosts, self.floor[vms])
        np.add.at(self.guests, hosts, 1)
        self.changed[hosts] = True

    def release(self, vms: Ints, hosts: Ints) -> None:
        """Give the floors of VMs back to hosts."""
        np.add.at(self.free, hosts, self.floor[vms])
        np.subtract.at(self.guests, hosts, 1)
        self.changed[hosts] = True

    def fits(self, vm: int, host: int) -> bool:
        """Return whether the host takes VMs now and has room for the VM's floor."""
        closed = self.is_cut_off[host] or self.is_asleep[host] or self.is_waking[host]
        if closed or not self.takes_vms[host]:
            return False
        return bool((self.free[host] >= self.floor[vm]).all())

    def enter(self, vms: Ints, phase: GuestPhase, speed: float | Floats) -> None:
        """Let VMs go on in another phase: from now on they progress at this speed, or these."""
        self.progress(vms)
        self.phase[vms], self.speed[vms] = phase, speed
        self.turn[vms] += 1

    def notice_moves(self) -> None:
        """Let the present period see the migrations that have ended, and those that failed."""
        if not (self.arrived.any() or self.broken.any()):
            return
        self.moved_at_s[self.arrived] = self.now_s
        self.failed_moves[self.arrived] = 0
        self.failed_at_s[self.broken] = self.now_s
        self.failed_moves[self.broken] += 1
        self.arrived[:] = self.broken[:] = False

    def rests(self, period_s: float) -> Bools:
        """Return [vms]: whether a VM is not moved for now, as its last migration failed."""
        wait_s = 2.0 * period_s * 2.0 ** np.minimum(self.failed_moves - 1, 30)
        rests: Bools = self.now_s - self.failed_at_s < np.minimum(wait_s, LONGEST_REST_S)
        return rests

    def work_left(self, vms: Ints) -> Floats:
        """Return [vms]: the work that is left now, in seconds at full speed."""
        done = (self.now_s - self.since_s[vms]) * self.speed[vms]
        return np.maximum(self.left_s[vms] - done, 0.0)

    def progress(self, vms: Ints) -> None:
        """Count the work of VMs until now."""
        self.left_s[vms] = self.work_left(vms)
        self.since_s[vms] = self.now_s

    def end_times(self, vms: Ints) -> Floats:
        """Return when VMs end if they go on at their speed, counted until now."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            rest = np.where(self.speed[vms] > 0, self.left_s[vms] / self.speed[vms], np.inf)
        ends: Floats = self.now_s + rest
        return ends


class ConservationError(AssertionError):
    """Raised for a state in which a VM is lost, in two places, or beyond a capacity."""


def check_conservation(state: KernelState) -> None:
    """Recompute everything from the VMs alone; raise ConservationError if it differs."""
    on_host = ON_A_HOST[state.phase]
    _require(bool((on_host == (state.host != NO_HOST)).all()), "a VM on a host has one host")
    moves = np.isin(state.phase, (GuestPhase.MIGRATING, GuestPhase.RELOCATING))
    _require(bool((moves == (state.source != NO_HOST)).all()), "a VM that moves has one source")
    _require(bool((state.source[moves] != state.host[moves]).all()), "a VM moves to another host")
    free, guests = state.capacity.copy(), np.zeros_like(state.guests)
    for column in (state.host, state.source):
        rows = np.flatnonzero(column != NO_HOST)
        np.subtract.at(free, column[rows], state.floor[rows])
        np.add.at(guests, column[rows], 1)
    _require(bool((free == state.free).all()), "free room is the capacity without floors")
    _require(bool((guests == state.guests).all()), "each VM counts once on each of its hosts")
    _require(bool((free >= 0).all()), "floors fit on every host")
    _require(not state.guests[~state.works].any(), "no VM is on a host that does not work")
    computes = COMPUTES[state.phase]
    _require(bool(((state.speed == 0) | computes).all()), "a guest works only while it computes")
    _require(bool((state.left_s[on_host] >= 0).all()), "no VM works longer than it has to")


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise ConservationError(rule)


def rows_array(rows: Sequence[int]) -> Ints:
    """Return rows as an array."""
    return np.array(rows, dtype=np.int64)
