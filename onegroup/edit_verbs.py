"""The verbs `edit`, `delete`, `rename`, `chmod`, `chown` and `chgrp`."""

import argparse
import sys
from collections.abc import Callable

from merkatd.client import Group, Groups
from merkatd.commands.terminal import command_parser
from merkatd.commands.terminal.command_parser import DONE, WRONG_WORDS, NotDoneError, print_failure
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.screen_text import plain
from onegroup.create_verb import add_rate_and_number
from onegroup.verb import add_endpoint, add_group, ask_groups, id_of, program

_EDIT = """\
Change a group's spending rate or number of VMs from the next period on. Only the difference is
started or ended: the newest VMs end first, or the VMs of --vm.

    onegroup edit GROUP -s RATE -n COUNT

    onegroup edit GROUP --vm 17,18
"""
_DELETE = """\
End groups and all their VMs for good, after a confirmation (or with --yes).
"""


def _ids(text: str) -> list[int]:
    """Return the ids of VMs in a text like 17,18."""
    return [command_parser.whole(word) for word in text.split(",")]


def _add_edit(parser: argparse.ArgumentParser) -> None:
    add_group(parser)
    add_rate_and_number(parser)
    parser.add_argument(
        "--vm",
        metavar="VM,...",
        type=_ids,
        default=None,
        help="the ids of the VMs to end, instead of the newest; without -n, only these end",
    )
    add_endpoint(parser)


def _edit(arguments: argparse.Namespace) -> int:
    if arguments.rate is None and arguments.count is None and not arguments.vm:
        why = "nothing to change: -s RATE, -n COUNT or --vm VM is required"
        return print_failure("edit", why, WRONG_WORDS, program())

    def work(groups: Groups) -> int:
        groups.edit(
            id_of(groups, arguments.group),
            rate=arguments.rate,
            count=arguments.count,
            vms=arguments.vm or (),
        )
        return DONE

    return ask_groups("edit", arguments, work)


def _add_delete(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "groups",
        metavar="GROUP",
        nargs="+",
        type=command_parser.reference,
        help="the id or the name of each group to delete",
    )
    parser.add_argument("-y", "--yes", action="store_true", help="delete without a confirmation")
    add_endpoint(parser)


def _delete(arguments: argparse.Namespace) -> int:
    def work(groups: Groups) -> int:
        for word in arguments.groups:
            group = id_of(groups, word)
            if not arguments.yes:
                _ask(groups, group)
            groups.delete(group)
        return DONE

    return ask_groups("delete", arguments, work)


def _ask(groups: Groups, group: int) -> None:
    """Ask for a confirmation. Raise NotDoneError unless the answer is yes."""
    details = groups.info(group)
    name = plain(details.name)
    print(f"Delete group {group} ({name}) and end its {len(details.vms)} VMs? [y/N] ", end="")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise NotDoneError(f"group {group} was not deleted")


EDIT = Verb("edit", "change a group's spending rate or number of VMs", _EDIT, _add_edit, _edit)
DELETE = Verb("delete", "end groups and their VMs", _DELETE, _add_delete, _delete)


_STAYS = -1
_USER = "the id of the new owner; only administrators may change the owner"
_USER_GROUP = "the id of the new user group, one of yours; its group permissions apply to it"


def _verb(
    name: str,
    summary: str,
    arguments: tuple[tuple[str, str, str | None, Callable[[str], object]], ...],
    call: Callable[[Groups, int, argparse.Namespace], Group],
) -> Verb:
    """Return a verb about a group; each argument has a name, metavar, help text and parser."""

    def add(parser: argparse.ArgumentParser) -> None:
        add_group(parser)
        for dest, metavar, text, kind in arguments:
            parser.add_argument(dest, metavar=metavar, type=kind, help=text)
        add_endpoint(parser)

    def run(given: argparse.Namespace) -> int:
        def work(groups: Groups) -> int:
            call(groups, id_of(groups, given.group), given)
            return DONE

        return ask_groups(name, given, work)

    return Verb(name, summary, "", add, run)


def _octet(text: str) -> str:
    if len(text) != 3 or not set(text) <= set("01234567"):
        raise argparse.ArgumentTypeError(
            f"must be three digits from 0 to 7, like 640 (got {text!r})"
        )
    return text


RENAME = _verb(
    "rename",
    "rename a group",
    (("name", "NAME", "the new name", command_parser.reference),),
    lambda groups, group, given: groups.rename(group, given.name),
)
CHMOD = _verb(
    "chmod",
    "change the permissions of a group",
    (("octet", "OCTET", "owner, group, others: use 4, manage 2, admin 1; like 640", _octet),),
    lambda groups, group, given: groups.chmod(group, given.octet),
)
CHOWN = _verb(
    "chown",
    "give a group to another user",
    (("user", "USERID", _USER, command_parser.whole),),
    lambda groups, group, given: groups.chown(group, given.user),
)
CHGRP = _verb(
    "chgrp",
    "change the user group of a group",
    (("user_group", "GROUPID", _USER_GROUP, command_parser.whole),),
    lambda groups, group, given: groups.chown(group, _STAYS, given.user_group),
)
