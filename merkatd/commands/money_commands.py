"""`tenant`, `budget`, `statement`."""

import argparse
from collections.abc import Sequence
from typing import Any

from merkatd.base.quantities import credits_text, time_text
from merkatd.commands.ask_daemon import Ask, add_view, show_view
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, command_parser, to_text
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import WordsError

BUDGET_TABLE = ScreenTable(
    "BUDGET",
    (
        Column("APPLICATION", "application", ColumnFormat.WHOLE, "its id"),
        Column("NAME", "name", ColumnFormat.TEXT, "its name", least=6),
        Column("USER", "owner_name", ColumnFormat.TEXT, "the tenant whose it is", least=6),
        Column("OWNER", "owner", ColumnFormat.WHOLE, "its id", default=False),
        Column("BUDGET", "budget", ColumnFormat.CREDITS, "what replenishment never lifts it above"),
        Column("REPLENISHMENT", "replenishment", ColumnFormat.CREDITS, "what is added each time"),
        Column("BALANCE", "balance", ColumnFormat.CREDITS, "what it holds"),
        Column("MICRO", "micro", ColumnFormat.WHOLE, "the same in micro-credits", default=False),
        Column("OPENED", "opened_s", ColumnFormat.TIME, "when it was opened", default=False),
        Column("ENDED", "ended_s", ColumnFormat.TIME, "when it ended", optional=True),
    ),
)


def add_budget_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `budget`."""
    parser.add_argument(
        "application", metavar="APPLICATION", nargs="?", type=command_parser.whole, help="its id"
    )
    parser.add_argument(
        "--amount", metavar="X", type=command_parser.bid, help="it holds X credits from now on"
    )
    parser.add_argument(
        "--replenishment",
        metavar="Y",
        type=command_parser.bid,
        help="add Y credits at every interval",
    )
    parser.add_argument(
        "--tenant", metavar="TENANT", type=command_parser.reference, help="those of this user alone"
    )
    add_view(parser, {"budget": BUDGET_TABLE})


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

    return show_view("budget", arguments, BUDGET_TABLE, fetch)


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


TENANT_TABLE = ScreenTable(
    "TENANT",
    (
        Column("ID", "id", ColumnFormat.WHOLE, "OpenNebula's id of the user"),
        Column("NAME", "name", ColumnFormat.TEXT, "the user's name, where it is known", least=6),
        Column(
            "GROUP", "group_name", ColumnFormat.TEXT, "its primary group", least=6, optional=True
        ),
        Column("GID", "group", ColumnFormat.WHOLE, "that group's id", default=False),
        Column("WEIGHT", "weight", ColumnFormat.CREDITS, "its own weight, its group's, or 1"),
        Column("OWN", "own_weight", ColumnFormat.CREDITS, "its own weight alone", default=False),
        Column("ENTITLEMENT", "entitlement", ColumnFormat.CREDITS, "what a renewal tops it up to"),
        Column("BALANCE", "balance", ColumnFormat.CREDITS, "credits of its own account"),
        Column(
            "APPLICATIONS", "in_applications", ColumnFormat.CREDITS, "credits in its applications"
        ),
        Column("HOLDINGS", "holdings", ColumnFormat.CREDITS, "both together"),
        Column("MICRO", "micro", ColumnFormat.WHOLE, "the same in micro-credits", default=False),
    ),
)
_RETIRED_SHOWN = 10
"""At most so many retired tenants are listed: those that were retired last."""
VERBS = ("list", "show", "weight", "grant", "renew", "refund")
_QUESTIONS = {"list": "tenants", "weight": "tenant_weight", "grant": "tenant_grant"}


def add_tenant_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tenant`."""
    parser.add_argument("what", metavar="WHAT", choices=VERBS, help=", ".join(VERBS))
    parser.add_argument(
        "tenant",
        metavar="TENANT",
        nargs="?",
        type=command_parser.reference,
        help="the user, by id or name; with refund: the period; with --group: the weight",
    )
    parser.add_argument(
        "value", metavar="X", nargs="?", help="the weight, or how many credits to grant"
    )
    parser.add_argument(
        "--group",
        metavar="GROUP",
        type=command_parser.reference,
        help="with weight, behind X: for all of this group that have no weight of their own",
    )
    parser.add_argument("--why", metavar="TEXT", help="with refund: why the period was void")
    add_view(parser, dict.fromkeys(VERBS, TENANT_TABLE))


def run_tenant(arguments: argparse.Namespace) -> int:
    """Ask or tell, and print the tenants."""
    what: str = arguments.what
    return show_view(
        "tenant",
        arguments,
        TENANT_TABLE,
        lambda ask: _ask(ask, arguments),
        rows=lambda answer: answer.get("tenants", [answer]),
        text=_LINES[what],
        whole=what != "list",
    )


