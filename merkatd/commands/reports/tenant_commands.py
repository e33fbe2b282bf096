"""Commands with a row for each tenant: `report`, `share`."""

import argparse
from collections.abc import Sequence
from typing import Any

from merkatd.base.quantities import credits_text
from merkatd.commands.ask_daemon import add_view, show_view
from merkatd.commands.screens.hourly_rows import with_time_left
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, command_parser, to_text
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import rows_of
from merkatd.commands.terminal.table_columns import column_text
from merkatd.commands.texts.empty_texts import NO_TENANTS
from merkatd.currency import MICRO

_TENANT = (
    Column("ID", "id", ColumnFormat.WHOLE, "the tenant's id", default=False),
    Column("USER", "name", ColumnFormat.TEXT, "the tenant's name, if known", least=6),
    Column(
        "GROUP",
        "group_name",
        ColumnFormat.TEXT,
        "the tenant's primary group",
        least=6,
        optional=True,
    ),
)

REPORT_TABLE = ScreenTable(
    "REPORT",
    (
        Column("MONTH", "month", ColumnFormat.TEXT, "the month, in UTC"),
        *_TENANT,
        Column("VMS", "vms", ColumnFormat.WHOLE, "the number of VMs that were charged"),
        Column("HOURS", "hours", ColumnFormat.NUMBER, "hours charged for, of all VMs together"),
        Column("CPU_HOURS", "cpu_hours", ColumnFormat.NUMBER, "cores allocated, times hours"),
        Column("MEMORY_HOURS", "memory_hours", ColumnFormat.NUMBER, "GiB allocated, times hours"),
        Column("CPU_COST", "cpu_cost", ColumnFormat.CREDITS, "credits for CPU", default=False),
        Column(
            "MEMORY_COST", "memory_cost", ColumnFormat.CREDITS, "credits for memory", default=False
        ),
        Column(
            "NETWORK_COST",
            "network_cost",
            ColumnFormat.CREDITS,
            "credits for network, if sold",
            default=False,
        ),
        Column(
            "DISK_COST",
            "disk_cost",
            ColumnFormat.CREDITS,
            "credits for disk, if sold",
            default=False,
        ),
        Column("COST", "cost", ColumnFormat.CREDITS, "credits for all goods together", kept=True),
        Column(
            "PART",
            "part",
            ColumnFormat.PERCENT,
            "the part of the costs of all tenants in the month",
            sometimes=True,
        ),
        Column(
            "INCOME",
            "income",
            ColumnFormat.CREDITS,
            "credits that renewals and grants added",
            optional=True,
        ),
        Column("REFUNDS", "refunds", ColumnFormat.CREDITS, "credits refunded", default=False),
        Column("MICRO", "micro", ColumnFormat.WHOLE, "COST in micro-credits", default=False),
    ),
)


def _add_tenant(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "tenant",
        metavar="TENANT",
        nargs="?",
        type=command_parser.reference,
        help="only this user, by id or name",
    )


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `report`."""
    _add_tenant(parser)
    parser.add_argument(
        "--month",
        metavar="YYYY-MM",
        type=command_parser.reference,
        help="the last month of the report (default: the current month)",
    )
    parser.add_argument(
        "--months",
        metavar="N",
        type=command_parser.count,
        default=1,
        help="show N months up to that month, at most 24 (default: 1)",
    )
    add_view(parser, {"report": REPORT_TABLE}, follow=False)


def run_report(arguments: argparse.Namespace) -> int:
    """Show the months of all tenants."""
    return show_view(
        "report",
        arguments,
        REPORT_TABLE,
        lambda ask: ask(
            "report", tenant=arguments.tenant, month=arguments.month, months=arguments.months
        ),
        text=_report_text,
    )


def _report_text(answer: Any, cells: int | None) -> Sequence[str]:
    rows = rows_of(answer)
    if not rows:
        return [
            "Nothing was used, paid or received in this time: see `merkatd report --months 12`."
        ]
    lines = list(to_text(column_text(REPORT_TABLE.default(), rows), rows, cells))
    lines.append("")
    for month in dict.fromkeys(row["month"] for row in rows):
        micro = sum(row["micro"] for row in rows if row["month"] == month)
        lines.append(f"{month}: {micro / MICRO:,.6f} credits for VMs.")
    wrong = sum(abs(row["difference"]) for row in rows)
    if wrong:
        lines.append(f"THE ACCOUNTS ARE WRONG by {wrong / MICRO:,.6f} credits.")
    return lines


REPORT = Verb(
    "report",
    summary="show what each tenant used and paid in past months",
    description="""\
