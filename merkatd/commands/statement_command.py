"""The command `statement`: a tenant's balance, payments and use in a month, VM by VM."""

import argparse
from collections.abc import Sequence
from typing import Any

from merkatd.commands.ask_daemon import Ask, add_view, door_of, show_view
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, command_parser, to_text
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.table_columns import column_text
from merkatd.commands.texts.empty_texts import NO_CHARGES
from merkatd.currency import MICRO


def _of_good(good: str, hours: str, unit: str) -> tuple[Column, ...]:
    """Return the columns of a good that may be sold besides CPU and memory."""
    name, what = good.upper(), f"{unit} allocated, times hours"
    return (
        Column(f"{name}_HOURS", hours, ColumnFormat.NUMBER, what, sometimes=True),
        Column(
            f"{name}_COST",
            f"{good}_cost",
            ColumnFormat.CREDITS,
            f"credits for {good}",
            sometimes=True,
        ),
    )


STATEMENT_TABLE = ScreenTable(
    "SHOWBACK",
    (
        Column("UID", "uid", ColumnFormat.WHOLE, "the user's id", default=False),
        Column("USER_NAME", "user_name", ColumnFormat.TEXT, "the user's name, if known", least=6),
        Column("GID", "gid", ColumnFormat.WHOLE, "the id of the user's group", default=False),
        Column(
            "GROUP_NAME",
            "group_name",
            ColumnFormat.TEXT,
            "the group's name",
            least=6,
            optional=True,
        ),
        Column("VM_ID", "vm_id", ColumnFormat.WHOLE, "the VM's id"),
        Column("VM_NAME", "vm_name", ColumnFormat.TEXT, "the VM's name", least=8),
        Column("MONTH", "month", ColumnFormat.WHOLE, "the month", optional=True),
        Column("YEAR", "year", ColumnFormat.WHOLE, "the year", optional=True),
        Column("HOURS", "hours", ColumnFormat.NUMBER, "hours charged for"),
        Column(
            "RUNNING_HOURS",
            "running_hours",
            ColumnFormat.NUMBER,
            "hours that the VM ran; equal to HOURS, as only running VMs are charged",
            optional=True,
        ),
        Column("CPU_HOURS", "cpu_hours", ColumnFormat.NUMBER, "cores allocated, times hours"),
        Column("MEMORY_HOURS", "memory_hours", ColumnFormat.NUMBER, "GiB allocated, times hours"),
        Column("CPU_COST", "cpu_cost", ColumnFormat.CREDITS, "credits for CPU"),
        Column("MEMORY_COST", "memory_cost", ColumnFormat.CREDITS, "credits for memory"),
        *_of_good("network", "network_mbit_hours", "Mbit/s"),
        *_of_good("disk", "disk_mib_hours", "MiB/s"),
        Column("COST", "cost", ColumnFormat.CREDITS, "credits for all goods together", kept=True),
        Column("MICRO", "micro", ColumnFormat.WHOLE, "COST in micro-credits", default=False),
        Column("ACCOUNT", "account", ColumnFormat.WHOLE, "the account that paid", default=False),
    ),
    NO_CHARGES,
)


def add_statement_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `statement`."""
    own = door_of(parser).is_own
    parser.add_argument(
        "tenant",
        metavar="TENANT",
        nargs="?" if own else None,
        type=command_parser.reference,
        help=f"the user, by id or name{' (default: yourself)' if own else ''}",
    )
    parser.add_argument(
        "--month",
        metavar="YYYY-MM",
        type=command_parser.reference,
        help="the month, for example 2026-05 (default: the current month)",
    )
    add_view(parser, {"statement": STATEMENT_TABLE}, follow=False)


def run_statement(arguments: argparse.Namespace) -> int:
    """Show a tenant's statement of a month."""

    def fetch(ask: Ask) -> Any:
        return ask("statement", tenant=arguments.tenant, month=arguments.month)

    return show_view(
        "statement",
        arguments,
        STATEMENT_TABLE,
        fetch,
        rows=lambda answer: answer["lines"],
        text=_statement_text,
        whole=True,
    )


def _statement_text(answer: Any, cells: int | None) -> Sequence[str]:
    who = f"{answer['id']} ({answer['name']})" if answer["name"] else str(answer["id"])
    sums = [("opening", answer["opening"])]
    sums += sorted(answer["movements"].items())
    sums += [("closing", answer["closing"])]
    width = max(len(f"{amount / MICRO:,.6f}") for _, amount in sums)
    lines = [f"Tenant {who}, {answer['month']}", ""]
    lines += [f"  {what:<14} {f'{amount / MICRO:,.6f}':>{width}}" for what, amount in sums]
    if answer["missing"]:
        lines.append(f"Unpaid because credits were missing: {answer['missing'] / MICRO:,.6f}")
    if answer["debt"]:
        lines.append(f"Debt now, collected from its next income: {answer['debt'] / MICRO:,.6f}")
    lines += [
        "",
        *to_text(column_text(STATEMENT_TABLE.default(), answer["lines"]), answer["lines"], cells),
        "",
    ]
    total = f"{answer['charged'] / MICRO:,.6f}"
    if answer["difference"]:
        lines.append(f"THE ACCOUNTS ARE WRONG by {answer['difference'] / MICRO:,.6f} credits.")
    else:
        lines.append(f"All VMs together: {total}. Every credit is accounted for.")
    return lines


STATEMENT = Verb(
    "statement",
    summary="show a tenant's credits and costs in a month, VM by VM",
    description="""\
`merkatd statement`: show a tenant's balance, payments and use in a month, VM by VM.

Columns of `oneshowback list` have the same names here; columns for use and cost follow. Amounts
in micro-credits (MICRO, and JSON) are exact: opening balance plus movements is the closing
balance, and the sum of the lines is the amount charged. Months and days are in UTC.
""",
    add_arguments=add_statement_arguments,
    run=run_statement,
)
