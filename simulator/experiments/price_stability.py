"""Price stability: the time until prices settle after a step in demand, under Algorithm 2.

Not in the paper. On many random clouds two to six applications track the pace that their deadlines
need, beside applications with constant bids. After forty periods the number of the others doubles.
Each application acts once a period, on its own allocation, its own pace and the price. The same
clouds run with the policy in use and with the paper's form of Algorithm 2. All clouds of a run are
hosts of one data centre of the kernel: nothing connects them but the time of the periods.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Protocol

import numpy as np

from merkatd.cluster import Floats
from merkatd.market.share import share
from merkatd.policies import vertical
from merkatd.policies.deadline import Work, performance
from merkatd.policies.vertical import AdaptedBids, BidTrace, Performance, SpendingLimit, VmPosition
from simulator.experiments import experiment, plain_vertical
from simulator.experiments.experiment import (
    Experiment,
    ExperimentOptions,
    ExperimentReport,
    Grid,
    PaperStatement,
    Row,
    Rows,
    Task,
)
from simulator.kernel.data_center import DataCenter, KernelRhythm, tree_of_hosts
from simulator.kernel.kernel_deciders import KernelMoment, KernelOrders, StatedAmounts
from simulator.kernel.kernel_run import KernelRun
from simulator.model.simulated_cloud import OperationCosts
from simulator.workloads.vm_requests import VmRequests

STEP_PERIOD, PERIODS = 40, 120
PERIOD_S = 60.0
CORES = 400.0
"""Most CPU that an application can use, in units."""
FACTORS = (1.5, 4.0)
"""Range of deadlines, as multiples of the work's time alone."""
SPARE = 1.25
"""Capacity of the node divided by what the deadlines need, before and after the step."""
OTHERS_BID = 100.0
MEANS = SpendingLimit(bid_min=1.0, bid_max=1e5)
STEPS = 100_000
CLOSE, HELD = 0.1, 20
"""Relative distance from the median, and number of periods, within which a settled price stays.
Later it moves again: an application ahead of its deadline needs less."""
SOON, SURELY = 15, 40
"""Periods in which prices should settle on 99 % of the clouds, and on all."""
CLOUDS = 100
OURS, PAPER = "policy in use", "paper's form"


class Policy(Protocol):
    """A form of Algorithm 2."""

    def __call__(
        self,
        standing: VmPosition,
        performance: Performance,
        means: SpendingLimit,
        traces: Sequence[BidTrace] = (),
    ) -> AdaptedBids:
        """Return the bids of the next period."""


POLICIES: Mapping[str, Policy] = {OURS: vertical.adapt, PAPER: plain_vertical.adapt}


@dataclass(frozen=True, slots=True)
class StabilityRun:
    """The results of a cloud."""

    prices: Sequence[float]
    """Price of each period."""
    paid: float
    """Mean payment of an adaptive application in a period after the step."""
    slow: float
    """Part of the periods after the step in which adaptive applications were too slow."""


@dataclass(slots=True)
class _Application:
    """An adaptive application."""

    policy: Policy
    ideal_s: float
    deadline_s: float
    bid: float = OTHERS_BID
    traces: tuple[BidTrace, ...] = ()

    def look(self, left_s: float, allocation: float, keeping: float, now_s: float) -> bool:
        """Set the bid for the next period, and return whether the pace of the last was too slow.

        `left_s` is the work that is left, in seconds at full speed.
        """
        ideal_step_s = self.ideal_s / STEPS
        step_s = ideal_step_s / max(allocation / CORES, 1e-9)
        done = STEPS * (1.0 - left_s / self.ideal_s)
        work = Work(steps=STEPS, done=done, ideal_step_s=ideal_step_s)
        pace = performance(work, self.deadline_s - now_s, step_s)
        position = VmPosition(
            bid=(self.bid,),
            allocation=(allocation,),
            least=(0.0,),
            most=(CORES,),
            keeping=(keeping,),
        )
        adapted = self.policy(position, pace, MEANS, self.traces)
        (self.bid,), self.traces = adapted.bid, adapted.traces
        return pace.slow


@dataclass(frozen=True, slots=True)
class _Cloud:
    """A random cloud."""

    capacity: float
    applications: Sequence[_Application]
    others: int
    """The number of VMs with constant bids before the step; after it there are twice as many."""


