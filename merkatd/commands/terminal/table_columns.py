"""The columns of tables, and filters for their rows."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from merkatd.base.quantities import credits_text, duration_text, time_text
from merkatd.commands.terminal.screen_text import spark
from merkatd.commands.words.suggestions import hint

Row = Mapping[str, Any]


class ColumnsError(ValueError):
    """A list names an unknown column; the message lists the known ones."""


class ColumnFormat(Enum):
    """The kind of a column's values, which determines their format on a screen."""

    TEXT = "text"
    WHOLE = "whole number"
    NUMBER = "number"
    """A number with one decimal."""
    CREDITS = "credits"
    """A number with four significant digits."""
    PRICE = "credits per unit and period"
    """A number with six significant digits."""
    PART = "part"
    """A number with four decimals."""
    PERCENT = "part of all"
    """A part as a percentage."""
    TIME = "time"
    DURATION = "seconds"
    TREND = "trend"
    """Numbers, oldest first, as a sparkline."""
    LIST = "list"
    """Words, separated by commas."""

    @property
    def right(self) -> bool:
        """Return whether the column is aligned at its right edge."""
        return self in {
            ColumnFormat.WHOLE,
            ColumnFormat.NUMBER,
            ColumnFormat.CREDITS,
            ColumnFormat.PRICE,
            ColumnFormat.PART,
            ColumnFormat.PERCENT,
            ColumnFormat.DURATION,
        }


@dataclass(frozen=True, slots=True)
class Column:
    """A column; its name in lower case is its key in JSON."""

    name: str
    key: str
    kind: ColumnFormat
    doc: str
    default: bool = True
    """Whether the column is shown if no columns are chosen."""
    least: int | None = None
    """The width to which the column may be cut on a narrow screen; None: never cut."""
    optional: bool = False
    """Whether the column may be left out on a narrow screen; the last such column goes first."""
    sometimes: bool = False
    """Whether the column is left out if no row has a value, for example for a good not sold."""
    kept: bool = False
    """Whether the column is shown on every screen: other columns make room for it."""

    def value(self, row: Row) -> Any:
        """Return the value for programs."""
        return row.get(self.key)

    def text(self, row: Row) -> str:
        """Return the value as text for a screen; - if it is missing."""
        value = self.value(row)
        if value is None or value in ("", []):
            return "-"
        return _WRITE[self.kind](value)


@dataclass(frozen=True, slots=True)
class ScreenTable:
    """The columns of one kind of object."""

    what: str
    """The XML element of a row; with _POOL appended, the element around all rows."""
    columns: Sequence[Column]
    nothing: str = ""
    """What people read below a table without rows, and what to do next."""

    def names(self) -> list[str]:
        """Return the names of all columns, in order."""
        return [column.name for column in self.columns]

    def default(self) -> list[Column]:
        """Return the columns that are shown if none are chosen."""
        return [column for column in self.columns if column.default]

    def chosen(self, words: str) -> list[Column]:
        """Return the columns of a list like `id,name`. Raise ColumnsError for an unknown name."""
        by_name = {column.name: column for column in self.columns}
        columns = []
        for word in words.split(","):
            column = by_name.get(word.strip().upper())
            if column is None:
                known = hint(word.strip(), self.names())
                raise ColumnsError(f"unknown column {shortened(word.strip())}; {known}")
            columns.append(column)
        return columns


def column_text(columns: Sequence[Column], rows: Sequence[Row]) -> list[Column]:
    """Return the columns without the `sometimes` ones that have no value in any row."""
    return [
        column
        for column in columns
        if not column.sometimes or any(column.value(row) is not None for row in rows)
    ]


def shortened(word: str, most: int = 40) -> str:
    """Return a word for a message: quoted, on one line, not too long."""
    quoted = repr(word)
    return quoted if len(quoted) <= most else f"{quoted[: most - 3]}..."


def figure(value: Any) -> str:
    """Return a number as text: with one decimal unless it is whole."""
    return f"{value:,.1f}".removesuffix(".0")


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_WRITE: Mapping[ColumnFormat, Callable[[Any], str]] = {
    ColumnFormat.TEXT: _word,
    ColumnFormat.WHOLE: str,
    ColumnFormat.NUMBER: figure,
    ColumnFormat.CREDITS: credits_text,
    ColumnFormat.PRICE: lambda value: f"{value:.6g}",
    ColumnFormat.PART: lambda value: f"{value:.4f}",
    ColumnFormat.PERCENT: lambda value: f"{value:.0%}",
    ColumnFormat.TIME: time_text,
    ColumnFormat.DURATION: duration_text,
    ColumnFormat.TREND: spark,
    ColumnFormat.LIST: lambda value: ",".join(map(str, value)),
}


_FILTER = re.compile(r"\s*(?P<name>\w+)\s*(?P<sign>!=|<=|>=|=|<|>|~)(?P<value>.*)", re.DOTALL)
_NUMBERS = {
    ColumnFormat.WHOLE,
    ColumnFormat.NUMBER,
    ColumnFormat.CREDITS,
    ColumnFormat.PRICE,
    ColumnFormat.PART,
    ColumnFormat.PERCENT,
    ColumnFormat.TIME,
    ColumnFormat.DURATION,
}


class FilterError(ValueError):
    """A filter is invalid; the message says what is accepted."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on a column. A missing value meets only !=."""

    column: Column
    sign: str
    value: str | float

    def meets(self, row: Row) -> bool:
        """Return whether the row meets the condition."""
        content = self.column.value(row)
        if isinstance(self.value, float):
            if content is None:
                return self.sign == "!="
            return _NUMERIC[self.sign](float(content), self.value)
        text = "" if content is None else self.column.text(row)
        return _TEXTUAL[self.sign](text.casefold(), self.value.casefold())


_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": lambda content, value: content < value,
    "<=": lambda content, value: content <= value,
    ">": lambda content, value: content > value,
    ">=": lambda content, value: content >= value,
    "!=": lambda content, value: content != value,
}
_NUMERIC: Mapping[str, Callable[[Any, Any], bool]] = {
    **_ORDER,
    "=": lambda content, value: math.isclose(content, value, rel_tol=1e-9),
}
_TEXTUAL: Mapping[str, Callable[[Any, Any], bool]] = {
    **_ORDER,
    "=": lambda content, value: content == value,
    "~": lambda content, value: value in content,
}


def parse_filters(table: ScreenTable, words: str) -> list[Filter]:
    """Return the filters of a list like `STATE=RUNNING,CPU>100`. Raise FilterError."""
    return [_parse(table, part) for part in words.split(",")]


def _parse(table: ScreenTable, part: str) -> Filter:
    match = _FILTER.fullmatch(part)
    if match is None:
        raise FilterError(
            f"{shortened(part)}: expected a column, one of = != < <= > >= ~, and a value"
        )
    try:
        column = table.chosen(match["name"])[0]
    except ColumnsError as error:
        raise FilterError(str(error)) from None
    if column.kind not in _NUMBERS:
        return Filter(column, match["sign"], match["value"])
    if match["sign"] == "~":
        raise FilterError(
            f"{shortened(part)}: {column.name} is a number; expected one of = != < <= > >="
        )
    try:
        value = float(match["value"])
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise FilterError(
            f"{shortened(part)}: {column.name} is a number; expected a number to compare it with"
        )
    return Filter(column, match["sign"], value)
