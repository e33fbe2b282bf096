"""A run in which each application is a patient platform with a limit order, as in the daemon.

The daemon's modules decide everything: when periods begin, when a platform creates its VMs, what
its order says, which orders run, what they pay, and what its controller does. The clock, the guests
and the cloud's operations are simulated. A period takes no time, and neither do calls to the cloud.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from merkatd.cluster import Create, Decision, Migrate, Plan, Snapshot, Step, Terminate, VmState
from merkatd.cluster.left_out import with_fewer_migrations, without_places
from merkatd.market.price import PriceRule
from merkatd.placement.base.repeatable_random import repeatable_random
from merkatd.placement.contract import Pricing, with_pricing
from merkatd.placement.registry import strategy_named
from merkatd.platforms.rules.awaited_starts import WAITS, Awaited, times_ahead
from merkatd.platforms.rules.early_starts import EarlyStarts
from merkatd.platforms.rules.lifecycle_events import PlatformState
from merkatd.platforms.rules.start_conditions import MarketOffer
from merkatd.scheduler.base.early_periods import (
    GATHER_S,
    AwaitedTime,
    EarlyPeriods,
    pause_before_event_s,
)
from merkatd.scheduler.base.settings import MarketRules, Rhythm
from merkatd.scheduler.clearing.clearing_columns import LastClearing, with_last_clearing
from merkatd.scheduler.terms.bids_under_way import with_bids_under_way
from merkatd.scheduler.terms.creation_turns import CreationRoom, take_turns
from merkatd.scheduler.terms.ordered_vms import outcomes_of_all, resumptions
from merkatd.scheduler.timer import PeriodTimer
from simulator.market.market_run import MarketRun, OperationCounts, check_sizes
from simulator.market.tenancy import MICRO, Tenancy
from simulator.market.virtual_clock import VirtualClock
from simulator.model.simulated_cloud import RESOURCES, SimulatedCloud
from simulator.orders.order_charges import DecidedPeriod, charge, decided_period
from simulator.orders.patient_controllers import PatientControllers
from simulator.orders.patient_platform import PatientPlatform
from simulator.orders.period_snapshot import ObservedCloud, afforded
from simulator.orders.sent_steps import StepSender
from simulator.orders.simulated_vms import Life, SimulatedVms
from simulator.orders.tenant_payments import TenantPayments
from simulator.workloads.job_applications import Application, ApplicationOutcome

_NAME = "simulated"


def simulate_orders(
    applications: Sequence[Application],
    cloud: SimulatedCloud,
    seed: int,
    liars: Mapping[int, float] | None = None,
    rhythm: Rhythm | None = None,
    begin_s: float = 0.0,
    tenants: Mapping[int, int] | None = None,
) -> MarketRun:
    """Run the applications, in order of submission, to the end of the last.

    `liars` has, by row of dishonest applications, the factor of the stated limit. The first period
    begins at `begin_s`. `tenants` has, by row, a tenant with several applications: its unspent
    credits count for the next ones.
    """
    check_sizes(applications, cloud)
    rhythm = rhythm or Rhythm(interval_s=cloud.period_s, least_interval_s=cloud.least_interval_s)
    run = OrderRun(applications, cloud, seed, liars or {}, rhythm, begin_s, tenants or {})
    return run.to_the_end()


class OrderRun:
    """The daemon's periods in virtual time, and the platforms of all applications."""

    def __init__(
        self,
        applications: Sequence[Application],
        cloud: SimulatedCloud,
        seed: int,
        liars: Mapping[int, float],
        rhythm: Rhythm,
        begin_s: float,
        tenants: Mapping[int, int],
    ) -> None:
        self.cloud, self.seed, self.rhythm, self.begin_s = cloud, seed, rhythm, begin_s
        self.clock = VirtualClock(begin_s)
        self.platforms = [
            self._platform(row, application, liars.get(row, 1.0))
            for row, application in enumerate(applications)
        ]
        self.payments = TenantPayments(self.platforms, tenants, cloud.renewal_s)
        self.living: list[PatientPlatform] = []
        self.arrived = 0
        most = sum(application.tasks for application in applications)
        self.vms = SimulatedVms(self.clock, cloud.costs, most, self._gather, self._moved)
        reserve = {RESOURCES[0]: cloud.reserve_cpu, RESOURCES[1]: cloud.reserve_memory}
        pricing = Pricing(rule=PriceRule.CLEARING, reserve=reserve)
        self.market = MarketRules(name=_NAME, strategy=cloud.strategy, pricing=pricing)
        self.observed = ObservedCloud(cloud, self.market, self.vms)
        self.entry = strategy_named(cloud.strategy)
        self.settings = with_pricing(self.entry.defaults, pricing)
        self.strategy_memory: Mapping[str, Any] = {}
        self.timer = PeriodTimer(self.clock, rhythm, self._period)
        self.early, self.early_starts = EarlyPeriods(), EarlyStarts()
        self.early.bind(self.clock, self.timer, lambda: True)
        self.controllers = PatientControllers(
            cloud, self.clock, self.vms, self.early, self.early_starts
        )
        self.counts = OperationCounts()
        self.sender = StepSender(self.vms, self.platforms, self.counts)
        self.reserve = reserve
        self.announced: dict[str, float] | None = None
        """The prices of the last period."""
        self.decided: DecidedPeriod | None = None
        self.prices: list[tuple[float, float]] = []
        self._decision: Decision | None = None
        """The last decision."""
        self._gathering = False
        self._freed: set[int] = set()
        self._reviewed_s = begin_s
        self._orders = 0
        self._migrated_s: float | None = None
        """The time of the last period that migrated VMs."""
        self._error: Exception | None = None

    def _platform(self, row: int, application: Application, factor: float) -> PatientPlatform:
        tenancy = Tenancy(row, application, 0, application.run_s, 0)
        tenancy.balance = tenancy.initial
        return PatientPlatform(row, tenancy, self.cloud.costs.migrating_speed, factor)

    def to_the_end(self) -> MarketRun:
        """Run all periods until the last platform has ended, and return the results."""
        self._await_arrival()
        self.timer.start()
        while self.living or self.arrived < len(self.platforms):
            self.clock.advance_to_next()
            if self._error is not None:
                raise self._error
        tenancies = [platform.tenancy for platform in self.platforms]
        return MarketRun(
            tuple(_outcome(tenancy) for tenancy in tenancies),
            self.counts,
            self.clock.seconds() - self.begin_s,
            tuple(self.prices),
            tuple(tenancy.spent / MICRO for tenancy in tenancies),
        )

    # -- events -------------------------------------------------------------------------------

    def _await_arrival(self) -> None:
        if self.arrived < len(self.platforms):
            at_s = self.platforms[self.arrived].tenancy.application.submit_s
            self.clock.callLater(max(at_s - self.clock.seconds(), 0.0), self._submit)

    def _submit(self) -> None:
        platform = self.platforms[self.arrived]
        self.living.append(platform)
        self.payments.open(platform)
        self.arrived += 1
        self.early.want(platform.id)
        self._await_arrival()

    def _gather(self) -> None:
        """Wake the timer for an event in the cloud, together with those that follow at once."""
        if not self._gathering:
            self._gathering = True
            self.clock.callLater(GATHER_S, self._wake)

    def _wake(self) -> None:
        self._gathering = False
        self.timer.wake(pause_before_event_s(self._decision))

    def _moved(self, before: Life, life: Life, vms: Sequence[int]) -> None:
        """Let the guests of VMs compute or stop."""
        now_s = self.clock.seconds()
        for owner in np.unique(self.vms.owner[list(vms)]).tolist():
            platform = self.platforms[owner]
            mine = [vm for vm in vms if self.vms.owner[vm] == owner]
            if Life.MOVES in {before, life}:
                platform.move(len(mine) if life is Life.MOVES else -len(mine), now_s)
            elif life is Life.RUNS:
                platform.compute(mine, now_s)
            elif life in {Life.SAVES, Life.GONE} and platform.running:
                platform.stop_computing(mine, now_s, displaced=life is Life.SAVES)
            self.controllers.watch(platform)

    # -- the period ---------------------------------------------------------------------------

    async def _period(self) -> None:
        """Run a period; its timer would only log an error."""
        try:
            self.run_period()
        except Exception as error:  # noqa: BLE001 - the run ends with it
            self._error = error

    def run_period(self) -> None:
        """Observe, charge, decide, act and announce."""
        self.early.forget()
        self.counts.periods += 1
        now_s = self.clock.seconds()
        self.vms.judge_steps(self.rhythm.settle_s)
        seen = self.observed.snapshot(now_s, self.counts.periods, self.living, self.announced or {})
        last = None if self.decided is None else self.decided.columns
        self._charge(now_s)
        if not self.living:
            self.announced = dict(self.reserve)
            return
        seen, clearing = with_last_clearing(seen, last)
        seen = afforded(with_bids_under_way(seen, last), self.platforms, self.rhythm)
        seen = with_bids_under_way(seen, last)
        decision = self._decide(seen, self._review(seen), clearing)
        self._decision = decision
        self.sender.send(decision.plan)
        self.controllers.announce(self.platforms[: self.arrived], seen, decision)
        self._await_starts()

    def _charge(self, now_s: float) -> None:
        """Charge the time since the last decision, and replenish budgets once in an interval."""
        if self.decided is not None:
            self.payments.pay(charge(self.decided, self.vms, now_s, self.rhythm))
            self.decided = None
        self.payments.replenish(self.living, now_s)

    def _review(self, seen: Snapshot) -> list[Step]:
        """Review all platforms, and return the steps that their VMs need."""
        now_s, ids = self.clock.seconds(), seen.vms.id
        states = self.vms.observed_states(ids)
        busy = seen.vms.state == VmState.BUSY
        now = np.where(busy, int(VmState.BUSY), states).tolist()
        known = {vm: VmState(state) for vm, state in zip(ids.tolist(), now, strict=True)}
        offer = MarketOffer(
            now_s=now_s,
            interval_s=self.rhythm.interval_s,
            prices=self.announced,
            capacity=self._capacity,
            reserve=self.reserve,
            advance_periods=self.rhythm.most_periods_charged,
        )
        room, steps, self._freed = CreationRoom(self.rhythm.new_vms), [], set()
        for platform in sorted(self.living, key=lambda each: each.id):
            had = len(platform.vms)
            platform.review(offer, self.cloud.renewal_s, known, self._orders + 1)
            if platform.order is not None:
                self._orders = max(self._orders, platform.order.id)
            if len(platform.vms) < had:
                self._freed.add(platform.id)
            mine = self._steps_of(platform, known, room.of(platform.id))
            room.count(platform.id, mine)
            steps += mine
        for platform in self.living:
            if platform.is_over:
                self.payments.close(platform)
        self.living = [platform for platform in self.living if not platform.is_over]
        self._reviewed_s = now_s
        return take_turns(steps, self.rhythm.new_vms)

    def _steps_of(
        self, platform: PatientPlatform, states: Mapping[int, VmState], room: int
    ) -> list[Step]:
        """Return the steps that create or end a platform's VMs."""
        period = self.counts.periods
        if platform.state is PlatformState.STOPPING:
            return [
                Terminate(period=period, vm=vm, reason="its platform ends", hard=False)
                for vm in platform.vms
                if states[vm] is not VmState.BUSY
            ]
        return [
            Create(
                period=period,
                reason="",
                key=f"{platform.id}-{task}",
                template="",
                owner=platform.id,
            )
            for task in range(min(platform.missing, room))
        ]

    def _decide(self, seen: Snapshot, proposed: Sequence[Step], last: LastClearing) -> Decision:
        """Decide, and record the outcomes of orders and what the charge needs."""
        gone = frozenset(step.vm for step in proposed if isinstance(step, Terminate))
        seen = without_places(seen, gone)
        decision = self._decide_paced(seen)
        self.strategy_memory = decision.memory
        self.counts.decisions += 1
        pending = self.vms.observed_states(seen.vms.id) == VmState.PENDING
        outcomes = outcomes_of_all(seen, seen.vms.id[pending], decision)
        by_id = {outcome.id: outcome for outcome in outcomes}
        now_s = self.clock.seconds()
        for platform in self.living:
            order = platform.order
            if order is not None and order.id in by_id:
                platform.order = order.after(by_id[order.id], now_s)
        records = self.vms.records(seen.vms.id)
        self.decided = decided_period(
            seen, decision, self.vms, records, last, self.rhythm.interval_s
        )
        self.announced = dict(zip(RESOURCES, decision.prices[0].tolist(), strict=True))
        if not self.prices or self.prices[-1][1] != self.announced[RESOURCES[0]]:
            self.prices.append((now_s, self.announced[RESOURCES[0]]))
        again = resumptions(seen, gone)
        return replace(decision, plan=Plan.ordered([*decision.plan, *again, *proposed]))

    def _decide_paced(self, seen: Snapshot) -> Decision:
        """Decide; at most one period of an interval migrates VMs."""
        now_s = self.clock.seconds()
        decision = self._decided(seen)
        if self.rhythm.part_since(self._migrated_s, now_s) < 1.0:
            fewer = with_fewer_migrations(seen, decision.plan, 0)
            if fewer is not None:
                decision = self._decided(fewer)
        if decision.plan.of(Migrate):
            self._migrated_s = now_s
        return decision

    def _decided(self, seen: Snapshot) -> Decision:
        random = repeatable_random(self.seed, seen.period, "")
        return self.entry.decide(seen, self.settings, self.strategy_memory, random)

    # -- after the period ---------------------------------------------------------------------

    def _await_starts(self) -> None:
        """Start the next period early if waiting platforms need it."""
        now_s, interval_s = self.clock.seconds(), self.rhythm.interval_s
        offer = MarketOffer(
            now_s=now_s, interval_s=interval_s, prices=self.announced, capacity=self._capacity
        )
        startable: dict[tuple[int, str], int] = {}
        times: list[AwaitedTime] = []
        for platform in self.living:
            outlook = platform.outlook(offer, self.cloud.renewal_s)
            if outlook.starts:
                startable[platform.id, platform.state] = platform.id
            times += times_ahead(outlook.times, platform.id, self._reviewed_s, now_s, interval_s)
        waits = any(platform.state in WAITS for platform in self.living)
        freed = frozenset(self._freed) if waits else frozenset[int]()
        self.early_starts.after_period(self.early, Awaited(startable, freed, times))

    @property
    def _capacity(self) -> dict[str, float]:
        cloud = self.cloud
        total = cloud.units, cloud.nodes * cloud.memory_mib
        return dict(zip(RESOURCES, total, strict=True))


def _outcome(tenancy: Tenancy) -> ApplicationOutcome:
    return ApplicationOutcome(
        tenancy.application, tenancy.end_s, 1.0 - tenancy.left_s / tenancy.application.run_s
    )
