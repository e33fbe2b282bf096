"""Conversion of parsed JSON to a snapshot: types of values, names of rows, and clear errors."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from merkatd.cluster.applications import Jobs, Replicated, Services, Stages
from merkatd.cluster.columns import ColumnType, Table, column_types
from merkatd.cluster.hosts import FailureRates, Hosts, Markets, Requirements
from merkatd.cluster.snapshot import Snapshot, SnapshotError, UsageHistory, checked_file
from merkatd.cluster.vms import Orders, RolePairs, Roles, Vms

TABLES: Mapping[str, type[Table]] = {
    "markets": Markets,
    "hosts": Hosts,
    "requirements": Requirements,
    "roles": Roles,
    "role_pairs": RolePairs,
    "orders": Orders,
    "vms": Vms,
    "jobs": Jobs,
    "stages": Stages,
    "services": Services,
    "replicated": Replicated,
    "failure_rates": FailureRates,
}
"""Table types by name; tables come after the tables they refer to."""

LARGEST_ID = 2**53
"""Largest whole number that all JSON readers preserve."""

Names = dict[str, dict[Any, int]]


def read_snapshot(data: Mapping[str, Any]) -> Snapshot:
    """Return the snapshot that this object describes; raise SnapshotError for the first error."""
    known = {"now_s", "period", "resources", "history", *TABLES}
    _refuse_unknown("snapshot", data, known)
    resources = data.get("resources")
    if (
        not isinstance(resources, list)
        or not resources
        or not all(isinstance(name, str) for name in resources)
    ):
        raise SnapshotError(f"resources: must be a list of names (got {_short(resources)})")
    names: Names = {}
    tables = {
        name: _read_table(name, table, data.get(name, []), tuple(resources), names)
        for name, table in TABLES.items()
    }
    return checked_file(
        Snapshot(
            now_s=_number("now_s", data.get("now_s")),
            period=_whole("period", data.get("period")),
            resources=tuple(resources),
            history=_read_history(data.get("history"), len(resources)),
            **tables,
        )
    )


def _read_table(
    name: str, table: type[Table], rows: Any, resources: tuple[str, ...], names: Names
) -> Any:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SnapshotError(f"{name}: must be a list of objects (got {_short(rows)})")
    columns = column_types(table)
    for at, row in enumerate(rows):
        _refuse_unknown(f"{name}[{at}]", row, set(columns))
    if "id" in columns:
        keyed = [(_whole(f"{name}[{at}].id", row.get("id")), at) for at, row in enumerate(rows)]
        rows = [rows[at] for _, at in sorted(keyed)]
    read = table(
        **{
            column: _read_column(f"{name}", column, form, rows, resources, names)
            for column, form in columns.items()
        }
    )
    keys = getattr(read, table.key)
    listed = keys.tolist() if isinstance(keys, np.ndarray) else keys
    names[name] = {key: row for row, key in enumerate(listed)}
    return read


def _read_column(
    name: str,
    column: str,
    form: ColumnType,
    rows: list[dict[str, Any]],
    resources: tuple[str, ...],
    names: Names,
) -> Any:
    if form.what == "pairs":
        return _read_pairs(name, column, rows)
    if form.what == "levels":
        return _read_levels(name, column, rows)
    if form.what == "scores":
        return _read_scores(name, column, rows, names[form.target])
    cells = []
    for at, row in enumerate(rows):
        key = row.get("id", row.get("name"))
        where = f"{name}[{at}], {column}" if key is None else f"{name} {key}, {column}"
        if column not in row and form.needed:
            raise SnapshotError(f"{where}: is missing")
        cells.append(_read_cell(where, form, row.get(column, form.default), resources, names))
    if form.what == "text":
        return tuple(cells)
    kinds: dict[str, Any] = {"number": float, "vector": float, "flag": bool, "members": bool}
    kind = kinds.get(form.what, np.int64)
    widths = {"vector": len(resources), "members": len(names.get(form.target, ()))}
    if form.what in widths:
        return np.array(cells, dtype=kind).reshape(len(rows), widths[form.what])
    return np.array(cells, dtype=kind)


def _read_cell(
    where: str, form: ColumnType, value: Any, resources: tuple[str, ...], names: Names
) -> Any:
    if form.what == "vector":
        return _vector(where, form, value, resources)
    if form.what == "members":
        return _members(where, value, names[form.target])
    if value is None and form.default is None:
        return np.nan if form.what == "number" else -1
    if form.what == "reference":
        return _row(where, form.target, value, names)
    if form.what == "choice":
        return _choice(where, form, value)
    readers: dict[str, Callable[[str, Any], Any]] = {
        "whole": _whole,
        "number": _at_least_0 if form.from_0 else _number,
        "flag": _flag,
        "text": _text,
    }
    return readers[form.what](where, value)


def _vector(where: str, form: ColumnType, value: Any, resources: tuple[str, ...]) -> list[float]:
    if not isinstance(value, dict):
        if value is None and form.default is None:
            return [np.nan] * len(resources)
        if value is form.default:
            return [float(value)] * len(resources)
        keys = ", ".join(resources)
        raise SnapshotError(f"{where}: must be an object with {keys} (got {_short(value)})")
    _refuse_unknown(where, value, set(resources))
    numbers = []
    for name in resources:
        given = value.get(name, form.default)
        if given is None and form.default is None:
            numbers.append(np.nan)
            continue
        if name not in value and form.needed:
            raise SnapshotError(f"{where}.{name}: is missing")
        numbers.append(_at_least_0(f"{where}.{name}", given))
    return numbers


def _members(where: str, value: Any, names: dict[Any, int]) -> list[bool]:
    if not isinstance(value, list):
        raise SnapshotError(f"{where}: must be a list of host names (got {_short(value)})")
    chosen = [False] * len(names)
    for name in value:
        chosen[_row(where, "hosts", name, {"hosts": names})] = True
    return chosen


def _row(where: str, target: str, value: Any, names: Names) -> int:
    key_type = str if not isinstance(value, int) else int
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        row = names[target].get(key_type(value))
        if row is not None:
            return row
    raise SnapshotError(f"{where}: must name a row of {target} (got {_short(value)})")


def _choice(where: str, form: ColumnType, value: Any) -> int:
    if form.choices is None:
        raise TypeError(form)
    if not isinstance(value, str):
        value = form.choices(value).name.lower() if value is form.default else value
    words = {choice.name.lower(): int(choice) for choice in form.choices}
    if not isinstance(value, str) or value not in words:
        raise SnapshotError(f"{where}: must be one of {', '.join(words)} (got {_short(value)})")
    return words[value]


def _read_pairs(name: str, column: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    kinds = sorted({kind for row in rows for kind in _object(name, row.get(column) or {})})
    pairs = {kind: np.full((len(rows), 2), -1, dtype=np.int64) for kind in kinds}
    for at, row in enumerate(rows):
        for kind, pair in (row.get(column) or {}).items():
            where = f"{name}[{at}].{column}.{kind}"
            if not isinstance(pair, list) or len(pair) != 2:
                raise SnapshotError(
                    f"{where}: must be two whole numbers or nulls (got {_short(pair)})"
                )
            pairs[kind][at] = [-1 if row is None else _whole(where, row) for row in pair]
    return pairs


def _read_levels(name: str, column: str, rows: list[dict[str, Any]]) -> Any:
    cells = [row.get(column) or [] for row in rows]
    widths = {len(row) if isinstance(row, list) else -1 for row in cells}
    if len(widths) > 1 or -1 in widths:
        raise SnapshotError(f"{name}.{column}: must be a list of the same length in every row")
    width = widths.pop() if widths else 0
    numbers = [[_whole(f"{name}.{column}", number) for number in row] for row in cells]
    return np.array(numbers, dtype=np.int64).reshape(len(rows), width)


def _read_scores(name: str, column: str, rows: list[dict[str, Any]], names: dict[Any, int]) -> Any:
    given = [row.get(column) for row in rows]
    scored = any(scores is not None for scores in given)
    table = np.zeros((len(rows), len(names) if scored else 0))
    for at, scores in enumerate(given):
        where = f"{name}[{at}].{column}"
        for key, value in _object(where, scores or {}).items():
            table[at, _row(where, "hosts", key, {"hosts": names})] = _number(where, value)
    return table


def _read_history(data: Any, resources: int) -> UsageHistory | None:
    if data is None:
        return None
    _refuse_unknown("history", _object("history", data), {"at_s", "vms", "hosts"})
    parts = {}
    for name, dimensions in (("at_s", 1), ("vms", 3), ("hosts", 3)):
        try:
            part = np.array(data.get(name), dtype=float)
        except (TypeError, ValueError):
            raise SnapshotError(f"history.{name}: must be numbers or null, evenly nested") from None
        if dimensions > part.ndim > 1 and not part.size:
            # Without any VM or host the nesting does not show the depth.
            part = part.reshape(len(part), 0, resources)
        if part.ndim != dimensions:
            raise SnapshotError(f"history.{name}: must be nested {dimensions} deep")
        parts[name] = part
    return UsageHistory(**parts)


def _object(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SnapshotError(f"{where}: must be an object (got {_short(value)})")
    return value


def _number(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SnapshotError(f"{where}: must be a number (got {_short(value)})")
    try:
        number = float(value)
    except OverflowError:
        number = np.inf
    if not np.isfinite(number):
        raise SnapshotError(f"{where}: must be a finite number (got {_short(value)})")
    return number


def _at_least_0(where: str, value: Any) -> float:
    number = _number(where, value)
    if number < 0:
        raise SnapshotError(f"{where}: must be at least 0 (got {_short(value)})")
    return number


def _whole(where: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_ID:
        raise SnapshotError(
            f"{where}: must be a whole number from 0 to {LARGEST_ID} (got {_short(value)})"
        )
    return value


def _flag(where: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise SnapshotError(f"{where}: must be true or false (got {_short(value)})")
    return value


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise SnapshotError(f"{where}: must be a text (got {_short(value)})")
    return value


def _refuse_unknown(where: str, value: Mapping[str, Any], known: set[str]) -> None:
    for key in value:
        if key not in known:
            raise SnapshotError(
                f"{where}: unknown key {key!r}: expected one of {', '.join(sorted(known))}"
            )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
