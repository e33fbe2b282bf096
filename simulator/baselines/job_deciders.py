"""FCFS and EDF for jobs on the kernel, in the rhythm of its periods.

Each job runs at its greatest speed or not at all: it needs its whole size on one host. VMs of no
job keep their places. FCFS never interrupts a job.

# Note [Preemption by EDF]

EDF goes through all jobs by their goals. A job that runs stays. A job that waits takes the first
host with room. Without one, it takes the room of jobs with later goals: on the host on which it
displaces the latest ones, the latest first, and no more than it needs. A displaced job is moved in
its turn if a host has room at once, and stopped otherwise. A job that fits nowhere is passed over;
none is given up, even if its goal has passed. So no job waits while one with a later goal has the
room for it, and EDF interrupts few jobs.
Used by `EdfJobs`.
"""

from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Deploy, Floats, Migrate, Plan, Snapshot, Step, Stop, VmState
from merkatd.cluster.columns import NO_HOST
from merkatd.placement.baselines.job_ends import deadlines_s
from simulator.kernel.kernel_deciders import KernelMoment, KernelOrders

_REASON = "jobs with earlier goals take its room"


def _snapshot_of(moment: KernelMoment) -> Snapshot:
    return moment.snapshot(np.full(len(moment.state.resources), np.nan))


class FcfsJobs:
    """First come, first served: a job without room keeps all later ones waiting."""

    history_samples = 0

    def decide(self, moment: KernelMoment) -> KernelOrders:
        """Start waiting jobs in order of arrival."""
        snapshot = _snapshot_of(moment)
        room = _Room(snapshot)
        waits = np.flatnonzero(snapshot.vms.state == VmState.PENDING)
        arrival = moment.state.waits_since_s[snapshot.vms.id[waits]]
        steps: list[Step] = []
        for vm in waits[np.argsort(arrival, kind="stable")].tolist():
            host = room.first_fit(vm)
            if host == NO_HOST:
                break
            room.take(vm, host)
            steps.append(room.deploy(vm, host, ()))
        return KernelOrders(plan=Plan.ordered(steps))


class EdfJobs:
    """Earliest deadline first, with preemption: see Note [Preemption by EDF]."""

    history_samples = 0

    def decide(self, moment: KernelMoment) -> KernelOrders:
        """Let the jobs with the earliest goals run."""
        snapshot = _snapshot_of(moment)
        vms, goal_s = snapshot.vms, deadlines_s(snapshot, np.arange(len(snapshot.vms)))
        room = _Room(snapshot)
        room.goal_s = goal_s
        running = np.flatnonzero(np.isfinite(goal_s) & (vms.state == VmState.RUNNING))
        for vm in running.tolist():
            room.displaceable[int(vms.host[vm])].append(vm)
        chosen: dict[int, _Move] = {}
        waiting = np.flatnonzero(np.isfinite(goal_s) & (vms.state == VmState.PENDING))
        for vm in sorted([*running.tolist(), *waiting.tolist()], key=lambda row: goal_s[row]):
            here = int(vms.host[vm])
            if here != NO_HOST and vm not in room.displaced:
                room.displaceable[here].remove(vm)
                continue
            move = room.find_at_once(vm) if vm in room.displaced else room.find(vm)
            if move is not None:
                chosen[vm] = move
        return KernelOrders(plan=Plan.ordered(list(room.steps(chosen))))


@dataclass(frozen=True, slots=True)
class _Move:
    """The place that a job gets, and the jobs that leave it."""

    host: int
    instead_of: tuple[int, ...] = ()


