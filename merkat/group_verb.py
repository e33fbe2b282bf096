"""The command `group`: the verbs of `onegroup`, for groups of VMs that share a spending rate."""

import argparse

from merkat.rpc_door import RPC_DOOR
from merkatd.commands.terminal.command_verb import Verb
from onegroup.cli import VERBS
from onegroup.verb import named, running_as

_PROGRAM = "merkat group"
_LEFT_OUT = frozenset({"manual", "completion"})


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    with running_as(_PROGRAM):
        for verb in VERBS.values():
            if verb.name in _LEFT_OUT:
                continue
            summary = f"{verb.summary[0].upper()}{verb.summary[1:]}."
            command = verbs.add_parser(
                verb.name,
                help=verb.summary,
                description=named(verb.description or summary),
                allow_abbrev=False,
            )
            verb.add_arguments(command)
            command.set_defaults(run_verb=verb.run, summary=verb.summary, client=RPC_DOOR.client)


def _run(arguments: argparse.Namespace) -> int:
    with running_as(_PROGRAM):
        code: int = arguments.run_verb(arguments)
    return code


GROUP = Verb(
    "group",
    "create, list, show, edit and delete groups of VMs that share a spending rate",
    """\
`merkat group`: groups of VMs that share a spending rate, as by the command `onegroup`.

merkat group VERB --help describes a verb.
""",
    _add_arguments,
    _run,
)
