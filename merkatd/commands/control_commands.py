"""Commands that change what the daemon does: `pause`, `resume`, `mode`, `host`, `release`."""

import argparse
import sys
from typing import Any

from merkatd.commands.ask_daemon import Ask, add_door, add_view, ask_daemon, show_view, user
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable
from merkatd.commands.terminal.command_parser import DONE, NotDoneError, print_failure
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import ConflictingArgumentsError, rows_of
from merkatd.commands.texts.status_text import MODES


def add_mode_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `mode`."""
    parser.add_argument(
        "mode",
        metavar="MODE",
        nargs="?",
        choices=(*MODES, "configured"),
        help="dry, shadow, ask or on; configured: the mode of the configuration file",
    )
    add_door(parser)


def run_mode(arguments: argparse.Namespace) -> int:
    """Show or change the mode."""

    def show(ask: Ask) -> int:
        print("\n".join(_lines(ask("mode", to=arguments.mode, who=user()), arguments.mode)))
        return DONE

    return ask_daemon("mode", arguments, show)


def _lines(answer: Any, wanted: str | None) -> list[str]:
    mode = str(answer["mode"])
    already = "" if wanted is None or answer["changed"] else " already"
    lines = [f"The mode is {mode}{already}: {MODES.get(mode, mode)}."]
    if answer["ordered"] is not None and answer["configured"] != mode:
        lines.append(
            f"It was set by an order; the configuration says {answer['configured']}"
            " (`merkatd mode configured` returns to it)."
        )
    if answer["most_moves"] is not None:
        lines.append(f"A quiet start: the next period moves {answer['most_moves']} VMs at most.")
    return lines


MODE = Verb(
    "mode",
    summary="show or change the mode: how much of its decisions the daemon carries out",
    description="""\
`merkatd mode`: show or change how much of its decisions the daemon carries out.

dry: the daemon decides and does nothing. shadow: it does nothing either, and `merkatd shadow`
compares its decisions with those of another scheduler. ask: it places, moves and suspends VMs
after you approve the plan (`merkatd plan show`); it sets limits without asking. on: it carries out
all decisions.

A new mode applies from the next period on, also after a restart, until `merkatd mode configured`
returns to the mode of the configuration file.
""",
    add_arguments=add_mode_arguments,
    run=run_mode,
)


def add_pause_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pause`."""
    add_door(parser)


def run_pause(arguments: argparse.Namespace) -> int:
    """Pause the daemon."""

    def show(ask: Ask) -> int:
        new = ask("pause", who=user())
        print(f"{'Paused' if new else 'Already paused'}: no period starts until `merkatd resume`.")
        return DONE

    return ask_daemon("pause", arguments, show)


PAUSE = Verb(
    "pause",
    summary="start no more periods until `merkatd resume`",
    description="""\
`merkatd pause`: start no more periods; the current one is finished, and VMs run on.

Limits on hosts stay in force, and no period is charged. The pause survives restarts of the
daemon and applies to all daemons that share its database.
""",
    add_arguments=add_pause_arguments,
    run=run_pause,
)


RELEASE_TABLE = ScreenTable(
    "RELEASE",
    (
        Column("ID", "id", ColumnFormat.WHOLE, "OpenNebula's id of the VM"),
        Column("DID", "did", ColumnFormat.TEXT, "what was restored", least=10),
        Column(
            "PROBLEM",
            "problem",
            ColumnFormat.TEXT,
            "what could not be restored, and why",
            least=10,
            kept=True,
        ),
    ),
)
_AT_ONCE = 100
"""VMs per request: few enough that the daemon answers within the time limit of a request."""


def add_release_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `release`."""
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
    add_view(parser, {"release": RELEASE_TABLE}, follow=False)


def run_release(arguments: argparse.Namespace) -> int:
    """Restore the full size of all VMs, some at a time, and print the result of each."""
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

    code = show_view("release", arguments, RELEASE_TABLE, fetch)
    if code == 0 and troubled:
        return print_failure(
            "release", f"{len(troubled)} VMs are not fully restored; run the command again"
        )
    return code


def _confirm() -> None:
    """Ask for confirmation. Raise ConflictingArgumentsError if there is no terminal."""
    if not sys.stdin.isatty():
        raise ConflictingArgumentsError(
            "needs a confirmation: use --yes if the input is not a terminal"
        )
    print(
        "This pauses the daemon and restores the full size of every VM. Continue? [y/N] ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise NotDoneError("nothing was done")


RELEASE = Verb(
    "release",
    summary="restore the full size of every VM, before Merkat is removed",
    description="""\
`merkatd release`: restore the full size of every VM, so that nothing of Merkat is left on hosts.

The command first pauses the daemon, and it stays paused. Then the daemon removes CPU quotas and its
own pins, restores OpenNebula's CPU weights and releases the memory balloons. `merkatd resume` sets
all limits again.
""",
    add_arguments=add_release_arguments,
    run=run_release,
)


def add_resume_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `resume`."""
    add_door(parser)


def run_resume(arguments: argparse.Namespace) -> int:
    """Resume the daemon."""

    def show(ask: Ask) -> int:
        ask("resume", who=user())
        print("Resumed: the next period starts at the next full interval.")
        return DONE

    return ask_daemon("resume", arguments, show)


RESUME = Verb(
    "resume",
    summary="start periods again after a pause",
    description="""\
`merkatd resume`: start periods again, at the next full interval.""",
    add_arguments=add_resume_arguments,
    run=run_resume,
)
