"""`merkatd experiment`: the paper's figures and tables in virtual time, beside what it states."""

import argparse
from pathlib import Path

from merkatd.commands.terminal import command_parser
from merkatd.commands.terminal.command_verb import Verb


def add_experiment_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `experiment`."""
    parser.add_argument("what", choices=("list", "run", "report"), help="what to do")
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="an experiment, as listed, or the file of a scenario (FILE.toml)",
    )
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help="take the jobs from this trace (Standard Workload Format, plain or .gz)",
    )
    parser.add_argument(
        "--seeds", type=command_parser.count, default=4, metavar="N", help="repeat it so often (4)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="few and small runs: only to see that it works"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("experiments"),
        metavar="FOLDER",
        help="where rows and figures are kept (experiments)",
    )
    parser.add_argument(
        "--processes", type=command_parser.count, metavar="N", help="at a time; all cores otherwise"
    )
    parser.add_argument(
        "--cluster",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="hand the runs to a Dask cluster; without an address to two local workers",
    )


def run_experiment(arguments: argparse.Namespace) -> int:
    """Load the simulator, which nothing else here needs, and let it work."""
    from simulator import experiment_cli  # noqa: PLC0415 - loads scipy's statistics: half a second

    return experiment_cli.run(arguments)


EXPERIMENT = Verb(
    "experiment",
    summary="repeat the paper's evaluation in virtual time",
    description="""\
`merkatd experiment`: the paper's figures and tables in virtual time, beside what it states.

`list` shows what there is. `run NAME`, or a scenario's `FILE.toml`, runs it on all cores, one
process a run; a run that was ended goes on where it was. `report NAME` prints again what is stored.
""",
    add_arguments=add_experiment_arguments,
    run=run_experiment,
)
