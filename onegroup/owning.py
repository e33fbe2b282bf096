"""`onegroup rename`, `chmod`, `chown` and `chgrp`, as OpenNebula's commands have them."""

import argparse
from collections.abc import Callable

from merkatd.client import Group, Groups
from merkatd.commands import words
from merkatd.commands.complaints import DONE
from onegroup.asking import Verb, add_endpoint, add_group, asked, id_of

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

        return asked(name, given, work)

    return Verb(name, summary, "", add, run)


def _octet(text: str) -> str:
    if len(text) != 3 or not set(text) <= set("01234567"):
        raise argparse.ArgumentTypeError("three digits from 0 to 7, such as 640, are right")
    return text


RENAME = _verb(
    "rename",
    "call a group otherwise",
    (("name", "NAME", "its new name", words.reference),),
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
    (("user", "USERID", _USER, words.whole),),
    lambda groups, group, given: groups.chown(group, given.user),
)
CHGRP = _verb(
    "chgrp",
    "let a group's permissions speak of another group of users",
    (("user_group", "GROUPID", _USER_GROUP, words.whole),),
    lambda groups, group, given: groups.chown(group, _STAYS, given.user_group),
)
