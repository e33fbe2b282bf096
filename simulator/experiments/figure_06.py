"""Figures 6 to 10: an application with a deadline beside four best-effort applications on a node.

Section 3.1.2: each application has a VM of 4 cores on a node of 700 units. The four best-effort
applications bid 100 for CPU and 900 for memory, never change their bids, and come in the first 20
minutes. The application with a deadline needs 77.5 minutes alone. Its controller acts every 80 s
and changes the bids by Algorithm 2.
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
"""Spending limit of the application, more than it needs."""
PERIOD_S, LOOKS_EVERY_S = 60.0, 80.0
TICK_S = 20.0
"""Time step; the period and the controller's interval are multiples of it."""


@dataclass(frozen=True, slots=True)
class TimePoint:
    """The observation of the controller at a time."""

    at_s: float
    bid_cpu: float
    cpu: float
    step_s: float
    reference_s: float


@dataclass(frozen=True, slots=True)
class RunCourse:
    """The course of a run."""

    moments: tuple[TimePoint, ...]
    end_s: float


@dataclass(slots=True)
class _NodeState:
    bid: tuple[float, ...]
    done: float = 0.0
    traces: tuple[BidTrace, ...] = ()


def story(deadline_s: Callable[[float], float], *, adapts: bool = True) -> RunCourse:
    """Run the application to its end; `deadline_s` returns the deadline that applies at a time."""
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
    return RunCourse(tuple(moments), now_s - (state.done - STEPS) * step_s)


def best_effort_count(now_s: float) -> int:
    """Return the number of best-effort applications at this time."""
    return sum(come_s <= now_s for come_s in OTHERS_COME_S)


def _allocation(bid: tuple[float, ...], now_s: float) -> tuple[float, ...]:
    """Return the allocation (Eq. 1) of the application with a deadline."""
    count = 1 + best_effort_count(now_s)
    bought = []
    for column, capacity in enumerate(CAPACITY):
        bids: Floats = np.full(count, OTHERS_BID[column])
        bids[0] = bid[column]
        caps: Floats = np.full(count, SIZE[column])
        pool = np.zeros(count, dtype=np.int64)
        shares = share(bids, np.zeros(count), caps, pool, np.array([capacity]))
        bought.append(float(shares.allocation[0]))
    return tuple(bought)


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
    """Return the least bid that keeps all it can use, from Eq. 1."""
    count, size, capacity = best_effort_count(now_s), SIZE[column], CAPACITY[column]
    if size * (count + 1) <= capacity:
        return 1.0
    return count * OTHERS_BID[column] * size / (capacity - size)


BEST_EFFORT, DEADLINE, CHANGE = "best effort", "deadline", "changed deadline"
DEADLINES = (12000.0, 9000.0, 6000.0)
CHANGED_S = 64 * 60.0
"""Time at which the deadline changes from 12,000 s to 9,000 s (section 3.1.3)."""
AFTER_S = OTHERS_COME_S[-1] + 400.0
"""Time from which the bid is stable."""
PRINTED_BEFORE, PRINTED_AFTER = 266.0, 400.0


def tasks(options: ExperimentOptions) -> Sequence[Task]:  # noqa: ARG001 - nothing is drawn
    """Return the tasks: without adaptation, with each deadline, with a changed deadline."""
    return [
        Task(BEST_EFFORT, 0.0, 0),
        *(Task(DEADLINE, deadline_s, 0) for deadline_s in DEADLINES),
        Task(CHANGE, DEADLINES[1], 0),
    ]


def run_task(task: Task) -> RunCourse:
    """Return the run of a task."""

    def due_s(now_s: float) -> float:
        if task.system == CHANGE and now_s < CHANGED_S:
            return DEADLINES[0]
        return task.level

    return story(due_s, adapts=task.system != BEST_EFFORT)


def measure(task: Task, options: ExperimentOptions) -> Row:  # noqa: ARG001 - nothing is drawn
    """Return bids, allocations, paces and end of a run."""
    story_ = run_task(task)
    settled = [moment for moment in story_.moments if moment.at_s >= AFTER_S]
    early = [moment for moment in settled if moment.at_s < CHANGED_S]
    late = [moment for moment in settled if CHANGED_S + 400.0 <= moment.at_s < 2 * CHANGED_S]
    return {
        "end_s": story_.end_s,
        "slowest": max(moment.step_s for moment in story_.moments) / (IDEAL_S / STEPS),
        "bid": max(moment.bid_cpu for moment in settled),
        "cpu_before": fmean(moment.cpu for moment in early),
        "cpu_after": max((moment.cpu for moment in late), default=0.0),
        "in_time": fmean(moment.step_s <= moment.reference_s for moment in settled),
    }


def report(rows: Rows, options: ExperimentOptions) -> ExperimentReport:  # noqa: ARG001 - the same for all
    """Return a table of all runs, the paper's statements for each figure, three panels."""
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
                " other interference between the paper's VMs is not simulated",
            ),
            PaperStatement(
                "the paper, Figure 7: the smallest deadline demands by far the highest bid",
                bids[2] > 1.5 * max(bids[:2]),
                "highest bids " + ", ".join(f"{bid:.0f}" for bid in bids),
            ),
            PaperStatement(
                "the paper, Figure 8: the iteration time follows the needed pace",
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
    stories = {f"{task.system} {task.level:.0f}": run_task(task) for task in rows}

    def panel(title: str, label: str, name: str) -> Panel:
        return Panel(
            title,
            "minutes",
            label,
            tuple(
                Curve(
                    run,
                    tuple(moment.at_s / 60.0 for moment in story_.moments),
                    tuple(float(getattr(moment, name)) for moment in story_.moments),
                )
                for run, story_ in stories.items()
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
