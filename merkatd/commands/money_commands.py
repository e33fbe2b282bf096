"""Commands about credits: `tenant`, `budget`."""

import argparse
from collections.abc import Sequence
from typing import Any

from merkatd.base.quantities import credits_text, time_text
from merkatd.commands.ask_daemon import Ask, add_view, show_view
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, command_parser, to_text
from merkatd.commands.terminal.command_parser import NotDoneError
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import ConflictingArgumentsError
from merkatd.commands.texts.empty_texts import NO_TENANTS

BUDGET_TABLE = ScreenTable(
    "BUDGET",
    (
        Column(
            "APPLICATION",
            "application",
            ColumnFormat.WHOLE,
            "the number of the application's account",
            default=False,
        ),
        Column(
            "NAME",
            "name",
            ColumnFormat.TEXT,
            "the application's name; a platform's is NAME-ID, with the platform's id",
            least=6,
        ),
        Column("USER", "owner_name", ColumnFormat.TEXT, "the tenant that owns it", least=6),
        Column("OWNER", "owner", ColumnFormat.WHOLE, "the tenant's id", default=False),
        Column("BUDGET", "budget", ColumnFormat.CREDITS, "the limit up to which it is replenished"),
        Column(
            "REPLENISHMENT", "replenishment", ColumnFormat.CREDITS, "credits added at each interval"
        ),
        Column("BALANCE", "balance", ColumnFormat.CREDITS, "its credits now", kept=True),
        Column("MICRO", "micro", ColumnFormat.WHOLE, "its balance in micro-credits", default=False),
        Column(
            "OPENED",
            "opened_s",
            ColumnFormat.TIME,
            "when the application was opened",
            default=False,
        ),
        Column("ENDED", "ended_s", ColumnFormat.TIME, "when the application ended", optional=True),
    ),
    NO_TENANTS,
)


def add_budget_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `budget`."""
    parser.add_argument(
        "application",
        metavar="APPLICATION",
        nargs="?",
        type=command_parser.reference,
        help="the application, by name or number; a platform's is called NAME-ID",
    )
    parser.add_argument(
        "--amount",
        metavar="X",
        type=command_parser.bid,
        help="set the budget and the balance to X credits",
    )
    parser.add_argument(
        "--replenishment",
        metavar="Y",
        type=command_parser.bid,
        help="add Y credits at every interval",
    )
    parser.add_argument(
        "--tenant",
        metavar="TENANT",
        type=command_parser.reference,
        help="only budgets of this user",
    )
    add_view(parser, {"budget": BUDGET_TABLE})


def run_budget(arguments: argparse.Namespace) -> int:
    """Show or change budgets."""

    def fetch(ask: Ask) -> Any:
        changes = {"amount": arguments.amount, "replenishment": arguments.replenishment}
        if arguments.application is None:
            if any(value is not None for value in changes.values()):
                raise ConflictingArgumentsError("--amount and --replenishment need an APPLICATION")
            own = arguments.door.is_own and arguments.tenant is None
            return [*(ask("account") if own else ()), *ask("budgets", tenant=arguments.tenant)]
        if arguments.tenant is not None:
            raise ConflictingArgumentsError("--tenant can't be combined with an APPLICATION")
        return [
            ask("budget", application=_application_number(ask, arguments.application), **changes)
        ]

    changes = arguments.amount is not None or arguments.replenishment is not None
    return show_view("budget", arguments, BUDGET_TABLE, fetch, changes=changes)


def _application_number(ask: Ask, application: str) -> int:
    """Return the number of an application, which has a number or a name. Raise NotDoneError."""
    if application.isdecimal():
        return int(application)
    numbers = [
        row["application"] for row in ask("budgets", tenant=None) if row["name"] == application
    ]
    if len(numbers) == 1:
        return int(numbers[0])
    what = "several applications are" if numbers else "no application is"
    hint = f"give a number of {numbers}" if numbers else "`budget` lists the applications"
    raise NotDoneError(f"{what} called {application}; {hint}")


BUDGET = Verb(
    "budget",
    summary="show or change applications' budgets",
    description="""\
