"""A patient platform in virtual time: its lifecycle and its limit order, by the daemon's rules."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from controllers.monitors.iteration_count import Count, measured_values
from merkatd.cluster import ACTIVE, BIDDING, VmState
from merkatd.cluster.orders import LEAST_LIMIT, LimitOrder
from merkatd.platforms.rules.awaited_starts import StartOutlook, start_outlook
from merkatd.platforms.rules.lifecycle_events import (
    ENDS,
    UP_OR_COMING,
    BudgetPolicy,
    Event,
    FleetCounts,
    LifecycleEvent,
    PlatformInput,
    PlatformState,
    leads_to,
    next_event,
)
from merkatd.platforms.rules.start_conditions import (
    TEMPER,
    MarketOffer,
    Terms,
    limit_of,
)
from merkatd.platforms.rules.stated_limits import (
    order_facts,
    ordered_members,
    restated,
)
from merkatd.policies.deadline import Funds
from merkatd.protocol.bus_messages import Measured
from merkatd.protocol.platform_messages import OrderStatus, ProgressReport
from simulator.market.attended_applications import STEPS, TASKS, AttendedApplication
from simulator.market.tenancy import MICRO, Tenancy
from simulator.model.simulated_cloud import CORE, RESOURCES
from simulator.workloads.job_applications import TenantKind

GOING_ON = (PlatformState.RUNNING, PlatformState.SUSPENDING)
"""The states in which the daemon runs the controller of a patient platform."""


@dataclass(slots=True)
class PatientPlatform:
    """The stored row of a platform, its VMs and the work of its guests."""

    id: int
    tenancy: Tenancy
    migrating_speed: float = 1.0
    """Its speed while one of its VMs is being migrated."""
    stated_factor: float = 1.0
    """The factor of the limits that it states; 1 for an honest platform."""
    state: PlatformState = PlatformState.SUBMITTED
    ending: PlatformState = PlatformState.CANCELLED
    started_s: float = 0.0
    order: LimitOrder | None = None
    vms: list[int] = field(default_factory=list)
    """The ids of its VMs, as far as they exist."""
    report: ProgressReport | None = None
    memory: Any = None
    """The stored memory of its controller."""
    attended: AttendedApplication | None = None
    """Its controller, while it runs."""
    running: int = 0
    """The number of VMs that compute."""
    moving: int = 0
    """The number of them that are being migrated."""
    computes_since_s: float = inf
    """The time since when all its VMs compute; infinite while they don't."""
    starts: list[float] = field(default_factory=list)
    suspensions: list[float] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Return whether it has ended."""
        return self.state in ENDS

    @property
    def missing(self) -> int:
        """Return the number of VMs that it still has to create."""
        there = len(self.vms) if self.state in UP_OR_COMING else self.tenancy.application.tasks
        return self.tenancy.application.tasks - there

    @property
    def bundle(self) -> Mapping[str, float]:
        """Return the full size of all its VMs together."""
        application = self.tenancy.application
        sizes = CORE, application.memory_mib
        return {name: application.tasks * size for name, size in zip(RESOURCES, sizes, strict=True)}

    def terms(self, renewal_s: float) -> Terms:
        """Return its start terms for the rest of its work."""
        application, done = self.tenancy.application, 0.0
        if self.report is not None:
            done = min(max(float(self.report.done or 0.0), 0.0), 1.0)
        return Terms(
            deadline_s=application.due_s,
            ideal_s=application.run_s * (1.0 - done),
            give_up=application.tenant is not TenantKind.PARTIAL_DEADLINE,
            price_ceiling={},
            full=self.bundle,
            purse=Funds(
                credits=self.tenancy.balance / MICRO,
                renewal=self.tenancy.initial / MICRO,
                renewal_s=renewal_s,
            ),
            patient=True,
        )

    def review(
        self, offer: MarketOffer, renewal_s: float, states: Mapping[int, VmState], next_order: int
    ) -> None:
        """Record its next event and state its order; `states` are those of its VMs now.

        An order that it states for the first time gets the id `next_order`.
        """
        if self.state is PlatformState.STOPPING or self.is_over:
            self._end(states)
            return
        terms, application = self.terms(renewal_s), self.tenancy.application
        complete = len(self.vms) >= application.tasks
        now = PlatformInput(
            state=self.state,
            held=False,
            terms=terms,
            least={TASKS: application.tasks},
            over_budget=BudgetPolicy.GO_ON,
            counts=self._counts(states),
            has_run=self.report is not None,
            order=order_facts(self.order, terms, complete=complete),
        )
        self.enter(next_event(now, offer), offer.now_s)
        running = {vm for vm in self.vms if states.get(vm) in ACTIVE}
        if self.state not in UP_OR_COMING:
            self._keep_running(running)
            return
        limit = self._offered(limit_of(terms, offer))
        if self.order is None:
            self.order = LimitOrder(
                id=next_order,
                owner=self.id,
                vms=(),
                limit=max(limit, LEAST_LIMIT),
                factor=TEMPER.running_factor,
                stated_s=offer.now_s,
                platform=self.id,
            )
        members = ordered_members(set(self.vms), running, limit, complete=complete)
        order = self._with_vms(self.order, members)
        self.order = restated(order, self.state, limit, terms, offer, is_up=bool(running))

    def fill_new_order(self) -> None:
        """Put its VMs into its limit order, if all exist before it has run (`first_orders.py`)."""
        order = self.order
        is_new = self.state is PlatformState.STARTING and order is not None and not order.vms
        if is_new and order is not None and order.limit > LEAST_LIMIT and not self.missing:
            self.order = self._with_vms(order, set(self.vms))

    def enter(self, event: LifecycleEvent | None, now_s: float) -> bool:
        """Record an event; return whether it changes the state."""
        if event is None:
            return False
        stopping = self.state is PlatformState.STOPPING
        ending = self.ending if stopping else event.ending
        state = leads_to(self.state, event.event, ending)
        if state is None or state is self.state:
            return False
        if state is PlatformState.STOPPING:
            self.ending = event.ending
        if event.event is Event.START:
            self.started_s = now_s
        self.state = state
        return True

    def set_limit(self, limit: float) -> None:
        """Set the limit of its order, as its controller asks."""
        if self.order is not None:
            self.order = replace(self.order, limit=self._offered(limit))

    def outlook(self, offer: MarketOffer, renewal_s: float) -> StartOutlook:
        """Return whether it could start after a period, and the times for which it waits."""
        return start_outlook(self.state, self.terms(renewal_s), offer, held=False)

    def order_status(self) -> OrderStatus | None:
        """Return the order as its controller sees it."""
        order = self.order
        if order is None or not order.vms:
            return None
        return OrderStatus(limit=order.limit, runs=order.runs, cost=order.cost, why=order.why)

    def compute(self, vms: Sequence[int], now_s: float) -> None:
        """Record that the guests of these VMs compute from now on."""
        self.running += len(vms)
        if self.running == self.tenancy.application.tasks:
            self.starts.append(now_s)
            self.computes_since_s = now_s

    def move(self, count: int, now_s: float) -> None:
        """Record that so many more of its VMs are being migrated, or fewer if below 0."""
        self.work_until(now_s)
        self.moving += count

    def stop_computing(self, vms: Sequence[int], now_s: float, *, displaced: bool) -> None:
        """Record that the guests of these VMs compute no longer."""
        if displaced and self.computes_since_s < inf:
            self.suspensions.append(now_s)
        self.work_until(now_s)
        self.running -= len(vms)
        self.computes_since_s = inf

    @property
    def done_s(self) -> float:
        """Return when its work will be done if it goes on; infinite while it does not compute."""
        speed = self.migrating_speed if self.moving else 1.0
        return self.computes_since_s + self.tenancy.left_s / speed

    def measured(self, now_s: float) -> Measured:
        """Return what its monitor measures: all guests are equally far."""
        self.work_until(now_s)
        part = 1.0 - self.tenancy.left_s / self.tenancy.application.run_s
        count = Count(done=int(STEPS * part + _ROUNDING))
        values = measured_values(dict.fromkeys(self.vms, count), {}, now_s)
        if self.tenancy.left_s <= 0.0:
            values["exit"] = 0.0
        return Measured(cluster=TASKS, at_s=now_s, values=values)

    def work_until(self, now_s: float) -> None:
        """Record the work done until now."""
        if self.computes_since_s == inf:
            return
        tenancy, speed = self.tenancy, self.migrating_speed if self.moving else 1.0
        worked_s = (now_s - self.computes_since_s) * speed
        if 0.0 < tenancy.left_s <= worked_s + _ROUNDING:
            tenancy.end_s = self.computes_since_s + tenancy.left_s / speed
            worked_s = tenancy.left_s
        tenancy.left_s = max(tenancy.left_s - worked_s, 0.0)
        self.computes_since_s = now_s

    def _offered(self, limit: float) -> float:
        """Return the limit that it states: its policy's, or that of a dishonest platform."""
        return min(limit * self.stated_factor, self.tenancy.balance / MICRO)

    def _counts(self, states: Mapping[int, VmState]) -> FleetCounts:
        mine = [states.get(vm) for vm in self.vms]
        return FleetCounts(
            running={TASKS: sum(state is VmState.RUNNING for state in mine)},
            kept={TASKS: len(mine)},
            active=sum(state is None or state in BIDDING for state in mine),
            left=len(mine),
            pending=sum(state is VmState.PENDING for state in mine),
        )

    def _end(self, states: Mapping[int, VmState]) -> None:
        self.vms = [vm for vm in self.vms if vm in states]
        if not self.vms:
            self.enter(LifecycleEvent(event=Event.GONE, why=""), 0.0)
        self._keep_running({vm for vm in self.vms if states[vm] in ACTIVE})

    def _keep_running(self, running: set[int]) -> None:
        """Keep only VMs that run in the order of a platform that does not go on."""
        if self.is_over:
            self.order = None
        elif self.order is not None:
            self.order = self._with_vms(self.order, running)

    def _with_vms(self, order: LimitOrder, vms: AbstractSet[int]) -> LimitOrder:
        members = tuple(sorted(vms))
        return order if members == order.vms else order.with_vms(members)


_ROUNDING = 1e-9
