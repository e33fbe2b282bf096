"""`merkatd budget`: what applications may spend; show it, or change it."""

import argparse
from typing import Any

from merkatd.commands import words
from merkatd.commands.asking import Ask
from merkatd.commands.output import WordsError
from merkatd.commands.table import Column, Kind, Table
from merkatd.commands.verb import Verb
from merkatd.commands.view import add_view, show_view

TABLE = Table(
    "BUDGET",
    (
        Column("APPLICATION", "application", Kind.WHOLE, "its id"),
        Column("NAME", "name", Kind.TEXT, "its name", least=6),
        Column("USER", "owner_name", Kind.TEXT, "the tenant whose it is", least=6),
        Column("OWNER", "owner", Kind.WHOLE, "its id", default=False),
        Column("BUDGET", "budget", Kind.CREDITS, "what replenishment never lifts it above"),
        Column("REPLENISHMENT", "replenishment", Kind.CREDITS, "what is added each time"),
        Column("BALANCE", "balance", Kind.CREDITS, "what it holds"),
        Column("MICRO", "micro", Kind.WHOLE, "the same in micro-credits", default=False),
        Column("OPENED", "opened_s", Kind.TIME, "when it was opened", default=False),
        Column("ENDED", "ended_s", Kind.TIME, "when it ended", optional=True),
    ),
)


def add_budget_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "application", metavar="APPLICATION", nargs="?", type=words.whole, help="its id"
    )
    parser.add_argument(
        "--amount", metavar="X", type=words.bid, help="it holds X credits from now on"
    )
    parser.add_argument(
        "--replenishment", metavar="Y", type=words.bid, help="add Y credits at every interval"
    )
    parser.add_argument(
        "--tenant", metavar="TENANT", type=words.reference, help="those of this user alone"
    )
    add_view(parser, {"budget": TABLE})


def run_budget(arguments: argparse.Namespace) -> int:
    """Ask or tell, and print the budgets."""

    def fetch(ask: Ask) -> Any:
        changes = {"amount": arguments.amount, "replenishment": arguments.replenishment}
        if arguments.application is None:
            if any(value is not None for value in changes.values()):
                raise WordsError("whose? an APPLICATION goes with --amount and --replenishment")
            return ask("budgets", tenant=arguments.tenant)
        if arguments.tenant is not None:
            raise WordsError("--tenant: only without an APPLICATION")
        return [ask("budget", application=arguments.application, **changes)]

    return show_view("budget", arguments, TABLE, fetch)


BUDGET = Verb(
    "budget",
    summary="show or change applications' budgets",
    description="""\
`merkatd budget`: what applications may spend; show it, or change it.

Without an application: all that are not over, or all of one tenant. A new amount is what the
application holds from now on: what it lacks comes from its tenant's account, what it has too
much goes back there. Replenishment adds to it at an interval, never above that amount.
""",
    add_arguments=add_budget_arguments,
    run=run_budget,
)
