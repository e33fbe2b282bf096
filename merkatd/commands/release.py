"""`merkatd release`."""

import argparse
import sys
from typing import Any

from merkatd.commands.asking import Ask, NotDoneError, user
from merkatd.commands.complaints import complain
from merkatd.commands.output import WordsError, rows_of
from merkatd.commands.table import Column, Kind, Table
from merkatd.commands.verb import Verb
from merkatd.commands.view import add_view, show_view

TABLE = Table(
    "RELEASE",
    (
        Column("ID", "id", Kind.WHOLE, "OpenNebula's id of the VM"),
        Column("DID", "did", Kind.TEXT, "what it was given back", least=10),
        Column("PROBLEM", "problem", Kind.TEXT, "what could not be given, and why", least=10),
    ),
)

_AT_ONCE = 100
"""VMs in one question: each is answered in good time."""


def add_release_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask first")
    add_view(parser, {"release": TABLE}, follow=False)


def run_release(arguments: argparse.Namespace) -> int:
    """Tell the daemon, some VMs at a time, and print what became of each."""
    troubled: list[Any] = []

    def fetch(ask: Ask) -> Any:
        if not arguments.yes:
            _confirm()
        vms = ask("release", who=user())
        rows: list[Any] = []
        for start in range(0, len(vms), _AT_ONCE):
            rows += rows_of(ask("release", who=user(), vms=vms[start : start + _AT_ONCE]))
        troubled.extend(row for row in rows if row["problem"])
        return rows

    code = show_view("release", arguments, TABLE, fetch)
    if code == 0 and troubled:
        return complain("release", f"{len(troubled)} VMs have not everything back; run it again")
    return code


def _confirm() -> None:
    """Ask on the terminal; where there is none, the answer must have been given."""
    if not sys.stdin.isatty():
        raise WordsError("gives every VM its full size back: --yes is right where nobody is asked")
    print(
        "The daemon is paused and every VM gets its full size back. Go on? [y/N] ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise NotDoneError("nothing was done")


RELEASE = Verb(
    "release",
    summary="give every VM its full size back, before Merkat is removed",
    description="""\
`merkatd release`: give every VM its full size back, so that nothing of Merkat is left on hosts.

The daemon is paused first and stays so. Quotas are taken off, weights are those that
OpenNebula gives, pins of ours are cleared, balloons are let go. `merkatd resume` sets it all
again.
""",
    add_arguments=add_release_arguments,
    run=run_release,
)