`merkatd budget`: show or change what applications may spend.

Without an application, the command lists all applications that have not ended, or one tenant's.
`merkat budget` begins with your own account; its BUDGET is the sum to which a renewal tops it up.
A new amount sets the application's budget and balance: missing credits come from its tenant's
account, surplus credits return there. Replenishment adds credits at an interval, up to that amount.
""",
    add_arguments=add_budget_arguments,
    run=run_budget,
)


TENANT_TABLE = ScreenTable(
    "TENANT",
    (
        Column("ID", "id", ColumnFormat.WHOLE, "OpenNebula's id of the user"),
        Column("NAME", "name", ColumnFormat.TEXT, "the user's name, if known", least=6),
        Column(
            "GROUP",
            "group_name",
            ColumnFormat.TEXT,
            "the user's primary group",
            least=6,
            optional=True,
        ),
        Column("GID", "group", ColumnFormat.WHOLE, "the primary group's id", default=False),
        Column(
            "WEIGHT", "weight", ColumnFormat.CREDITS, "its own weight, else its group's, else 1"
        ),
        Column("OWN", "own_weight", ColumnFormat.CREDITS, "its own weight, if set", default=False),
        Column(
            "ENTITLEMENT",
            "entitlement",
            ColumnFormat.CREDITS,
            "the credits to which a renewal tops it up",
        ),
        Column("BALANCE", "balance", ColumnFormat.CREDITS, "credits in its account"),
        Column(
            "APPLICATIONS", "in_applications", ColumnFormat.CREDITS, "credits in its applications"
        ),
        Column(
            "HOLDINGS",
            "holdings",
            ColumnFormat.CREDITS,
            "credits in its account and its applications",
        ),
        Column(
            "MICRO", "micro", ColumnFormat.WHOLE, "its holdings in micro-credits", default=False
        ),
    ),
    NO_TENANTS,
)
_RETIRED_SHOWN = 10
"""Maximum number of retired tenants in the list, the last ones."""
VERBS = ("list", "show", "weight", "grant", "renew", "refund")


def add_tenant_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tenant`."""
    parser.add_argument("what", metavar="WHAT", choices=VERBS, help=", ".join(VERBS))
    parser.add_argument(
        "tenant",
        metavar="TENANT",
        nargs="?",
        type=command_parser.reference,
        help="the user, by id or name; with refund: the period; with weight --group: the weight",
    )
    parser.add_argument(
        "value", metavar="X", nargs="?", help="the weight, or the number of credits to grant"
    )
    parser.add_argument(
        "--group",
        metavar="GROUP",
        type=command_parser.reference,
        help="with weight X: set it for all tenants of this group without a weight of their own",
    )
    parser.add_argument("--why", metavar="TEXT", help="with refund: the reason for the refund")
    add_view(parser, dict.fromkeys(VERBS, TENANT_TABLE))


