"""Runs of whole data centres: outcomes over time, sweeps, failures."""

import csv
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from merkatd.cli import main
from simulator import sweep
from simulator.experiments.experiment import ExperimentOptions, Rows, Task
from simulator.kernel.kernel_run import KernelRun
from simulator.scenarios import center_experiment as runs
from simulator.scenarios.center_experiment import center_experiment
from simulator.scenarios.center_scenario import center_scenario_of
from simulator.scenarios.outcome_files import mean_and_error
from simulator.scenarios.workload_tables import requests_of

SMALL = """
systems = ["first-fit", "worst-fit"]
span = "1h"
seeds = 3
[center]
period = "5m"
monitor = "10m"
[[hosts]]
count = 6
cores = 8
memory_mib = 65536
[[workload]]
requests = 12
"""
SWEPT = f"{SMALL}[sweep]\nworkload.requests = [6, 12]\n"


@pytest.fixture(autouse=True)
def in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sweeps run in a thread, where tests can watch and break them."""
    monkeypatch.setattr(sweep, "local", lambda _processes: ThreadPoolExecutor(1))


def run(folder: Path, text: str, *words: str) -> int:
    """Run a scenario; return the exit code."""
    file = folder / "some.toml"
    file.write_text(text)
    return main(["experiment", "run", str(file), "--output", str(folder / "out"), *words])


def lines_of(file: Path) -> list[dict[str, str]]:
    """Return the lines of a CSV file."""
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_columns_over_time_have_means_and_standard_errors_over_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are those of runs of the kernel alone, and the table is, too."""
    assert run(tmp_path, SMALL) == 0
    printed = capsys.readouterr().out
    (point,) = center_scenario_of(SMALL, tmp_path / "some.toml").points
    alone = [
        KernelRun(
            point.center,
            requests_of(point.draws, seed),
            point.deciders.decider("worst-fit"),
            span_s=3600,
            seed=seed,
        ).run()
        for seed in range(3)
    ]
    lines = lines_of(tmp_path / "out/some/columns.csv")
    mine = [line for line in lines if line["system"] == "worst-fit"]
    assert len(lines) == 2 * len(mine)
    assert [float(line["at_s"]) for line in mine] == [600.0 * at for at in range(7)]
    for at, line in enumerate(mine):
        values = [float(outcome.columns["active_hosts"][at]) for outcome in alone]
        assert float(line["active_hosts"]) == pytest.approx(statistics.fmean(values))
        error = statistics.stdev(values) / 3**0.5
        assert float(line["active_hosts_se"]) == pytest.approx(error)
    means = [outcome.mean("active_hosts") for outcome in alone]
    error = statistics.stdev(means) / 3**0.5
    assert f"{statistics.fmean(means):.1f} ± {error:.1f}" in printed
    ends = [outcome.last("ended") for outcome in alone]
    assert f"{statistics.fmean(ends):.1f} ±" in printed
    assert (tmp_path / "out/some/figure.png").stat().st_size > 10_000
    assert len(lines_of(tmp_path / "out/some/rows.csv")) == 6