def _ask(ask: Ask, arguments: argparse.Namespace) -> Any:
    what, tenant, value = arguments.what, arguments.tenant, arguments.value
    _check(what, tenant, value, arguments)
    if what in {"list", "renew"}:
        return ask("tenants" if what == "list" else "renew")
    if what == "show":
        return ask("tenant", tenant=tenant)
    if what == "refund":
        return ask("void", period=command_parser.whole(tenant), why=arguments.why)
    if what == "grant":
        return ask("tenant_grant", tenant=tenant, credits=_number(value))
    if arguments.group is not None:
        return ask("tenant_weight", group=arguments.group, weight=_weight(tenant))
    return ask("tenant_weight", tenant=tenant, weight=_weight(value))


def _check(what: str, tenant: str | None, value: str | None, given: argparse.Namespace) -> None:
    """The words that go with each verb, no less and no more. Raises WordsError."""
    count = {"list": 0, "renew": 0, "show": 1, "refund": 1, "weight": 2, "grant": 2}[what]
    if given.group is not None:
        if what != "weight":
            raise WordsError("--group: only with weight")
        count = 1
    if (given.why is not None) != (what == "refund"):
        raise WordsError("--why TEXT goes with refund, and refund with it")
    if sum(word is not None for word in (tenant, value)) != count:
        usage = {0: "", 1: " TENANT", 2: " TENANT X"}[count]
        raise WordsError(f"merkatd tenant {what}{usage} is right")


def _weight(word: str | None) -> float | None:
    return None if word == "default" else _number(word)


def _number(word: str | None) -> float:
    try:
        value = float(word or "")
    except ValueError:
        value = float("nan")
    if not abs(value) <= command_parser.MOST_CREDITS:
        raise WordsError(f"{word!r}: a number is right")
    return value


def _list_lines(answer: Any, cells: int | None) -> Sequence[str]:
    lines = list(to_text(TENANT_TABLE.default(), answer["tenants"], cells))
    lines += [
        "",
        (
            f"Supply {credits_text(answer['supply'])} credits, of which the treasury holds"
            f" {credits_text(answer['treasury'])}."
        ),
    ]
    if answer["change"] is not None:
        lines.append(f"Changed {time_text(answer['changed_s'])}: {answer['change']}")
    newest = sorted(answer.get("retired", ()), key=lambda one: one["retired_s"])[-_RETIRED_SHOWN:]
    return lines + [_retired_line(one) for one in newest]


def _retired_line(row: Any) -> str:
    who = f"Tenant {row['id']}" + (f" ({row['name']})" if row["name"] else "")
    return f"{who} is retired since {time_text(row['retired_s'])}: OpenNebula has removed its user."


def _show_lines(answer: Any, cells: int | None) -> Sequence[str]:
    lines = list(to_text(TENANT_TABLE.default(), [answer], cells))
    if answer.get("retired_s") is not None:
        lines.append(_retired_line(answer))
    for one in answer.get("applications", ()):
        over = "" if one["ended_s"] is None else ", over"
        lines.append(
            f"Application {one['application']} ({one['name']}{over}) holds"
            f" {credits_text(one['balance'])} of {credits_text(one['budget'])} credits, and gets"
            f" {credits_text(one['replenishment'])} at every replenishment."
        )
    lines += [f"{time_text(one['at_s'])}  {one['text']}" for one in answer.get("notes", ())]
    return lines


def _changed_lines(answer: Any, cells: int | None) -> Sequence[str]:
    return _list_lines(answer, cells) if "tenants" in answer else _show_lines(answer, cells)


def _renewed_lines(answer: Any, cells: int | None) -> Sequence[str]:
    paid = f"{credits_text(answer['paid'])} credits were paid out."
    return [paid, "", *_list_lines(answer, cells)]


def _refunded_lines(answer: Any, _cells: int | None) -> Sequence[str]:
    return [
        f"{credits_text(answer['credits'])} credits of period {answer['period']} were given back."
    ]


_LINES = {
    "list": _list_lines,
    "show": _show_lines,
    "weight": _changed_lines,
    "grant": _changed_lines,
    "renew": _renewed_lines,
    "refund": _refunded_lines,
}
TENANT = Verb(
    "tenant",
    summary="list tenants, weigh them, grant credits",
    description="""\
`merkatd tenant`: who shares the cloud, with which weights and credits; weights and grants.

merkatd tenant list: all tenants, and the supply.

merkatd tenant show TENANT: one of them, its applications, and what was done by hand.

merkatd tenant weight TENANT X: its part of the supply goes by X; default takes it back.

merkatd tenant weight X --group GROUP: the same for all of a group that have no weight themselves.

merkatd tenant grant TENANT X: X credits from the treasury; back where X is negative.

merkatd tenant renew: top everybody up now, not only when the interval is over.

merkatd tenant refund PERIOD --why TEXT: give back what was charged for a period that was void.

A tenant is a user of OpenNebula, named by its id or its name. A tenant whose user was removed from
OpenNebula is retired: its credits go to the treasury, and list names it below the table. Weights
count from the next renewal on. Only who may open the daemon's socket can do this: no tenant can.
""",
    add_arguments=add_tenant_arguments,
    run=run_tenant,
)
