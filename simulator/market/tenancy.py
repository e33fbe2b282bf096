"""An application in the cloud: its phase, VMs, work and balance."""

from dataclasses import dataclass, field
from enum import Enum, auto
from math import floor, inf

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import NO_HOST
from merkatd.currency.income import Refill, replenishments
from simulator.model.simulated_cloud import CORE, SimulatedCloud
from simulator.workloads.job_applications import Application

MICRO = 1_000_000
"""The ledger's unit: micro-credits."""


class Phase(Enum):
    """The phase of an application."""

    WAITING = auto()
    """Has no VMs, or its VMs are on disk."""
    PLACED = auto()
    """Its VMs are pending, being started, or running."""
    SUSPENDING = auto()
    """Its VMs are being saved to disk."""
    OVER = auto()


@dataclass(slots=True)
class Tenancy:
    """The state of an application."""

    row: int
    application: Application
    first_vm: int
    """Id of its first VM; the ids of its VMs are consecutive."""
    left_s: float
    """Remaining work, in seconds at full speed."""
    balance: int
    """Balance in micro-credits."""
    spent: int = 0
    """Micro-credits paid so far."""
    renewals: int = 0
    """Number of budget renewals so far."""
    phase: Phase = Phase.WAITING
    on_disk: bool = False
    host: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Host by task; NO_HOST while the task is pending."""
    busy_until_s: Floats = field(default_factory=lambda: np.zeros(0))
    """End of the start or migration, by task."""
    moved_at_s: Floats = field(default_factory=lambda: np.zeros(0))
    """Time of the last migration, by task; NaN for never."""
    starting_until_s: float = inf
    """Time at which all its VMs have started; infinite while a VM is pending."""
    speed: float = 0.0
    """Work per second."""
    limit: float = 0.0
    """Highest price at which the application runs."""
    bid: float = 0.0
    """Registered bid for a unit of CPU."""
    end_s: float = inf

    @property
    def units(self) -> float:
        """Return the units of CPU for full speed."""
        return CORE * self.application.tasks

    def place(self) -> None:
        """Request the application's VMs."""
        self.phase = Phase.PLACED
        self.host = np.full(self.application.tasks, NO_HOST)
        self.busy_until_s = np.zeros(self.application.tasks)
        self.moved_at_s = np.full(self.application.tasks, np.nan)
        self.starting_until_s = inf
        self.speed = 0.0

    def deployed(self, task: int, host: int, ready_s: float) -> None:
        """Record that the task's VM starts on the host."""
        self.host[task] = host
        self.busy_until_s[task] = ready_s
        if (self.host != NO_HOST).all():
            self.starting_until_s = float(self.busy_until_s.max())

    def work(self, since_s: float, now_s: float) -> None:
        """Record the work done between the two times."""
        if self.speed <= 0.0:
            return
        worked_s = now_s - max(since_s, self.starting_until_s)
        if worked_s > 0:
            self.left_s = max(self.left_s - worked_s * self.speed, 0.0)

    def finishes_s(self, now_s: float) -> float:
        """Return the time at which the work is done if nothing changes."""
        if self.phase is not Phase.PLACED or self.speed <= 0.0:
            return inf
        return max(now_s, self.starting_until_s) + self.left_s / self.speed

    def event_s(self, now_s: float) -> float:
        """Return the application's next event: end of work, end of an operation, or deadline."""
        if self.phase is Phase.WAITING:
            return inf
        later = self.busy_until_s[self.busy_until_s > now_s]
        operation_s = float(later.min()) if len(later) else inf
        due_s = self.application.due_s
        passes_s = due_s if due_s > now_s and self.phase is Phase.PLACED else inf
        return min(self.finishes_s(now_s), operation_s, passes_s)

    @property
    def pending(self) -> bool:
        """Return whether any of its VMs waits for a host."""
        return self.phase is Phase.PLACED and self.starting_until_s == inf

    def startup_s(self, cloud: SimulatedCloud) -> float:
        """Return the time from the placement of its VMs until they work."""
        if self.on_disk:
            return cloud.costs.resume_s(self.application.memory_mib)
        return cloud.costs.boot_s

    def renew(self, now_s: float, renewal_s: float) -> None:
        """Renew the budget if a renewal is due."""
        due = floor((now_s - self.application.submit_s) / renewal_s)
        if due > self.renewals:
            self.renewals = due
            amount = self.initial
            refill = Refill(0, self.initial, amount, self.balance)
            self.balance += replenishments(amount, [refill])[0]

    @property
    def initial(self) -> int:
        """Return the whole budget in micro-credits; each renewal adds as much."""
        return round(self.application.budget * self.application.tasks * MICRO)

    def means(self, now_s: float, renewal_s: float) -> float:
        """Return its present credits plus the renewals until its deadline."""
        left_s = max(self.application.due_s - now_s, 0.0)
        return (self.balance + self.initial * (left_s / renewal_s)) / MICRO
