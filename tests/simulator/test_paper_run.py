"""Merkat as in the paper in virtual time, on clouds small enough for computation by hand."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from simulator.baselines.queue_baselines import TooLargeError
from simulator.market.market_run import MarketRun
from simulator.market.paper_market import PaperMarket
from simulator.market.paper_run import simulate_paper
from simulator.model.simulated_cloud import OperationCosts, SimulatedCloud
from simulator.workloads.job_applications import (
    Application,
    TaskAssignment,
    TenantKind,
    assign,
    met_part,
    satisfaction,
)
from simulator.workloads.lublin import lublin

CLOUD = SimulatedCloud(
    nodes=2,
    cpu=200.0,
    memory_mib=2000.0,
    costs=OperationCosts(boot_s=2.0, suspend_s_per_mib=0.03, resume_s_per_mib=0.05),
)
START_S = 5.5
"""From a submission to the start of its VMs: the period that creates them runs at once, and the
event of their creation starts the next one."""


def application(
    submit_s: float,
    run_s: float,
    tasks: int,
    due_s: float,
    budget: float = 600.0,
    memory_mib: float = 100.0,
) -> Application:
    """Return a full-deadline tenant's application."""
    return Application(
        number=0,
        submit_s=submit_s,
        run_s=run_s,
        tasks=tasks,
        memory_mib=memory_mib,
        ideal_s=run_s + 2.0,
        deadline_s=due_s - submit_s,
        budget=budget,
    )


def run(*applications: Application, cloud: SimulatedCloud = CLOUD) -> MarketRun:
    """Run the applications."""
    return simulate_paper(applications, cloud, 0)


def test_an_application_alone_starts_in_seconds_and_runs_at_full_speed() -> None:
    """Its platform is created at once, its VMs are placed after an event, and boot."""
    for tasks in (1, 4):
        (outcome,) = run(application(10.0, 300.0, tasks, 1000.0)).outcomes
        assert outcome.end_s == pytest.approx(10.0 + START_S + 2.0 + 300.0, abs=0.6)
        assert outcome.satisfaction == 600.0


def test_an_application_alone_pays_the_prices_of_its_own_bids() -> None:
    """It pays for CPU and for memory from the start of its VMs on."""
    result = run(application(0.0, 600.0, 2, 4000.0))
    periods = 602.0 / 60.0
    memory = 200.0 * CLOUD.reserve_memory * periods
    cpu = 200.0 * CLOUD.reserve_cpu * periods
    assert result.spent[0] > cpu + memory * 0.99
    dearer = replace(CLOUD, reserve_memory=1e-3)
    more = run(application(0.0, 600.0, 2, 4000.0), cloud=dearer)
    assert more.spent[0] - result.spent[0] >= 200.0 * 0.9e-3 * periods


def test_more_work_than_cores_is_shared_and_all_deadlines_are_met() -> None:
    """Eight tasks on four cores: both applications run slower, and none waits."""
    both = [application(0.0, 600.0, 4, 3000.0), application(0.0, 600.0, 4, 3000.0)]
    result = run(*both)
    assert result.counts.suspensions == 0
    ends = [outcome.end_s for outcome in result.outcomes]
    assert all(outcome.met for outcome in result.outcomes)
    assert min(ends) > 700.0  # alone, one of them takes 608 s
    assert max(ends) == pytest.approx(1210.0, abs=40.0)  # and no core is idle meanwhile


def test_a_poor_application_is_suspended_for_a_rich_one_and_resumed() -> None:
    """Saving its VMs and loading them again takes time, during which it does no work."""
    poor = application(0.0, 1800.0, 4, 9000.0, budget=20.0)
    rich = application(600.0, 1800.0, 4, 2600.0, budget=5000.0)

    def end_s(suspend_s: float, resume_s: float) -> float:
        costs = OperationCosts(
            boot_s=2.0, suspend_s_per_mib=suspend_s / 100.0, resume_s_per_mib=resume_s / 100.0
        )
        result = run(poor, rich, cloud=replace(CLOUD, costs=costs))
        assert result.counts.suspensions == result.counts.resumes == 2
        assert result.counts.vm_suspensions == result.counts.vm_resumes == 8
        assert all(outcome.met for outcome in result.outcomes)
        return result.outcomes[0].end_s

    at_once_s = end_s(0.0, 0.0)
    assert end_s(30.0, 0.0) > at_once_s + 30.0
    assert end_s(0.0, 50.0) > at_once_s + 30.0


