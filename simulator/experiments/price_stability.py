"""Price stability: the time until prices settle after a step in demand, under Algorithm 2.

Not in the paper. On many random clouds two to six applications track the pace that their deadlines
need, beside applications with constant bids. After forty periods the number of the others doubles.
Each application acts once a period, on its own allocation, its own pace and the price. The same
clouds run with the policy in use and with the paper's form of Algorithm 2.
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
    ideal_step_s: float
    deadline_s: float
    done: float = 0.0
    bid: float = OTHERS_BID
    traces: tuple[BidTrace, ...] = ()

    def look(self, allocation: float, keeping: float, now_s: float) -> bool:
        """Work for a period, set the bid for the next, and return whether the pace was too slow."""
        step_s = self.ideal_step_s / max(allocation / CORES, 1e-9)
        self.done += PERIOD_S / step_s
        work = Work(steps=STEPS, done=self.done, ideal_step_s=self.ideal_step_s)
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


def run_of(rng: np.random.Generator, policy: Policy) -> StabilityRun:
    """Return the results of a random cloud."""
    count, others = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    factors = rng.uniform(*FACTORS, size=count)
    capacity = SPARE * float((CORES / factors).sum())
    # Long enough that no application ends before the last period.
    ideal_s = rng.uniform(PERIODS * PERIOD_S, 2 * PERIODS * PERIOD_S, size=count)
    adapting = [
        _Application(policy, ideal / STEPS, ideal * factor)
        for ideal, factor in zip(ideal_s.tolist(), factors.tolist(), strict=True)
    ]
    prices, paid, slow = list[float](), list[float](), list[bool]()
    for period in range(PERIODS):
        fixed = others * (2 if period >= STEP_PERIOD else 1)
        bids = np.array([*(application.bid for application in adapting), *[OTHERS_BID] * fixed])
        prices.append(float(bids.sum()) / capacity)
        allocations = _allocations(bids, capacity)
        for application, allocation in zip(adapting, allocations.tolist(), strict=False):
            rest = float(bids.sum()) - application.bid
            keeping = rest * CORES / (capacity - CORES) if capacity > CORES else MEANS.bid_max
            late = application.look(allocation, keeping, (period + 1) * PERIOD_S)
            if period >= STEP_PERIOD:
                paid.append(prices[-1] * allocation)
                slow.append(late)
    return StabilityRun(prices, fmean(paid), fmean(slow))


def _allocations(bids: Floats, capacity: float) -> Floats:
    """Return the shares (Eq. 1) on the node."""
    size = len(bids)
    pool = np.zeros(size, dtype=np.int64)
    capacities = np.full(size, CORES)
    return share(bids, np.zeros(size), capacities, pool, np.array([capacity])).allocation


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
    runs = [
        run_of(np.random.default_rng((17, task.seed, number)), policy) for number in range(clouds)
    ]
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
