"""Rows in the form that the options ask for: which columns, which rows, for people or programs."""

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
"""By what is listed; a command with one table has it under its own name."""

Lines = Callable[[Any, int | None], Sequence[str]]
"""An answer as text for a screen so wide."""


class WordsError(Exception):
    """The words of a command were wrong in a way that only shows once they are all known."""


def rows_of(answer: Any) -> Sequence[Mapping[str, Any]]:
    """An answer that is a list of objects. Raises TypeError."""
    if not isinstance(answer, list) or not all(isinstance(row, dict) for row in answer):
        raise TypeError("a list of objects was expected")
    return answer


def screen_width() -> int | None:
    """Of the terminal, or as COLUMNS says; None where the output goes into a file or a pipe."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return max(shutil.get_terminal_size((80, 24)).columns, 20)
    return None


def add_output(parser: argparse.ArgumentParser, tables: Tables, *, follow: bool = True) -> None:
    """The options of every command that shows rows."""
    parser.set_defaults(tables=tables, delay=None)
    group = parser.add_argument_group("output")
    group.add_argument(
        "-l",
        "--list",
        metavar="COLUMNS",
        dest="columns",
        help="the columns to show, as NAME,NAME; --describe names them",
    )
    group.add_argument(
        "-f",
        "--filter",
        metavar="FILTER",
        dest="filters",
        action="append",
        default=[],
        help="only rows that meet COLUMN=VALUE, or with != < <= > >= and ~ (contains); several with"
        " commas or by repeating the option: all must be met",
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
            help="show it again every so many seconds, until Ctrl-C",
        )
    group.add_argument(
        "--describe", action=_Describe, nargs=0, help="say what the columns are, and exit"
    )


def chosen_columns(table: ScreenTable, arguments: argparse.Namespace) -> list[Column]:
    """The columns asked for, or those that the form shows otherwise."""
    if arguments.columns is not None:
        try:
            return table.chosen(arguments.columns)
        except ColumnsError as error:
            raise WordsError(f"--list: {error}") from None
    return list(table.columns) if arguments.json or arguments.xml else table.default()


def chosen_filters(table: ScreenTable, arguments: argparse.Namespace) -> list[Filter]:
    """All conditions; a row must meet every one."""
    try:
        return [one for text in arguments.filters for one in parse_filters(table, text)]
    except FilterError as error:
        raise WordsError(f"--filter: {error}") from None


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
    """An answer in the form that was asked for, as `show_view` says."""
    asked = arguments.columns is not None or bool(filters)
    tabular = asked or arguments.csv or arguments.xml or arguments.no_header
    if text is not None and not tabular and not arguments.json:
        return [plain(line) for line in text(answer, screen_width())]
    if arguments.json and whole and not asked:
        if not isinstance(answer, dict):
            raise TypeError("an object was expected")
        return [json.dumps(answer, indent=2, allow_nan=False)]
    found = [row for row in rows_of(rows(answer)) if all(one.meets(row) for one in filters)]
    return _in_form(arguments, table, columns, found)


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
    """Print them, in place of what is on a terminal where they are shown again and again."""
    if again and sys.stdout.isatty():
        print("\x1b[H\x1b[2J", end="")
    for line in lines:
        print(line)
    sys.stdout.flush()


class _Describe(argparse.Action):
    """Names the columns at once, as --help does: nothing else needs to be right."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,  # noqa: ARG002 - argparse's way to call an action
        option_string: str | None = None,  # noqa: ARG002 - the same
    ) -> None:
        tables: Tables = parser.get_default("tables")
        what: str | None = getattr(namespace, "what", None)
        chosen = tables if what is None else {what: tables[what]}
        print("\n".join(described(chosen, screen_width() or 80)))
        parser.exit()


def described(tables: Tables, cells: int) -> list[str]:
    """The columns of these tables, a line or more each; * marks those shown unless -l is given."""
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