def test_lack_of_memory_slows_tasks() -> None:
    """Three VMs of 1,000 MiB have 2,000 MiB: with two thirds each, a third of the speed is left."""
    costs = replace(CLOUD.costs, thrashing=0.0)
    cloud = replace(CLOUD, nodes=1, cpu=300.0)
    three = [application(0.0, 300.0, 1, 5000.0, memory_mib=1000.0) for _ in range(3)]
    slow = run(*three, cloud=cloud)
    fast = run(*three, cloud=replace(cloud, costs=costs))
    assert fast.outcomes[2].end_s == pytest.approx(308.0, abs=20.0)
    assert slow.outcomes[2].end_s > 500.0


def test_budgets_are_renewed() -> None:
    """Two rivals pay all that they have, again and again."""
    greedy = replace(
        application(0.0, 1500.0, 4, 3500.0, budget=20.0), tenant=TenantKind.FULL_PERFORMANCE
    )
    renewed = run(greedy, greedy, cloud=replace(CLOUD, renewal_s=600.0))
    never = run(greedy, greedy, cloud=replace(CLOUD, renewal_s=1e9))
    for paid, paid_once in zip(renewed.spent, never.spent, strict=True):
        assert 60.0 < paid_once <= 80.0
        assert 240.0 < paid <= 80.0 * (1 + 3500 // 600)


def test_hopeless_applications_never_start() -> None:
    """They can't meet their deadline even alone, and make no others wait."""
    late, other = run(application(0, 300.0, 4, 200.0), application(0, 300.0, 4, 330.0)).outcomes
    assert late.end_s == inf
    assert late.done == 0.0
    assert late.satisfaction == -600.0
    assert other.met


def test_partial_work_counts_for_partial_deadlines() -> None:
    """A partial-deadline tenant's application runs until its deadline."""
    late = replace(application(0, 300.0, 4, 158.0), tenant=TenantKind.PARTIAL_DEADLINE)
    (outcome,) = run(late).outcomes
    assert outcome.done == pytest.approx(0.5, abs=0.02)
    assert outcome.satisfaction == pytest.approx(300.0, abs=10.0)


def test_full_performance_tenants_pay_for_speed() -> None:
    """Beside an equal rival that only needs its pace, it ends first."""
    pace = application(0.0, 1200.0, 4, 12_000.0)
    speed = replace(pace, tenant=TenantKind.FULL_PERFORMANCE)
    ends = [outcome.end_s for outcome in run(pace, speed).outcomes]
    assert ends[1] < ends[0] - 200.0


def test_the_same_seed_gives_the_same_run() -> None:
    """Runs with jobs of all sizes are identical to the bit, and no work is done too fast."""
    jobs = lublin(15, 4, np.random.default_rng(1))
    jobs = [job._replace(submit_s=job.submit_s / 20, run_s=min(job.run_s, 900)) for job in jobs]
    terms = TaskAssignment(node_memory_mib=2000.0, boot_s=2.0)
    applications = assign(jobs, terms, np.random.default_rng(2))
    first, second = (run(*applications) for _ in range(2))
    assert first == second
    assert 0.0 < met_part(first.outcomes) <= 1.0
    best = sum(application.budget for application in applications)
    assert -best <= satisfaction(first.outcomes) <= best
    done = sum(
        outcome.done * outcome.application.run_s * outcome.application.tasks
        for outcome in first.outcomes
    )
    assert done <= CLOUD.cores * first.span_s
    for application_, spent in zip(applications, first.spent, strict=True):
        budgets = 1 + application_.deadline_s // CLOUD.renewal_s
        assert spent <= budgets * application_.budget * application_.tasks + 1e-6


def test_an_application_larger_than_the_cloud_is_an_error() -> None:
    """The error names the needed and the existing cores."""
    with pytest.raises(TooLargeError, match="needs 5 of 4"):
        run(application(0, 1.0, 5, 9.0))


def test_a_period_that_fails_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer only logs failures, and would go on."""

    def fail(*_given: object) -> None:
        raise ArithmeticError("broken")

    monkeypatch.setattr(PaperMarket, "decide", fail)
    with pytest.raises(ArithmeticError, match="broken"):
        run(application(0.0, 300.0, 1, 1000.0))
