"""One application in the cloud: its phase, its VMs, its work, its money."""

from dataclasses import dataclass, field
from enum import Enum, auto
from math import floor, inf

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.currency.income import Refill, replenishments
from simulator.model.simulated_cloud import CORE, SimulatedCloud
from simulator.workloads.job_applications import Application

NOWHERE = -1
MICRO = 1_000_000
"""The ledger's unit: micro-credits."""


class Phase(Enum):
    """What an application is doing."""

    WAITING = auto()
    """Has no VMs, or its VMs are on disk."""
    PLACED = auto()
    """Its VMs are pending, being started, or running."""
    SUSPENDING = auto()
    """Its VMs are on their way to disk."""
    OVER = auto()


@dataclass(slots=True)
class Tenancy:
    """An application's state."""

    row: int
    application: Application
    first_vm: int
    """Its VMs have ids from here on."""
    left_s: float
    """Work still to be done, in seconds at full speed."""
    balance: int
    """Micro-credits."""
    spent: int = 0
    """Micro-credits paid so far."""
    renewals: int = 0
    """How often the budget has been filled up."""
    phase: Phase = Phase.WAITING
    on_disk: bool = False
    host: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """By task, NOWHERE while pending."""
    busy_until_s: Floats = field(default_factory=lambda: np.zeros(0))
    """By task: when its start or migration is over."""
    moved_at_s: Floats = field(default_factory=lambda: np.zeros(0))
    """By task: when it was migrated last, NaN for never."""
    starting_until_s: float = inf
    """When the last of its VMs has started; infinite while one is pending."""
    speed: float = 0.0
    """Work done in a second."""
    limit: float = 0.0
    """The price up to which it wants to run."""
    bid: float = 0.0
    """For a unit of CPU, as registered."""
    end_s: float = inf

    @property
    def units(self) -> float:
        """What full speed takes."""
        return CORE * self.application.tasks

    def place(self) -> None:
        """Its VMs are asked for."""
        self.phase = Phase.PLACED
        self.host = np.full(self.application.tasks, NOWHERE)
        self.busy_until_s = np.zeros(self.application.tasks)
        self.moved_at_s = np.full(self.application.tasks, np.nan)
        self.starting_until_s = inf
        self.speed = 0.0

    def deployed(self, task: int, host: int, ready_s: float) -> None:
        """One of its VMs starts there."""
        self.host[task] = host
        self.busy_until_s[task] = ready_s
        if (self.host != NOWHERE).all():
            self.starting_until_s = float(self.busy_until_s.max())

    def work(self, since_s: float, now_s: float) -> None:
        """What has been done meanwhile."""
        if self.speed <= 0.0:
            return
        worked_s = now_s - max(since_s, self.starting_until_s)
        if worked_s > 0:
            self.left_s = max(self.left_s - worked_s * self.speed, 0.0)

    def finishes_s(self, now_s: float) -> float:
        """When the work is done if nothing changes."""
        if self.phase is not Phase.PLACED or self.speed <= 0.0:
            return inf
        return max(now_s, self.starting_until_s) + self.left_s / self.speed

    def event_s(self, now_s: float) -> float:
        """When something of its own happens next: it is done, an operation is over, time is up."""
        if self.phase is Phase.WAITING:
            return inf
        later = self.busy_until_s[self.busy_until_s > now_s]
        operation_s = float(later.min()) if len(later) else inf
        due_s = self.application.due_s
        passes_s = due_s if due_s > now_s and self.phase is Phase.PLACED else inf
        return min(self.finishes_s(now_s), operation_s, passes_s)

    @property
    def pending(self) -> bool:
        """Whether some of its VMs wait for a host."""
        return self.phase is Phase.PLACED and self.starting_until_s == inf

    def startup_s(self, cloud: SimulatedCloud) -> float:
        """From when its VMs are placed until they work."""
        if self.on_disk:
            return cloud.costs.resume_s(self.application.memory_mib)
        return cloud.costs.boot_s

    def renew(self, now_s: float, renewal_s: float) -> None:
        """Fill the budget up, as often as that was due since it came."""
        due = floor((now_s - self.application.submit_s) / renewal_s)
        if due > self.renewals:
            self.renewals = due
            amount = self.initial
            refill = Refill(0, self.initial, amount, self.balance)
            self.balance += replenishments(amount, [refill])[0]

    @property
    def initial(self) -> int:
        """Micro-credits of the whole budget, which is also what each renewal brings."""
        return round(self.application.budget * self.application.tasks * MICRO)

    def means(self, now_s: float, renewal_s: float) -> float:
        """Credits it has and will get until its deadline."""
        left_s = max(self.application.due_s - now_s, 0.0)
        return (self.balance + self.initial * (left_s / renewal_s)) / MICRO
