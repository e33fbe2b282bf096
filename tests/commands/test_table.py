"""The printer of tables: columns, widths, sparklines, values."""

import argparse
import contextlib
import csv
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from merkatd.commands.terminal import (
    Column,
    ColumnFormat,
    ScreenTable,
    command_parser,
    to_csv,
    to_text,
)
from merkatd.commands.terminal.screen_text import cut, padded, plain, spark, width

TABLE = ScreenTable(
    "THING",
    (
        Column("ID", "id", ColumnFormat.WHOLE, "id"),
        Column("NAME", "name", ColumnFormat.TEXT, "name", least=4),
        Column("EXTRA", "extra", ColumnFormat.TEXT, "extra", optional=True),
        Column("SIZE", "size", ColumnFormat.NUMBER, "size"),
        Column("NOTE", "note", ColumnFormat.TEXT, "note", least=4, optional=True),
    ),
)
ROWS = [
    {"id": 1, "name": "a" * 30, "extra": None, "size": 2048.0, "note": "n" * 30},
    {"id": 20, "name": "b", "extra": None, "size": 0.5, "note": None},
]


@pytest.mark.parametrize("cells", range(10, 100, 3))
def test_a_table_fits_any_width(cells: int) -> None:
    """Values that cannot be cut stay as long as possible."""
    lines = to_text(TABLE.columns, ROWS, cells)
    assert max(map(width, lines)) <= cells
    if cells >= 22:
        assert "2,048" in lines[1]
        assert "0.5" in lines[2]


def test_optional_columns_are_dropped_before_values_are_cut() -> None:
    """Empty ones go first, then the last optional ones, and never requested ones."""
    assert to_text(TABLE.columns, ROWS, 26)[0].split() == ["ID", "NAME", "SIZE", "NOTE"]
    assert to_text(TABLE.columns, ROWS, 18)[0].split() == ["ID", "NAME", "SIZE"]
    assert "EXTRA" in to_text(TABLE.columns, ROWS, 40, fixed=True)[0]
    wide = to_text(TABLE.columns, ROWS, None)
    assert wide[0].split() == TABLE.names()
    assert wide[1].endswith("n" * 30)


def test_an_empty_table_has_only_its_header() -> None:
    """Without a header it has no lines."""
    assert to_text(TABLE.columns, [], 80) == ["ID  NAME  EXTRA  SIZE  NOTE"]
    assert to_csv(TABLE.columns, [], header=False) == []


@given(st.text(max_size=40), st.integers(0, 50))
@example("two\u2028rows", 20)
def test_cutting_and_padding_respect_the_width(text: str, cells: int) -> None:
    """This holds for any characters."""
    shown = cut(plain(text), cells)
    assert width(shown) <= cells
    assert width(padded(shown, cells, right=True)) == cells
    assert plain(plain(text)) == plain(text)
    assert len(plain(text).splitlines()) <= 1


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([], ""),
        ([None, None], ""),
        ([5.0, 5.0], "▁▁"),
        ([0.0, 0.0, None], "▁▁ "),
        ([1.0, None, 8.0], "▁ █"),
        ([1, 2, 3, 4, 5, 6, 7, 8], "▁▂▃▄▅▆▇█"),
    ],
)
def test_sparklines_scale_from_least_to_greatest(values: list[float | None], line: str) -> None:
    """Gaps stay gaps."""
    assert spark(values) == line
    assert len(spark([*range(100)])) == 30


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (ColumnFormat.NUMBER, 2048.0, "2,048"),
        (ColumnFormat.NUMBER, 44.44, "44.4"),
        (ColumnFormat.CREDITS, 1.625, "1.625"),
        (ColumnFormat.CREDITS, 999_958.4, "999,958"),
        (ColumnFormat.PRICE, 0.00030517578, "0.000305176"),
        (ColumnFormat.PART, 0.4444444, "0.4444"),
        (ColumnFormat.PERCENT, 0.4444444, "44%"),
        (ColumnFormat.LIST, ["a", "b"], "a,b"),
        (ColumnFormat.TEXT, True, "true"),
        (ColumnFormat.TEXT, None, "-"),
        (ColumnFormat.WHOLE, 0, "0"),
    ],
)
def test_each_format_has_its_text(kind: ColumnFormat, value: Any, text: str) -> None:
    """Numbers, credits, lists and flags are formatted for readers."""
    assert Column("X", "x", kind, "x").text({"x": value}) == text


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (command_parser.whole, "7", 7),
        (command_parser.bid, "1e3", 1000.0),
        (command_parser.delay, "0.5", 0.5),
        (command_parser.periods, "7", (7, 7)),
        (command_parser.periods, "7-9", (7, 9)),
        (command_parser.since, "90m", ("ago", 5400.0)),
        (command_parser.since, "1.5h", ("ago", 5400.0)),
        (command_parser.since, "2d", ("ago", 172_800.0)),
        (command_parser.since, "2w", ("ago", 1_209_600.0)),
        (command_parser.reference, "web-0", "web-0"),
    ],
)
def test_valid_arguments_are_parsed(read: Callable[[str], Any], text: str, value: Any) -> None:
    """Each kind of argument has its own notation."""
    assert read(text) == value


@given(st.text(max_size=30))
def test_any_argument_is_parsed_or_rejected(text: str) -> None:
    """The only error is `ArgumentTypeError`."""
    for read in (
        command_parser.whole,
        command_parser.count,
        command_parser.bid,
        command_parser.delay,
        command_parser.reference,
        command_parser.periods,
        command_parser.since,
    ):
        with contextlib.suppress(argparse.ArgumentTypeError):
            read(text)


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1+cmd|' /C calc'!A0", "@SUM(1)"])
def test_a_name_is_never_a_formula_in_a_spreadsheet(name: str) -> None:
    """An apostrophe makes it a text, and negative numbers stay numbers."""
    rows: list[dict[str, Any]] = [{"id": -1, "name": name, "extra": None, "size": -0.5}]
    line = next(csv.reader(to_csv(TABLE.columns, rows, header=False)))
    assert line[:4] == ["-1", f"'{name}", "", "-0.5"]


def test_csv_has_no_control_characters() -> None:
    """They are replaced as in text."""
    rows = [{"id": 1, "name": "a\x1b[2Jb\rc", "size": 1.0}]
    assert not {"\x1b", "\r"} & set("".join(to_csv(TABLE.columns, rows)))
