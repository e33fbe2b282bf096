"""A run of the market in virtual time, from event to event and from period to period.

Between two periods, bids, shares and prices are constant. So time advances to the next event: an
arrival, an end, or the end of an operation. Then a period begins, as in the daemon. While an
application waits, a period begins in every interval.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from merkatd.cluster import Decision, Floats
from merkatd.cluster.columns import NO_HOST
from merkatd.market.price import PriceRule, charges
from merkatd.placement.base.strategy import Pricing
from merkatd.placement.registry import strategy_named
from merkatd.policies.patience import PatienceSettings
from simulator.baselines.queue_baselines import TooLargeError
from simulator.market.application_choices import ApplicationChoices, is_hopeless
from simulator.market.tenancy import MICRO, Phase, Tenancy
from simulator.market.vm_fleet import act, columns_of, hosts_of, set_speeds, snapshot_of
from simulator.model.simulated_cloud import RESOURCES, SimulatedCloud
from simulator.workloads.job_applications import Application, ApplicationOutcome

DONE = 1e-6
"""Remaining work, in seconds, that counts as done."""
IMPATIENT = 0.5
"""Part of its grace time after which a waiting application decides again."""


@dataclass(slots=True)
class OperationCounts:
    """Counts of periods and operations."""

    periods: int = 0
    """Number of periods, with or without changes."""
    decisions: int = 0
    """Number of periods with a new decision."""
    migrations: int = 0
    suspensions: int = 0
    """Number of suspensions of applications."""
    vm_suspensions: int = 0
    """Number of suspensions of VMs."""
    resumes: int = 0
    vm_resumes: int = 0


@dataclass(frozen=True, slots=True)
class MarketRun:
    """The outcomes and costs of a run."""

    outcomes: tuple[ApplicationOutcome, ...]
    counts: OperationCounts
    span_s: float
    """Virtual time from the first arrival to the last end."""
    prices: tuple[tuple[float, float], ...]
    """Pairs of time and price of a unit of CPU, at each change."""
    spent: tuple[float, ...]
    """Credits that each application paid."""


def simulate(
    applications: Sequence[Application],
    cloud: SimulatedCloud,
    temper: PatienceSettings,
    rng: np.random.Generator,
    liars: Mapping[int, float] | None = None,
) -> MarketRun:
    """Run the applications, in order of submission, to the end of the last.

    `liars` has, by row of dishonest applications, the factor of the announced limit.
    """
    check_sizes(applications, cloud)
    return _ClaimRun(applications, cloud, temper, rng, liars or {}).to_the_end()


def check_sizes(applications: Sequence[Application], cloud: SimulatedCloud) -> None:
    """Raise TooLargeError if an application needs more cores than there are."""
    for application in applications:
        if application.tasks > cloud.cores:
            raise TooLargeError(
                f"job {application.number} needs {application.tasks} of {cloud.cores} cores"
            )


class VirtualMarket:
    """A market in virtual time, and its applications; `period` and `owed` are the market's own."""

    def __init__(
        self, applications: Sequence[Application], cloud: SimulatedCloud, rng: np.random.Generator
    ) -> None:
        sizes = np.cumsum([0, *(application.tasks for application in applications)])
        self.tenancies = [
            Tenancy(row, application, int(sizes[row]), application.run_s, 0)
            for row, application in enumerate(applications)
        ]
        for tenancy in self.tenancies:
            tenancy.balance = tenancy.initial
        self.cloud, self.rng = cloud, rng
        self.hosts = hosts_of(cloud)
        self.entry = strategy_named(cloud.strategy)
        self.live: list[Tenancy] = []
        self.arrived = 0
        self.now_s = 0.0
        self.period_s = -inf
        """Start of the last period."""
        self.dirty = False
        self.memory: Mapping[str, Any] = {}
        """The strategy's memory."""
        self.counts = OperationCounts()
        self.prices: list[tuple[float, float]] = []
        reserve = {RESOURCES[0]: cloud.reserve_cpu, RESOURCES[1]: cloud.reserve_memory}
        # The paper's rule to the letter: its figures count every bid in full.
        whole_bids = cloud.rule is PriceRule.PAPER
        pricing = Pricing(rule=cloud.rule, reserve=reserve, whole_bids=whole_bids)
        self.settings = type(self.entry.settings)(pricing=pricing)

    def to_the_end(self) -> MarketRun:
        """Run all periods, and return the results."""
        while self.arrived < len(self.tenancies) or self.live:
            self._advance(self._next_s())
            self._handle_events()
            self.period_s = self.now_s
            self.counts.periods += 1
            self.period()
        return MarketRun(
            tuple(_outcome(tenancy) for tenancy in self.tenancies),
            self.counts,
            self.now_s,
            tuple(self.prices),
            tuple(tenancy.spent / MICRO for tenancy in self.tenancies),
        )

    def _next_s(self) -> float:
        """Return the start of the next period."""
        event_s = inf
        if self.arrived < len(self.tenancies):
            event_s = self.tenancies[self.arrived].application.submit_s
        for tenancy in self.live:
            event_s = min(event_s, tenancy.event_s(self.now_s), self._looks_s(tenancy))
        event_s = min(event_s, self.due_s())
        return max(event_s, self.period_s + self.cloud.least_interval_s)

    def _looks_s(self, tenancy: Tenancy) -> float:
        """Return when a waiting application decides again: each period, or sooner near its end."""
        if tenancy.pending:
            return self.period_s + self.cloud.period_s
        if tenancy.phase is not Phase.WAITING:
            return inf
        grace_s = (
            tenancy.application.due_s - self.now_s - tenancy.left_s - tenancy.startup_s(self.cloud)
        )
        if grace_s <= 0:  # only a part of the work can be done in time
            return self.period_s + self.cloud.period_s
        return self.period_s + min(grace_s * IMPATIENT, self.cloud.period_s)

    def _advance(self, now_s: float) -> None:
        """Advance the applications' work to this time, and charge for it."""
        self._charge(now_s - self.now_s)
        for tenancy in self.live:
            done_s = tenancy.finishes_s(self.now_s)
            if done_s <= now_s + DONE:
                tenancy.left_s, tenancy.end_s, tenancy.phase = 0.0, done_s, Phase.OVER
                self.dirty = True
            else:
                tenancy.work(self.now_s, now_s)
        self.now_s = now_s
        self.live = [tenancy for tenancy in self.live if tenancy.phase is not Phase.OVER]

    def _charge(self, elapsed_s: float) -> None:
        """Charge each application for its allocations."""
        for tenancy, credits_ in self.owed(elapsed_s):
            if tenancy.phase is Phase.PLACED:
                paid = min(round(credits_ * MICRO), tenancy.balance)
                tenancy.balance -= paid
                tenancy.spent += paid

    def _handle_events(self) -> None:
        """Handle arrivals, finished suspensions, and applications that give up."""
        while self.arrived < len(self.tenancies):
            tenancy = self.tenancies[self.arrived]
            if tenancy.application.submit_s > self.now_s:
                break
            self.live.append(tenancy)
            self.arrived += 1
        for tenancy in self.live:
            tenancy.renew(self.now_s, self.cloud.renewal_s)
            if tenancy.phase is Phase.SUSPENDING and tenancy.busy_until_s[0] <= self.now_s:
                tenancy.phase, tenancy.on_disk, self.dirty = Phase.WAITING, True, True
            if is_hopeless(tenancy, self.now_s, self.cloud):
                self.dirty = self.dirty or tenancy.phase is not Phase.WAITING
                tenancy.phase = Phase.OVER
        self.live = [tenancy for tenancy in self.live if tenancy.phase is not Phase.OVER]

    def owed(self, elapsed_s: float) -> Iterable[tuple[Tenancy, float]]:
        """Return the credits that applications owe for this time."""
        raise NotImplementedError

    def period(self) -> None:
        """Decide, and carry the decision out."""
        raise NotImplementedError

    def due_s(self) -> float:
        """Return when a period is due, even if nothing happens in the cloud."""
        return self.period_s + self.cloud.period_s if self.dirty else inf

    def suspend(self, tenancy: Tenancy) -> None:
        """Suspend the application's VMs to disk; VMs that have not started are withdrawn."""
        if tenancy.starting_until_s == inf and (tenancy.host == NO_HOST).all():
            tenancy.phase = Phase.WAITING
            return
        tenancy.phase, tenancy.speed = Phase.SUSPENDING, 0.0
        there = tenancy.host != NO_HOST
        self.counts.suspensions += 1
        self.counts.vm_suspensions += int(there.sum())
        on_disk_s = self.now_s + self.cloud.costs.suspend_s(tenancy.application.memory_mib)
        tenancy.busy_until_s = np.full(len(tenancy.host), on_disk_s)

    def note_price(self, price: float) -> None:
        """Record a price of CPU that has changed."""
        if not self.prices or self.prices[-1][1] != price:
            self.prices.append((self.now_s, price))


