"""The command `experiment`: the paper's figures and tables, repeated in virtual time."""

import argparse
import sys
from pathlib import Path

from merkatd.commands.terminal import command_parser
from merkatd.commands.terminal.command_verb import Verb


def add_experiment_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `experiment`."""
    parser.add_argument("what", choices=("list", "run", "report"), help="list, run or report")
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="an experiment's name, or the file of a scenario (FILE.toml)",
    )
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help="take the jobs from this trace (Standard Workload Format, plain or .gz)",
    )
    parser.add_argument(
        "--seeds",
        type=command_parser.count,
        metavar="N",
        help="number of repetitions (4, or as the file of the scenario says)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="few and small runs, only to check that it works"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("experiments"),
        metavar="FOLDER",
        help="the folder for rows and figures (experiments)",
    )
    parser.add_argument(
        "--processes",
        type=command_parser.count,
        metavar="N",
        help="number of parallel processes (all cores)",
    )
    parser.add_argument(
        "--cluster",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="run on a Dask cluster; without an address on two local workers",
    )


_NEEDS_SCIPY = (
    "`merkatd experiment` needs the Python package scipy, which the Debian package lacks. Install"
    " Merkat into a virtual environment: pip install 'merkat[simulator]'"
)


def run_experiment(arguments: argparse.Namespace) -> int:
    """Run the experiment in the simulator, which no other command loads."""
    try:
        from simulator import experiment_cli  # noqa: PLC0415 - loads scipy.stats, half a second
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "scipy":
            raise
        sys.stderr.write(f"merkatd: {_NEEDS_SCIPY}\n")
        return 1
    return experiment_cli.run(arguments)


EXPERIMENT = Verb(
    "experiment",
    summary="repeat the paper's evaluation in virtual time",
    description="""\
`merkatd experiment`: repeat the paper's figures and tables in virtual time, beside its numbers.

`list` lists the experiments. `run NAME`, or a scenario's `FILE.toml`, which may describe a data
centre of your own, runs it on all cores, one process per run; an interrupted experiment continues
with its missing runs, and a run that fails leaves the others alone. `report NAME` prints the stored
results again.
""",
    add_arguments=add_experiment_arguments,
    run=run_experiment,
)