`merkatd report`: show what each tenant used and paid in past months, a line for each tenant.

`merkatd report --months 3` shows the current month and the two before. `merkatd statement` shows
one tenant's month VM by VM; both add up to the same micro-credit. Months are in UTC.
""",
    add_arguments=add_report_arguments,
    run=run_report,
)


def _of_resource(name: str, unit: str, *, always: bool) -> tuple[Column, ...]:
    return (
        Column(
            name.upper(),
            name,
            ColumnFormat.NUMBER,
            f"{unit} allocated now",
            optional=True,
            sometimes=not always,
        ),
        Column(
            f"PART_{name.upper()}",
            f"part_{name}",
            ColumnFormat.PERCENT,
            f"the part of all hosts' {name} that it has now",
            sometimes=not always,
        ),
    )


SHARE_TABLE = ScreenTable(
    "SHARE",
    (
        *_TENANT,
        Column(
            "WEIGHT",
            "weight",
            ColumnFormat.CREDITS,
            "its weight in the division of all credits",
            default=False,
        ),
        Column(
            "ENTITLED", "entitled", ColumnFormat.PERCENT, "its part of all weights, so of credits"
        ),
        Column("BUDGET", "budget", ColumnFormat.CREDITS, "the credits of a full account"),
        Column("USED", "used", ColumnFormat.CREDITS, "credits paid for VMs in this month"),
        Column("LEFT", "left", ColumnFormat.CREDITS, "credits in its account and applications"),
        Column("DEBT", "debt", ColumnFormat.CREDITS, "credits that it owes", default=False),
        Column("VMS", "vms", ColumnFormat.WHOLE, "the number of its VMs", optional=True),
        *_of_resource("cpu", "percent of a core", always=True),
        *_of_resource("memory", "MiB", always=True),
        *_of_resource("network", "Mbit/s", always=False),
        *_of_resource("disk", "MiB/s", always=False),
        Column(
            "COST",
            "cost",
            ColumnFormat.CREDITS,
            "the credits that a period costs it now",
            kept=True,
        ),
        Column(
            "LASTS",
            "lasts",
            ColumnFormat.NUMBER,
            "the periods for which its credits last at this cost",
            default=False,
        ),
        Column(
            "TIME_LEFT",
            "lasts_s",
            ColumnFormat.DURATION,
            "how long its credits last at this cost",
            optional=True,
        ),
    ),
    NO_TENANTS,
)


def add_share_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `share`."""
    _add_tenant(parser)
    add_view(parser, {"share": SHARE_TABLE})


def run_share(arguments: argparse.Namespace) -> int:
    """Show what each tenant may have of the cloud, and what it has now."""
    return show_view(
        "share",
        arguments,
        SHARE_TABLE,
        lambda ask: with_time_left(ask, ask("shares", tenant=arguments.tenant)),
        text=_share_text,
    )


def _share_text(answer: Any, cells: int | None) -> Sequence[str]:
    rows = rows_of(answer)
    lines = list(to_text(column_text(SHARE_TABLE.default(), rows), rows, cells))
    if len(rows) > 1:
        used, cost = (sum(row[name] for row in rows) for name in ("used", "cost"))
        paid = f"{credits_text(used)} credits in this month"
        lines += ["", f"Together: {paid}, {credits_text(cost)} credits a period now."]
    return lines


SHARE = Verb(
    "share",
    summary="show each tenant's budget, use, and part of the cloud",
    description="""\
`merkatd share`: show what each tenant may spend, what it has spent, and its part of the cloud now.

ENTITLED is the part of all credits that its weight gives it. PART_CPU and PART_MEMORY are its parts
of the capacity of all hosts that can be reached. A tenant whose part of the cloud is above its
entitled part spends faster than its account fills; TIME_LEFT says for how long.
""",
    add_arguments=add_share_arguments,
    run=run_share,
)
