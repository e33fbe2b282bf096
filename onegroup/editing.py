"""`onegroup edit` and `delete`."""

import argparse
import sys

from merkatd.client import Groups
from merkatd.commands import words
from merkatd.commands.complaints import DONE, WRONG_WORDS, complain
from merkatd.commands.table.screen import plain
from onegroup.asking import NotDoneError, Verb, add_endpoint, add_group, asked, id_of
from onegroup.creating import add_rate_and_number
from onegroup.program import program

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
    return [words.whole(word) for word in text.split(",")]


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

    return asked("edit", arguments, work)


def _add_delete(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "groups",
        metavar="GROUP",
        nargs="+",
        type=words.reference,
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

    return asked("delete", arguments, work)


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
