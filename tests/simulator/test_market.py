"""The market in virtual time, on clouds small enough for computation by hand."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from merkatd.policies.patience import PatienceSettings
from simulator.baselines.queue_baselines import TooLargeError
from simulator.market.market_run import MarketRun, simulate
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


def application(
    submit_s: float, run_s: float, tasks: int, due_s: float, budget: float = 600.0
) -> Application:
    """Return a full-deadline tenant's application with 100 MiB a task."""
    return Application(
        number=0,
        submit_s=submit_s,
        run_s=run_s,
        tasks=tasks,
        memory_mib=100.0,
        ideal_s=run_s + 2.0,
        deadline_s=due_s - submit_s,
        budget=budget,
    )


def run(*applications: Application, cloud: SimulatedCloud = CLOUD) -> MarketRun:
    """Run applications with the default patience."""
    return simulate(applications, cloud, PatienceSettings(), np.random.default_rng(0))


def test_an_application_alone_takes_its_ideal_time() -> None:
    """It takes a boot and its work at full speed, with one core or with all."""
    for tasks in (1, 4):
        (outcome,) = run(application(10.0, 300.0, tasks, 1000.0)).outcomes
        assert outcome.end_s == pytest.approx(10.0 + outcome.application.ideal_s)
        assert outcome.met
        assert outcome.satisfaction == 600.0


def test_two_applications_that_fit_do_not_affect_each_other() -> None:
    """Three and one tasks run on four cores."""
    three, single = run(application(0, 500.0, 3, 5000.0), application(7, 90.0, 1, 400.0)).outcomes
    assert three.end_s == pytest.approx(502.0)
    assert single.end_s == pytest.approx(7 + 92.0)


def test_an_urgent_application_gets_room() -> None:
    """The patient one is suspended and resumed, and both meet their deadlines."""
    result = run(application(0, 3000.0, 4, 30_000.0), application(600, 300.0, 2, 1000.0))
    patient, urgent = result.outcomes
    assert urgent.met
    assert patient.met
    assert result.counts.suspensions == result.counts.resumes == 1
    assert result.counts.vm_suspensions == 4
    # The patient one loses the other's time, and five seconds to load its memory from disk.
    assert patient.end_s == pytest.approx(3002.0 + 302.0 + 5.0, abs=2.0)


def test_an_application_with_time_waits() -> None:
    """It causes no suspension while it has time to spare."""
    result = run(application(0, 300.0, 4, 1000.0), application(10, 300.0, 4, 4000.0))
    assert result.counts.suspensions == 0
    assert [outcome.met for outcome in result.outcomes] == [True, True]


def test_hopeless_applications_never_start() -> None:
    """They cannot meet their deadline even alone, and make no others wait."""
    late, other = run(application(0, 300.0, 4, 200.0), application(0, 300.0, 4, 310.0)).outcomes
    assert late.end_s == inf
    assert late.satisfaction == -600.0
    assert other.met


def test_partial_work_counts_for_partial_deadlines() -> None:
    """A partial-deadline tenant's application runs until its deadline."""
    late = replace(application(0, 300.0, 4, 152.0), tenant=TenantKind.PARTIAL_DEADLINE)
    (outcome,) = run(late).outcomes
    assert outcome.done == pytest.approx(0.5, abs=0.02)
    assert outcome.satisfaction == pytest.approx(300.0, abs=10.0)


def test_the_same_seed_gives_the_same_run() -> None:
    """Runs with jobs of all sizes are identical to the bit."""
    jobs = lublin(40, 4, np.random.default_rng(1))
    jobs = [job._replace(submit_s=job.submit_s / 20) for job in jobs]
    terms = TaskAssignment(node_memory_mib=2000.0, boot_s=2.0)
    applications = assign(jobs, terms, np.random.default_rng(2))
    first, second = (run(*applications) for _ in range(2))
    assert [outcome.end_s for outcome in first.outcomes] == [
        outcome.end_s for outcome in second.outcomes
    ]
    assert first.counts == second.counts
    assert first.prices == second.prices
    assert 0.0 < met_part(first.outcomes) <= 1.0
    best = sum(application.budget for application in applications)
    assert -best <= satisfaction(first.outcomes) <= best


def test_no_work_is_done_faster_than_the_cloud_allows() -> None:
    """All finished work fits into the cores' time."""
    jobs = [job._replace(submit_s=0.0) for job in lublin(25, 4, np.random.default_rng(3))]
    terms = TaskAssignment(node_memory_mib=2000.0, boot_s=2.0)
    result = run(*assign(jobs, terms, np.random.default_rng(4)))
    done = sum(
        outcome.done * outcome.application.run_s * outcome.application.tasks
        for outcome in result.outcomes
    )
    assert done <= CLOUD.cores * result.span_s


def test_prices_settle_after_a_step_in_demand() -> None:
    """The price is constant from two periods after demand doubled until an application ends."""
    result = run(
        application(0, 3000.0, 2, 9000.0),
        application(600, 3000.0, 2, 9000.0),
        application(600, 3000.0, 2, 15_000.0),
    )
    assert all(outcome.met for outcome in result.outcomes)
    ends_s = min(outcome.end_s for outcome in result.outcomes)
    changes = [at_s for at_s, _ in result.prices]
    assert any(600 <= at_s <= 720 for at_s in changes)
    assert not any(720 < at_s < ends_s for at_s in changes)
    assert all(price > 0 for _, price in result.prices)


def test_an_application_larger_than_the_cloud_is_an_error() -> None:
    """The error names the needed and the existing cores."""
    with pytest.raises(TooLargeError, match="needs 5 of 4"):
        run(application(0, 1.0, 5, 9.0))
