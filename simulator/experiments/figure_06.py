"""Figures 6 to 10, on one node.

Section 3.1.2: each in a VM of 4 cores on a node of 700 units; the four bid 100 for CPU and 900 for
memory and never change it, and come in the first 20 minutes. The application needs 77.5 minutes
alone. Its controller looks every 80 s and changes its bids by Algorithm 2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from merkatd.cluster import Floats
from merkatd.market.share import share
from merkatd.policies.deadline import Work, performance
from merkatd.policies.vertical import BidTrace, SpendingLimit, VmPosition, adapt
from simulator.experiments.experiment import (
    Curve,
    Experiment,
    ExperimentOptions,
    ExperimentReport,
    Grid,
    Panel,
    PaperStatement,
    Row,
    Rows,
    Task,
)

CAPACITY = (700.0, 23.0 * 1024.0)
SIZE = (400.0, 900.0)
LEAST = (40.0, 90.0)
OTHERS_BID = (100.0, 900.0)
OTHERS_COME_S = (300.0, 600.0, 900.0, 1200.0)
IDEAL_S = 4650.0
STEPS = 1000
BUDGET = 60_000.0
"""It may spend as much of it as it wants."""
PERIOD_S, LOOKS_EVERY_S = 60.0, 80.0
TICK_S = 20.0
"""Both rhythms are whole numbers of ticks."""


@dataclass(frozen=True, slots=True)
class TimePoint:
    """What is seen at a look of the controller."""

    at_s: float
    bid_cpu: float
    cpu: float
    step_s: float
    reference_s: float


@dataclass(frozen=True, slots=True)
class Story:
    """How one run went."""

    moments: tuple[TimePoint, ...]
    end_s: float


@dataclass(slots=True)
class _NodeState:
    bid: tuple[float, ...]
    done: float = 0.0
    traces: tuple[BidTrace, ...] = ()


def story(deadline_s: Callable[[float], float], *, adapts: bool = True) -> Story:
    """Run the application to its end; `deadline_s` says at each time what its deadline is."""
    state = _NodeState(OTHERS_BID)
    allocation: tuple[float, ...] = SIZE
    moments: list[TimePoint] = []
    now_s = 0.0
    while state.done < STEPS:
        if now_s % PERIOD_S == 0:
            allocation = _allocation(state.bid, now_s)
        step_s = IDEAL_S / STEPS / min(a / m for a, m in zip(allocation, SIZE, strict=True))
        if now_s % LOOKS_EVERY_S == 0:
            moments.append(_look(state, allocation, step_s, now_s, deadline_s(now_s), adapts))
        state.done += TICK_S / step_s
        now_s += TICK_S
    return Story(tuple(moments), now_s - (state.done - STEPS) * step_s)


def others(now_s: float) -> int:
    """How many best-effort applications are there."""
    return sum(come_s <= now_s for come_s in OTHERS_COME_S)


def _allocation(bid: tuple[float, ...], now_s: float) -> tuple[float, ...]:
    """Eq. 1 on the node, for the application in the first row."""
    count = 1 + others(now_s)
    found = []
    for column, capacity in enumerate(CAPACITY):
        bids: Floats = np.full(count, OTHERS_BID[column])
        bids[0] = bid[column]
        caps: Floats = np.full(count, SIZE[column])
        pool = np.zeros(count, dtype=np.int64)
        shares = share(bids, np.zeros(count), caps, pool, np.array([capacity]))
        found.append(float(shares.allocation[0]))
    return tuple(found)


def _look(
    state: _NodeState,
    allocation: tuple[float, ...],
    step_s: float,
    now_s: float,
    due_s: float,
    adapts: bool,
) -> TimePoint:
    work = Work(steps=STEPS, done=int(state.done), ideal_step_s=IDEAL_S / STEPS)
    seen = performance(work, due_s - now_s, step_s)
    moment = TimePoint(now_s, state.bid[0], allocation[0], step_s, seen.reference)
    if adapts:
        standing = VmPosition(
            bid=state.bid,
            allocation=allocation,
            least=LEAST,
            most=SIZE,
            keeping=tuple(_keeping(column, now_s) for column in range(len(SIZE))),
        )
        means = SpendingLimit(bid_min=1.0, bid_max=BUDGET)
        adapted = adapt(standing, seen, means, state.traces)
        state.bid, state.traces = adapted.bid, adapted.traces
    return moment


def _keeping(column: int, now_s: float) -> float:
    """The least bid that keeps the most it can use, from Eq. 1."""
    count, size, capacity = others(now_s), SIZE[column], CAPACITY[column]
    if size * (count + 1) <= capacity:
        return 1.0
    return count * OTHERS_BID[column] * size / (capacity - size)


BEST_EFFORT, DEADLINE, CHANGE = "best effort", "deadline", "changed deadline"
DEADLINES = (12000.0, 9000.0, 6000.0)
CHANGED_S = 64 * 60.0
"""When 12,000 s become 9,000 s (section 3.1.3)."""
AFTER_S = OTHERS_COME_S[-1] + 400.0
"""By then the bid has settled."""
PRINTED_BEFORE, PRINTED_AFTER = 266.0, 400.0


def tasks(options: ExperimentOptions) -> Sequence[Task]:  # noqa: ARG001 - nothing is drawn
    """Without adaptation, with each deadline, and with one that changes."""
    return [
        Task(BEST_EFFORT, 0.0, 0),
        *(Task(DEADLINE, deadline_s, 0) for deadline_s in DEADLINES),
        Task(CHANGE, DEADLINES[1], 0),
    ]


def told(task: Task) -> Story:
    """The run of a task."""

    def due_s(now_s: float) -> float:
        if task.system == CHANGE and now_s < CHANGED_S:
            return DEADLINES[0]
        return task.level

    return story(due_s, adapts=task.system != BEST_EFFORT)


def measure(task: Task, options: ExperimentOptions) -> Row:  # noqa: ARG001 - nothing is drawn
    """Bids, allocations, pace, end."""
    found = told(task)
    settled = [one for one in found.moments if one.at_s >= AFTER_S]
    early = [one for one in settled if one.at_s < CHANGED_S]
    late = [one for one in settled if CHANGED_S + 400.0 <= one.at_s < 2 * CHANGED_S]
    return {
        "end_s": found.end_s,
        "slowest": max(one.step_s for one in found.moments) / (IDEAL_S / STEPS),
        "bid": max(one.bid_cpu for one in settled),
        "cpu_before": fmean(one.cpu for one in early),
        "cpu_after": max((one.cpu for one in late), default=0.0),
        "in_time": fmean(one.step_s <= one.reference_s for one in settled),
    }


def report(rows: Rows, options: ExperimentOptions) -> ExperimentReport:  # noqa: ARG001 - the same for all
    """A table of all runs, what the paper says of each figure, three panels."""
    by_name = {(task.system, task.level): row for task, row in rows.items()}
    deadline = {due_s: by_name[DEADLINE, due_s] for due_s in DEADLINES}
    change = by_name[CHANGE, DEADLINES[1]]
    bids = [deadline[due_s]["bid"] for due_s in DEADLINES]
    return ExperimentReport(
        (_grid(rows),),
        (
            PaperStatement(
                "the paper, Figure 6: best effort, an iteration takes almost ten times as long",
                by_name[BEST_EFFORT, 0.0]["slowest"] >= 8.0,
                f"{by_name[BEST_EFFORT, 0.0]['slowest']:.1f} times: a fifth of the node's CPU;"
                " what the paper's VMs did to each other besides is not simulated",
            ),
            PaperStatement(
                "the paper, Figure 7: the smallest deadline demands by far the highest bid",
                bids[2] > 1.5 * max(bids[:2]),
                "highest bids " + ", ".join(f"{bid:.0f}" for bid in bids),
            ),
            PaperStatement(
                "the paper, Figure 8: the iteration time is kept to what is needed",
                all(
                    row["end_s"] <= due_s and row["in_time"] >= 0.8
                    for due_s, row in deadline.items()
                ),
                "all deadlines met",
            ),
            PaperStatement(
                "the paper, Figures 9 and 10: a deadline brought forward raises the allocation,"
                " and is met",
                change["cpu_after"] > change["cpu_before"] and change["end_s"] <= DEADLINES[1],
                f"from {change['cpu_before']:.0f} to {change['cpu_after']:.0f} units; printed"
                f" {PRINTED_BEFORE:.0f}, then close to {PRINTED_AFTER:.0f}",
            ),
        ),
        _panels(rows),
    )


def _grid(rows: Rows) -> Grid:
    return Grid(
        "One application among five on a node",
        ("run", "deadline, s", "end, s", "highest bid", "CPU before 64 min", "paces in time"),
        tuple(
            (
                task.system,
                f"{task.level:.0f}" if task.level else "-",
                f"{row['end_s']:.0f}",
                f"{row['bid']:.0f}",
                f"{row['cpu_before']:.0f}",
                f"{100 * row['in_time']:.0f} %" if task.level else "-",
            )
            for task, row in rows.items()
        ),
    )


def _panels(rows: Rows) -> tuple[Panel, ...]:
    found = {f"{task.system} {task.level:.0f}": told(task) for task in rows}

    def panel(title: str, label: str, name: str) -> Panel:
        return Panel(
            title,
            "minutes",
            label,
            tuple(
                Curve(
                    run,
                    tuple(one.at_s / 60.0 for one in story_.moments),
                    tuple(float(getattr(one, name)) for one in story_.moments),
                )
                for run, story_ in found.items()
            ),
        )

    return (
        panel("bids (Figures 7, 9)", "credits for CPU", "bid_cpu"),
        panel("allocations (Figures 8, 9)", "units of CPU", "cpu"),
        panel("iterations (Figures 6, 8, 10)", "seconds", "step_s"),
    )


EXPERIMENT = Experiment(
    "figures-6-10",
    "one application with a deadline among best-effort ones: Algorithm 2 at work",
    tasks,
    measure,
    report,
)
