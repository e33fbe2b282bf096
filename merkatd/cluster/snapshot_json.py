"""The JSON form of a snapshot: versioned, with names rather than numbers, and explicit nulls.

Users can write a cloud by hand, or store the input of a decision and replay it. `docs/snapshot.md`
describes the form. Rows may be in any order.
"""

import json
from typing import Any, NoReturn

import numpy as np

from merkatd.cluster.columns import ColumnType, Table, column_types
from merkatd.cluster.snapshot import Snapshot, SnapshotError, UsageHistory
from merkatd.cluster.snapshot_json_reader import read_snapshot

VERSION = 1
MARK = "merkat_snapshot"
DECISION = "decision"
"""The key of the value that says how the snapshot was decided; it means nothing here."""


def dumps(snapshot: Snapshot, decision: Any = None) -> str:
    """Return the snapshot as JSON text, a line per row, with a JSON value for its decision."""
    head = {
        MARK: VERSION,
        "now_s": snapshot.now_s,
        "period": snapshot.period,
        "resources": list(snapshot.resources),
    }
    parts = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for name, table in snapshot.tables():
        if len(table) or name in {"markets", "hosts", "vms"}:
            lines = ",\n".join(f"    {json.dumps(row)}" for row in _rows(snapshot, table))
            parts.append(f'  "{name}": [\n{lines}\n  ]' if lines else f'  "{name}": []')
    if snapshot.history is not None:
        parts.append(f'  "history": {json.dumps(_history(snapshot.history))}')
    if decision is not None:
        parts.append(f'  "{DECISION}": {json.dumps(decision, allow_nan=False)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def loads(text: str) -> Snapshot:
    """Return the snapshot in this text; raise SnapshotError with the place and the problem."""
    return loads_with_decision(text)[0]


def loads_with_decision(text: str) -> tuple[Snapshot, Any]:
    """Return the snapshot in this text, and the value for its decision, None without one."""
    try:
        data = json.loads(text, parse_constant=_no_number, object_pairs_hook=_no_twice)
    except json.JSONDecodeError as error:
        raise SnapshotError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise SnapshotError("not a snapshot: nested too deeply") from None
    if not isinstance(data, dict) or MARK not in data:
        raise SnapshotError(f'not a snapshot: "{MARK}": {VERSION} is missing')
    if data[MARK] != VERSION or isinstance(data[MARK], bool):
        raise SnapshotError(f"{MARK}: the version must be {VERSION} (got {data[MARK]!r})")
    decision = data.pop(DECISION, None)
    return read_snapshot({key: value for key, value in data.items() if key != MARK}), decision


def _no_number(text: str) -> NoReturn:
    raise SnapshotError(f"{text} is not a JSON number; use null for an unknown number")


def _no_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise SnapshotError(f"keys of an object must be unique (got {twice!r} twice)")
    return members


def _rows(snapshot: Snapshot, table: Table) -> list[dict[str, Any]]:
    columns = {
        name: _cells(snapshot, form, getattr(table, name), len(table))
        for name, form in column_types(type(table)).items()
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _cells(snapshot: Snapshot, form: ColumnType, values: Any, rows: int) -> list[Any]:
    """Return the cells of a column in JSON form."""
    what = form.what
    if what == "text":
        return list(values)
    if what == "pairs":
        return [
            {
                kind: [_known(value) for value in part[row].tolist()]
                for kind, part in sorted(values.items())
            }
            for row in range(rows)
        ]
    if what == "vector":
        names = snapshot.resources
        return [
            None
            if np.isnan(row).all() and form.default is None
            else {name: _number(number) for name, number in zip(names, row.tolist(), strict=True)}
            for row in values
        ]
    if what == "members":
        keys = _keys(snapshot, form.target)
        return [[keys[at] for at, chosen in enumerate(row) if chosen] for row in values.tolist()]
    if what == "scores":
        return _scores(_keys(snapshot, form.target), values)
    return [_cell(snapshot, form, value) for value in values.tolist()]


def _scores(keys: Any, values: Any) -> list[Any]:
    """Return, by name, the scores other than 0; null if the table has no scores."""
    if values.shape[1] != len(keys):
        return [None] * len(values)
    return [
        {key: value for key, value in zip(keys, row, strict=True) if value}
        for row in values.tolist()
    ]


def _cell(snapshot: Snapshot, form: ColumnType, value: Any) -> Any:
    if form.what == "reference":
        return None if value < 0 else _keys(snapshot, form.target)[value]
    if form.what == "choice" and form.choices is not None:
        return form.choices(value).name.lower()
    if form.what == "number":
        return _number(value)
    if form.what == "whole":
        return _known(value) if form.default is None else value
    return value


def _keys(snapshot: Snapshot, target: str) -> Any:
    table = getattr(snapshot, target)
    keys = getattr(table, table.key)
    return keys.tolist() if isinstance(keys, np.ndarray) else keys


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value


def _known(value: int) -> int | None:
    return None if value < 0 else value


def _history(history: UsageHistory) -> dict[str, Any]:
    return {
        "at_s": history.at_s.tolist(),
        "vms": _with_nulls(history.vms),
        "hosts": _with_nulls(history.hosts),
    }


def _with_nulls(values: Any) -> Any:
    cells = values.astype(object)
    cells[np.isnan(values)] = None
    return cells.tolist()
