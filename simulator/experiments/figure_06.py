"""Figures 6 to 10: an application with a deadline beside four best-effort applications on a node.

Section 3.1.2: each application has a VM of 4 cores on a node of 700 units. The four best-effort
applications bid 100 for CPU and 900 for memory, never change their bids, and come in the first 20
minutes. The application with a deadline needs 77.5 minutes alone. Its controller acts every 80 s
and changes the bids by Algorithm 2.

The node is a data centre of the kernel, in which a decider divides by bids.
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
from simulator.kernel.data_center import DataCenter, KernelRhythm, tree_of_hosts
from simulator.kernel.kernel_deciders import KernelMoment, KernelOrders, StatedAmounts
from simulator.kernel.kernel_run import KernelRun
from simulator.kernel.kernel_state import GuestPhase
from simulator.model.simulated_cloud import OperationCosts
from simulator.workloads.vm_requests import VmRequests

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
"""The period of the kernel; that of the market and the controller's interval are multiples."""
LONGEST_S = 100 * IDEAL_S
"""The longest run."""
_FIRST = np.array([0])
_ENDED = int(GuestPhase.ENDED)
_ROUNDING = 1e-9


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


class _NodeDecider:
    """The market of the node, and the controller of the application with a deadline (VM 0)."""

    history_samples = 0

    def __init__(self, deadline_s: Callable[[float], float], *, adapts: bool) -> None:
        self._deadline_s, self._adapts = deadline_s, adapts
        self._bid: tuple[float, ...] = OTHERS_BID
        self._traces: tuple[BidTrace, ...] = ()
        self._allocation: tuple[float, ...] = SIZE
        self._divided: tuple[tuple[float, ...], int] | None = None
        self.moments: list[TimePoint] = []

    def decide(self, moment: KernelMoment) -> KernelOrders:
        """Divide the node once in a period, and let the controller act at its own times."""
        now_s, vms, given = moment.state.now_s, moment.pending, None
        if now_s % PERIOD_S == 0:
            asked = self._bid, best_effort_count(now_s)
            if asked != self._divided:  # the same bids get the same shares
                self._divided, amounts = asked, _shares(*asked)
                self._allocation = tuple(amounts[0].tolist())
                given = StatedAmounts(np.arange(len(amounts)), amounts)
        if now_s % LOOKS_EVERY_S == 0 and moment.state.phase[0] != _ENDED:
            left_s = float(moment.state.work_left(_FIRST)[0])
            self._look(now_s, int(STEPS * (1.0 - left_s / IDEAL_S) + _ROUNDING))
        return KernelOrders(vms, np.zeros(len(vms), dtype=np.int64), given=given)

    def _look(self, now_s: float, done: int) -> None:
        part = min(a / m for a, m in zip(self._allocation, SIZE, strict=True))
        step_s = IDEAL_S / STEPS / part
        work = Work(steps=STEPS, done=done, ideal_step_s=IDEAL_S / STEPS)
        seen = performance(work, self._deadline_s(now_s) - now_s, step_s)
        self.moments.append(
            TimePoint(now_s, self._bid[0], self._allocation[0], step_s, seen.reference)
        )
        if not self._adapts:
            return
        standing = VmPosition(
            bid=self._bid,
            allocation=self._allocation,
            least=LEAST,
            most=SIZE,
            keeping=tuple(_keeping(column, now_s) for column in range(len(SIZE))),
        )
        means = SpendingLimit(bid_min=1.0, bid_max=BUDGET)
        adapted = adapt(standing, seen, means, self._traces)
        self._bid, self._traces = adapted.bid, adapted.traces


def story(deadline_s: Callable[[float], float], *, adapts: bool = True) -> RunCourse:
    """Run the application to its end; `deadline_s` returns the deadline that applies at a time."""
    decider = _NodeDecider(deadline_s, adapts=adapts)
    others = len(OTHERS_COME_S)
    size: Floats = np.tile(SIZE, (1 + others, 1))
    requests = VmRequests(
        arrival_s=np.array([0.0, *OTHERS_COME_S]),
        lifetime_s=np.array([IDEAL_S] + [np.inf] * others),
        size=size,
        floor=np.zeros_like(size),
    )
    center = DataCenter(
        hosts=tree_of_hosts((1,), CAPACITY),
        costs=OperationCosts(boot_s=0.0),
        rhythm=KernelRhythm(period_s=TICK_S, monitor_s=LONGEST_S),
    )
    run = KernelRun(center, requests, decider, span_s=LONGEST_S)
    run.run_until(lambda: bool(run.state.phase[0] == _ENDED))
    return RunCourse(tuple(decider.moments), run.state.now_s)


def best_effort_count(now_s: float) -> int:
    """Return the number of best-effort applications at this time."""
    return sum(come_s <= now_s for come_s in OTHERS_COME_S)


def _shares(bid: tuple[float, ...], others: int) -> Floats:
    """Return [VMs, resources]: the allocations (Eq. 1), first of the one with a deadline."""
    rows, resources = 1 + others, len(CAPACITY)
    bids = np.repeat(np.array(OTHERS_BID), rows)
    bids[::rows] = bid
    caps = np.repeat(np.array(SIZE), rows)
    pools = np.repeat(np.arange(resources), rows)
    shares = share(bids, np.zeros(len(bids)), caps, pools, np.array(CAPACITY))
    return shares.allocation.reshape(resources, rows).T


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
