"""`merkatd host drain|undrain`: empty a host, or use it again."""

import argparse
from typing import Any

from merkatd.commands import words
from merkatd.commands.asking import Ask, answered, user
from merkatd.commands.complaints import DONE
from merkatd.commands.configured import add_config
from merkatd.commands.verb import Verb


def add_host_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "action", metavar="ACTION", choices=("drain", "undrain"), help="drain or undrain"
    )
    parser.add_argument(
        "host", metavar="HOST", type=words.reference, help="the id or the name of the host"
    )
    add_config(parser)


def run_host(arguments: argparse.Namespace) -> int:
    """Tell the daemon."""

    def show(ask: Ask) -> int:
        answer = ask(arguments.action, host=arguments.host, who=user())
        print(_drained(answer) if arguments.action == "drain" else _undrained(answer))
        return DONE

    return answered("host", arguments, show)


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
