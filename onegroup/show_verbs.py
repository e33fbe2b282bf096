"""The verbs `list`, `show` and `watch`."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from merkatd.base.quantities import credits_text, time_text
from merkatd.client import Groups
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, command_parser, to_text
from merkatd.commands.terminal.command_parser import DONE
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import (
    add_output,
    chosen_columns,
    chosen_filters,
    empty_note,
    lines_in_form,
    print_lines,
)
from merkatd.commands.terminal.table_columns import figure
from merkatd.commands.texts.empty_texts import NO_GROUPS
from onegroup.verb import add_endpoint, add_group, ask_groups, id_of, program

GROUPS = ScreenTable(
    "GROUP",
    (
        Column("ID", "id", ColumnFormat.WHOLE, "the group's id"),
        Column("USER", "user", ColumnFormat.TEXT, "its owner", least=4),
        Column("GROUP", "group", ColumnFormat.TEXT, "its user group", least=4),
        Column("NAME", "name", ColumnFormat.TEXT, "its name", least=6),
        Column(
            "SRATE",
            "spending_rate",
            ColumnFormat.CREDITS,
            "its spending rate: credits for each core that its VMs use for a period",
        ),
        Column("NVM", "nvm", ColumnFormat.WHOLE, "the wanted number of VMs"),
        Column("RUN", "running", ColumnFormat.WHOLE, "the number of running VMs"),
        Column("VMID", "vm_ids", ColumnFormat.LIST, "the ids of its VMs", least=8),
        Column("CPU", "cpu", ColumnFormat.NUMBER, "the sum of its VMs' CPU, percent of a core"),
        Column(
            "COST",
            "cost_at_most",
            ColumnFormat.CREDITS,
            "credits a period if its VMs use all their CPU",
            optional=True,
            kept=True,
        ),
        Column("STAT", "state", ColumnFormat.TEXT, "active, or ending after it was deleted"),
        Column(
            "PERM",
            "may",
            ColumnFormat.TEXT,
            "use, manage, admin: owner, group, others",
            default=False,
        ),
        Column(
            "OCTET",
            "permissions",
            ColumnFormat.TEXT,
            "the permissions as octal digits",
            default=False,
        ),
        Column(
            "VM_RATE",
            "rate_of_a_vm",
            ColumnFormat.CREDITS,
            "the part of the rate of each VM",
            default=False,
        ),
        Column("MARKET", "market", ColumnFormat.TEXT, "the market of its VMs", default=False),
        Column("UID", "owner", ColumnFormat.WHOLE, "its owner's id", default=False),
        Column("GID", "user_group", ColumnFormat.WHOLE, "its user group's id", default=False),
        Column(
            "CREATED", "created_s", ColumnFormat.TIME, "the time of its creation", default=False
        ),
        Column(
            "WHY",
            "why",
            ColumnFormat.TEXT,
            "the last problem with the group",
            default=False,
            least=10,
        ),
    ),
    NO_GROUPS,
)
VMS = ScreenTable(
    "VM",
    (
        Column("ID", "vm", ColumnFormat.WHOLE, "the VM's id; none until it is created"),
        Column("NUMBER", "number", ColumnFormat.WHOLE, "its sequence number within its group"),
        Column("STATE", "state", ColumnFormat.TEXT, "its state"),
        Column("HOST", "host", ColumnFormat.TEXT, "its host", least=6),
        Column("RATE", "bid", ColumnFormat.CREDITS, "its part of the spending rate"),
        Column("CPU", "cpu", ColumnFormat.NUMBER, "its share of CPU, percent of a core"),
        Column("LEAVING", "leaving", ColumnFormat.TEXT, "whether it is about to end"),
    ),
)


WATCH_S = 5.0
sleep = time.sleep


def _add_list(parser: argparse.ArgumentParser) -> None:
    add_output(parser, {"list": GROUPS})
    add_endpoint(parser)


def _add_show(parser: argparse.ArgumentParser) -> None:
    add_group(parser)
    _add_list(parser)


def _add_watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "group",
        metavar="GROUP",
        nargs="?",
        type=command_parser.reference,
        help="the group's id or name (default: all groups)",
    )
    _add_list(parser)


def _list(arguments: argparse.Namespace) -> int:
    return ask_groups("list", arguments, lambda groups: _shown(arguments, lambda: _rows(groups)))


def _show(arguments: argparse.Namespace) -> int:
    return ask_groups(
        "show", arguments, lambda groups: _shown(arguments, lambda: _row(groups, arguments.group))
    )


def _watch(arguments: argparse.Namespace) -> int:
    if arguments.delay is None:
        arguments.delay = WATCH_S

    def work(groups: Groups) -> int:
        if arguments.group is None:
            return _shown(arguments, lambda: _rows(groups))
        return _shown(arguments, lambda: _row(groups, arguments.group))

    return ask_groups("watch", arguments, work)


def _rows(groups: Groups) -> Any:
    return [asdict(group) for group in groups.list()]


def _row(groups: Groups, word: str) -> Any:
    return asdict(groups.info(id_of(groups, word)))


def _shown(arguments: argparse.Namespace, fetch: Callable[[], Any]) -> int:
    """Print the answer of `fetch` once, or repeatedly with a delay."""
    columns = chosen_columns(GROUPS, arguments)
    filters = chosen_filters(GROUPS, arguments)
    while True:
        answer = fetch()
        single = isinstance(answer, dict)
        lines = lines_in_form(
            arguments,
            GROUPS,
            columns,
            filters,
            answer,
            lambda answer: [answer] if isinstance(answer, dict) else answer,
            _page if single else None,
            whole=single,
        )
        print_lines(lines, again=arguments.delay is not None, pager=not arguments.no_pager)
        note = empty_note(arguments, GROUPS, filters, [answer] if single else answer, program())
        if note:
            print(f"{program()}: {note.format(program=program())}", file=sys.stderr)
        if arguments.delay is None:
            return DONE
        sleep(arguments.delay)


def _page(row: Any, cells: int | None) -> Sequence[str]:
    """Return a group as lines for people."""
    return list(_lines(row, cells))


def _lines(row: Any, cells: int | None) -> Iterator[str]:
    yield f"GROUP {row['id']} INFORMATION"
    rate = credits_text(row["spending_rate"])
    for name, value in (
        ("ID", row["id"]),
        ("NAME", row["name"]),
        ("USER", row["user"] or row["owner"]),
        ("GROUP", row["group"] or row["user_group"]),
        ("STATE", row["state"]),
        ("MARKET", row["market"]),
        ("SPENDING RATE", f"{rate} credits for each core used for a period"),
        ("OF A VM", credits_text(row["rate_of_a_vm"])),
        ("VMS", f"{row['nvm']} wanted, {row['running']} running"),
        ("CPU", f"{figure(row['cpu'])} % of a core"),
        ("COST AT MOST", f"{credits_text(row['cost_at_most'])} credits a period"),
        ("CREATED", time_text(row["created_s"])),
        ("REMARK", row["why"] or "-"),
    ):
        yield f"{name:<15}: {value}"
    yield from ("", "PERMISSIONS")
    for name, at in (("OWNER", 0), ("GROUP", 3), ("OTHER", 6)):
        yield f"{name:<15}: {row['may'][at : at + 3]}"
    yield from ("", "VIRTUAL MACHINES")
    yield from to_text(VMS.columns, row["vms"], cells)
    yield from ("", "TEMPLATE", *row["template"].rstrip().split("\n"))


LIST = Verb("list", "list the groups that you may use", "", _add_list, _list)
SHOW = Verb("show", "show a group and its VMs", "", _add_show, _show)
WATCH = Verb(
    "watch",
    f"list groups or show a group repeatedly, by default every {WATCH_S:g} seconds",
    "",
    _add_watch,
    _watch,
)
