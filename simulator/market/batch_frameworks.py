"""A batch framework in virtual time (section 3.2.2): a queue of jobs, and a cluster of workers.

All VMs have one core. The framework decides as the daemon's controllers do: by Algorithm 4, from
its queue and the other frameworks' price. It drains workers before it releases them. Its workers
are VMs of the simulation kernel (`framework_market.py`).
"""

from collections import deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from math import inf

from merkatd.policies.batch_queue import QueueAim, QueueLoad, queue_performance, workers_to_release
from merkatd.policies.horizontal import Fleet, Prices, others_price, scale
from simulator.model.simulated_cloud import CORE


@dataclass(frozen=True, slots=True)
class Job:
    """A job of a framework."""

    submit_s: float
    workers: int
    run_s: float
    """Run time with a whole core for each worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkSetup:
    """The settings of the cloud and of its frameworks."""

    units: float
    reserve: float = 1e-4
    period_s: float = 60.0
    tick_s: float = 10.0
    boot_s: float = 3.6
    budget: float = 1000.0
    """Most credits that a framework spends in a period."""
    growth: int = 8
    """Most workers that a framework requests at once."""
    patience: int = 3
    """Number of periods without requests after a forced release."""
    drain_limit_s: float = 1200.0
    """Time for which a drained worker may continue its job."""
    target_s: float = 60.0
    """Largest wait of a job, for the aim `wait`."""

    @property
    def vms(self) -> int:
        """Return the number of VMs that the cloud can hold with a whole core each."""
        return int(self.units // CORE)


@dataclass(frozen=True, slots=True)
class FrameworkView:
    """A framework at the end of a period."""

    at_s: float
    vms: int
    running: int
    queued: int
    useful: int
    """Number of workers that have work."""
    part: float
    """Part of the cloud's CPU."""


@dataclass(slots=True)
class Running:
    """A running job; its tasks progress at the same speed."""

    job: Job
    workers: tuple[int, ...]
    ends_at_s: float
    """It ends once a worker of its framework has worked for so long."""


@dataclass(slots=True)
class Framework:
    """A batch framework."""

    name: str
    aim: QueueAim
    coming: deque[Job]
    fixed: int | None = None
    """Constant number of workers, in a cloud without a market; None in a market."""
    queue: deque[Job] = field(default_factory=deque)
    wanted: int = 0
    """The number of workers that the jobs of the queue need."""
    running: list[Running] = field(default_factory=list)
    busy: set[int] = field(default_factory=set)
    """The workers of running jobs."""
    workers: list[int] = field(default_factory=list)
    """The VMs of its workers, in order of their requests."""
    ready: AbstractSet[int] = frozenset()
    """The workers that run, and so take jobs."""
    leaving_s: dict[int, float] = field(default_factory=dict)
    """By drained worker: the start of draining."""
    waiting: int = 0
    bid: float = 0.0
    """Bid of all workers together, for CPU."""
    speed: float = 1.0
    worked_s: float = 0.0
    """How long a worker has worked that was always busy, in seconds at full speed."""
    next_end_s: float = inf
    """No running job ends before a worker has worked for so long."""
    requested: int = 0
    """The number of workers that it has requested so far."""
    begun: int = 0
    waited_s: float = 0.0
    lost: int = 0
    """Number of jobs that restarted because a worker was released."""
    end_s: float = 0.0
    seen: list[FrameworkView] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Return whether all jobs are done."""
        return not (self.coming or self.queue or self.running)

    def load(self, now_s: float) -> QueueLoad:
        """Return the load as the batch system's commands would show it."""
        return QueueLoad(
            waiting=len(self.queue),
            wanted=self.wanted,
            longest_s=now_s - self.queue[0].submit_s if self.queue else 0.0,
            busy=len(self.busy),
        )

    def work(self, since_s: float, now_s: float) -> None:
        """Advance the running jobs, and remove those that end."""
        self.worked_s += (now_s - since_s) * self.speed
        if self.worked_s < self.next_end_s:
            return
        for running in self.running:
            if running.ends_at_s <= self.worked_s:
                self.busy.difference_update(running.workers)
                late_s = (self.worked_s - running.ends_at_s) / max(self.speed, 1e-9)
                self.end_s = now_s - late_s
        self.running = [each for each in self.running if each.ends_at_s > self.worked_s]
        self.next_end_s = min((each.ends_at_s for each in self.running), default=inf)

    def begin(self, now_s: float) -> None:
        """Queue the jobs that have arrived, and start jobs in order while workers are idle."""
        while self.coming and self.coming[0].submit_s <= now_s:
            self._enqueue(self.coming.popleft())
        most = len(self.ready) - len(self.busy)
        if not self.queue or self.queue[0].workers > most:
            return
        idle = [
            worker
            for worker in self.workers
            if worker in self.ready and worker not in self.busy and worker not in self.leaving_s
        ]
        while self.queue and self.queue[0].workers <= len(idle):
            job = self.queue.popleft()
            self.wanted -= job.workers
            chosen, idle = idle[: job.workers], idle[job.workers :]
            self.begun += 1
            self.waited_s += now_s - job.submit_s
            ends_at_s = self.worked_s + job.run_s
            self.next_end_s = min(self.next_end_s, ends_at_s)
            self.running.append(Running(job, tuple(chosen), ends_at_s))
            self.busy.update(chosen)

    def _enqueue(self, job: Job, *, first: bool = False) -> None:
        self.wanted += job.workers
        if first:
            self.queue.appendleft(job)
        else:
            self.queue.append(job)

    def release(self, workers: Sequence[int]) -> None:
        """Remove workers; their jobs restart, first in the queue."""
        gone = set(workers)
        for running in [running for running in self.running if gone & set(running.workers)]:
            self.running.remove(running)
            self.busy.difference_update(running.workers)
            self._enqueue(running.job, first=True)
            self.lost += 1
        self.workers = [worker for worker in self.workers if worker not in gone]
        self.ready = self.ready - gone

    def control(
        self, price: float, setting: FrameworkSetup, now_s: float
    ) -> tuple[Sequence[int], int]:
        """Set the bid; return the workers that it releases, and how many more it requests."""
        load, workers = self.load(now_s), len(self.workers)
        coming = len(self.ready) < len(self.workers)
        fleet = Fleet(
            vms=workers,
            most=setting.vms,
            size=(CORE,),
            growth=0 if coming else setting.growth,
            waiting=self.waiting,
        )
        left = others_price(price, self.bid, setting.units, setting.reserve)
        scaled = scale(
            fleet,
            queue_performance(load, self.aim, workers, setting.target_s),
            setting.budget,
            Prices(others=(left,), capacity=(setting.units,)),
            wanted=load.useful,
            patience=setting.patience,
        )
        self.waiting = scaled.waiting
        jobs: dict[int, int | None] = {
            worker: 0 if worker in self.ready else None for worker in self.workers
        }
        jobs |= {worker: 1 for run in self.running for worker in run.workers}
        # In virtual time the batch system obeys at once: a drained worker gets no more jobs.
        obeys, surplus = frozenset(jobs), workers - scaled.vms
        plan = workers_to_release(
            jobs, obeys, surplus, self.leaving_s, now_s, setting.drain_limit_s
        )
        self.leaving_s = dict(plan.since_s)
        self.release(plan.release)
        left_vms = len(self.workers) + scaled.request
        self.bid = sum(scaled.bid) * max(left_vms, scaled.vms)
        return plan.release, scaled.request
