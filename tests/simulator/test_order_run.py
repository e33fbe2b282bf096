"""Applications with limit orders in virtual time, on clouds that can be computed by hand."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from merkatd.scheduler.base.early_periods import GATHER_S
from simulator.baselines.edf import edf
from simulator.baselines.queue_baselines import TooLargeError
from simulator.market.market_run import MarketRun
from simulator.model.simulated_cloud import OperationCosts, SimulatedCloud
from simulator.orders.order_run import simulate_orders
from simulator.workloads.job_applications import (
    Application,
    TaskAssignment,
    assign,
    contended,
    met_part,
)
from simulator.workloads.lublin import lublin
from tests.lengths import SOAK

CLOUD = SimulatedCloud(
    nodes=2,
    cpu=200.0,
    memory_mib=2000.0,
    strategy="tabu",
    costs=OperationCosts(boot_s=2.0, suspend_s_per_mib=0.03, resume_s_per_mib=0.05),
)


def application(
    submit_s: float, run_s: float, tasks: int, due_s: float, budget: float = 600.0
) -> Application:
    """Return an application that needs all its work by its deadline, with 100 MiB a task."""
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


def run(*applications: Application, liars: dict[int, float] | None = None) -> MarketRun:
    """Run applications with the default patience."""
    return simulate_orders(applications, CLOUD, 0, liars)


def test_an_application_alone_takes_its_ideal_time_and_pays_the_reserve_price() -> None:
    """It takes a boot and its work at full speed, with one core or with all.

    Its VMs are created in a period, and its order clears a second later. It pays until its monitor
    has seen its end, within a second, and its VMs have ended.
    """
    for tasks in (1, 4):
        result = run(application(10.0, 300.0, tasks, 1000.0))
        (outcome,) = result.outcomes
        assert outcome.end_s == pytest.approx(10.0 + 1.0 + outcome.application.ideal_s)
        per_period = tasks * (100 * CLOUD.reserve_cpu + 100 * CLOUD.reserve_memory)
        assert per_period * 302.0 / 60.0 <= result.spent[0] <= per_period * 303.0 / 60.0


def test_an_urgent_application_displaces_a_patient_one_and_pays_what_that_is_worth() -> None:
    """The patient one is saved and continues; both meet their deadlines."""
    result = run(application(0, 3000.0, 4, 30_000.0), application(600, 300.0, 2, 1000.0))
    patient, urgent = result.outcomes
    assert urgent.met
    assert patient.met
    assert result.counts.suspensions == result.counts.resumes == 1
    assert result.counts.vm_suspensions == 4
    # The other's VMs are saved for three seconds, and the event of it counts half a second later.
    assert urgent.end_s == pytest.approx(601.0 + 3.0 + GATHER_S + 302.0)
    # The room is there once the monitor of the urgent one has seen its end.
    assert 3004.0 + 305.5 + 5.0 <= patient.end_s <= 3004.0 + 305.5 + 5.0 + 7.0
    assert result.spent[1] > 10 * CLOUD.reserve_cpu * 200 * 302 / 60


def test_a_gang_waits_for_all_of_its_room() -> None:
    """Three of its four tasks would fit beside the other, which is dearer."""
    result = run(application(0, 600.0, 1, 700.0), application(1, 300.0, 4, 5000.0))
    first, whole = result.outcomes
    assert first.end_s == pytest.approx(1.0 + 602.0, abs=1.0)
    assert first.end_s + 302.0 <= whole.end_s <= first.end_s + 302.0 + 6.0
    assert result.counts.suspensions == 0


def test_a_false_limit_changes_who_runs() -> None:
    """An urgent application that states too little waits; a patient one that lies keeps its room.

    The second pays for what it keeps from the other.
    """
    both = application(0, 3000.0, 4, 30_000.0), application(600, 300.0, 2, 1000.0)
    honest = run(*both)
    assert honest.counts.suspensions == 1
    too_low = run(*both, liars={1: 0.01})
    assert too_low.counts.suspensions == 0
    assert not too_low.outcomes[1].met
    too_high = run(*both, liars={0: 1000.0})
    assert too_high.counts.suspensions == 0
    assert not too_high.outcomes[1].met
    assert too_high.spent[0] > honest.spent[0]


def test_a_tenants_next_application_has_what_the_last_one_left() -> None:
    """With these credits it displaces one that is dearer without them."""
    first = application(0, 30.0, 1, 100.0, budget=4000.0)
    rival = application(3590, 3000.0, 4, 7000.0, budget=900.0)
    second = application(3600, 300.0, 4, 5600.0, budget=60.0)
    for tenants in ({}, {0: 7, 2: 7}):
        result = simulate_orders((first, rival, second), CLOUD, 0, tenants=tenants)
        assert result.outcomes[0].met
        assert result.outcomes[2].met == bool(tenants)
        most = second.budget * second.tasks
        assert (result.spent[2] > most) == bool(tenants)
        assert result.spent[2] <= most + first.budget


def test_no_application_spends_more_than_its_budgets() -> None:
    """Neither do two runs differ: nothing is drawn."""
    # Long applications have many periods: `make test` leaves them out.
    nodes, seed, longest_s = (8, 5, inf) if SOAK else (4, 12, 2500.0)
    jobs = lublin(16, 8, np.random.default_rng(seed))
    cloud = replace(CLOUD, nodes=nodes)
    terms = TaskAssignment(node_memory_mib=cloud.memory_mib, boot_s=cloud.costs.boot_s)
    assigned = assign(jobs, terms, np.random.default_rng(seed))
    applications = contended([each for each in assigned if each.run_s < longest_s], 0.05)
    first, second = (simulate_orders(applications, cloud, draw) for draw in (1, 2))
    assert first.outcomes == second.outcomes
    assert first.counts.suspensions > 0
    for application_, spent in zip(applications, first.spent, strict=True):
        budgets = 1 + application_.deadline_s // cloud.renewal_s
        assert spent <= budgets * application_.budget * application_.tasks + 1e-6
    rival = edf(applications, cloud.cores, cloud.costs)
    assert met_part(first.outcomes) >= met_part(rival.outcomes) - 0.05


def test_an_application_larger_than_the_cloud_is_refused() -> None:
    """Its gang would wait for ever."""
    with pytest.raises(TooLargeError, match="needs 5 of 4 cores"):
        run(application(0, 10.0, 5, 100.0))
