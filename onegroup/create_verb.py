"""The verb `create`."""

import argparse
import sys
from pathlib import Path
from typing import TypedDict

from merkatd.client import Groups
from merkatd.commands.terminal import command_parser
from merkatd.commands.terminal.command_parser import DONE, WRONG_WORDS, print_failure
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.table_columns import shortened
from onegroup.help_verbs import opennebulas_onegroup
from onegroup.verb import TemplateArgumentError, add_endpoint, ask_groups, program

MAX_TEMPLATE_LENGTH = 32_768


class TemplateArgument(TypedDict, total=False):
    """The argument that names the template: exactly one of the three keys."""

    template: str
    template_id: int
    template_name: str


def template(word: str) -> TemplateArgument:
    """Return the template that a word means: digits an id, an existing file its text, else a name.

    Raise TemplateArgumentError.
    """
    if word.isascii() and word.isdigit() and len(word) <= 10:
        return {"template_id": int(word)}
    try:
        if word == "-":
            return {"template": _checked(word, sys.stdin.buffer.read(MAX_TEMPLATE_LENGTH + 1))}
        path = Path(word)
        if path.is_file():
            with path.open("rb") as file:
                return {"template": _checked(word, file.read(MAX_TEMPLATE_LENGTH + 1))}
    except OSError as error:
        raise TemplateArgumentError(f"{shortened(word)}: {error.strerror}") from None
    except ValueError:
        raise TemplateArgumentError(f"{shortened(word)}: not a valid file name") from None
    if path.is_dir():
        raise TemplateArgumentError(f"{shortened(word)}: is a folder; name a file")
    if "/" in word:
        raise TemplateArgumentError(f"{shortened(word)}: no such file")
    return {"template_name": word}


def _checked(word: str, content: bytes) -> str:
    if len(content) > MAX_TEMPLATE_LENGTH:
        raise TemplateArgumentError(
            f"{shortened(word)}: a template must have at most {MAX_TEMPLATE_LENGTH} bytes"
        )
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise TemplateArgumentError(f"{shortened(word)}: must be a text in UTF-8") from None


_DESCRIPTION = """\
Create a group of VMs from a template. The VMs share the spending rate: each VM bids its part for a
share of a host, and is charged the whole rate for each core that it uses for a period.

    onegroup create -t TEMPLATE -s RATE -n COUNT

    onegroup create TEMPLATE --srate RATE --nvm COUNT

TEMPLATE is a file (- for standard input), or the id or the name of a template in OpenNebula.
The command prints the new group's id.
"""


def add_rate_and_number(parser: argparse.ArgumentParser) -> None:
    """Add the options for rate and number, also in the paper's spelling."""
    parser.add_argument(
        "-s",
        "-srate",
        "--srate",
        dest="rate",
        metavar="RATE",
        type=command_parser.bid,
        help="the spending rate: credits for each core that its VMs use for a period",
    )
    parser.add_argument(
        "-n",
        "-nvm",
        "--nvm",
        dest="count",
        metavar="COUNT",
        type=command_parser.whole,
        help="the number of VMs",
    )


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("word", metavar="FILE", nargs="?", help="the template, if -t is not given")
    parser.add_argument(
        "-t",
        "-template",
        "--template",
        dest="template",
        metavar="FILE",
        help="the template: a file, or the id or the name of a template in OpenNebula",
    )
    add_rate_and_number(parser)
    parser.add_argument(
        "--name", metavar="NAME", help="the group's name (default: group- and its id)"
    )
    parser.add_argument(
        "--market", metavar="MARKET", help="the market, if the daemon has several for groups"
    )
    add_endpoint(parser)


def _run(arguments: argparse.Namespace) -> int:
    given = [text for text in (arguments.word, arguments.template) if text is not None]
    if arguments.rate is None or arguments.count is None:
        why = (
            "-s RATE and -n COUNT are required; to create a group of users, run"
            f" {opennebulas_onegroup()} create"
        )
        return print_failure("create", why, WRONG_WORDS, program())
    if len(given) != 1:
        why = "exactly one TEMPLATE is required, after -t or alone"
        return print_failure("create", why, WRONG_WORDS, program())

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

    return ask_groups("create", arguments, work)


CREATE = Verb(
    "create", "create a group of VMs that share a spending rate", _DESCRIPTION, _add_arguments, _run
)
