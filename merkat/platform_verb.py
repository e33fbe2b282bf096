"""The command `platform` for tenants: a submission shows a quote first, and asks."""

import argparse
import sys
import tomllib
from typing import Any

from merkatd.base.hourly_prices import price_text
from merkatd.base.quantities import credits_text
from merkatd.commands.ask_daemon import Ask
from merkatd.commands.platform_command import PLATFORM, add_platform_arguments, run_platform
from merkatd.commands.screens.hourly_rows import interval_of
from merkatd.commands.terminal.command_parser import WRONG_WORDS, NotDoneError, print_failure
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import screen_width
from merkatd.commands.terminal.screen_text import plain
from merkatd.commands.terminal.table_columns import shortened
from merkatd.commands.texts.limit_quote_text import platform_quote_lines


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-y",
        "--yes",
        action="store_true",
        help="with submit: submit without a quote and a question",
    )
    add_platform_arguments(parser)
    parser.set_defaults(before_submit=_confirmed)


def _confirmed(ask: Ask, arguments: argparse.Namespace, template: str) -> None:
    """Show what the platform would cost, and ask. Raise NotDoneError unless the answer is yes.

    The question goes to standard error: the platform's table on standard output stays as it is.
    """
    if arguments.yes:
        return
    if arguments.subject == "-":
        raise NotDoneError("the template is on standard input, so no answer can be: add --yes")
    for line in _quote(ask, arguments, template):
        print(plain(line), file=sys.stderr)
    name = shortened(arguments.subject)
    print(f"Submit the platform of {plain(name)}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise NotDoneError("the platform was not submitted")


def _quote(ask: Ask, arguments: argparse.Namespace, template: str) -> list[str]:
    """Return the quote of a patient platform, or the budget of another and the prices now."""
    written = _written(template)
    if _member(written, "controller", "kind") == "patient":
        answer = ask("platform_quote", template=template, tenant=arguments.tenant)
        return list(platform_quote_lines(answer, screen_width()))
    lines = []
    budget = _member(written, "budget", "credits")
    if isinstance(budget, int | float) and not isinstance(budget, bool):
        lines.append(
            f"The budget of {credits_text(budget)} credits moves from your account to the"
            " platform; what it does not spend returns."
        )
    interval_s = interval_of(ask)
    for price in ask("price"):
        amount = price_text(price["price"], price["resource"], interval_s)
        lines.append(f"Price of {price['resource']} in market {price['market']}: {amount}")
    return lines


def _member(written: dict[str, Any], section: str, key: str) -> Any:
    inside = written.get(section)
    return inside.get(key) if isinstance(inside, dict) else None


def _written(template: str) -> dict[str, Any]:
    """Return the template's settings; none if it is wrong: the daemon says so at submission."""
    try:
        return tomllib.loads(template)
    except (ValueError, RecursionError):
        return {}


def _run(arguments: argparse.Namespace) -> int:
    if arguments.yes and arguments.what != "submit":
        why = "--yes can be used only with submit"
        return print_failure("platform", why, WRONG_WORDS, "merkat")
    return run_platform(arguments)


TENANT_PLATFORM = Verb(
    "platform",
    PLATFORM.summary,
    PLATFORM.description.replace(" --tenant TENANT", "")
    .replace(
        "run the template's platform; - reads standard input.",
        "run the template's platform, after a quote and a question, or at once with --yes;"
        " - reads standard input.",
    )
    .replace("list: all platforms, or with --tenant those of one tenant.", "list: your platforms."),
    _add_arguments,
    _run,
)
