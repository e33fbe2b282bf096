"""The command `merkatd experiment`: the paper's figures and tables in virtual time.

`list` shows the experiments. `run NAME` runs an experiment on all cores, continues an earlier run
that was stopped, and prints the paper's values beside those of Merkat. `report NAME` prints stored
results again.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from simulator import sweep
from simulator.baselines.queue_baselines import TooLargeError
from simulator.experiments import EXPERIMENTS, Experiment, ExperimentOptions
from simulator.experiments.experiment import Rows, Task
from simulator.report import as_text, draw, write_csv
from simulator.scenario import ScenarioError
from simulator.scenario_experiment import scenario_experiment
from simulator.workloads import SwfError

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
    options = ExperimentOptions(
        trace=arguments.trace, seeds=arguments.seeds, quick=arguments.quick, scenario=scenario
    )
    try:
        experiment = scenario_experiment(scenario) if scenario else EXPERIMENTS[arguments.name]
        folder = arguments.output / experiment.name
        rows = _rows(experiment, options, folder, arguments)
    except (SwfError, TooLargeError, ScenarioError, sweep.ClusterError, OSError) as error:
        return _complain(str(error))
    if len(rows) < len(experiment.tasks(options)):
        return _complain(f"{folder} has no complete run of this experiment; see: experiment run")
    _show(experiment, rows, options, folder)
    return 0


def _scenario(name: str) -> Path | None:
    return Path(name) if name.endswith(".toml") else None


def _rows(
    experiment: Experiment, options: ExperimentOptions, folder: Path, arguments: argparse.Namespace
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
        return sweep.sweep(experiment, options, file, pool, sweep.show)


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


def _complain(text: str) -> int:
    sys.stderr.write(f"merkatd: {text}\n")
    return 1
