"""The formats of rows: text for a screen; CSV, JSON and XML for programs."""

import csv
import io
import json
import re
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape

from merkatd.commands.terminal.screen_text import cut, padded, plain, width
from merkatd.commands.terminal.table_columns import Column, Row, ScreenTable

_GAP = "  "
_FORMULAS = ("=", "+", "-", "@")
"""Characters that start a formula in a spreadsheet."""


def to_text(
    columns: Sequence[Column],
    rows: Sequence[Row],
    cells: int | None,
    *,
    header: bool = True,
    fixed: bool = False,
) -> list[str]:
    """Return aligned lines of at most `cells` cells; None: of any width.

    With `fixed`, the user chose the columns, so none is left out.
    """
    shown = list(columns) if cells is None or fixed else _fitting(columns, rows, cells)
    texts = [[plain(column.text(row)) for column in shown] for row in rows]
    widths = [
        max(width(column.name), *(width(line[at]) for line in texts), 0)
        for at, column in enumerate(shown)
    ]
    if cells is not None:
        widths = _narrowed(shown, widths, cells)
    lines = [[column.name for column in shown], *texts] if header else texts
    rendered = []
    for line in lines:
        fields = [
            padded(cut(text, wide), wide, right=column.kind.right)
            for text, wide, column in zip(line, widths, shown, strict=True)
        ]
        full_line = _GAP.join(fields).rstrip()
        rendered.append(full_line if cells is None else cut(full_line, cells))
    return rendered


def _fitting(columns: Sequence[Column], rows: Sequence[Row], cells: int) -> list[Column]:
    """Leave out columns until the rest fits: first optional ones, then all but `kept` ones.

    Of both kinds, empty columns go first, then the last ones. The first column always stays.
    """
    shown = list(columns)
    while _least_width(shown, rows) > cells:
        others = [column for column in shown[1:] if not column.kept]
        going = [column for column in others if column.optional] or others
        if not going:
            break
        empty = [column for column in going if all(column.value(row) is None for row in rows)]
        shown.remove((empty or going)[-1])
    return shown


def _least_width(columns: Sequence[Column], rows: Sequence[Row]) -> int:
    """Return the width of the table with all columns cut as far as they can be."""
    total = len(_GAP) * (len(columns) - 1)
    for column in columns:
        natural = max((width(plain(column.text(row))) for row in rows), default=0)
        natural = max(natural, width(column.name))
        total += natural if column.least is None else min(natural, max(column.least, 1))
    return total


def _narrowed(columns: Sequence[Column], widths: Sequence[int], cells: int) -> list[int]:
    """Narrow the widest column that can be cut, until all fit or none can be cut further."""
    fitting = list(widths)
    too_many = sum(fitting) + len(_GAP) * (len(fitting) - 1) - cells
    while too_many > 0:
        room = [
            (fitting[at], at)
            for at, column in enumerate(columns)
            if column.least is not None and fitting[at] > column.least
        ]
        if not room:
            break
        room.sort(reverse=True)
        widest, at = room[0]
        next_widest = room[1][0] if len(room) > 1 else 0
        least = columns[at].least or 1
        step = min(too_many, max(widest - max(next_widest, least), 1))
        fitting[at] -= step
        too_many -= step
    return fitting


def to_csv(
    columns: Sequence[Column],
    rows: Sequence[Row],
    *,
    header: bool = True,
    separator: str = ",",
) -> list[str]:
    """Return CSV (RFC 4180) with unformatted numbers; a missing value is empty.

    Tenants choose the names in it: control characters are replaced, and a text that a spreadsheet
    would take for a formula gets an apostrophe in front.
    """
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator="\n")
    if header:
        writer.writerow([column.name for column in columns])
    writer.writerows([_csv_cell(column.value(row)) for column in columns] for row in rows)
    return out.getvalue().rstrip("\n").split("\n") if out.getvalue() else []


def _csv_cell(value: Any) -> str:
    text = plain(_cell(value))
    number = isinstance(value, int | float)
    return f"'{text}" if text.startswith(_FORMULAS) and not number else text


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return " ".join(_cell(value) for value in value)
    return str(value)


def to_json(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """Return a JSON list of objects; a missing value is null."""
    values = [{column.name.lower(): column.value(row) for column in columns} for row in rows]
    return json.dumps(values, indent=2, allow_nan=False)


def to_yaml(columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    """Return YAML: a list with a mapping per row; a missing value is null.

    Texts and lists are written as in JSON, which YAML contains.
    """
    if not rows:
        return ["[]"]
    lines = []
    for row in rows:
        for at, column in enumerate(columns):
            value = _yaml_value(column.value(row))
            lines.append(f"{'  ' if at else '- '}{column.name.lower()}: {value}")
    return lines


def yaml_of(value: Any, indent: str = "") -> list[str]:
    """Return any JSON value as YAML in blocks."""
    if isinstance(value, dict) and value:
        return [line for key, inner in value.items() for line in _member(key, inner, indent)]
    if isinstance(value, list) and value:
        lines = []
        for inner in value:
            block = yaml_of(inner, indent + "  ")
            lines += [f"{indent}- {block[0].lstrip()}", *block[1:]]
        return lines
    return [f"{indent}{_yaml_value(value)}"]


def _member(key: str, value: Any, indent: str) -> list[str]:
    name = f"{indent}{json.dumps(key)}:" if not _PLAIN_KEY.fullmatch(key) else f"{indent}{key}:"
    if isinstance(value, dict | list) and value:
        return [name, *yaml_of(value, indent + "  ")]
    return [f"{name} {_yaml_value(value)}"]


def _yaml_value(value: Any) -> str:
    """Return a value on one line. YAML 1.1 reads 1e-05 as a text, and 1.0e-05 as a number."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    if isinstance(value, float) and "." not in text:
        return text.replace("e", ".0e")
    if plain(text) == text:
        return text
    # JSON writes letters beyond U+FFFF as two escapes, which YAML would read as two letters.
    return "".join(char if plain(char) == char else f"\\U{ord(char):08x}" for char in text)


_PLAIN_KEY = re.compile("(?!(?:y|n|no|on|off|yes|true|null|false)$)[a-z][a-z_]{0,40}")
"""Keys that need no quotes; the words that YAML reads as a value (yes, null, on) are excluded."""


def to_xml(table: ScreenTable, columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    """Return XML like OpenNebula's pools: an element per row, with an element per column.

    The element of a missing value is empty.
    """
    lines = [f"<{table.what}_POOL>"]
    for row in rows:
        lines.append(f"  <{table.what}>")
        for column in columns:
            text = _xml_text(_cell(column.value(row)))
            lines.append(f"    <{column.name}>{text}</{column.name}>")
        lines.append(f"  </{table.what}>")
    return [*lines, f"</{table.what}_POOL>"]


def _xml_text(text: str) -> str:
    """Return a text for XML; characters that a terminal may interpret become references."""
    escaped = escape(_FORBIDDEN.sub("?", text))
    if plain(escaped) == escaped:
        return escaped
    return "".join(char if plain(char) == char else f"&#{ord(char)};" for char in escaped)


_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 forbids, escaped or not."""
