"""The output options of commands: columns, filters and format of the rows."""

import argparse
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from merkatd.commands.screens.column_sets import columns_of_set
from merkatd.commands.screens.pager import paged
from merkatd.commands.screens.row_order import sorted_rows
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
    to_yaml,
    yaml_of,
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
    taken = command_parser.flags_of(parser)
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
        "--listconf",
        metavar="SET",
        help="show a set of columns: all, default, or one of ~/.config/merkat/columns.toml, with"
        ' lines like SET = "ID,NAME"',
    )
    order: Any = group.add_argument(
        *(() if "-s" in taken else ("-s",)),
        "--sort",
        metavar="COLUMNS",
        dest="order",
        help="sort the rows by these columns, as NAME,NAME; -NAME sorts downwards",
    )
    order.signed = True
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
    yaml = () if "-y" in taken else ("-y",)
    form.add_argument(*yaml, "--yaml", action="store_true", help="print YAML")
    group.add_argument(
        "--csv-del",
        metavar="CHARACTER",
        type=command_parser.separator,
        help="separate values by this character instead of a comma; means --csv",
    )
    group.add_argument("--no-header", action="store_true", help="leave out the column names")
    group.add_argument(
        "--expand",
        action="store_true",
        help="show every column in full, also if lines become wider than the screen",
    )
    group.add_argument(
        "--no-pager",
        action="store_true",
        help="do not open a pager (MERKAT_PAGER, else PAGER, else less) for long tables",
    )
    if follow:
        group.add_argument(
            "-d",
            "--delay",
            metavar="SECONDS",
            type=command_parser.delay,
            help="refresh every so many seconds, until Ctrl-C",
        )
    if isinstance(parser, command_parser.Parser):
        parser.checks.append(_contradiction)
    group.add_argument(
        "--describe", action=_Describe, nargs=0, help="describe the columns, and exit"
    )


def _contradiction(arguments: argparse.Namespace) -> str | None:
    """Return which two output options contradict each other, None if none do."""
    given = vars(arguments)
    pairs = [(one, other) for one in ("csv_del", "no_header") for other in ("json", "xml", "yaml")]
    for one, other in (*pairs, ("columns", "listconf")):
        if given[one] not in {None, False} and given[other] not in {None, False}:
            return f"{_OPTIONS.get(one, f'--{one}')} can't be combined with --{other}"
    return None


_OPTIONS = {"csv_del": "--csv-del", "no_header": "--no-header", "columns": "--list"}


def chosen_columns(table: ScreenTable, arguments: argparse.Namespace) -> list[Column]:
    """Return the columns asked for, or the default columns of the output format."""
    if arguments.columns is not None:
        try:
            return table.chosen(arguments.columns)
        except ColumnsError as error:
            raise ConflictingArgumentsError(f"--list: {error}") from None
    if arguments.listconf is not None:
        try:
            return columns_of_set(table, arguments.listconf)
        except ColumnsError as error:
            raise ConflictingArgumentsError(f"--listconf: {error}") from None
    whole = arguments.json or arguments.xml or arguments.yaml
    return list(table.columns) if whole else table.default()


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
    asked = _chooses(arguments) or bool(filters) or arguments.order is not None
    csv = arguments.csv or arguments.csv_del is not None
    tabular = asked or csv or arguments.xml or arguments.no_header
    cells = None if arguments.expand else screen_width()
    if text is not None and not tabular and not arguments.json and not arguments.yaml:
        return [plain(line) for line in text(answer, cells)]
    if (arguments.json or arguments.yaml) and whole and not asked:
        if not isinstance(answer, dict):
            raise TypeError("expected an object")
        if arguments.yaml:
            return yaml_of(answer)
        return [json.dumps(answer, indent=2, allow_nan=False)]
    shown = [
        row for row in rows_of(rows(answer)) if all(condition.meets(row) for condition in filters)
    ]
    if arguments.order is not None:
        shown = _in_order(table, arguments.order, shown)
    return _in_form(arguments, table, columns, shown)


def _chooses(arguments: argparse.Namespace) -> bool:
    """Return whether the user chose the columns."""
    return arguments.columns is not None or arguments.listconf is not None


def _in_order(table: ScreenTable, order: str, rows: list[Row]) -> list[Row]:
    try:
        return sorted_rows(table, order, rows)
    except ColumnsError as error:
        raise ConflictingArgumentsError(f"--sort: {error}") from None


def _in_form(
    arguments: argparse.Namespace,
    table: ScreenTable,
    columns: Sequence[Column],
    rows: Sequence[Row],
) -> Sequence[str]:
    header = not arguments.no_header
    fixed = _chooses(arguments)
    if not fixed:
        columns = column_text(columns, rows)
    if arguments.csv or arguments.csv_del is not None:
        return to_csv(columns, rows, header=header, separator=arguments.csv_del or ",")
    if arguments.yaml:
        return to_yaml(columns, rows)
    if arguments.json:
        return [to_json(columns, rows)]
    if arguments.xml:
        return to_xml(table, columns, rows)
    cells = None if arguments.expand else screen_width()
    return to_text(columns, rows, cells, header=header, fixed=fixed)


def empty_note(
    arguments: argparse.Namespace,
    table: ScreenTable,
    filters: Sequence[Filter],
    rows: Any,
    program: str,
) -> str:
    """Return what people read instead of rows; empty for rows, and for output for programs."""
    formats = (arguments.csv, arguments.csv_del, arguments.json, arguments.xml, arguments.yaml)
    if any(formats) or arguments.no_header or not isinstance(rows, list):
        return ""
    if not rows:
        return table.nothing.replace("`merkatd ", f"`{program} ")
    if any(all(condition.meets(row) for condition in filters) for row in rows):
        return ""
    return "no row meets the filter"


def print_lines(lines: Sequence[str], *, again: bool, pager: bool = False) -> None:
    """Print the lines, in a pager if they may; with `again`, clear the terminal first."""
    if pager and not again and paged(lines):
        return
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