def _cloud(rng: np.random.Generator, policy: Policy) -> _Cloud:
    count, others = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    factors = rng.uniform(*FACTORS, size=count)
    # Long enough that no application ends before the last period.
    ideal_s = rng.uniform(PERIODS * PERIOD_S, 2 * PERIODS * PERIOD_S, size=count)
    applications = [
        _Application(policy, ideal, ideal * factor)
        for ideal, factor in zip(ideal_s.tolist(), factors.tolist(), strict=True)
    ]
    return _Cloud(SPARE * float((CORES / factors).sum()), applications, others)


class _CloudsDecider:
    """The market of each cloud, and the controllers of its applications.

    The VMs of applications come first, in the order of the clouds; then the others.
    """

    history_samples = 0

    def __init__(self, clouds: Sequence[_Cloud]) -> None:
        sizes = [len(cloud.applications) for cloud in clouds]
        others = [cloud.others for cloud in clouds]
        self._applications = [each for cloud in clouds for each in cloud.applications]
        self._capacity = np.array([cloud.capacity for cloud in clouds])
        numbers = np.arange(len(clouds))
        self.cloud = np.concatenate([np.repeat(numbers, each) for each in (sizes, others, others)])
        """[vms]: the cloud of each VM."""
        self.late = sum(others)
        """The number of VMs that come with the step: the last ones."""
        self._bids = np.full(len(self.cloud), OTHERS_BID)
        self._given: Floats = np.zeros(0)
        self._total: Floats = np.zeros(0)
        self._rows = np.arange(len(self._applications))
        self.prices: list[Floats] = []
        """By period: the price of each cloud."""
        self.paid: list[Floats] = []
        """By period after the step: what each application paid."""
        self.slow: list[list[bool]] = []
        """By period after the step: whether the pace of each application was too slow."""

    def decide(self, moment: KernelMoment) -> KernelOrders:
        """Let controllers act on the last period, and divide the clouds for the next one."""
        if moment.period > 1:
            self._act(moment)
        if moment.period > PERIODS:
            return KernelOrders()
        vms = np.arange(len(self.cloud) - self.late * (moment.period <= STEP_PERIOD))
        cloud, bids = self.cloud[vms], self._bids[vms]
        self._total = np.bincount(cloud, bids).astype(np.float64)
        self.prices.append(self._total / self._capacity)
        none, caps = np.zeros(len(vms)), np.full(len(vms), CORES)
        self._given = share(bids, none, caps, cloud, self._capacity).allocation
        return KernelOrders(
            moment.pending,
            self.cloud[moment.pending],
            given=StatedAmounts(vms, self._given[:, np.newaxis]),
        )

    def _act(self, moment: KernelMoment) -> None:
        """Let each application look at the period that ends, and set its bid."""
        rows = self._rows
        cloud, given = self.cloud[rows], self._given[rows]
        capacity, rest = self._capacity[cloud], self._total[cloud] - self._bids[rows]
        keeping = np.full(len(rows), MEANS.bid_max)
        spacious = capacity > CORES
        keeping[spacious] = rest[spacious] * CORES / (capacity[spacious] - CORES)
        facts = zip(
            self._applications,
            moment.state.work_left(rows).tolist(),
            given.tolist(),
            keeping.tolist(),
            strict=True,
        )
        now_s = moment.state.now_s
        slow = [
            application.look(left_s, allocation, keeps, now_s)
            for application, left_s, allocation, keeps in facts
        ]
        self._bids[rows] = [application.bid for application in self._applications]
        if moment.period > STEP_PERIOD + 1:
            self.paid.append(self.prices[-1][cloud] * given)
            self.slow.append(slow)


