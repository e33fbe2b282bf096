"""The utility-placement paper's experiments in short: what they draw, measure and must show."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from merkatd.cli import main
from merkatd.cluster.applications import Jobs
from merkatd.cluster.snapshot_json import loads
from merkatd.placement.utility.powers.power_curves import service_curves
from simulator import sweep
from simulator.experiments import EXPERIMENTS, ExperimentOptions
from simulator.experiments.experiment import Task
from simulator.experiments.utility import jobs_and_service, mixed_jobs
from simulator.experiments.utility.job_cycles import (
    EDF,
    FCFS,
    UTILITY,
    decider_of,
    hypothetical_utilities,
    run_jobs,
)
from simulator.experiments.utility.paper_jobs import (
    IDENTICAL,
    MHZ,
    MIXED,
    JobDraw,
    draw_jobs,
    paper_center,
    paper_service,
)
from simulator.workloads.declared_work import one_stage
from tests.lengths import shorten

QUICK = ExperimentOptions(seeds=1, quick=True)
EMPTY = '{"merkat_snapshot": 1, "now_s": 1, "period": 1, "resources": ["cpu", "memory"]}'


@pytest.mark.parametrize("name", ["identical-jobs", "three-goals", "jobs-and-service"])
def test_what_the_paper_states_holds(name: str) -> None:
    """Each statement of the report holds for a part of the paper's jobs."""
    experiment = EXPERIMENTS[name]
    rows = {task: experiment.measure(task, QUICK) for task in experiment.tasks(QUICK)}
    report = experiment.report(rows, QUICK)
    assert report.statements
    assert [str(each) for each in report.statements if not each.holds] == []
    assert all(curve.x for panel in report.panels for curve in panel.curves)


def test_one_command_plots_the_utilities_of_jobs_and_service_over_time(tmp_path: Path) -> None:
    """The first panel has both, from the first cycle on, and the file is a picture."""
    pytest.importorskip("matplotlib")
    words = "experiment run jobs-and-service --quick --seeds 1 --processes 1 --output"
    assert main([*words.split(), str(tmp_path)]) == 0
    assert (tmp_path / "jobs-and-service" / "figure.png").read_bytes().startswith(b"\x89PNG")
    (row,) = sweep.stored(
        jobs_and_service.EXPERIMENT, QUICK, tmp_path / "jobs-and-service" / "rows.jsonl"
    ).values()
    panel = jobs_and_service.panels(row)[0]
    service, jobs = panel.curves
    assert (panel.x, panel.y) == ("time, h", "utility")
    assert (service.name, jobs.name) == ("service", "jobs, hypothetical, mean")
    assert max(service.x) > 1.0
    assert min(jobs.y) < max(jobs.y) <= 1.0


def test_utility_meets_more_goals_than_edf_with_fewer_changes() -> None:
    """At 50 s between arrivals FCFS meets few goals, and utility interrupts fewer jobs than EDF."""
    most = shorten(800, 250)
    jobs = draw_jobs(JobDraw(gaps_s=[(4 * most, 50.0)], factors=mixed_jobs.FACTORS, kinds=MIXED), 0)
    met, changes = dict[str, float](), dict[str, int]()
    for system in (UTILITY, EDF, FCFS):
        run = run_jobs(paper_center(), jobs, decider_of(system), most_ended=most)
        met[system] = float((run.utilities[run.ended[:most]] >= 0).mean())
        changes[system] = run.changes
        assert run.totals.refused == run.totals.postponed == 0
    assert met[UTILITY] >= met[EDF] > met[FCFS]
    assert changes[UTILITY] <= changes[EDF] / 2
    assert changes[FCFS] == 0


def test_the_systems_agree_where_all_jobs_have_room() -> None:
    """At 400 s all jobs have room: none is interrupted, and all systems meet the same goals."""
    outcomes = set()
    for system in (UTILITY, EDF, FCFS):
        row = mixed_jobs.measure(Task(system, 400.0, 1), QUICK)
        outcomes.add((row["met"], row["changes"]))
    assert len(outcomes) == 1
    assert outcomes.pop()[1] == 0


def test_hypothetical_utilities_are_those_of_experiment_one() -> None:
    """To start J2 gives both 0.696 or 0.658, and to let it wait 0.700 and 0.688 or 0.583."""
    found = []
    for goal_s in (17.0, 13.0):
        snapshot = replace(
            loads(EMPTY),
            jobs=Jobs(
                application=np.arange(2),
                submitted_s=np.array([0.0, 1.0]),
                started_s=np.array([0.0, np.nan]),
                goal_s=np.array([20.0, goal_s]),
                work_done=np.array([1000.0, 0.0]),
            ),
            stages=one_stage(np.array([4000.0, 2000.0]), np.array([1000.0, 500.0]), np.zeros(2)),
        )
        for powers in ([500.0, 500.0], [1000.0, 0.0]):
            utilities, _ = hypothetical_utilities(snapshot, np.array(powers), 1.0)
            found.append([round(each, 3) for each in utilities.tolist()])
    assert found == [[0.696, 0.696], [0.7, 0.688], [0.658, 0.658], [0.7, 0.583]]


def test_jobs_are_drawn_as_the_paper_states() -> None:
    """Times, speeds, goals and their parts are those of Table 3 and section 5.4."""
    draw = JobDraw(gaps_s=[(20_000, 260.0)], factors=mixed_jobs.FACTORS, kinds=MIXED)
    jobs = draw_jobs(draw, 3)
    its = jobs.declared.jobs
    assert np.diff(its.submitted_s).mean() == pytest.approx(260.0, rel=0.03)
    parts = np.bincount(jobs.kinds) / len(jobs.kinds)
    assert parts == pytest.approx([0.1, 0.4, 0.5], abs=0.02)
    tight = jobs.factors == 1.3
    assert tight.mean() == pytest.approx(0.1, abs=0.01)
    speed = jobs.declared.stages.greatest_speed
    assert sorted(set(speed.round(9).tolist())) == pytest.approx([40.0, 60.0, 100.0])
    best_s = jobs.declared.stages.work / speed
    assert (its.goal_s - its.submitted_s) / best_s == pytest.approx(jobs.factors)
    assert jobs.requests.size[:, 1].tolist() == [4320.0] * 20_000


def test_other_goals_change_no_arrival() -> None:
    """The jobs of all experiments arrive at the same times for a seed."""
    one = draw_jobs(JobDraw(gaps_s=[(50, 260.0)], factors=[(2.7, 1.0)], kinds=IDENTICAL), 5)
    other = draw_jobs(JobDraw(gaps_s=[(50, 260.0)], factors=mixed_jobs.FACTORS, kinds=MIXED), 5)
    assert one.requests.arrival_s.tolist() == other.requests.arrival_s.tolist()


def test_the_service_has_the_papers_greatest_utility() -> None:
    """It is 0.66 with 130,000 MHz, which is all that its instances can use."""
    its = paper_service()
    curve = service_curves(
        *(its.arrivals_per_s, its.work_per_request, its.response_goal_s),
        np.array([130_000.0 * MHZ]),
    )
    assert curve.most_utility[0] == pytest.approx(0.66)
    assert curve.utility(np.array([150_000.0 * MHZ]))[0] == pytest.approx(0.66)
