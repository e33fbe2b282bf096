"""Showing what the daemon answers, as the options say, once or again and again."""

import argparse
import time
from collections.abc import Callable
from typing import Any

from merkatd.commands import words
from merkatd.commands.asking import Ask, answered
from merkatd.commands.complaints import DONE
from merkatd.commands.configured import add_config
from merkatd.commands.output import (
    Lines,
    Tables,
    add_output,
    chosen_columns,
    chosen_filters,
    lines_in_form,
    print_lines,
)
from merkatd.commands.table import Table

sleep = time.sleep


def add_view(parser: argparse.ArgumentParser, tables: Tables, *, follow: bool = True) -> None:
    """The options of every command that shows rows, and the one for the configuration."""
    add_output(parser, tables, follow=follow)
    add_config(parser)


def add_newest(parser: argparse.ArgumentParser) -> None:
    """The option of those that show what came to be, the newest of it."""
    parser.add_argument(
        "--limit",
        metavar="N",
        type=words.count,
        default=50,
        help="the newest N of them (default: 50)",
    )


def show_view(
    command: str,
    arguments: argparse.Namespace,
    table: Table,
    fetch: Callable[[Ask], Any],
    *,
    rows: Callable[[Any], Any] = lambda answer: answer,
    text: Lines | None = None,
    whole: bool = False,
) -> int:
    """Ask and show, once or again and again; the exit code.

    `rows` are what the table shows of an answer. `text` is shown to people who ask for no
    columns; with `whole`, JSON without a list of columns is the answer as it came.
    """

    def show(ask: Ask) -> int:
        columns = chosen_columns(table, arguments)
        filters = chosen_filters(table, arguments)
        while True:
            answer = fetch(ask)
            lines = lines_in_form(
                arguments, table, columns, filters, answer, rows, text, whole=whole
            )
            print_lines(lines, again=arguments.delay is not None)
            if arguments.delay is None:
                return DONE
            sleep(arguments.delay)

    return answered(command, arguments, show)
