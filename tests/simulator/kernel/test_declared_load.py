"""Jobs and services on the kernel: progress by the stated power, and what the daemon would see."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Deploy, Plan, Snapshot, Step, Stop
from merkatd.cluster.applications import Services, Stages
from merkatd.cluster.snapshot import checked_snapshot
from merkatd.placement.utility.job_progress import JobStages, done_after
from merkatd.policies.service_queue import response_s
from simulator.kernel.data_center import DataCenter, KernelRhythm, tree_of_hosts
from simulator.kernel.kernel_deciders import KernelMoment, KernelOrders, StatedAmounts
from simulator.kernel.kernel_run import KernelRun
from simulator.kernel.kernel_state import GuestPhase, check_conservation
from simulator.model.simulated_cloud import OperationCosts
from simulator.workloads.declared_work import (
    ArrivalCurve,
    DeclaredWork,
    declared_jobs,
    one_stage,
    service_requests,
)
from simulator.workloads.vm_requests import RequestsError, VmRequests
from tests.lengths import EXAMPLES

FREE = OperationCosts(
    boot_s=0.0, suspend_s_per_mib=0.0, resume_s_per_mib=0.0, migrate_s_per_mib=0.0
)
PERIOD_S = 10.0


class ByPeriod:
    """Gives each VM the power of the period and orders its steps; keeps the snapshots."""

    history_samples = 0

    def __init__(
        self,
        power: Callable[[int], float],
        steps: Mapping[int, Callable[[KernelMoment], list[Step]]] | None = None,
    ) -> None:
        self._power, self._steps = power, steps or {}
        self.snapshots: list[Snapshot] = []

    def decide(self, moment: KernelMoment) -> KernelOrders:
        """Start all that waits on host 0, and give every VM the same power."""
        snapshot = checked_snapshot(moment.snapshot(np.full(2, np.nan)))
        self.snapshots.append(snapshot)
        amounts = np.tile([self._power(moment.period), 1e6], (len(snapshot.vms), 1))
        stated = StatedAmounts(snapshot.vms.id, amounts)
        if moment.period in self._steps:
            return KernelOrders(plan=Plan(tuple(self._steps[moment.period](moment))), given=stated)
        hosts = np.zeros(len(moment.pending), dtype=np.int64)
        return KernelOrders(moment.pending, hosts, given=stated)


def center(costs: OperationCosts = FREE, *, whole: bool = False) -> DataCenter:
    """Return one host."""
    return DataCenter(
        hosts=tree_of_hosts((1,), [1000.0, 4000.0]),
        costs=costs,
        rhythm=KernelRhythm(period_s=PERIOD_S, monitor_s=PERIOD_S, whole_plans=whole),
    )


def a_job(work: list[float], speed: list[float]) -> tuple[VmRequests, DeclaredWork]:
    """Return a job of these stages that arrives at once."""
    count = len(work)
    stages = Stages(
        job=np.zeros(count, dtype=np.int64),
        work=np.array(work),
        least_speed=np.zeros(count),
        greatest_speed=np.array(speed),
        memory_mib=np.full(count, 100.0),
    )
    return declared_jobs(np.zeros(1), np.array([1e6]), stages)


def test_stages_have_their_own_paces() -> None:
    """With 100, a stage of 600 with at most 200 takes 6 s, and one of 300 with at most 100 3 s."""
    requests, work = a_job([600.0, 300.0], [200.0, 100.0])
    run = KernelRun(center(), requests, ByPeriod(lambda _: 100.0), span_s=100.0, declared=work)
    run.run()
    assert run.state.phase.tolist() == [GuestPhase.ENDED]
    assert run.state.since_s[0] == pytest.approx(9.0)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.lists(st.tuples(st.floats(1.0, 5e3), st.floats(1.0, 400.0)), min_size=1, max_size=4),
    st.lists(st.floats(0.0, 500.0), min_size=1, max_size=6),
)
def test_the_work_done_is_that_of_the_heart(
    stages: list[tuple[float, float]], powers: list[float]
) -> None:
    """Each snapshot tells the work that the strategy's own model expects for its powers."""
    work, speed = [each for each, _ in stages], [each for _, each in stages]
    requests, declared = a_job(work, speed)
    decider = ByPeriod(lambda period: powers[period % len(powers)])
    KernelRun(center(), requests, decider, span_s=200.0, declared=declared).run()
    profile = JobStages(np.array(work), np.zeros(len(work)), np.array(speed), np.zeros(len(work)))
    done = 0.0
    for snapshot in decider.snapshots:
        if not len(snapshot.jobs):
            assert done == pytest.approx(sum(work))
            return
        assert snapshot.jobs.work_done[0] == pytest.approx(done, abs=1e-3)
        assert snapshot.stages.work.tolist() == work
        done = done_after(profile, done, powers[snapshot.period % len(powers)], PERIOD_S)


