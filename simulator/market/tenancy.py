"""An application in the cloud: its VMs, work and balance."""

from dataclasses import dataclass, field
from math import floor, inf

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import NO_HOST
from merkatd.currency.income import Refill, replenishments
from simulator.model.simulated_cloud import CORE
from simulator.workloads.job_applications import Application

MICRO = 1_000_000
"""The ledger's unit: micro-credits."""


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
    host: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Host by task; NO_HOST while the task is pending."""
    busy_until_s: Floats = field(default_factory=lambda: np.zeros(0))
    """End of the present operation, by task."""
    moved_at_s: Floats = field(default_factory=lambda: np.zeros(0))
    """Time of the last migration, by task; NaN for never."""
    speed: float = 0.0
    """Work per second."""
    end_s: float = inf

    def __post_init__(self) -> None:
        """Begin without a host for any VM."""
        self.host = np.full(self.application.tasks, NO_HOST)
        self.busy_until_s = np.zeros(self.application.tasks)
        self.moved_at_s = np.full(self.application.tasks, np.nan)

    @property
    def units(self) -> float:
        """Return the units of CPU for full speed."""
        return CORE * self.application.tasks

    def work(self, since_s: float, now_s: float) -> None:
        """Record the work done between the two times."""
        self.left_s = max(self.left_s - (now_s - since_s) * self.speed, 0.0)

    def finishes_s(self, now_s: float) -> float:
        """Return the time at which the work is done if nothing changes."""
        return now_s + self.left_s / self.speed if self.speed > 0.0 else inf

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
