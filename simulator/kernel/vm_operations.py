"""Operations on VMs and hosts: what each changes at once, and when it ends.

An operation that is no longer possible is refused: it changes nothing and is counted.
"""

from dataclasses import dataclass, field

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import NO_HOST
from simulator.kernel.data_center import DataCenter, distances
from simulator.kernel.declared.declared_load import DeclaredLoad
from simulator.kernel.event_queue import EventKind, EventQueue
from simulator.kernel.kernel_state import GuestPhase, KernelState, rows_array
from simulator.kernel.migration_volume import MIB_S_PER_MBPS, live_volume
from simulator.workloads.declared_work import NO_WORK
from simulator.workloads.vm_requests import VmRequests

CPU, MEMORY = "cpu", "memory"


@dataclass(slots=True)
class OperationTotals:
    """Counts since the begin of the run."""

    deploys: int = 0
    live_migrations: int = 0
    cold_migrations: int = 0
    suspensions: int = 0
    resumptions: int = 0
    continuations: int = 0
    """Deploys of VMs that were stopped: they continue from their saved memory."""
    stops: int = 0
    terminations: int = 0
    sleeps: int = 0
    wakes: int = 0
    restarts: int = 0
    """VMs that failures took from their hosts; they wait and begin again."""
    refused: int = 0
    postponed: int = 0
    """Steps that had to wait for another one, so that the next period decided again."""
    live_volume_mib: float = 0.0
    cold_volume_mib: float = 0.0
    by_distance: dict[int, int] = field(default_factory=dict)
    """Migrations by the levels of the tree that they climb."""


