"""`onegroup create`."""

import argparse

from merkatd.client import Groups
from merkatd.commands import words
from merkatd.commands.complaints import DONE, WRONG_WORDS, complain
from onegroup.asking import Verb, add_endpoint, asked
from onegroup.foreign import elsewhere
from onegroup.program import program
from onegroup.templates import template

_DESCRIPTION = """\
Have VMs started from a template. They share the spending rate: each bids its part of it for its
share of a host, and is charged the whole rate for each core that it uses for a period.

    onegroup create -t TEMPLATE -s RATE -n COUNT

    onegroup create TEMPLATE --srate RATE --nvm COUNT

TEMPLATE is a file (- for standard input), or the id or the name of one of OpenNebula's templates.
What is printed is the new group's id.
"""


def add_rate_and_number(parser: argparse.ArgumentParser) -> None:
    """The paper's options, in the paper's spelling too."""
    parser.add_argument(
        "-s",
        "-srate",
        "--srate",
        dest="rate",
        metavar="RATE",
        type=words.bid,
        help="the spending rate: credits for each core that its VMs use for a period",
    )
    parser.add_argument(
        "-n", "-nvm", "--nvm", dest="count", metavar="COUNT", type=words.whole, help="how many VMs"
    )


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "word", metavar="FILE", nargs="?", help="the template, where -t does not say it"
    )
    parser.add_argument(
        "-t",
        "-template",
        "--template",
        dest="template",
        metavar="FILE",
        help="the template: a file, or the id or the name of one of OpenNebula's",
    )
    add_rate_and_number(parser)
    parser.add_argument(
        "--name", metavar="NAME", help="what it is called (default: group- and its id)"
    )
    parser.add_argument(
        "--market", metavar="MARKET", help="where, if the daemon has several markets for groups"
    )
    add_endpoint(parser)


def _run(arguments: argparse.Namespace) -> int:
    given = [one for one in (arguments.word, arguments.template) if one is not None]
    if arguments.rate is None or arguments.count is None:
        why = (
            "-s RATE and -n COUNT are needed; a group of users, which has neither, is made with"
            f" {elsewhere()} create"
        )
        return complain("create", why, WRONG_WORDS, program())
    if len(given) != 1:
        why = "one TEMPLATE is right, behind -t or by itself"
        return complain("create", why, WRONG_WORDS, program())

    def work(groups: Groups) -> int:
        new = groups.create(
            rate=arguments.rate,
            count=arguments.count,
            name=arguments.name,
            market=arguments.market,
            **template(given[0]),
        )
        print(f"ID: {new.id}")
        return DONE

    return asked("create", arguments, work)


CREATE = Verb(
    "create", "have VMs started that share a spending rate", _DESCRIPTION, _add_arguments, _run
)
