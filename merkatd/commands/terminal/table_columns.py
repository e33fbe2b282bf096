"""What a table's columns are, and which of its rows are wanted."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from merkatd.base.quantities import credits_text, time_text
from merkatd.commands.terminal.screen_text import spark

Row = Mapping[str, Any]


class ColumnsError(ValueError):
    """A list of columns that can't be shown; the message names those there are."""


class ColumnFormat(Enum):
    """What a column's values are, which settles how people read them."""

    TEXT = "text"
    WHOLE = "whole number"
    NUMBER = "number"
    """One digit behind the point."""
    CREDITS = "credits"
    """Four digits that count."""
    PRICE = "credits per unit and period"
    """Six digits that count."""
    PART = "part"
    """Four digits behind the point."""
    TIME = "time"
    TREND = "trend"
    """Numbers, oldest first."""
    LIST = "list"
    """Words."""

    @property
    def right(self) -> bool:
        """Whether the column is aligned at its right edge."""
        return self in {
            ColumnFormat.WHOLE,
            ColumnFormat.NUMBER,
            ColumnFormat.CREDITS,
            ColumnFormat.PRICE,
            ColumnFormat.PART,
        }


@dataclass(frozen=True, slots=True)
class Column:
    """One column; its name in lower case is its key in JSON."""

    name: str
    key: str
    kind: ColumnFormat
    doc: str
    default: bool = True
    """Shown when no columns are asked for."""
    least: int | None = None
    """May be cut down to so many characters where the screen is narrow; None: never cut."""
    optional: bool = False
    """Left out where the screen is too narrow, the last one first."""
    sometimes: bool = False
    """Left out where no row has it and nobody asked for it: not every good is always sold."""

    def value(self, row: Row) -> Any:
        """The value as programs get it."""
        return row.get(self.key)

    def text(self, row: Row) -> str:
        """The value as people read it; - where there is none."""
        value = self.value(row)
        if value is None or value in ("", []):
            return "-"
        return _WRITE[self.kind](value)


@dataclass(frozen=True, slots=True)
class ScreenTable:
    """What can be shown of one kind of thing."""

    what: str
    """The name of a row: an element in XML, with _POOL behind it the element around all."""
    columns: Sequence[Column]

    def names(self) -> list[str]:
        """All columns, in order."""
        return [column.name for column in self.columns]

    def default(self) -> list[Column]:
        """The columns that are shown when none are asked for."""
        return [column for column in self.columns if column.default]

    def chosen(self, words: str) -> list[Column]:
        """The columns of a list like `id,name`. Raises ColumnsError."""
        by_name = {column.name: column for column in self.columns}
        found = []
        for word in words.split(","):
            column = by_name.get(word.strip().upper())
            if column is None:
                raise ColumnsError(
                    f"no column is called {shortened(word.strip())}; there are:"
                    f" {', '.join(self.names())}"
                )
            found.append(column)
        return found


def column_text(columns: Sequence[Column], rows: Sequence[Row]) -> list[Column]:
    """Without those that are there only sometimes, where no row has them."""
    return [
        column
        for column in columns
        if not column.sometimes or any(column.value(row) is not None for row in rows)
    ]


def shortened(word: str, most: int = 40) -> str:
    """A word for a message: quoted, on one line, not too long."""
    said = repr(word)
    return said if len(said) <= most else f"{said[: most - 3]}..."


def figure(value: Any) -> str:
    """A number as people read it: one digit behind the point where it is not whole."""
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
    ColumnFormat.TIME: time_text,
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
    ColumnFormat.TIME,
}


class FilterError(ValueError):
    """A filter that can't be understood; the message says what would be right."""


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition on one column. A value that is not there meets only !=."""

    column: Column
    sign: str
    value: str | float

    def meets(self, row: Row) -> bool:
        """Whether the row is wanted."""
        found = self.column.value(row)
        if isinstance(self.value, float):
            if found is None:
                return self.sign == "!="
            return _NUMERIC[self.sign](float(found), self.value)
        text = "" if found is None else self.column.text(row)
        return _TEXTUAL[self.sign](text.casefold(), self.value.casefold())


_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": lambda found, value: found < value,
    "<=": lambda found, value: found <= value,
    ">": lambda found, value: found > value,
    ">=": lambda found, value: found >= value,
    "!=": lambda found, value: found != value,
}
_NUMERIC: Mapping[str, Callable[[Any, Any], bool]] = {
    **_ORDER,
    "=": lambda found, value: math.isclose(found, value, rel_tol=1e-9),
}
_TEXTUAL: Mapping[str, Callable[[Any, Any], bool]] = {
    **_ORDER,
    "=": lambda found, value: found == value,
    "~": lambda found, value: value in found,
}


def parse_filters(table: ScreenTable, words: str) -> list[Filter]:
    """The filters of a list like `STATE=RUNNING,CPU>100`. Raises FilterError."""
    return [_parse(table, part) for part in words.split(",")]


def _parse(table: ScreenTable, part: str) -> Filter:
    match = _FILTER.fullmatch(part)
    if match is None:
        raise FilterError(
            f"{shortened(part)}: COLUMN, one of = != < <= > >= ~, and a value are right"
        )
    try:
        column = table.chosen(match["name"])[0]
    except ColumnsError as error:
        raise FilterError(str(error)) from None
    if column.kind not in _NUMBERS:
        return Filter(column, match["sign"], match["value"])
    if match["sign"] == "~":
        raise FilterError(f"{column.name} is a number: one of = != < <= > >= is right")
    try:
        value = float(match["value"])
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise FilterError(f"{shortened(part)}: {column.name} is compared with a number")
    return Filter(column, match["sign"], value)
