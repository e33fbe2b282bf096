"""A simulated application as a virtual platform of the daemon: its state, VMs and controller.

Its VMs have the states that OpenNebula would report. An operation on a VM (a boot, a migration, a
suspension or a resumption) takes the time of `OperationCosts`; until then the VM is busy. A guest
works while its VM runs or migrates, and an application as fast as its slowest task.
"""

from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from merkatd.cluster import BIDDING, Floats, Ints, VmState
from merkatd.cluster.columns import NO_HOST, is_one_of
from merkatd.platforms.rules.first_bids import first_bid
from merkatd.platforms.rules.lifecycle_events import (
    BudgetPolicy,
    FleetCounts,
    PlatformInput,
    PlatformState,
)
from merkatd.platforms.rules.start_conditions import Terms
from merkatd.policies.deadline import Funds, bid_max, least_part
from merkatd.protocol.platform_messages import Amounts, ProgressReport
from simulator.market.attended_applications import OF_TENANT, TASKS, AttendedApplication
from simulator.market.tenancy import MICRO, Tenancy
from simulator.model.simulated_cloud import CORE, RESOURCES, SimulatedCloud
from simulator.workloads.job_applications import TenantKind

_ABSENT, _BUSY, _PENDING = int(VmState.ABSENT), int(VmState.BUSY), int(VmState.PENDING)
_RUNNING, _SUSPENDED = int(VmState.RUNNING), int(VmState.SUSPENDED)


