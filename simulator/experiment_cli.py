"""The command `merkatd experiment`: the paper's figures and tables, and scenarios of one's own.

`list` shows the experiments. `run NAME` runs an experiment on all cores, continues an earlier run
that was stopped, and prints the paper's values beside those of Merkat. `report NAME` prints stored
results again.
"""

import argparse
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from merkatd.placement.snapshot_needs import UnfilledNeedError
from simulator import sweep
from simulator.baselines.queue_baselines import TooLargeError
from simulator.experiments import EXPERIMENTS, Experiment, ExperimentOptions
from simulator.experiments.experiment import Rows, Task
from simulator.report import as_text, draw, write_csv
from simulator.scenario_experiment import scenario_experiment
from simulator.scenarios.center_experiment import center_experiment
from simulator.scenarios.center_scenario import describes_center
from simulator.scenarios.scenario_values import ScenarioError
from simulator.workloads import SwfError
from simulator.workloads.azure_vms import AzureTableError

_OURS = (
    *(AzureTableError, SwfError, TooLargeError, ScenarioError, UnfilledNeedError),
    *(sweep.ClusterError, OSError),
)
"""Errors whose message is all that is to be said."""
FAILURE = "failure.txt"
"""The file with the traceback of a run that failed, until all runs are complete."""
SHOWN = 5
"""The most outdated rows that a warning names."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command, and return its exit code."""
    if arguments.what == "list":
        width = max(map(len, EXPERIMENTS))
        for name, experiment in EXPERIMENTS.items():
            sys.stdout.write(f"{name:{width}}  {experiment.summary}\n")
        return 0
    scenario = _scenario(arguments.name or "")
    if scenario is None and arguments.name not in EXPERIMENTS:
        return _complain(f"unknown experiment {arguments.name!r}; see: experiment list")
    failed = dict[Task, Exception]()
    try:
        experiment = _experiment(scenario) if scenario else EXPERIMENTS[arguments.name]
        options = ExperimentOptions(
            trace=arguments.trace,
            seeds=arguments.seeds or experiment.seeds,
            quick=arguments.quick,
            scenario=scenario,
            inputs=experiment.inputs,
        )
        if experiment.partial and arguments.trace:
            raise ScenarioError("--trace: name the trace in a table [[workload]] of the file")
        folder = arguments.output / experiment.name
        rows = _rows(experiment, options, folder, arguments, failed)
    except _OURS as error:
        return _complain(str(error))
    if failed:
        return _fail(experiment, rows, options, folder, failed)
    if len(rows) < len(experiment.tasks(options)):
        return _complain(f"{folder} has no complete run of this experiment; see: experiment run")
    _show(experiment, rows, options, folder)
    (folder / FAILURE).unlink(missing_ok=True)
    return 0


def _experiment(scenario: Path) -> Experiment:
    return (
        center_experiment(scenario) if describes_center(scenario) else scenario_experiment(scenario)
    )


def _fail(
    experiment: Experiment,
    rows: Rows,
    options: ExperimentOptions,
    folder: Path,
    failed: Mapping[Task, Exception],
) -> int:
    """Say which runs failed and why, and show the others if the experiment can."""
    if rows and experiment.partial:
        _show(experiment, rows, options, folder)
    reasons = dict[str, list[Task]]()
    for task, error in failed.items():
        known = isinstance(error, _OURS)
        text = str(error) if known else f"{type(error).__name__}: {error}"
        reasons.setdefault(text, []).append(task)
    for text, tasks in reasons.items():
        some = ", ".join(task.key for task in tasks[:SHOWN])
        more = f" and {len(tasks) - SHOWN} more" if len(tasks) > SHOWN else ""
        _complain(f"{len(tasks)} of {len(rows) + len(failed)} runs failed ({some}{more}): {text}")
    first = next((error for error in failed.values() if not isinstance(error, _OURS)), None)
    if first is not None:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / FAILURE
        file.write_text("".join(traceback.format_exception(first)), encoding="utf-8")
        _complain(f"{file} has the traceback of the first; the rows of all other runs are kept")
    return 1


def _scenario(name: str) -> Path | None:
    return Path(name) if name.endswith(".toml") else None


def _rows(
    experiment: Experiment,
    options: ExperimentOptions,
    folder: Path,
    arguments: argparse.Namespace,
    failed: dict[Task, Exception],
) -> Rows:
    file = folder.with_name(experiment.runs or folder.name) / "rows.jsonl"
    _warn_of_outdated(sweep.outdated(experiment, options, file), file, arguments.what)
    if arguments.what == "report":
        return sweep.stored(experiment, options, file)
    workers = (
        sweep.local(arguments.processes)
        if arguments.cluster is None
        else sweep.cluster(arguments.cluster)
    )
    with workers as pool:
        return sweep.sweep(experiment, options, file, pool, sweep.show, failed)


def _warn_of_outdated(tasks: Sequence[Task], file: Path, what: str) -> None:
    """Say which stored rows are not those of these sources."""
    if not tasks:
        return
    then = "left out; `experiment run` computes them" if what == "report" else "computed"
    some = ", ".join(task.key for task in tasks[:SHOWN])
    more = f" and {len(tasks) - SHOWN} more" if len(tasks) > SHOWN else ""
    sys.stderr.write(
        f"merkatd: {file} has rows that other sources of Merkat (or another numpy or scipy)"
        f" computed. They are {then} again: {some}{more}\n"
    )


def _show(experiment: Experiment, rows: Rows, options: ExperimentOptions, folder: Path) -> None:
    report = experiment.report(rows, options)
    sys.stdout.write(f"{experiment.name}: {experiment.summary}\n\n{as_text(report)}\n")
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(rows, folder / "rows.csv")
    sys.stdout.write(f"rows: {folder / 'rows.csv'}\n")
    if draw(report, experiment.name, folder / "figure.png"):
        sys.stdout.write(f"figure: {folder / 'figure.png'}\n")
    for line in experiment.write(rows, folder):
        sys.stdout.write(f"{line}\n")


def _complain(text: str) -> int:
    sys.stderr.write(f"merkatd: {text}\n")
    return 1