class _ClaimRun(VirtualMarket):
    """The market in which applications publish claims and yield by themselves."""

    def __init__(
        self,
        applications: Sequence[Application],
        cloud: SimulatedCloud,
        temper: PatienceSettings,
        rng: np.random.Generator,
        liars: Mapping[int, float],
    ) -> None:
        super().__init__(applications, cloud, rng)
        self.asking = ApplicationChoices(cloud, temper, liars)
        self.decision: Decision | None = None
        self.columns = columns_of(())
        self.bids: Floats = np.zeros((0, len(RESOURCES)))

    def owed(self, elapsed_s: float) -> Iterable[tuple[Tenancy, float]]:
        """Return the charges for the allocations."""
        if self.decision is None or not self.columns.tenancies:
            return []
        owed = charges(
            self.bids,
            self.decision.allocations,
            np.tile(self.decision.prices[0], (len(self.bids), 1)),
            elapsed_s / self.cloud.period_s,
            inf,
            above_bids=self.cloud.rule is PriceRule.PAPER,
        )
        sums = np.add.reduceat(owed.sum(axis=1), self.columns.starts[:-1])
        return zip(self.columns.tenancies, sums.tolist(), strict=True)

    def period(self) -> None:
        """Run a period as the daemon does, with a new decision only after a change."""
        asked = self.asking(self.live, self.now_s)
        for tenancy in asked.yielded:
            self.suspend(tenancy)
        for tenancy in asked.started:
            self.counts.resumes += tenancy.on_disk
            self.counts.vm_resumes += tenancy.application.tasks * tenancy.on_disk
            tenancy.place()
        settling = any(tenancy.pending for tenancy in self.live)
        if self.dirty or settling or asked.started or asked.yielded:
            self._decide()

    def _decide(self) -> None:
        """Run the strategy, and apply its decision.

        An application at full speed needs to bid no more than the others. So all bid the lowest
        limit of the placed applications.
        """
        placed = [tenancy.limit for tenancy in self.live if tenancy.phase is Phase.PLACED]
        going = max(min(placed, default=0.0), self.cloud.reserve_cpu)
        for tenancy in self.live:
            tenancy.bid = going
        columns = columns_of(self.live)
        snapshot = snapshot_of(self.cloud, self.hosts, columns, self.now_s, self.counts.periods)
        decision = self.entry.decide(snapshot, self.rng, self.memory, self.settings)
        migrations = act(self.cloud, columns, decision, self.now_s)
        set_speeds(self.cloud, columns, decision.allocations, self.now_s)
        self.counts.decisions += 1
        self.counts.migrations += migrations
        self.note_price(float(decision.prices[0, 0]))
        self.decision, self.columns, self.bids = decision, columns, snapshot.vms.bid
        self.memory = decision.memory
        self.dirty = migrations > 0


def _outcome(tenancy: Tenancy) -> ApplicationOutcome:
    return ApplicationOutcome(
        tenancy.application, tenancy.end_s, 1.0 - tenancy.left_s / tenancy.application.run_s
    )
