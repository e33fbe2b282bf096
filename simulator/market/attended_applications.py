"""The daemon's controllers of simulated applications, in virtual time.

Each application has a real controller (`controllers/applications/`) with the real decision times
(`controllers/decision_times.py`). The simulated market gives it the news of each period and what a
monitor measures, as the bus does, and carries its actions out. A controller only waits for the
daemon's answers, and here these come at once. So its coroutines end without an event loop.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from controllers.applications.deadline_controllers import (
    FullDeadline,
    FullPerformance,
    PartialDeadline,
    Patient,
)
from controllers.controller import Controller
from controllers.decision_times import DecisionTimes
from controllers.monitors.iteration_count import Count, measured_values
from merkatd.cluster import Floats, Ints, VmState
from merkatd.protocol.bus_messages import Measured, Remember, Stored
from merkatd.protocol.platform_messages import (
    Action,
    ActionOutcome,
    Amounts,
    Assignment,
    ClusterTerms,
    MarketNow,
    MonitorTerms,
    News,
    OrderStatus,
    VmNow,
)
from simulator.market.tenancy import MICRO, Tenancy
from simulator.model.simulated_cloud import CORE, RESOURCES, SimulatedCloud
from simulator.workloads.job_applications import TenantKind

Result = TypeVar("Result")
TASKS: Final = "tasks"
"""The name of an application's only cluster."""
STEPS: Final = 1000
"""The number of iterations of each application."""
CONTROLLERS: Final[Mapping[str, type[Controller]]] = {
    "full_deadline": FullDeadline,
    "full_performance": FullPerformance,
    "partial_deadline": PartialDeadline,
    "patient": Patient,
}
OF_TENANT: Final[Mapping[TenantKind, str]] = {
    TenantKind.FULL_DEADLINE: "full_deadline",
    TenantKind.FULL_PERFORMANCE: "full_performance",
    TenantKind.PARTIAL_DEADLINE: "partial_deadline",
}
"""The kind of controller of each kind of tenant (section 4.1.1)."""


class WaitsError(RuntimeError):
    """A controller waits for something other than the daemon's answers."""


def run_at_once(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine. Raise WaitsError if it waits for anything."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        result: Result = ended.value
        return result
    coroutine.close()
    raise WaitsError(f"{coroutine!r} waits, and virtual time has no event loop")


class AttendedApplication:
    """The controller's process of an application, from its start or resumption on."""

    def __init__(self, assignment: Assignment, act: Callable[[Action], ActionOutcome]) -> None:
        """Start the controller; `act` carries an action out and returns the daemon's answer."""
        self.memory: Any = assignment.memory
        """The memory that the controller has stored: the assignment of its next process has it."""
        self._act = act
        self._controller = CONTROLLERS[assignment.controller](assignment, self)
        self._times = DecisionTimes(assignment.interval_s)
        run_at_once(self._controller.on_start())

    async def ask(self, body: Any, action_id: str = "") -> Any:  # noqa: ARG002 - each is new
        """Answer a controller's message as the daemon does."""
        if isinstance(body, Remember):
            self.memory = body.memory
            return Stored()
        return self._act(body)

    @property
    def due_s(self) -> float:
        """Return when the controller gets news that it was not given yet; infinite without any."""
        return self._times.late_s

    def is_due(self, news: News) -> bool:
        """Return whether the controller gets these news now."""
        return self._times.is_due(news)

    def take_news(self, news: News, now_s: float) -> None:
        """Give the controller a period's news, now or when it decides next."""
        self._take(self._times.select(news, now_s))

    def take_late_news(self, now_s: float) -> None:
        """Give the controller the news that it was not given yet, if it decides now."""
        self._take(self._times.select_late(now_s))

    def take_measured(self, measured: Measured) -> None:
        """Give the controller a monitor's measurements."""
        run_at_once(self._controller.take(measured))

    def _take(self, news: News | None) -> None:
        if news is not None:
            run_at_once(self._controller.take(news))


def assignment_of(
    tenancy: Tenancy, cloud: SimulatedCloud, controller: str, started_s: float, memory: Any = None
) -> Assignment:
    """Return what the daemon gives the controller of an application."""
    application, budget = tenancy.application, tenancy.initial / MICRO
    terms = ClusterTerms(
        name=TASKS,
        least=application.tasks,
        most=application.tasks,
        ceiling={"cpu": CORE, "memory": application.memory_mib},
        monitor=MonitorTerms(kind="steps"),
    )
    return Assignment(
        platform=tenancy.row,
        name=str(application.number),
        owner=tenancy.row,
        market="simulated",
        controller=controller,
        parameters={"steps": STEPS},
        clusters=(terms,),
        deadline_s=application.due_s,
        ideal_s=application.run_s,
        performance=None,
        started_s=started_s,
        interval_s=cloud.period_s,
        budget=budget,
        replenishment=budget,
        replenishment_s=cloud.renewal_s,
        give_up=application.tenant is not TenantKind.PARTIAL_DEADLINE,
        memory=memory,
    )


def market_now(
    cloud: SimulatedCloud, prices: Sequence[float], period: int, now_s: float
) -> MarketNow:
    """Return the news of the market after a period; the controllers here read no past prices."""
    return MarketNow(
        name="simulated",
        period=period,
        at_s=now_s,
        next_s=now_s + cloud.period_s,
        prices=_amounts(prices),
        capacity={"cpu": cloud.units, "memory": cloud.nodes * cloud.memory_mib},
        reserve={"cpu": cloud.reserve_cpu, "memory": cloud.reserve_memory},
        past={name: (price,) for name, price in _amounts(prices).items()},
    )


def news_of(
    tenancy: Tenancy,
    state: str,
    vms: Sequence[VmNow],
    market: MarketNow,
    order: OrderStatus | None = None,
) -> News:
    """Return an application's news after a period."""
    budget = tenancy.initial / MICRO
    return News(
        platform=tenancy.row,
        period=market.period,
        at_s=market.at_s,
        state=state,
        vms=tuple(vms),
        balance=tenancy.balance / MICRO,
        budget=budget,
        replenishment=budget,
        deadline_s=tenancy.application.due_s,
        performance=None,
        sizes={TASKS: tenancy.application.tasks},
        order=order,
        market=market,
    )


def vms_now(
    tenancy: Tenancy, tasks: Ints, states: Ints, bids: Floats, allocations: Floats
) -> list[VmNow]:
    """Return the VMs of some of an application's tasks; the arguments have a row for each."""
    rows = zip(tasks.tolist(), states.tolist(), bids.tolist(), allocations.tolist(), strict=True)
    return [
        VmNow(
            vm=tenancy.first_vm + task,
            cluster=TASKS,
            state=_STATES[state],
            bid=_amounts(bid),
            allocation=_amounts(given),
        )
        for task, state, bid, given in rows
    ]


_STATES: Final = {int(state): state.name.lower() for state in VmState}


def measured_of(tenancy: Tenancy, now_s: float) -> Measured:
    """Return what the monitor of an application measures: all tasks are equally far."""
    done = int(STEPS * (1.0 - tenancy.left_s / tenancy.application.run_s) + _ROUNDING)
    counts = {
        tenancy.first_vm + task: Count(done=done) for task in range(tenancy.application.tasks)
    }
    return Measured(cluster=TASKS, at_s=now_s, values=measured_values(counts, {}, now_s))


_ROUNDING: Final = 1e-9


def _amounts(values: Sequence[float]) -> Amounts:
    return dict(zip(RESOURCES, values, strict=True))