class VmOperations:
    """Everything that a decision can do."""

    def __init__(
        self,
        center: DataCenter,
        requests: VmRequests,
        state: KernelState,
        queue: EventQueue,
        load: DeclaredLoad | None = None,
    ) -> None:
        self._center, self._state, self._queue = center, state, queue
        self.totals = OperationTotals()
        self.volumes: list[float] = []
        """The volume of each migration, in the order of their begins."""
        memory = requests.resources.index(MEMORY) if MEMORY in requests.resources else None
        count = len(requests)
        self.memory_mib: Floats = np.zeros(count) if memory is None else requests.size[:, memory]
        self._load = load or DeclaredLoad(NO_WORK, requests, state)
        self._dirty_mib_s, self._disk_mib = requests.dirty_mib_s, requests.disk_mib
        link = center.hosts.link_mbps * MIB_S_PER_MBPS * center.migrating_part
        self._link_mib_s: Floats = link

    def _until(self, vms: Ints, takes_s: Floats) -> None:
        """Expect the end of an operation on each VM."""
        turns = self._state.turn[vms]
        self._queue.push(EventKind.OPERATION_ENDS, self._state.now_s + takes_s, vms, turns)

    def _run(self, vms: Ints, phase: GuestPhase = GuestPhase.RUNNING, speed: float = 1.0) -> None:
        """Let guests compute until their ends, no faster than their allocations allow."""
        self._state.enter(vms, phase, speed * self._load.paces(vms))
        ends = self._load.end_times(vms)
        self._queue.push(EventKind.VM_ENDS, ends, vms, self._state.turn[vms])

    # -- orders -------------------------------------------------------------------------------

    def allocate(self, vms: Ints, amounts: Floats) -> None:
        """Give VMs these amounts from now on, [vms, resources].

        A guest that gets less CPU than it demands takes longer. One that migrates has its new pace
        from its arrival on.
        """
        state = self._state
        state.given[vms] = amounts
        runs = vms[state.phase[vms] == GuestPhase.RUNNING]
        changed = runs[self._load.paces(runs) != state.speed[runs]]
        if len(changed):
            self._run(changed)

    def deploy(self, vms: Ints, hosts: Ints) -> Ints:
        """Start waiting VMs on hosts; return those that could be started."""
        state = self._state
        if not len(vms):
            return vms
        chosen = self._fitting(vms, hosts)
        state.changed[hosts] = True  # also of those refused: the decider thought otherwise
        vms, hosts = vms[chosen], hosts[chosen]
        if not len(vms):
            return vms
        state.host[vms] = hosts
        state.reserve(vms, hosts)
        state.waited_s[vms] += state.now_s - state.waits_since_s[vms]
        state.started_s[vms] = state.now_s
        state.enter(vms, GuestPhase.STARTING, 0.0)
        costs = self._center.costs
        resume_s = costs.resume_s_per_mib * self.memory_mib[vms]
        self.totals.deploys += len(vms)
        self.totals.continuations += int(state.saved[vms].sum())
        self._until(vms, np.where(state.saved[vms], resume_s, costs.boot_s))
        return vms

    def _fitting(self, vms: Ints, hosts: Ints) -> Ints:
        """Return the positions of the VMs that wait and fit, one after the other."""
        state = self._state
        waits = state.phase[vms] == GuestPhase.PENDING
        if waits.all() and state.is_open[hosts].all():
            there, at = np.unique(hosts, return_inverse=True)
            needed = np.zeros((len(there), state.free.shape[1]))
            np.add.at(needed, at, state.floor[vms])
            if (needed <= state.free[there]).all() and len(np.unique(vms)) == len(vms):
                return np.arange(len(vms))
        taken: dict[int, Floats] = {}
        chosen: list[int] = []
        seen: set[int] = set()
        for at_row, (vm, host) in enumerate(zip(vms.tolist(), hosts.tolist(), strict=True)):
            more = taken.get(host, 0.0) + state.floor[vm]
            fits = state.fits(vm, host) and bool((state.free[host] >= more).all())
            if fits and state.phase[vm] == GuestPhase.PENDING and vm not in seen:
                taken[host] = more
                seen.add(vm)
                chosen.append(at_row)
        self.totals.refused += len(vms) - len(chosen)
        return rows_array(chosen)

    def migrate(self, vm: int, host: int, *, live: bool) -> bool:
        """Begin to move a running VM; return whether that is possible."""
        state, source = self._state, int(self._state.host[vm])
        runs = state.phase[vm] == GuestPhase.RUNNING
        if not runs or source == host or not state.fits(vm, host):
            self.totals.refused += 1
            return False
        rows = rows_array([vm])
        state.source[vm], state.host[vm] = source, host
        state.reserve(rows, rows_array([host]))
        volume, takes_s = self._transfer(vm, source, host, live=live)
        self._count_migration(volume, source, host, live=live)
        if live:
            self._run(rows, GuestPhase.MIGRATING, self._center.costs.migrating_speed)
        else:
            state.enter(rows, GuestPhase.RELOCATING, 0.0)
        self._until(rows, np.array([takes_s]))
        return True

    def _transfer(self, vm: int, source: int, host: int, *, live: bool) -> tuple[float, float]:
        """Return the MiB that a migration sends, and the seconds that it takes."""
        memory, costs = self.memory_mib[vm], self._center.costs
        link = np.fmin(self._link_mib_s[source], self._link_mib_s[host])
        copied = live_volume(memory, self._dirty_mib_s[vm], link) if live else memory
        volume = float(copied + self._disk_mib[vm])
        sending_s = 0.0 if np.isnan(link) or link <= 0 else volume / float(link)
        takes_s = max(costs.migrate_s(float(memory)), sending_s)
        if not live:
            takes_s += costs.suspend_s(float(memory)) + costs.resume_s(float(memory))
        return volume, takes_s

    def _count_migration(self, volume: float, source: int, host: int, *, live: bool) -> None:
        totals = self.totals
        self.volumes.append(volume)
        if live:
            totals.live_migrations += 1
            totals.live_volume_mib += volume
        else:
            totals.cold_migrations += 1
            totals.cold_volume_mib += volume
        topology = self._center.hosts.topology
        far = int(distances(topology, rows_array([source]), rows_array([host]))[0])
        totals.by_distance[far] = totals.by_distance.get(far, 0) + 1

    def suspend(self, vm: int) -> bool:
        """Begin to save a running VM on its host; return whether that is possible."""
        done = self._save(vm, GuestPhase.SUSPENDING)
        self.totals.suspensions += done
        return done

    def stop(self, vm: int) -> bool:
        """Begin to save a running VM away from its host; return whether that is possible."""
        done = self._save(vm, GuestPhase.STOPPING)
        self.totals.stops += done
        return done

    def _save(self, vm: int, phase: GuestPhase) -> bool:
        if self._state.phase[vm] != GuestPhase.RUNNING:
            self.totals.refused += 1
            return False
        rows = rows_array([vm])
        self._state.enter(rows, phase, 0.0)
        self._until(rows, self._center.costs.suspend_s_per_mib * self.memory_mib[rows])
        return True

    def resume(self, vm: int) -> bool:
        """Begin to continue a suspended VM on its host; return whether that is possible."""
        if self._state.phase[vm] != GuestPhase.SUSPENDED:
            self.totals.refused += 1
            return False
        rows = rows_array([vm])
        self._state.started_s[vm] = self._state.now_s
        self._state.enter(rows, GuestPhase.STARTING, 0.0)
        self._until(rows, self._center.costs.resume_s_per_mib * self.memory_mib[rows])
        self.totals.resumptions += 1
        return True

    def terminate(self, vm: int) -> bool:
        """End a VM at once; return whether it had not ended."""
        if self._state.phase[vm] in {GuestPhase.AWAITED, GuestPhase.ENDED, GuestPhase.REJECTED}:
            self.totals.refused += 1
            return False
        self.end(rows_array([vm]))
        self.totals.terminations += 1
        return True

    def sleep(self, host: int) -> bool:
        """Switch off a host without VMs; return whether that is possible."""
        state = self._state
        if state.guests[host] or not state.works[host]:
            self.totals.refused += 1
            return False
        state.is_asleep[host] = state.changed[host] = True
        self.totals.sleeps += 1
        return True

    def wake(self, host: int) -> bool:
        """Begin to wake a host that sleeps; return whether it does."""
        state = self._state
        if not state.is_asleep[host]:
            self.totals.refused += 1
            return False
        state.is_asleep[host], state.is_waking[host] = False, True
        ready_s = np.array([state.now_s + self._center.wake_s])
        self._queue.push(EventKind.HOST_WOKEN, ready_s, rows_array([host]), rows_array([0]))
        self.totals.wakes += 1
        return True

    # -- events -------------------------------------------------------------------------------

    def end(self, vms: Ints) -> None:
        """End VMs, wherever they are."""
        self._leave(vms)
        self._state.enter(vms, GuestPhase.ENDED, 0.0)

    def _leave(self, vms: Ints) -> None:
        """Free the room of VMs on all of their hosts."""
        state = self._state
        for column in (state.host, state.source):
            there = vms[column[vms] != NO_HOST]
            state.release(there, column[there])
            column[there] = NO_HOST

    def end_or_go_on(self, vms: Ints) -> None:
        """End VMs, but let jobs with more stages go on."""
        more = self._load.go_on(vms)
        if len(more):
            self._run(more)
        self.end(vms if not len(more) else np.setdiff1d(vms, more))

    def finish(self, vms: Ints) -> None:
        """Let VMs whose operations end now go on."""
        state, phase = self._state, self._state.phase[vms]
        moved = vms[(phase == GuestPhase.MIGRATING) | (phase == GuestPhase.RELOCATING)]
        if len(moved):
            state.release(moved, state.source[moved])
            state.source[moved], state.arrived[moved] = NO_HOST, True
            state.started_s[moved] = state.now_s
        started = vms[phase == GuestPhase.STARTING]
        state.saved[started] = False
        runs = np.concatenate([started, moved])
        if len(runs):
            self._run(runs)
        suspended = vms[phase == GuestPhase.SUSPENDING]
        state.enter(suspended, GuestPhase.SUSPENDED, 0.0)
        stopped = vms[phase == GuestPhase.STOPPING]
        if len(stopped):
            self._leave(stopped)
            state.saved[stopped] = True
            self._wait(stopped)

    def _wait(self, vms: Ints) -> None:
        self._state.enter(vms, GuestPhase.PENDING, 0.0)
        self._state.waits_since_s[vms] = self._state.now_s

    def lose(self, hosts: Ints, lifetime_s: Floats) -> None:
        """Let hosts fail with their VMs: these wait for other hosts, and begin again.

        A VM on its way to such a host goes on at its source: a live one at once, a saved one once
        it is continued.
        """
        state, down = self._state, np.zeros(len(self._state.guests), dtype=bool)
        down[hosts] = True
        placed = np.flatnonzero(state.host != NO_HOST)
        hit = placed[down[state.host[placed]] | _on(state.source[placed], down)]
        moves = state.source[hit] != NO_HOST
        returns = hit[moves & ~_on(state.source[hit], down)]
        lost = np.setdiff1d(hit, returns)
        state.broken[hit[moves]] = True
        state.broken[lost[state.arrived[lost]]] = True  # lost before a period could see it arrive
        self._return(returns)
        self._leave(lost)
        state.saved[lost] = state.arrived[lost] = False
        self._wait(lost)
        state.left_s[lost] = lifetime_s[lost]
        state.changed[hosts] = True
        self.totals.restarts += len(lost)

    def _return(self, vms: Ints) -> None:
        """Cancel migrations whose destinations have failed."""
        if not len(vms):
            return
        state = self._state
        state.release(vms, state.host[vms])
        state.host[vms], state.source[vms] = state.source[vms], NO_HOST
        cold = vms[state.phase[vms] == GuestPhase.RELOCATING]
        live = vms[state.phase[vms] == GuestPhase.MIGRATING]
        if len(live):
            self._run(live)
        if len(cold):
            state.enter(cold, GuestPhase.STARTING, 0.0)
            self._until(cold, self._center.costs.resume_s_per_mib * self.memory_mib[cold])


def _on(column: Ints, down: Bools) -> Bools:
    """Return whether each host of a column is among those that are down."""
    among: Bools = (column != NO_HOST) & down[column]
    return among