def test_a_snapshot_tells_of_present_jobs_alone() -> None:
    """A job has a row from its arrival to its end, with its goal and its first start."""
    submitted_s = np.array([0.0, 15.0])
    requests, work = declared_jobs(
        submitted_s,
        submitted_s + 100.0,
        one_stage(np.full(2, 1500.0), np.full(2, 100.0), np.full(2, 10.0)),
    )
    decider = ByPeriod(lambda _: 100.0)
    KernelRun(center(), requests, decider, span_s=60.0, declared=work).run()
    seen = [snapshot.jobs.application.tolist() for snapshot in decider.snapshots]
    assert seen == [[0], [0], [1], [1], [], []]
    assert np.isnan(decider.snapshots[0].jobs.started_s[0])
    assert decider.snapshots[1].jobs.started_s[0] == 0.0
    assert decider.snapshots[3].jobs.goal_s[0] == 115.0
    assert decider.snapshots[3].jobs.started_s[0] == 20.0


def test_a_job_goes_on_from_its_saved_work() -> None:
    """A stopped job keeps what it has done, and a failure lets it begin again."""
    requests, work = a_job([3000.0], [100.0])
    steps: dict[int, Callable[[KernelMoment], list[Step]]] = {
        2: lambda moment: [Stop(period=moment.period, vm=0, reason="test")],
        3: lambda _moment: [],
    }
    decider = ByPeriod(lambda _: 100.0, steps)
    run = KernelRun(center(), requests, decider, span_s=100.0, declared=work)
    run.run()
    done = [snapshot.jobs.work_done.tolist() for snapshot in decider.snapshots[:6]]
    assert done == [[0.0], [1000.0], [1000.0], [1000.0], [2000.0], []]
    assert (run.operations.totals.stops, run.operations.totals.continuations) == (1, 1)


def two_jobs(whole: bool) -> KernelRun:
    """Run two jobs of which one stops for the other, in one plan; to save a VM takes 2 s."""
    stages = one_stage(np.full(2, 3000.0), np.full(2, 100.0), np.full(2, 4000.0))
    requests, work = declared_jobs(np.array([0.0, 5.0]), np.full(2, 1e6), stages)

    def swap(moment: KernelMoment) -> list[Step]:
        stop = Stop(period=moment.period, vm=0, reason="test")
        common = {"period": moment.period, "vm": 1, "reason": "test"}
        return [stop, Deploy(host=0, after=(stop.id,), **common)]  # type: ignore[arg-type]

    costs = OperationCosts(boot_s=0.0, suspend_s_per_mib=0.0005)
    decider = ByPeriod(lambda _: 100.0, {2: swap, 3: lambda _moment: []})
    run = KernelRun(center(costs, whole=whole), requests, decider, span_s=25.0, declared=work)
    run.run()
    check_conservation(run.state)
    return run


def test_a_whole_plan_goes_on_when_its_operations_end() -> None:
    """A job starts in the room of another one once this is saved, in the same period."""
    run = two_jobs(whole=True)
    assert run.state.phase.tolist() == [GuestPhase.PENDING, GuestPhase.RUNNING]
    assert run.state.started_s[1] == 12.0
    assert run.operations.totals.postponed == 0


def test_steps_that_must_wait_are_postponed_without() -> None:
    """The next period decides again, as in the daemon."""
    run = two_jobs(whole=False)
    assert run.state.phase.tolist() == [GuestPhase.PENDING, GuestPhase.PENDING]
    assert run.operations.totals.postponed == 1


def test_a_service_answers_as_a_queue() -> None:
    """Its measured response time is the embedded cloud's, with the power and the rate of now."""
    services = Services(
        application=np.array([7]),
        response_goal_s=np.array([0.1]),
        arrivals_per_s=np.array([np.nan]),
        work_per_request=np.array([5.0]),
        response_s=np.array([np.nan]),
    )
    curve = ArrivalCurve(np.array([0.0, 15.0]), np.array([20.0, 50.0]))
    work = DeclaredWork(services=services, arrivals={7: curve})
    decider = ByPeriod(lambda period: 60.0 if period == 1 else 80.0)
    requests = service_requests(7, 3, np.array([100.0, 500.0]))
    KernelRun(center(), requests, decider, span_s=40.0, declared=work).run()
    rates = [snapshot.services.arrivals_per_s[0] for snapshot in decider.snapshots]
    assert rates == [20.0, 20.0, 50.0, 50.0]
    seen = [float(snapshot.services.response_s[0]) for snapshot in decider.snapshots]
    assert seen[1] == pytest.approx(response_s(20.0, 0.0, 3 * 60.0 / 5.0))
    # Ten seconds with two requests a second more than it serves.
    assert seen[2] == pytest.approx(response_s(50.0, 20.0, 3 * 80.0 / 5.0))
    assert seen[3] == pytest.approx(response_s(50.0, 40.0, 3 * 80.0 / 5.0))


def test_a_job_has_one_vm() -> None:
    """Two VMs of a job are refused, and a stage that may use no CPU is, too."""
    requests, work = a_job([1.0], [1.0])
    double = VmRequests(
        arrival_s=np.zeros(2),
        lifetime_s=np.ones(2),
        size=np.ones((2, 2)),
        owner=np.zeros(2, dtype=np.int64),
    )
    with pytest.raises(RequestsError, match=r"application 0 is a job, which has one VM \(got 2\)"):
        KernelRun(center(), double, ByPeriod(lambda _: 1.0), span_s=1.0, declared=work)
    assert len(requests) == 1
    with pytest.raises(RequestsError, match="greatest_speed"):
        a_job([1.0], [0.0])
