"""The output options of commands: columns, filters and format of the rows."""

import argparse
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from merkatd.commands.terminal import (
    Column,
    ColumnsError,
    Filter,
    FilterError,
    Row,
    ScreenTable,
    command_parser,
    parse_filters,
    to_csv,
    to_json,
    to_text,
    to_xml,
)
from merkatd.commands.terminal.screen_text import plain
from merkatd.commands.terminal.table_columns import column_text

Tables = Mapping[str, ScreenTable]
"""Tables by listed kind; a command with one table uses its own name as the kind."""

Lines = Callable[[Any, int | None], Sequence[str]]
"""A function that formats an answer as text for a screen of this width (None: no screen)."""


class ConflictingArgumentsError(Exception):
    """The arguments of a command don't fit together."""


def rows_of(answer: Any) -> Sequence[Mapping[str, Any]]:
    """Return an answer that is a list of objects. Raise TypeError if it is not."""
    if not isinstance(answer, list) or not all(isinstance(row, dict) for row in answer):
        raise TypeError("expected a list of objects")
    return answer


def screen_width() -> int | None:
    """Return the width of the terminal or COLUMNS; None if the output is a file or a pipe."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return max(shutil.get_terminal_size((80, 24)).columns, 20)
    return None


def add_output(parser: argparse.ArgumentParser, tables: Tables, *, follow: bool = True) -> None:
    """Add the options of every command that shows rows."""
    parser.set_defaults(tables=tables, delay=None)
    group = parser.add_argument_group("output")
    group.add_argument(
        "-l",
        "--list",
        metavar="COLUMNS",
        dest="columns",
        help="the columns to show, as NAME,NAME; --describe lists them",
    )
    group.add_argument(
        "-f",
        "--filter",
        metavar="FILTER",
        dest="filters",
        action="append",
        default=[],
        help="show only rows that meet COLUMN=VALUE, or != < <= > >= ~ (contains); to combine"
        " conditions, separate them with commas or repeat the option: rows must meet all",
    )
    form = group.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print comma-separated values")
    form.add_argument("-j", "--json", action="store_true", help="print JSON")
    form.add_argument("-x", "--xml", action="store_true", help="print XML")
    group.add_argument("--no-header", action="store_true", help="leave out the column names")
    if follow:
        group.add_argument(
            "-d",
            "--delay",
            metavar="SECONDS",
            type=command_parser.delay,
            help="refresh every so many seconds, until Ctrl-C",
        )
    group.add_argument(
        "--describe", action=_Describe, nargs=0, help="describe the columns, and exit"
    )


def chosen_columns(table: ScreenTable, arguments: argparse.Namespace) -> list[Column]:
    """Return the columns asked for, or the default columns of the output format."""
    if arguments.columns is not None:
        try:
            return table.chosen(arguments.columns)
        except ColumnsError as error:
            raise ConflictingArgumentsError(f"--list: {error}") from None
    return list(table.columns) if arguments.json or arguments.xml else table.default()


def chosen_filters(table: ScreenTable, arguments: argparse.Namespace) -> list[Filter]:
    """Return all conditions; a row must meet every condition."""
    try:
        return [condition for text in arguments.filters for condition in parse_filters(table, text)]
    except FilterError as error:
        raise ConflictingArgumentsError(f"--filter: {error}") from None


def lines_in_form(
    arguments: argparse.Namespace,
    table: ScreenTable,
    columns: Sequence[Column],
    filters: Sequence[Filter],
    answer: Any,
    rows: Callable[[Any], Any],
    text: Lines | None,
    *,
    whole: bool,
) -> Sequence[str]:
    """Return an answer in the format of the options; see `show_view` for the parameters."""
    asked = arguments.columns is not None or bool(filters)
    tabular = asked or arguments.csv or arguments.xml or arguments.no_header
    if text is not None and not tabular and not arguments.json:
        return [plain(line) for line in text(answer, screen_width())]
    if arguments.json and whole and not asked:
        if not isinstance(answer, dict):
            raise TypeError("expected an object")
        return [json.dumps(answer, indent=2, allow_nan=False)]
    shown = [
        row for row in rows_of(rows(answer)) if all(condition.meets(row) for condition in filters)
    ]
    return _in_form(arguments, table, columns, shown)


def _in_form(
    arguments: argparse.Namespace,
    table: ScreenTable,
    columns: Sequence[Column],
    rows: Sequence[Row],
) -> Sequence[str]:
    header = not arguments.no_header
    if arguments.columns is None:
        columns = column_text(columns, rows)
    if arguments.csv:
        return to_csv(columns, rows, header=header)
    if arguments.json:
        return [to_json(columns, rows)]
    if arguments.xml:
        return to_xml(table, columns, rows)
    fixed = arguments.columns is not None
    return to_text(columns, rows, screen_width(), header=header, fixed=fixed)


def print_lines(lines: Sequence[str], *, again: bool) -> None:
    """Print the lines; with `again`, clear the terminal first."""
    if again and sys.stdout.isatty():
        print("\x1b[H\x1b[2J", end="")
    for line in lines:
        print(line)
    sys.stdout.flush()


class _Describe(argparse.Action):
    """Print the columns at once, like --help: the other arguments may be missing."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,  # noqa: ARG002 - the signature of argparse's actions
        option_string: str | None = None,  # noqa: ARG002 - the same
    ) -> None:
        tables: Tables = parser.get_default("tables")
        what: str | None = getattr(namespace, "what", None)
        chosen = tables if what is None else {what: tables[what]}
        print("\n".join(described(chosen, screen_width() or 80)))
        parser.exit()


def described(tables: Tables, cells: int) -> list[str]:
    """Return the columns of these tables with their descriptions; * marks default columns."""
    lines = []
    for what, table in tables.items():
        if len(tables) > 1:
            lines.append(f"{what}:")
        for column in table.columns:
            mark = "*" if column.default else " "
            head = f"{mark} {column.name:<14} "
            lines += textwrap.wrap(
                column.doc, max(cells, 40), initial_indent=head, subsequent_indent=" " * len(head)
            )
    return lines