class _Room:
    """The free room of hosts during a decision, and the jobs that may have to leave them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot, self.need = snapshot, snapshot.vms.cap
        self.free = snapshot.hosts.capacity.copy()
        placed = np.flatnonzero(snapshot.vms.host != NO_HOST)
        jobs = placed[np.isin(snapshot.vms.application[placed], snapshot.jobs.application)]
        others = np.setdiff1d(placed, jobs)
        np.subtract.at(self.free, snapshot.vms.host[jobs], self.need[jobs])
        np.subtract.at(self.free, snapshot.vms.host[others], snapshot.vms.floor[others])
        self.goal_s: Floats = np.zeros(0)
        self.displaceable: list[list[int]] = [[] for _ in range(len(self.free))]
        self.displaced: set[int] = set()
        self._left: dict[int, list[int]] = {}
        """By host: the jobs that were displaced from it and whose room is not taken wholly."""

    def first_fit(self, vm: int) -> int:
        """Return the first host with room, or NO_HOST."""
        fits = np.flatnonzero((self.free >= self.need[vm] - 1e-9).all(axis=1))
        return int(fits[0]) if len(fits) else NO_HOST

    def take(self, vm: int, host: int) -> None:
        """Let a VM have its room on a host."""
        self.free[host] -= self.need[vm]

    def find_at_once(self, vm: int) -> _Move | None:
        """Return a host with room for which no job must leave, after the job has taken it."""
        host = self.first_fit(vm)
        if host == NO_HOST or self._left.get(host):
            return None
        self.take(vm, host)
        return _Move(host)

    def find(self, vm: int) -> _Move | None:
        """Return a place for the job, after it has taken the room there."""
        host, victims = self.first_fit(vm), tuple[int, ...]()
        if host == NO_HOST:
            found = self._latest(vm)
            if found is None:
                return None
            host, victims = found.host, found.instead_of
            for each in victims:
                self.displaceable[host].remove(each)
                self.displaced.add(each)
                self.free[host] += self.need[each]
        self.take(vm, host)
        left = self._left.setdefault(host, [])
        left += victims
        return _Move(host, tuple(left))

    def _latest(self, vm: int) -> _Move | None:
        """Return the place where the earliest of the jobs that must leave has the latest goal."""
        best: tuple[float, _Move] | None = None
        for host, jobs in enumerate(self.displaceable):
            later = [each for each in jobs if self.goal_s[each] > self.goal_s[vm]]
            free, victims = self.free[host].copy(), list[int]()
            for each in sorted(later, key=lambda row: -self.goal_s[row]):
                if (free >= self.need[vm] - 1e-9).all():
                    break
                free += self.need[each]
                victims.append(each)
            if victims and (free >= self.need[vm] - 1e-9).all():
                earliest = float(self.goal_s[victims[-1]])
                if best is None or earliest > best[0]:
                    best = earliest, _Move(host, tuple(victims))
        return None if best is None else best[1]

    def steps(self, chosen: dict[int, _Move]) -> list[Step]:
        """Return the steps: jobs leave, and then those come that take their room."""
        vms, hosts, period = self._snapshot.vms, self._snapshot.hosts, self._snapshot.period
        leave: dict[int, Step] = {}
        for vm in sorted(self.displaced):
            move, number = chosen.get(vm), int(vms.id[vm])
            leave[vm] = (
                Stop(period=period, vm=number, reason=_REASON)
                if move is None
                else Migrate(
                    period=period,
                    vm=number,
                    source=int(hosts.id[vms.host[vm]]),
                    host=int(hosts.id[move.host]),
                    reason=_REASON,
                )
            )
        come: list[Step] = [
            self.deploy(vm, move.host, tuple(leave[each].id for each in move.instead_of))
            for vm, move in chosen.items()
            if vm not in self.displaced
        ]
        return [*leave.values(), *come]

    def deploy(self, vm: int, host: int, after: tuple[str, ...]) -> Deploy:
        """Return the step that starts a waiting job."""
        return Deploy(
            period=self._snapshot.period,
            vm=int(self._snapshot.vms.id[vm]),
            host=int(self._snapshot.hosts.id[host]),
            reason="it is its turn",
            after=after,
        )
