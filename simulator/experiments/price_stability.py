"""Do prices settle? Applications with deadlines share a node by Algorithm 2, and demand steps up.

Not in the paper. On many random clouds two to six applications track the pace that their deadlines
need, beside applications whose bids never change; after forty periods the others are as many again.
Each looks once a period, at its own allocation, its own pace and the price. The same clouds are
played with the policy in use and with the paper's form of Algorithm 2.
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
from merkatd.policies.vertical import Adapted, BidTrace, Performance, SpendingLimit, VmPosition
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
"""What each application can use, in units."""
FACTORS = (1.5, 4.0)
"""Deadlines, as multiples of what the work takes alone."""
SPARE = 1.25
"""The node has so many times what the deadlines need, after the step as before."""
OTHERS_BID = 100.0
MEANS = SpendingLimit(bid_min=1.0, bid_max=1e5)
STEPS = 100_000
CLOSE, HELD = 0.1, 20
"""A price has settled when it stays so near to its median for so many periods. Later it moves
again: who was ahead of what its deadline needs can do with less."""
SOON, SURELY = 15, 40
"""Periods in which it is to have settled nearly always, and always."""
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
    ) -> Adapted:
        """Return the bids of the next period."""


POLICIES: Mapping[str, Policy] = {OURS: vertical.adapt, PAPER: plain_vertical.adapt}


@dataclass(frozen=True, slots=True)
class StabilityRun:
    """What a cloud shows."""

    prices: Sequence[float]
    """Of each period."""
    paid: float
    """What an application that adapts pays in a period after the step, on average."""
    slow: float
    """The part of their looks after the step at which they were too slow."""


@dataclass(slots=True)
class _Application:
    """One that adapts."""

    policy: Policy
    ideal_step_s: float
    deadline_s: float
    done: float = 0.0
    bid: float = OTHERS_BID
    traces: tuple[BidTrace, ...] = ()

    def look(self, allocation: float, keeping: float, now_s: float) -> bool:
        """Work for a period with this allocation, and bid for the next; whether it was too slow."""
        step_s = self.ideal_step_s / max(allocation / CORES, 1e-9)
        self.done += PERIOD_S / step_s
        work = Work(steps=STEPS, done=self.done, ideal_step_s=self.ideal_step_s)
        seen = performance(work, self.deadline_s - now_s, step_s)
        standing = VmPosition(
            bid=(self.bid,),
            allocation=(allocation,),
            least=(0.0,),
            most=(CORES,),
            keeping=(keeping,),
        )
        adapted = self.policy(standing, seen, MEANS, self.traces)
        (self.bid,), self.traces = adapted.bid, adapted.traces
        return seen.slow


def run_of(rng: np.random.Generator, policy: Policy) -> StabilityRun:
    """Return what one random cloud shows."""
    count, others = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    factors = rng.uniform(*FACTORS, size=count)
    capacity = SPARE * float((CORES / factors).sum())
    # Long enough that nobody is done before the end.
    ideal_s = rng.uniform(PERIODS * PERIOD_S, 2 * PERIODS * PERIOD_S, size=count)
    adapting = [
        _Application(policy, one / STEPS, one * factor)
        for one, factor in zip(ideal_s.tolist(), factors.tolist(), strict=True)
    ]
    found, paid, slow = list[float](), list[float](), list[bool]()
    for period in range(PERIODS):
        fixed = others * (2 if period >= STEP_PERIOD else 1)
        bids = np.array([*(one.bid for one in adapting), *[OTHERS_BID] * fixed])
        found.append(float(bids.sum()) / capacity)
        allocations = _allocations(bids, capacity)
        for one, allocation in zip(adapting, allocations.tolist(), strict=False):
            rest = float(bids.sum()) - one.bid
            keeping = rest * CORES / (capacity - CORES) if capacity > CORES else MEANS.bid_max
            late = one.look(allocation, keeping, (period + 1) * PERIOD_S)
            if period >= STEP_PERIOD:
                paid.append(found[-1] * allocation)
                slow.append(late)
    return StabilityRun(found, fmean(paid), fmean(slow))


def _allocations(bids: Floats, capacity: float) -> Floats:
    """Eq. 1 on one node."""
    size = len(bids)
    pool = np.zeros(size, dtype=np.int64)
    whole = np.full(size, CORES)
    return share(bids, np.zeros(size), whole, pool, np.array([capacity])).allocation


def settled_after(prices: Sequence[float]) -> int:
    """How many periods it takes until the price stays where it is; all, where it never does."""
    for begin in range(len(prices) - HELD):
        held = np.array(prices[begin : begin + HELD])
        if (np.abs(held / np.median(held) - 1.0) <= CLOSE).all():
            return begin
    return len(prices)


def tasks(options: ExperimentOptions) -> Sequence[Task]:
    """Some clouds a seed, each played with both forms."""
    return [Task(policy, 0.0, seed) for seed in range(options.seeds) for policy in POLICIES]


def measure(task: Task, options: ExperimentOptions) -> Row:
    """How soon prices settle after the beginning, and after the step."""
    clouds = CLOUDS // 5 if options.quick else CLOUDS
    policy = POLICIES[task.system]
    runs = [
        run_of(np.random.default_rng((17, task.seed, number)), policy) for number in range(clouds)
    ]
    after = [settled_after(one.prices[STEP_PERIOD:]) for one in runs]
    return {
        "median": float(np.median(after)),
        "most": float(np.quantile(after, 0.95)),
        "worst": float(max(after)),
        "soon": 100.0 * float(np.mean([one <= SOON for one in after])),
        "paid": fmean(one.paid for one in runs),
        "slow": 100.0 * fmean(one.slow for one in runs),
    }


def report(rows: Rows, options: ExperimentOptions) -> ExperimentReport:  # noqa: ARG001 - the same for all
    """Periods until the price is settled."""
    soon = experiment.mean(rows, "soon", OURS, 0.0)
    worst = max(experiment.values(rows, "worst", OURS, 0.0))

    def mean(name: str, system: str) -> float:
        return experiment.mean(rows, name, system, 0.0)

    names = ("median", "most", "worst", "paid", "slow")
    return ExperimentReport(
        (
            Grid(
                "Periods after the step until the price stays within a tenth; what it costs",
                (
                    *("", "median", "95 of 100 clouds", "worst"),
                    *("credits an application and period", "looks at which it is too slow, %"),
                ),
                tuple(
                    (one, *(experiment.cell(rows, name, one, 0.0, ".1f") for name in names))
                    for one in POLICIES
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
