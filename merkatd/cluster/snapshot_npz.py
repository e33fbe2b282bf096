"""The compact form of a snapshot: the columns in an .npz file, for large clouds."""

import io
import json
import zipfile
import zlib
from typing import Any

import numpy as np

from merkatd.cluster.columns import ColumnType, Table, column_types
from merkatd.cluster.snapshot import Snapshot, SnapshotError, UsageHistory, checked_file
from merkatd.cluster.snapshot_json import DECISION, MARK, VERSION
from merkatd.cluster.snapshot_json_reader import TABLES

HEAD = "head"


def to_npz(snapshot: Snapshot, decision: Any = None) -> bytes:
    """Return the snapshot in compact form, with a JSON value for its decision."""
    head: dict[str, Any] = {
        MARK: VERSION,
        "now_s": snapshot.now_s,
        "period": snapshot.period,
        "resources": list(snapshot.resources),
    }
    if decision is not None:
        head[DECISION] = decision
    arrays: dict[str, Any] = {HEAD: np.array(json.dumps(head))}
    for name, table in snapshot.tables():
        for column, form in column_types(type(table)).items():
            value = getattr(table, column)
            if form.what == "pairs":
                arrays |= {f"{name}.{column}.{kind}": part for kind, part in value.items()}
            else:
                arrays[f"{name}.{column}"] = np.array(value) if form.what == "text" else value
    if snapshot.history is not None:
        arrays |= {f"history.{part}": getattr(snapshot.history, part) for part in _HISTORY}
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


_HISTORY = ("at_s", "vms", "hosts")


def from_npz(data: bytes) -> Snapshot:
    """Return the snapshot in these bytes; raise SnapshotError with the problem."""
    return from_npz_with_decision(data)[0]


def from_npz_with_decision(data: bytes) -> tuple[Snapshot, Any]:
    """Return the snapshot in these bytes, and the value for its decision, None without one."""
    try:
        snapshot, unknown, decision = _read(data)
    except _UNREADABLE as error:
        raise SnapshotError(f"not a compact snapshot: {error}") from None
    if unknown:
        raise SnapshotError(f"unknown array {min(unknown)!r}")
    return checked_file(snapshot), decision


_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    KeyError,
    TypeError,
    ValueError,
    OSError,
    NotImplementedError,
)


_LATER = frozenset({"orders", "failure_rates"})
"""Tables that files from before them lack."""


def _read(data: bytes) -> tuple[Snapshot, set[str], Any]:
    """Return the snapshot, the names of unknown arrays, and the value for its decision."""
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    head = json.loads(str(arrays.pop(HEAD)))
    if head[MARK] != VERSION:
        raise ValueError(f"{MARK}: the version must be {VERSION} (got {head[MARK]!r})")
    present = {name.partition(".")[0] for name in arrays}
    tables = {
        name: _table(name, table, arrays)
        for name, table in TABLES.items()
        if name in present or name not in _LATER
    }
    history = None
    if "history.at_s" in arrays:
        parts = {part: arrays.pop(f"history.{part}").astype(float) for part in _HISTORY}
        history = UsageHistory(**parts)
    snapshot = Snapshot(
        now_s=float(head["now_s"]),
        period=int(head["period"]),
        resources=tuple(str(name) for name in head["resources"]),
        history=history,
        **tables,
    )
    return snapshot, set(arrays), head.get(DECISION)


def _table(name: str, table: type[Table], arrays: dict[str, Any]) -> Any:
    columns = {}
    for column, form in column_types(table).items():
        if form.what == "pairs":
            prefix = f"{name}.{column}."
            kinds = [key for key in arrays if key.startswith(prefix)]
            columns[column] = {
                key.removeprefix(prefix): arrays.pop(key).astype(np.int64) for key in kinds
            }
        elif not form.later or f"{name}.{column}" in arrays:
            columns[column] = _column(arrays.pop(f"{name}.{column}"), form)
    return table(**columns)


def _column(values: Any, form: ColumnType) -> Any:
    if form.what == "text":
        return tuple(str(value) for value in values.tolist())
    kinds: dict[str, Any] = {"number": float, "vector": float, "flag": bool, "members": bool}
    kinds["scores"] = float
    wanted = np.dtype(kinds.get(form.what, np.int64))
    if not np.can_cast(values.dtype, wanted, "same_kind"):
        raise ValueError(f"the column's type must be {wanted} (got {values.dtype})")
    return values.astype(wanted)