def run_clouds(rngs: Sequence[np.random.Generator], policy: Policy) -> list[StabilityRun]:
    """Return the results of random clouds, one for each source of random numbers."""
    clouds = [_cloud(rng, policy) for rng in rngs]
    decider = _CloudsDecider(clouds)
    count, adapting = len(decider.cloud), sum(len(cloud.applications) for cloud in clouds)
    arrival_s, lifetime_s = np.zeros(count), np.full(count, np.inf)
    arrival_s[count - decider.late :] = STEP_PERIOD * PERIOD_S
    lifetime_s[:adapting] = [each.ideal_s for cloud in clouds for each in cloud.applications]
    requests = VmRequests(
        resources=("cpu",),
        arrival_s=arrival_s,
        lifetime_s=lifetime_s,
        size=np.full((count, 1), CORES),
        floor=np.zeros((count, 1)),
    )
    span_s = (PERIODS + 1) * PERIOD_S
    center = DataCenter(
        hosts=tree_of_hosts((len(clouds),), np.array([[cloud.capacity] for cloud in clouds])),
        costs=OperationCosts(boot_s=0.0),
        rhythm=KernelRhythm(period_s=PERIOD_S, monitor_s=span_s),
    )
    KernelRun(center, requests, decider, span_s=span_s).run()
    prices: Floats = np.stack(decider.prices, axis=1)
    paid, slow = np.stack(decider.paid), np.array(decider.slow)
    mine = [decider.cloud[:adapting] == number for number in range(len(clouds))]
    return [
        StabilityRun(prices[number].tolist(), float(paid[:, of].mean()), float(slow[:, of].mean()))
        for number, of in enumerate(mine)
    ]


def settled_after(prices: Sequence[float]) -> int:
    """Return the number of periods until the price settles; all periods if it never does."""
    for begin in range(len(prices) - HELD):
        held = np.array(prices[begin : begin + HELD])
        if (np.abs(held / np.median(held) - 1.0) <= CLOSE).all():
            return begin
    return len(prices)


def tasks(options: ExperimentOptions) -> Sequence[Task]:
    """Return a task for each seed and form of the algorithm."""
    return [Task(policy, 0.0, seed) for seed in range(options.seeds) for policy in POLICIES]


def measure(task: Task, options: ExperimentOptions) -> Row:
    """Return the periods until prices settle after the step, and the costs."""
    clouds = CLOUDS // 5 if options.quick else CLOUDS
    policy = POLICIES[task.system]
    runs = run_clouds(
        [np.random.default_rng((17, task.seed, number)) for number in range(clouds)], policy
    )
    after = [settled_after(run.prices[STEP_PERIOD:]) for run in runs]
    return {
        "median": float(np.median(after)),
        "most": float(np.quantile(after, 0.95)),
        "worst": float(max(after)),
        "soon": 100.0 * float(np.mean([periods <= SOON for periods in after])),
        "paid": fmean(run.paid for run in runs),
        "slow": 100.0 * fmean(run.slow for run in runs),
    }


def report(rows: Rows, options: ExperimentOptions) -> ExperimentReport:  # noqa: ARG001 - the same for all
    """Return a table of the periods until prices settle, with statements."""
    soon = experiment.mean(rows, "soon", OURS, 0.0)
    worst = max(experiment.values(rows, "worst", OURS, 0.0))

    def mean(name: str, system: str) -> float:
        return experiment.mean(rows, name, system, 0.0)

    names = ("median", "most", "worst", "paid", "slow")
    return ExperimentReport(
        (
            Grid(
                "Periods after the step until the price stays within a tenth, and costs",
                (
                    *("", "median", "95 of 100 clouds", "worst"),
                    *("credits per application and period", "periods with too slow a pace, %"),
                ),
                tuple(
                    (policy, *(experiment.cell(rows, name, policy, 0.0, ".1f") for name in names))
                    for policy in POLICIES
                ),
            ),
        ),
        (
            PaperStatement(
                f"ours: prices settle after a step in demand, in {SOON} periods on 99 % of the"
                f" clouds and in {SURELY} on all",
                soon >= 99.0 and worst <= SURELY,
                f"in {SOON} on {soon:.1f} %, in {worst:.0f} on all",
            ),
            PaperStatement(
                "ours: the policy in use settles sooner than the paper's form, costs no more, and"
                " is not slow more often",
                all(mean(name, OURS) < mean(name, PAPER) for name in ("median", "most", "paid"))
                and mean("slow", OURS) <= mean("slow", PAPER),
            ),
        ),
    )


EXPERIMENT = Experiment(
    "settling",
    "how soon prices settle after a step in demand, on random clouds",
    tasks,
    measure,
    report,
)
