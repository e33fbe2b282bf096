"""The command `host`: empty a host for maintenance, or use it again."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from merkatd.base.quantities import time_text
from merkatd.commands.ask_daemon import Ask, add_door, ask_daemon, sleep, user
from merkatd.commands.terminal import command_parser
from merkatd.commands.terminal.command_parser import DONE, NotDoneError
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import rows_of
from merkatd.commands.terminal.screen_text import plain


def add_host_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `host`."""
    parser.add_argument(
        "action",
        metavar="ACTION",
        choices=("drain", "undrain", "maintenance"),
        help="drain: empty the host; maintenance: the same, and wait until it is empty; undrain:"
        " use the host again",
    )
    parser.add_argument(
        "host", metavar="HOST", type=command_parser.reference, help="the host, by id or name"
    )
    add_door(parser)


def run_host(arguments: argparse.Namespace) -> int:
    """Drain or undrain a host and print the result, or wait until it is empty."""

    def show(ask: Ask) -> int:
        if arguments.action == "maintenance":
            return _empty(ask, arguments.host)
        answer = ask(arguments.action, host=arguments.host, who=user())
        print(_drained(answer) if arguments.action == "drain" else _undrained(answer))
        return DONE

    return ask_daemon("host", arguments, show)


def _drained(answer: Any) -> str:
    name, vms, stay = answer["name"], int(answer["vms"]), int(answer["stay"])
    text = f"{name} is {'' if answer['changed'] else 'already '}drained: "
    text += f"{vms} {'VM' if vms == 1 else 'VMs'} will be moved away" if vms else "it has no VMs"
    return f"{text}, {stay} of them may not be moved." if stay else f"{text}."


def _undrained(answer: Any) -> str:
    if not answer["changed"]:
        return f"{answer['name']} was not drained: nothing to undo."
    return f"{answer['name']} takes VMs again from the next period on."


def _empty(ask: Ask, host: str) -> int:
    """Drain the host, wait until it is empty, and say when; Ctrl-C leaves it drained."""
    answer = ask("drain", host=host, who=user())
    name = str(answer["name"])
    print(_drained(answer), flush=True)
    hint = f"`merkatd host undrain {name}` ends that, `merkatd host maintenance {name}` waits again"
    try:
        _wait(ask, host, answer)
    except KeyboardInterrupt:
        print(f"{name} stays drained: {hint}.", file=sys.stderr)
        raise
    except NotDoneError as error:
        raise NotDoneError(*error.reasons, f"{name} stays drained: {hint}") from None
    at = time_text(ask("status")["now_s"])
    print(f"{name} is empty at {at}. It takes no VMs until `merkatd host undrain {name}`.")
    return DONE


def _wait(ask: Ask, host: str, answer: Any) -> None:
    """Wait until no VM is on the host, and print each change.

    The cloud is read again after each period, and more often once a period saw the host empty: a
    migration ends between periods.
    """
    printed, looked, said = None, None, ""
    while int(answer["vms"]):
        status = ask("status")
        why = _why_nothing_moves(status)
        if why and why != said:
            print(why, flush=True)
        said = why
        left = [vm for vm in rows_of(ask("vms")) if vm["host"] == answer["name"]]
        if status["period"] != looked or not left:
            answer, looked = ask("drain", host=host, who=user()), status["period"]
        text = _left(answer, left)
        if int(answer["vms"]) and text != printed:
            print(text, flush=True)
            printed = text
        if int(answer["vms"]):
            sleep(_POLL_S)


_POLL_S = 5.0
_FEW = 5


def _why_nothing_moves(status: Any) -> str:
    if status["paused"]:
        return "The daemon is paused: no VM moves until `merkatd resume`."
    if status["mode"] in {"dry", "shadow"}:
        return f"The daemon is in mode {status['mode']}: no VM moves until `merkatd mode on`."
    if status["mode"] == "ask":
        return "The daemon is in mode ask: VMs move after `merkatd plan approve`."
    return ""


def _left(answer: Any, vms: Sequence[Mapping[str, Any]]) -> str:
    """Return the number of VMs on the host, the names of some, and how many can't be moved."""
    count, stay = int(answer["vms"]), int(answer["stay"])
    shown = [f"{vm['id']} ({plain(vm['name'])} of {plain(str(vm['owner_name']))})" for vm in vms]
    some = f": {', '.join(shown[:_FEW])}{', ...' if len(shown) > _FEW else ''}" if shown else ""
    text = f"{count} {'VM' if count == 1 else 'VMs'} left{some}"
    if not stay:
        return text
    return f"{text}; {stay} of them can't be migrated while running, as the owners are told"


HOST = Verb(
    "host",
    summary="empty a host, or use it again",
    description="""\
`merkatd host drain|undrain|maintenance`: empty a host for maintenance, or use it again.

The daemon moves a drained host's VMs elsewhere, within the limits on migrations of a period, and
places no VM there. The owners see it in OpenNebula as the message of their VMs. The order is
stored in the database: it survives restarts of the daemon and applies until `undrain`. OpenNebula
does not know of it: `onehost disable` also stops other schedulers from placing VMs there.

maintenance drains the host and waits until it is empty: it prints the VMs that are left whenever
that changes, and at last the time. Ctrl-C ends the wait and leaves the host drained.
""",
    add_arguments=add_host_arguments,
    run=run_host,
)