def test_parquet_has_the_values_of_the_csv(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Swept values are columns of both."""
    parquet = pytest.importorskip("pyarrow.parquet")
    assert run(tmp_path, SWEPT) == 0
    assert f"Parquet: {tmp_path}/out/some/columns.parquet" in capsys.readouterr().out
    table: list[dict[str, Any]] = parquet.read_table(
        tmp_path / "out/some/columns.parquet"
    ).to_pylist()
    lines = lines_of(tmp_path / "out/some/columns.csv")
    assert len(lines) == len(table) == 2 * 2 * 7
    for line, row in zip(lines, table, strict=True):
        assert list(line) == list(row)
        assert line["system"] == row["system"]
        assert int(line["workload.requests"]) == row["workload.requests"]
        assert float(line["utilisation_cpu"]) == pytest.approx(row["utilisation_cpu"])


def test_without_pyarrow_it_says_how_to_get_parquet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """CSV is written all the same."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "out/some").mkdir(parents=True)
    (tmp_path / "out/some/columns.parquet").write_text("of an earlier run")
    assert run(tmp_path, SMALL, "--seeds", "1") == 0
    assert "Parquet: needs the Python package pyarrow: pip install" in capsys.readouterr().out
    lines = lines_of(tmp_path / "out/some/columns.csv")
    assert {line["active_hosts_se"] for line in lines} == {""}
    assert not (tmp_path / "out/some/columns.parquet").exists()


def test_a_sweep_has_a_row_for_each_system_at_each_point(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The curves of the figure then go over the swept values."""
    assert run(tmp_path, SWEPT, "--seeds", "2") == 0
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[:2] for line in words if line[1:2] in (["first-fit"], ["worst-fit"])] == [
        [str(requests), system] for requests in (6, 12) for system in ("first-fit", "worst-fit")
    ]
    experiment = center_experiment(tmp_path / "some.toml")
    options = ExperimentOptions(seeds=2)
    rows = {task: experiment.measure(task, options) for task in experiment.tasks(options)}
    panels = experiment.report(rows, options).panels
    assert {(panel.x, *panel.curves[0].x) for panel in panels} == {("workload.requests", 6.0, 12.0)}


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """Let all runs of worst fit with seed 1 fail while the list of runs has at most 6."""
    begun: list[Task] = []
    measure = runs.measure

    def failing(text: str, path: Path, task: Task, options: ExperimentOptions) -> Any:
        begun.append(task)
        if task.system == "worst-fit" and task.seed == 1 and len(begun) <= 6:
            raise RuntimeError("a host burns")
        return measure(text, path, task, options)

    failing.__module__ = measure.__module__
    monkeypatch.setattr(runs, "measure", failing)
    return begun


def test_a_run_that_fails_keeps_the_results_of_the_others(
    tmp_path: Path, broken: list[Task], capsys: pytest.CaptureFixture[str]
) -> None:
    """They are shown and kept; the next run makes only the failed one."""
    assert run(tmp_path, SMALL) == 1
    shown = capsys.readouterr()
    assert len(broken) == 6
    assert "1 of 6 runs failed (worst-fit/0/1): RuntimeError: a host burns" in shown.err
    assert "first-fit" in shown.out
    assert "a host burns" in (tmp_path / "out/some/failure.txt").read_text()
    seeds = {line["system"]: line["seeds"] for line in lines_of(tmp_path / "out/some/columns.csv")}
    assert seeds == {"first-fit": "3", "worst-fit": "2"}
    assert run(tmp_path, SMALL) == 0
    assert [task.key for task in broken[6:]] == ["worst-fit/0/1"]
    assert not (tmp_path / "out/some/failure.txt").exists()


def test_a_trace_that_changes_lets_its_runs_begin_anew(tmp_path: Path) -> None:
    """A file that is the same does not."""
    line = "vm{0},tenant,deployment,0,{1},90,50,80,Interactive,2,4\n"
    (tmp_path / "vms.csv").write_text(line.format(1, 600))
    file = tmp_path / "some.toml"
    file.write_text(SMALL.replace("requests = 12", 'trace = "vms.csv"'))

    def ended() -> set[float]:
        experiment = center_experiment(file)
        options = ExperimentOptions(seeds=1, scenario=file, inputs=experiment.inputs)
        with ThreadPoolExecutor(1) as pool:
            rows: Rows = sweep.sweep(experiment, options, tmp_path / "rows.jsonl", pool)
        assert sweep.stored(experiment, options, tmp_path / "rows.jsonl") == rows
        return {row["ended"] for row in rows.values()}

    assert ended() == {1.0}
    (tmp_path / "vms.csv").write_text(line.format(1, 600) + line.format(2, 900))
    assert ended() == {2.0}


def test_a_wrong_file_ends_the_command_with_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No run begins."""
    assert run(tmp_path, SMALL.replace("cores", "core")) == 1
    assert "hosts[1].core: unknown key; did you mean 'cores'?" in capsys.readouterr().err
    assert run(tmp_path, SMALL, "--trace", str(tmp_path / "some.toml")) == 1
    assert "name the trace in a table [[workload]]" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_quick_experiment_runs_each_system_once(tmp_path: Path) -> None:
    """It has the first point of the sweep alone."""
    assert run(tmp_path, SWEPT, "--quick") == 0
    lines = lines_of(tmp_path / "out/some/rows.csv")
    assert [(line["system"], line["workload.requests"]) for line in lines] == [
        ("first-fit", "6"),
        ("worst-fit", "6"),
    ]


def test_a_single_run_has_no_standard_error() -> None:
    """That of several is the standard deviation by the root of their number."""
    mean, error = mean_and_error(np.array([4.0]))
    assert mean == 4.0
    assert np.isnan(error)
    mean, error = mean_and_error(np.array([1.0, 3.0]))
    assert mean == 2.0
    assert error == pytest.approx(1.0)
