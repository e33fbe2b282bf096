"""FCFS and EDF for jobs: their order, and what EDF interrupts for an earlier goal."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Floats, Snapshot, Stop, VmState
from merkatd.placement.baselines.job_ends import deadlines_s
from simulator.baselines.job_deciders import EdfJobs, FcfsJobs
from simulator.kernel.data_center import DataCenter, KernelRhythm, tree_of_hosts
from simulator.kernel.kernel_deciders import KernelDecider, KernelMoment, KernelOrders
from simulator.kernel.kernel_run import KernelRun
from simulator.kernel.kernel_state import GuestPhase, check_conservation
from simulator.workloads.declared_work import declared_jobs, one_stage
from tests.lengths import EXAMPLES


def run_of(
    decider: KernelDecider,
    arrival_s: list[float],
    goal_in_s: list[float],
    hosts: int = 1,
    memory_mib: list[float] | None = None,
) -> KernelRun:
    """Run jobs of 1,000 s on hosts with room for two of 1,000 MiB each, in periods of 60 s."""
    count, arrives = len(arrival_s), np.array(arrival_s)
    memory = np.full(count, 1000.0) if memory_mib is None else np.array(memory_mib)
    requests, work = declared_jobs(
        arrives,
        arrives + np.array(goal_in_s),
        one_stage(np.full(count, 1e5), np.full(count, 100.0), memory),
    )
    center = DataCenter(
        hosts=tree_of_hosts((hosts,), [400.0, 2000.0]),
        rhythm=KernelRhythm(period_s=60.0, monitor_s=60.0, whole_plans=True),
    )
    run = KernelRun(center, requests, decider, span_s=20_000.0, declared=work)
    run.run()
    check_conservation(run.state)
    return run


def test_fcfs_serves_in_order_of_arrival() -> None:
    """It interrupts no job, and a large job that waits keeps later ones waiting."""
    run = run_of(FcfsJobs(), [0, 1, 2, 3], [9e4] * 4, memory_mib=[1500, 1000, 500, 500])
    order = np.argsort(run.state.since_s, kind="stable")
    assert order.tolist() == [0, 1, 2, 3]
    assert run.operations.totals.stops == 0
    assert run.state.since_s[2] == pytest.approx(run.state.since_s[1])


def test_edf_interrupts_the_latest_goal() -> None:
    """The job with the latest goal gives way to a new one, and goes on afterwards."""
    run = run_of(EdfJobs(), [0, 1, 100], [50_000, 40_000, 2_000])
    totals = run.operations.totals
    assert (totals.stops, totals.continuations, totals.live_migrations) == (1, 1, 0)
    assert np.argsort(run.state.since_s).tolist() == [1, 2, 0]
    assert run.state.phase.tolist() == [GuestPhase.ENDED] * 3


def test_edf_looks_for_the_latest_goal_on_all_hosts() -> None:
    """The job that gives way has the latest goal of all, wherever it runs."""
    goals = [10_000.0, 20_000.0, 30_000.0, 40_000.0, 2_000.0]
    run = run_of(EdfJobs(), [0, 0, 0, 0, 100], goals, hosts=2)
    assert run.operations.totals.stops == 1
    assert int(np.argmax(run.state.since_s)) == 3


def test_edf_interrupts_no_job_without_need() -> None:
    """A job with an earlier goal takes free room where there is some."""
    run = run_of(EdfJobs(), [0, 1, 100], [50_000, 40_000, 2_000], hosts=2)
    assert run.operations.totals.stops == 0


def test_edf_gives_up_no_job() -> None:
    """A job whose goal has passed comes first, as its goal is the earliest."""
    run = run_of(EdfJobs(), [0, 0, 0, 0], [10, 20, 30, 40])
    assert run.state.phase.tolist() == [GuestPhase.ENDED] * 4
    assert run.operations.totals.stops == 0


def test_edf_passes_over_a_job_that_fits_nowhere() -> None:
    """A smaller job with a later goal starts meanwhile."""
    run = run_of(EdfJobs(), [0, 1, 2], [900, 1500, 9000], memory_mib=[1500, 1000, 500])
    assert run.state.started_s[2] < run.state.started_s[1]


class _Checked(EdfJobs):
    """EDF that looks at each of its decisions."""

    def decide(self, moment: KernelMoment) -> KernelOrders:
        """Check that no job waits while one with a later goal keeps equal room."""
        orders = super().decide(moment)
        snapshot = moment.snapshot(np.full(2, np.nan))
        waits, runs = _after(snapshot, orders)
        if len(waits):
            assert len(runs) == 2 * len(snapshot.hosts)
            assert runs.max() <= waits.min()
        return orders


def _after(snapshot: Snapshot, orders: KernelOrders) -> tuple[Floats, Floats]:
    """Return the goals of jobs that wait and that run after a decision."""
    vms = snapshot.vms
    stopped = np.isin(vms.id, [step.vm for step in orders.plan.of(Stop)])
    begun = np.isin(vms.id, [step.vm for step in orders.plan if step.kind == "deploy"])
    runs = ((vms.state != VmState.PENDING) & ~stopped) | begun
    goal_s = deadlines_s(snapshot, np.arange(len(vms)))
    return goal_s[~runs], goal_s[runs]


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 4000), st.integers(900, 20_000)), min_size=1, max_size=25
    ).map(sorted),
    st.integers(1, 3),
)
def test_no_job_waits_for_a_later_goal(jobs: list[tuple[int, int]], hosts: int) -> None:
    """With jobs of equal size, those with the earliest goals run, in every period."""
    arrival_s, goal_in_s = zip(*jobs, strict=True)
    run_of(_Checked(), [float(each) for each in arrival_s], list(goal_in_s), hosts)
