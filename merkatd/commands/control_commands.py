"""`pause`, `resume`, `mode`, `host`, `release`."""

import argparse
import sys
from typing import Any

from merkatd.commands.ask_daemon import Ask, add_config, add_view, ask_daemon, show_view, user
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, command_parser
from merkatd.commands.terminal.command_parser import DONE, NotDoneError, complain
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import WordsError, rows_of


def add_host_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "action", metavar="ACTION", choices=("drain", "undrain"), help="drain or undrain"
    )
    parser.add_argument(
        "host", metavar="HOST", type=command_parser.reference, help="the id or the name of the host"
    )
    add_config(parser)


def run_host(arguments: argparse.Namespace) -> int:
    """Tell the daemon."""

    def show(ask: Ask) -> int:
        answer = ask(arguments.action, host=arguments.host, who=user())
        print(_drained(answer) if arguments.action == "drain" else _undrained(answer))
        return DONE

    return ask_daemon("host", arguments, show)


def _drained(answer: Any) -> str:
    name, vms, stay = answer["name"], int(answer["vms"]), int(answer["stay"])
    said = f"{name} is drained{'' if answer['changed'] else ' already'}: "
    said += f"{vms} VMs are to be moved away" if vms else "no VM is there"
    return f"{said}, {stay} of them may not be moved." if stay else f"{said}."


def _undrained(answer: Any) -> str:
    if not answer["changed"]:
        return f"{answer['name']} was not drained."
    return f"{answer['name']} takes VMs again, from the next period on."


HOST = Verb(
    "host",
    summary="empty a host, or use it again",
    description="""\
`merkatd host drain|undrain`: empty a host, or use it again.

VMs of a drained host are moved elsewhere, within the limits on migrations of a period, and no
VM is put there. The order is kept in the database until it is taken back, however often the
daemon is started. OpenNebula does not know of it: `onehost disable` keeps others away too.
""",
    add_arguments=add_host_arguments,
    run=run_host,
)


_DOES = {
    "dry": "nothing is done of what is decided",
    "shadow": "nothing is done; what another scheduler places is compared (`merkatd shadow`)",
    "ask": "VMs are placed, moved and suspended once you approve (`merkatd plan show`)",
    "on": "all that is decided is done",
}


def add_mode_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "mode",
        metavar="MODE",
        nargs="?",
        choices=(*_DOES, "configured"),
        help="dry, shadow, ask, on; or configured: what the configuration says",
    )
    add_config(parser)


def run_mode(arguments: argparse.Namespace) -> int:
    """Ask or tell the daemon."""

    def show(ask: Ask) -> int:
        print("\n".join(_lines(ask("mode", to=arguments.mode, who=user()), arguments.mode)))
        return DONE

    return ask_daemon("mode", arguments, show)


def _lines(answer: Any, wanted: str | None) -> list[str]:
    mode = str(answer["mode"])
    already = "" if wanted is None or answer["changed"] else " already"
    lines = [f"The mode is {mode}{already}: {_DOES.get(mode, mode)}."]
    if answer["ordered"] is not None and answer["configured"] != mode:
        lines.append(
            f"So it was ordered; configured is {answer['configured']}"
            " (`merkatd mode configured` takes the order back)."
        )
    if answer["most_moves"] is not None:
        lines.append(f"A quiet start: the next period moves {answer['most_moves']} VMs at most.")
    return lines


MODE = Verb(
    "mode",
    summary="show how much of what is decided is done, or change it",
    description="""\
`merkatd mode`: show how much of what is decided is done, or order another mode.

dry: nothing is done. shadow: nothing is done either, and `merkatd shadow` shows where another
scheduler placed VMs elsewhere. ask: VMs are placed, moved and suspended once you approve of the
plan (`merkatd plan show`); limits are set without asking. on: all is done.

An order holds from the next period on, also after a restart, until `merkatd mode configured`
takes it back.
""",
    add_arguments=add_mode_arguments,
    run=run_mode,
)


def add_pause_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add_config(parser)


def run_pause(arguments: argparse.Namespace) -> int:
    """Tell the daemon."""

    def show(ask: Ask) -> int:
        new = ask("pause", who=user())
        print(f"{'Paused' if new else 'Paused already'}: no period begins until `merkatd resume`.")
        return DONE

    return ask_daemon("pause", arguments, show)


PAUSE = Verb(
    "pause",
    summary="begin no more periods until told to resume",
    description="""\
`merkatd pause`: no more periods begin; the one in hand is finished, and VMs run on.

What hosts were told stays in force and nothing is charged anew. A daemon that is started
again is still paused; so are all that share its database.
""",
    add_arguments=add_pause_arguments,
    run=run_pause,
)


RELEASE_TABLE = ScreenTable(
    "RELEASE",
    (
        Column("ID", "id", ColumnFormat.WHOLE, "OpenNebula's id of the VM"),
        Column("DID", "did", ColumnFormat.TEXT, "what it was given back", least=10),
        Column(
            "PROBLEM", "problem", ColumnFormat.TEXT, "what could not be given, and why", least=10
        ),
    ),
)
_AT_ONCE = 100
"""VMs in one question: each is answered in good time."""


def add_release_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask first")
    add_view(parser, {"release": RELEASE_TABLE}, follow=False)


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

    code = show_view("release", arguments, RELEASE_TABLE, fetch)
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


def add_resume_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add_config(parser)


def run_resume(arguments: argparse.Namespace) -> int:
    """Tell the daemon."""

    def show(ask: Ask) -> int:
        ask("resume", who=user())
        print("Going on: the next period begins at the next full interval.")
        return DONE

    return ask_daemon("resume", arguments, show)


RESUME = Verb(
    "resume",
    summary="go on after a pause",
    description="""\
`merkatd resume`: periods begin again, at the next full interval.""",
    add_arguments=add_resume_arguments,
    run=run_resume,
)