@dataclass(slots=True)
class SimulatedPlatform:
    """An application, its platform and its VMs. The arrays have a row for each task."""

    tenancy: Tenancy
    state: PlatformState = PlatformState.SUBMITTED
    since_s: float = 0.0
    """The time of its last change of state."""
    attended: AttendedApplication | None = None
    """Its controller, while that runs."""
    memory: Any = None
    """The memory of its controller."""
    report: ProgressReport | None = None
    vm_state: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The state of each VM, also of VMs that do not exist (ABSENT)."""
    after: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The state of each busy VM after its operation."""
    moving: Floats = field(default_factory=lambda: np.zeros(0))
    """The part of its speed that each busy VM keeps."""
    bids: Floats = field(default_factory=lambda: np.zeros((0, len(RESOURCES))))
    given: Floats = field(default_factory=lambda: np.zeros((0, len(RESOURCES))))
    """The allocations of the last period."""
    cost: float = 0.0
    """The credits that its allocations cost per period."""
    owed: float = 0.0
    """The credits for the time since the last charge."""
    is_due: bool = False
    """Whether its deadline has passed."""

    def __post_init__(self) -> None:
        """Begin without VMs."""
        count = self.tenancy.application.tasks
        self.vm_state = np.full(count, _ABSENT)
        self.after = np.full(count, _ABSENT)
        self.moving = np.zeros(count)
        self.bids = np.zeros((count, len(RESOURCES)))
        self.given = np.zeros((count, len(RESOURCES)))

    @property
    def kind(self) -> str:
        """Return the kind of its controller."""
        return OF_TENANT[self.tenancy.application.tenant]

    @property
    def full(self) -> Amounts:
        """Return the full size of all its VMs together."""
        application = self.tenancy.application
        return {"cpu": self.tenancy.units, "memory": application.memory_mib * application.tasks}

    def purse(self, cloud: SimulatedCloud) -> Funds:
        """Return its credits and its replenishment."""
        tenancy = self.tenancy
        return Funds(
            credits=tenancy.balance / MICRO,
            renewal=tenancy.initial / MICRO,
            renewal_s=cloud.renewal_s,
        )

    def terms(self, cloud: SimulatedCloud) -> Terms:
        """Return its terms for the rest of its work."""
        application = self.tenancy.application
        done = 0.0 if self.report is None else min(max(self.report.done or 0.0, 0.0), 1.0)
        return Terms(
            deadline_s=application.due_s,
            ideal_s=application.run_s * (1.0 - done),
            give_up=application.tenant is not TenantKind.PARTIAL_DEADLINE,
            price_ceiling={},
            full=self.full,
            purse=self.purse(cloud),
            least_part=least_part(self.kind, {}),
            suspended_s=self.since_s if self.state is PlatformState.SUSPENDED else None,
        )

    def facts(self, terms: Terms) -> PlatformInput:
        """Return the facts that decide its next event; its budget is renewed, so it goes on."""
        there = self.vm_state != _ABSENT
        return PlatformInput(
            state=self.state,
            held=False,
            terms=terms,
            least={TASKS: len(self.vm_state)},
            over_budget=BudgetPolicy.GO_ON,
            counts=FleetCounts(
                running={TASKS: int((self.vm_state == _RUNNING).sum())},
                kept={TASKS: int(there.sum())},
                active=int(is_one_of(self.vm_state, BIDDING).sum()),
                left=int(there.sum()),
                pending=int((self.vm_state == _PENDING).sum()),
            ),
            has_run=self.report is not None,
        )

    def create(self, prices: Amounts, cloud: SimulatedCloud, now_s: float) -> None:
        """Create the missing VMs, each with a first bid."""
        missing = self.vm_state == _ABSENT
        if not missing.any():
            return
        left_s = max(self.tenancy.application.due_s - now_s, cloud.period_s)
        most = bid_max(self.purse(cloud), left_s, cloud.period_s, len(missing))
        size = {"cpu": CORE, "memory": self.tenancy.application.memory_mib}
        bid = first_bid(prices, size, {}, most)
        self.bids[missing] = [bid[name] for name in RESOURCES]
        self.vm_state[missing] = _PENDING
        self.tenancy.host[missing] = NO_HOST

    def begin(self, tasks: Ints | int, after: VmState, end_s: float, speed: float = 0.0) -> None:
        """Begin an operation on the VMs of these tasks, which ends in another state."""
        self.vm_state[tasks] = _BUSY
        self.after[tasks] = int(after)
        self.moving[tasks] = speed
        self.tenancy.busy_until_s[tasks] = end_s

    def end_operations(self, now_s: float) -> bool:
        """End the operations that are over now, and return whether there were any."""
        over = (self.vm_state == _BUSY) & (self.tenancy.busy_until_s <= now_s)
        self.vm_state[over] = self.after[over]
        self.given[over & (self.vm_state == _SUSPENDED)] = 0.0
        return bool(over.any())

    def suspend(self, cloud: SimulatedCloud, now_s: float) -> int:
        """Save the VMs that run, end those that wait for a host; return how many are saved."""
        running = np.flatnonzero(self.vm_state == _RUNNING)
        self.vm_state[self.vm_state == _PENDING] = _ABSENT
        saved_s = now_s + cloud.costs.suspend_s(self.tenancy.application.memory_mib)
        self.begin(running, VmState.SUSPENDED, saved_s)
        return len(running)

    def resume(self, cloud: SimulatedCloud, now_s: float) -> int:
        """Resume the saved VMs, if it has credits, and return how many."""
        saved = np.flatnonzero(self.vm_state == _SUSPENDED)
        if self.tenancy.balance <= 0:
            return 0
        up_s = now_s + cloud.costs.resume_s(self.tenancy.application.memory_mib)
        self.begin(saved, VmState.RUNNING, up_s)
        return len(saved)

    def set_speed(self, cloud: SimulatedCloud) -> None:
        """Set the speed of its work from its allocations and from what its VMs do."""
        part = np.minimum(self.given[:, 1] / self.tenancy.application.memory_mib, 1.0)
        thrash = np.clip(1.0 - cloud.costs.thrashing * (1.0 - part), 0.0, 1.0)
        works = np.where(self.vm_state == _RUNNING, 1.0, 0.0)
        works = np.where(self.vm_state == _BUSY, self.moving, works)
        self.tenancy.speed = float((self.given[:, 0] / CORE * thrash * works).min())

    def next_s(self, now_s: float) -> float:
        """Return its next event: the end of its work or of an operation, or its deadline."""
        busy = self.tenancy.busy_until_s[self.vm_state == _BUSY]
        due_s = self.tenancy.application.due_s
        return min(
            self.tenancy.finishes_s(now_s),
            float(busy.min()) if len(busy) else inf,
            inf if self.is_due else due_s,
        )

    def advance(self, since_s: float, now_s: float, period_s: float) -> None:
        """Work, and owe for it, from one time to another."""
        self.tenancy.work(since_s, now_s)
        self.owed += self.cost * (now_s - since_s) / period_s

    def pay(self) -> None:
        """Pay what is owed, as far as the balance allows."""
        paid = min(round(self.owed * MICRO), self.tenancy.balance)
        self.tenancy.balance -= paid
        self.tenancy.spent += paid
        self.owed = 0.0