def run_tenant(arguments: argparse.Namespace) -> int:
    """Show or change tenants."""
    what: str = arguments.what
    return show_view(
        "tenant",
        arguments,
        TENANT_TABLE,
        lambda ask: _ask(ask, arguments),
        rows=lambda answer: answer.get("tenants", [answer]),
        text=_LINES[what],
        whole=what != "list",
        changes=what not in {"list", "show"},
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
    """Raise ConflictingArgumentsError if the arguments do not fit the verb."""
    count = {"list": 0, "renew": 0, "show": 1, "refund": 1, "weight": 2, "grant": 2}[what]
    if given.group is not None:
        if what != "weight":
            raise ConflictingArgumentsError("--group can be used only with weight")
        count = 1
    if (given.why is not None) != (what == "refund"):
        raise ConflictingArgumentsError("refund needs --why TEXT; no other verb accepts it")
    if sum(argument is not None for argument in (tenant, value)) != count:
        usage = {0: "", 1: " TENANT", 2: " TENANT X"}[count]
        raise ConflictingArgumentsError(
            f"wrong number of arguments; expected: merkatd tenant {what}{usage}"
        )


def _weight(text: str | None) -> float | None:
    return None if text == "default" else _number(text)


def _number(text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = float("nan")
    if not abs(value) <= command_parser.MOST_CREDITS:
        raise ConflictingArgumentsError(
            f"{text!r}: expected a number of at most {command_parser.MOST_CREDITS:,.0f}"
        )
    return value


def _list_lines(answer: Any, cells: int | None) -> Sequence[str]:
    lines = list(to_text(TENANT_TABLE.default(), answer["tenants"], cells))
    supply, treasury = (credits_text(answer[name]) for name in ("supply", "treasury"))
    lines += ["", f"Supply: {supply} credits, of which {treasury} are in the treasury."]
    if answer["change"] is not None:
        lines.append(f"Last change, {time_text(answer['changed_s'])}: {answer['change']}")
    retired = sorted(answer.get("retired", ()), key=lambda tenant: tenant["retired_s"])
    return lines + [_retired_line(tenant) for tenant in retired[-_RETIRED_SHOWN:]]


def _retired_line(row: Any) -> str:
    who = f"Tenant {row['id']}" + (f" ({row['name']})" if row["name"] else "")
    return f"{who} retired at {time_text(row['retired_s'])}: its user was removed from OpenNebula."


def _show_lines(answer: Any, cells: int | None) -> Sequence[str]:
    lines = list(to_text(TENANT_TABLE.default(), [answer], cells))
    if answer.get("retired_s") is not None:
        lines.append(_retired_line(answer))
    for application in answer.get("applications", ()):
        ended = "" if application["ended_s"] is None else " (ended)"
        lines.append(
            f"Application {application['name']}{ended} has"
            f" {credits_text(application['balance'])} of {credits_text(application['budget'])}"
            " credits and gets"
            f" {credits_text(application['replenishment'])} at each replenishment."
        )
    lines += [f"{time_text(note['at_s'])}  {note['text']}" for note in answer.get("notes", ())]
    return lines


def _changed_lines(answer: Any, cells: int | None) -> Sequence[str]:
    return _list_lines(answer, cells) if "tenants" in answer else _show_lines(answer, cells)


def _renewed_lines(answer: Any, cells: int | None) -> Sequence[str]:
    paid = f"The renewal paid out {credits_text(answer['paid'])} credits."
    return [paid, "", *_list_lines(answer, cells)]


def _refunded_lines(answer: Any, _cells: int | None) -> Sequence[str]:
    return [f"Refunded {credits_text(answer['credits'])} credits of period {answer['period']}."]


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
    summary="list tenants, change their weights, grant and refund credits",
    description="""\
`merkatd tenant`: show tenants with their weights and credits, and change these.

merkatd tenant list: all tenants, and the supply.

merkatd tenant show TENANT: one tenant, its applications, and the changes made by hand.

merkatd tenant weight TENANT X: set its weight, in proportion to which the supply is divided;
default removes it.

merkatd tenant weight X --group GROUP: set the weight of all tenants of a group without a weight of
their own.

merkatd tenant grant TENANT X: grant X credits from the treasury; a negative X takes credits back.

merkatd tenant renew: top up all tenants now instead of at the end of the interval.

merkatd tenant refund PERIOD --why TEXT: refund all charges of a void period.

A tenant is an OpenNebula user, given by id or name. A tenant is retired when its user is removed
from OpenNebula: its credits go to the treasury, and `list` names it below the table. Weights apply
from the next renewal on. These commands need access to the daemon's control socket, which tenants
do not have.
""",
    add_arguments=add_tenant_arguments,
    run=run_tenant,
)
