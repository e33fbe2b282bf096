"""`edit`, `delete`, `rename`, `chmod`, `chown`, `chgrp`."""

import argparse
import sys
from collections.abc import Callable

from merkatd.client import Group, Groups
from merkatd.commands.terminal import command_parser
from merkatd.commands.terminal.command_parser import DONE, WRONG_WORDS, NotDoneError, complain
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.screen_text import plain
from onegroup.create_verb import add_rate_and_number
from onegroup.verb import add_endpoint, add_group, ask_groups, id_of, program

_EDIT = """\
Change what a group spends and how many VMs it has, from the next period on. Exactly the difference
is started or ended: the newest VMs end first, or those that --vm names.

    onegroup edit GROUP -s RATE -n COUNT

    onegroup edit GROUP --vm 17,18
"""
_DELETE = """\
End groups and all their VMs, for good. It asks before, unless --yes is said.
"""


def _ids(text: str) -> list[int]:
    """VMs, as 17,18."""
    return [command_parser.whole(word) for word in text.split(",")]


def _add_edit(parser: argparse.ArgumentParser) -> None:
    add_group(parser)
    add_rate_and_number(parser)
    parser.add_argument(
        "--vm",
        metavar="VM,...",
        type=_ids,
        default=None,
        help="the ids of VMs that are to end, rather than the newest; without -n only these end",
    )
    add_endpoint(parser)


def _edit(arguments: argparse.Namespace) -> int:
    if arguments.rate is None and arguments.count is None and not arguments.vm:
        why = "what is to be different? -s RATE, -n COUNT or --vm VM"
        return complain("edit", why, WRONG_WORDS, program())

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
        help="its id or its name; several are deleted one after the other",
    )
    parser.add_argument("-y", "--yes", action="store_true", help="don't ask")
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
    """Raises NotDoneError unless the answer is yes."""
    one = groups.info(group)
    name = plain(one.name)
    print(f"Delete group {group} ({name}) and end its {len(one.vms)} VMs? [y/N] ", end="")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise NotDoneError(f"group {group} was not deleted")


EDIT = Verb("edit", "change a group's spending rate or number of VMs", _EDIT, _add_edit, _edit)
DELETE = Verb("delete", "end groups and their VMs", _DELETE, _add_delete, _delete)


_STAYS = -1
_USER = "the id of the new owner; only administrators give a group away"
_USER_GROUP = "the id of the group of users that its permissions speak of, one of yours"


def _verb(
    name: str,
    summary: str,
    arguments: tuple[tuple[str, str, str | None, Callable[[str], object]], ...],
    call: Callable[[Groups, int, argparse.Namespace], Group],
) -> Verb:
    """A verb about one group; each argument is its name, value, help, and how it is read."""

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
        raise argparse.ArgumentTypeError("three digits from 0 to 7, such as 640, are right")
    return text


RENAME = _verb(
    "rename",
    "call a group otherwise",
    (("name", "NAME", "its new name", command_parser.reference),),
    lambda groups, group, given: groups.rename(group, given.name),
)
CHMOD = _verb(
    "chmod",
    "change who may use and manage a group",
    (("octet", "OCTET", "owner, group, others: use 4, manage 2, admin 1; such as 640", _octet),),
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
    "let a group's permissions speak of another group of users",
    (("user_group", "GROUPID", _USER_GROUP, command_parser.whole),),
    lambda groups, group, given: groups.chown(group, _STAYS, given.user_group),
)
