"""Experiments: sweeps that continue after an interruption, and reports that check statements."""

import csv
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from merkatd.cli import main
from simulator.experiments import EXPERIMENTS, ExperimentOptions, figure_03
from simulator.experiments.compared_systems import LOAD, jobs_of
from simulator.experiments.experiment import Experiment, ExperimentReport, Row, Rows, Task
from simulator.report import as_text, write_csv
from simulator.sweep import stored, sweep


class Counted:
    """An experiment that counts its runs; the third fails while `broken` is set."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.broken = False
        self.experiment = Experiment("counted", "", self.tasks, self.measure, self.report)

    def tasks(self, options: ExperimentOptions) -> Sequence[Task]:
        """Return a task for each seed."""
        return [Task("one", 1.0, seed) for seed in range(options.seeds)]

    def measure(self, task: Task, options: ExperimentOptions) -> Row:
        """Return twice the seed."""
        if self.broken and task.seed == 2:
            raise ValueError("broken")
        self.ran.append(task.key)
        return {"twice": 2.0 * task.seed, "quick": float(options.quick)}

    @staticmethod
    def report(_rows: Rows, _options: ExperimentOptions) -> ExperimentReport:
        """Return an empty report."""
        return ExperimentReport((), ())


def run_sweep(counted: Counted, options: ExperimentOptions, file: Path) -> Rows:
    """Run the sweep in one thread."""
    with ThreadPoolExecutor(1) as pool:
        return sweep(counted.experiment, options, file, pool)


def test_an_interrupted_sweep_continues(tmp_path: Path) -> None:
    """This holds also after a kill in the middle of a line; more seeds add rows."""
    counted, file = Counted(), tmp_path / "rows.jsonl"
    counted.broken = True
    with pytest.raises(ValueError, match="broken"):
        run_sweep(counted, ExperimentOptions(seeds=3), file)
    assert counted.ran == ["one/1/0", "one/1/1"]
    file.write_text(file.read_text() + '{"task": "one/1/2", "ro')
    counted.broken = False
    rows = run_sweep(counted, ExperimentOptions(seeds=4), file)
    assert counted.ran == ["one/1/0", "one/1/1", "one/1/2", "one/1/3"]
    assert [row["twice"] for row in rows.values()] == [0.0, 2.0, 4.0, 6.0]
    assert len(run_sweep(counted, ExperimentOptions(seeds=1), file)) == 1
    assert run_sweep(counted, ExperimentOptions(seeds=4), file) == rows
    assert len(counted.ran) == 4


def test_rows_of_other_options_are_not_mixed_in(tmp_path: Path) -> None:
    """A sweep with other options starts from the beginning."""
    counted, file = Counted(), tmp_path / "rows.jsonl"
    run_sweep(counted, ExperimentOptions(seeds=2), file)
    rows = run_sweep(counted, ExperimentOptions(seeds=2, quick=True), file)
    assert [row["quick"] for row in rows.values()] == [1.0, 1.0]
    assert stored(counted.experiment, ExperimentOptions(seeds=2), file) == {}


def rows_of(experiment: Experiment, **numbers: dict[str, float]) -> Rows:
    """Return invented rows: the same by system for every level and seed."""
    return {
        task: numbers[task.system.replace("-", "_")]
        for task in experiment.tasks(ExperimentOptions())
    }


def test_figure_13_reports_which_statements_hold(tmp_path: Path) -> None:
    """A market between the two holds against FCFS; orders that fall behind EDF do not."""
    experiment = EXPERIMENTS["figure-13"]

    def make_row(worth: float, met: float) -> dict[str, float]:
        return {
            "satisfaction": worth,
            "part": worth / 100,
            "met": met,
            "part_h": worth / 100,
            "met_h": met,
            "suspensions": 1.0,
            "migrations": 0.0,
            "decisions": 5.0,
            "cpu_s": 1.0,
            "looks": 500.0,
        }

    rows = rows_of(
        experiment,
        fcfs=make_row(10, 50),
        easy=make_row(30, 60),
        edf=make_row(90, 95),
        edf_periods=make_row(84, 94),
        paper=make_row(80, 94),
        orders=make_row(85, 94),
    )
    text = as_text(experiment.report(rows, ExperimentOptions()))
    assert "\nholds: the paper: the market outperforms FCFS" in text
    assert "\nholds: ours: with orders, at every level at least EDF's satisfaction with" in text
    assert "does NOT hold: ours: with orders, at every level at least the satisfaction of" in text
    assert "behind at 1, 0.9, 0.8" in text
    assert "80 ± 0" in text
    rows = rows_of(
        experiment,
        fcfs=make_row(10, 50),
        easy=make_row(30, 60),
        edf=make_row(99.9, 99.5),
        edf_periods=make_row(99.9, 99.5),
        paper=make_row(80, 94),
        orders=make_row(99.6, 99.3),
    )
    assert as_text(experiment.report(rows, ExperimentOptions())).count("\nholds: ours") == 2
    for name in ("part", "part_h"):
        worse = {
            task: {**row, name: 0.9} if task.system == "orders" else row
            for task, row in rows.items()
        }
        text = as_text(experiment.report(worse, ExperimentOptions()))
        assert text.count("does NOT hold: ours") == 2
    write_csv(rows, tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(rows)
    assert lines[0]["system"] == "fcfs"


def test_table_2_prints_the_papers_numbers() -> None:
    """The paper's numbers appear beside the simulated ones."""
    experiment = EXPERIMENTS["table-2"]
    numbers = {"met": 90.0, "satisfaction": 5.0, "cpu_s": 1.0}
    more = {"suspensions": 3.0, "migrations_h": 0.0, "vm_suspensions": 9.0}
    rows = rows_of(
        experiment, paper=numbers | more, orders=numbers | more, easy=numbers | {"met": 60.0}
    )
    text = as_text(experiment.report(rows, ExperimentOptions()))
    assert "950554" in text
    assert "30.0 percentage points more" in text


