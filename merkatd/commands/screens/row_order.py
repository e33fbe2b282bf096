"""The order of rows: by columns, upwards or downwards."""

from collections.abc import Sequence
from typing import Any

from merkatd.commands.terminal.table_columns import Column, Row, ScreenTable


def sorted_rows(table: ScreenTable, order: str, rows: Sequence[Row]) -> list[Row]:
    """Return the rows sorted by columns, as in `NAME,-COST`. Raise ColumnsError.

    A minus sorts downwards. Rows without a value come last in both directions.
    """
    ordered = list(rows)
    for word in reversed(order.split(",")):
        name = word.strip()
        (column,) = table.chosen(name.removeprefix("-"))
        down = name.startswith("-")
        known = [row for row in ordered if column.value(row) is not None]
        missing = [row for row in ordered if column.value(row) is None]
        known.sort(key=lambda row, by=column: _key(by, row), reverse=down)  # type: ignore[misc]
        ordered = [*known, *missing]
    return ordered


def _key(column: Column, row: Row) -> tuple[int, Any]:
    """Return a key by which numbers precede texts, and texts are compared without case."""
    value = column.value(row)
    if isinstance(value, int | float):
        return 0, value
    return 1, column.text(row).casefold()
