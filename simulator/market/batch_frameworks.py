"""Batch frameworks that share a cloud by price (section 3.2.2), in virtual time.

All VMs have one core, so the cloud is a single pool of units. Each framework has a queue of jobs
and a cluster of workers. It decides as the daemon's controllers do: by Algorithm 4, from its queue
and the other frameworks' price. It drains workers before it releases them.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from merkatd.market.share import share
from merkatd.policies.batch_queue import QueueAim, QueueLoad, queue_performance, workers_to_release
from merkatd.policies.horizontal import Fleet, Prices, others_price, scale

CORE = 100.0


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
    left_s: float


@dataclass(slots=True)
class Framework:
    """A batch framework."""

    name: str
    aim: QueueAim
    coming: deque[Job]
    fixed: int | None = None
    """Constant number of workers, in a cloud without a market; None in a market."""
    queue: deque[Job] = field(default_factory=deque)
    running: list[Running] = field(default_factory=list)
    ready_s: dict[int, float] = field(default_factory=dict)
    """By worker: the time from which it takes jobs."""
    leaving_s: dict[int, float] = field(default_factory=dict)
    """By drained worker: the start of draining."""
    waiting: int = 0
    bid: float = 0.0
    """Bid of all workers together, for CPU."""
    speed: float = 1.0
    names: int = 0
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
            wanted=sum(job.workers for job in self.queue),
            longest_s=now_s - self.queue[0].submit_s if self.queue else 0.0,
            busy=sum(len(running.workers) for running in self.running),
        )

    def work(self, since_s: float, now_s: float) -> None:
        """Advance the running jobs, and remove those that end."""
        for running in self.running:
            running.left_s -= (now_s - since_s) * self.speed
        for running in [running for running in self.running if running.left_s <= 0]:
            self.running.remove(running)
            self.end_s = now_s + running.left_s / max(self.speed, 1e-9)

    def begin(self, now_s: float) -> None:
        """Queue the jobs that have arrived, and start jobs in order while workers are idle."""
        while self.coming and self.coming[0].submit_s <= now_s:
            self.queue.append(self.coming.popleft())
        busy = {worker for running in self.running for worker in running.workers}
        idle = [
            worker
            for worker, ready_s in self.ready_s.items()
            if ready_s <= now_s and worker not in busy and worker not in self.leaving_s
        ]
        while self.queue and self.queue[0].workers <= len(idle):
            job = self.queue.popleft()
            chosen, idle = idle[: job.workers], idle[job.workers :]
            self.begun += 1
            self.waited_s += now_s - job.submit_s
            self.running.append(Running(job, tuple(chosen), job.run_s))

    def add(self, count: int, ready_s: float) -> None:
        """Add workers."""
        for _ in range(count):
            self.ready_s[self.names] = ready_s
            self.names += 1

    def release(self, workers: Sequence[int]) -> None:
        """Remove workers; their jobs restart, first in the queue."""
        gone = set(workers)
        for running in [running for running in self.running if gone & set(running.workers)]:
            self.running.remove(running)
            self.queue.appendleft(running.job)
            self.lost += 1
        for worker in workers:
            del self.ready_s[worker]


def simulate(frameworks: Sequence[Framework], setting: FrameworkSetup) -> None:
    """Run the frameworks until all their jobs are done."""
    now_s = 0.0
    for framework in frameworks:
        framework.add(framework.fixed or 0, 0.0)
    while not all(framework.over for framework in frameworks):
        for framework in frameworks:
            framework.begin(now_s)
        if now_s % setting.period_s == 0:
            _period(frameworks, setting, now_s)
        then_s = now_s + setting.tick_s
        for framework in frameworks:
            framework.work(now_s, then_s)
        now_s = then_s


def _period(frameworks: Sequence[Framework], setting: FrameworkSetup, now_s: float) -> None:
    """Let controllers act on the announced price, then compute new shares."""
    price = max(sum(framework.bid for framework in frameworks) / setting.units, setting.reserve)
    for framework in frameworks:
        if framework.fixed is None:
            _control(framework, price, setting, now_s)
    bids = np.array([max(framework.bid, 1e-9) for framework in frameworks])
    caps = np.array([CORE * len(framework.ready_s) for framework in frameworks])
    pool, none = np.zeros(len(frameworks), dtype=np.int64), np.zeros(len(frameworks))
    given = share(bids, none, caps, pool, np.array([setting.units])).allocation
    for framework, units, most in zip(frameworks, given.tolist(), caps.tolist(), strict=True):
        framework.speed = units / most if most else 1.0
        load = framework.load(now_s)
        framework.seen.append(
            FrameworkView(
                now_s,
                len(framework.ready_s),
                len(framework.running),
                load.waiting,
                load.useful,
                units / setting.units,
            )
        )


def _control(framework: Framework, price: float, setting: FrameworkSetup, now_s: float) -> None:
    """Scale the framework and set its bid, as its controller does."""
    load = framework.load(now_s)
    workers = len(framework.ready_s)
    coming = any(ready_s > now_s for ready_s in framework.ready_s.values())
    fleet = Fleet(
        vms=workers,
        most=setting.vms,
        size=(CORE,),
        growth=0 if coming else setting.growth,
        waiting=framework.waiting,
    )
    left = others_price(price, framework.bid, setting.units, setting.reserve)
    scaled = scale(
        fleet,
        queue_performance(load, framework.aim, workers, setting.target_s),
        setting.budget,
        Prices(others=(left,), capacity=(setting.units,)),
        wanted=load.useful,
        patience=setting.patience,
    )
    framework.waiting = scaled.waiting
    jobs: dict[int, int | None] = {
        worker: 0 if ready_s <= now_s else None for worker, ready_s in framework.ready_s.items()
    }
    jobs |= {worker: 1 for run in framework.running for worker in run.workers}
    # In virtual time the batch system obeys at once: a drained worker gets no more jobs.
    obeys, surplus = frozenset(jobs), workers - scaled.vms
    plan = workers_to_release(
        jobs, obeys, surplus, framework.leaving_s, now_s, setting.drain_limit_s
    )
    framework.leaving_s = dict(plan.since_s)
    framework.release(plan.release)
    framework.add(scaled.request, now_s + setting.boot_s)
    framework.bid = sum(scaled.bid) * max(len(framework.ready_s), scaled.vms)
