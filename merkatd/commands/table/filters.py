"""Filters: which rows are wanted, as in STATE=RUNNING,CPU>100."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from merkatd.commands.table.columns import Column, ColumnsError, Kind, Row, Table, short

_FILTER = re.compile(r"\s*(?P<name>\w+)\s*(?P<sign>!=|<=|>=|=|<|>|~)(?P<value>.*)", re.DOTALL)

_NUMBERS = {Kind.WHOLE, Kind.NUMBER, Kind.CREDITS, Kind.PRICE, Kind.PART, Kind.TIME}


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


def parse_filters(table: Table, words: str) -> list[Filter]:
    """The filters of a list like `STATE=RUNNING,CPU>100`. Raises FilterError."""
    return [_parse(table, part) for part in words.split(",")]


def _parse(table: Table, part: str) -> Filter:
    match = _FILTER.fullmatch(part)
    if match is None:
        raise FilterError(f"{short(part)}: COLUMN, one of = != < <= > >= ~, and a value are right")
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
        raise FilterError(f"{short(part)}: {column.name} is compared with a number")
    return Filter(column, match["sign"], value)