@pytest.mark.parametrize("name", ["figure-3", "figures-6-10"])
def test_small_experiments_run_completely(name: str) -> None:
    """All statements of the paper hold, except for interference between VMs on its testbed."""
    experiment, options = EXPERIMENTS[name], ExperimentOptions()
    rows = {task: experiment.measure(task, options) for task in experiment.tasks(options)}
    report = experiment.report(rows, options)
    assert [statement.text for statement in report.statements if not statement.holds] == (
        []
        if name == "figure-3"
        else [
            "the paper, Figure 6: best effort, an iteration takes almost ten times as long",
        ]
    )
    assert as_text(report)


def test_without_a_trace_a_generated_one_is_used() -> None:
    """It has the same load and is the same each time."""
    jobs = jobs_of(None, 1000, 240)
    work = sum(job.run_s * job.procs for job in jobs)
    span_s = jobs[-1].submit_s - jobs[0].submit_s
    assert work / 240 / span_s == pytest.approx(LOAD, rel=0.01)
    assert max(job.procs for job in jobs) <= 120


def test_the_command_lists_experiments_and_rejects_unknown_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The error contains the unknown name."""
    assert main(["experiment", "list"]) == 0
    assert "figure-13" in capsys.readouterr().out
    assert main(["experiment", "run", "figure-99"]) == 1
    assert "'figure-99'" in capsys.readouterr().err


def test_a_report_without_rows_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says how to create rows."""
    assert main(["experiment", "report", "table-2", "--output", str(tmp_path)]) == 1
    assert "no complete run" in capsys.readouterr().err


def test_a_cluster_needs_dask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without Dask, the message says how to install it."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    wanted = ["experiment", "run", "figure-3", "--cluster", "--output", str(tmp_path)]
    assert main(wanted) == 1
    assert "pip install 'merkat[cluster]'" in capsys.readouterr().err


def test_an_experiment_with_shared_runs_has_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are in the shared folder; table and figure are under the experiment's name."""
    shared = replace(figure_03.EXPERIMENT, name="figure-3", runs="shared-runs")
    monkeypatch.setitem(cast("dict[str, Experiment]", EXPERIMENTS), "figure-3", shared)
    assert main(["experiment", "run", "figure-3", "--output", str(tmp_path)]) == 0
    assert (tmp_path / "shared-runs" / "rows.jsonl").exists()
    assert (tmp_path / "figure-3" / "rows.csv").exists()
