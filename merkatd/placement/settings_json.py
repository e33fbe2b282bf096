"""Strategies' settings and memories as JSON values, for files that outlive the daemon."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from math import isfinite
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from merkatd.cluster.snapshot import SnapshotError
from merkatd.placement.contract import PARAMETER, StrategyParameter


def settings_to_json(settings: Any) -> dict[str, Any]:
    """Return the fields of a strategy's settings by name."""
    return {entry.name: _to_json(getattr(settings, entry.name)) for entry in fields(type(settings))}


def settings_from_json(kind: type[Any], given: Any, where: str) -> Any:
    """Return settings of this type; missing fields have their defaults.

    Raise SnapshotError with the place and the problem; `where` names the place of `given`.
    """
    table = object_of(given, where)
    known = {entry.name: entry for entry in fields(kind)}
    hints = get_type_hints(kind)
    values = {}
    for name, value in table.items():
        place = f"{where}.{name}"
        if name not in known:
            raise SnapshotError(f"{place}: is not a setting; known are {', '.join(known)}")
        values[name] = _from_json(hints[name], value, place)
        _check_range(known[name].metadata.get(PARAMETER), values[name], place)
    return kind(**values)


def memory_to_json(memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return a strategy's memory, with its arrays apart from the other values."""
    arrays = {name: value for name, value in memory.items() if isinstance(value, np.ndarray)}
    return {
        "values": {name: value for name, value in memory.items() if name not in arrays},
        "arrays": {
            name: {
                "dtype": array.dtype.str,
                "shape": list(array.shape),
                "values": _with_nulls(array).ravel().tolist(),
            }
            for name, array in arrays.items()
        },
    }


def memory_from_json(given: Any, where: str) -> dict[str, Any]:
    """Return the memory of `memory_to_json`. Raise SnapshotError with the place and the problem."""
    table = object_of(given, where, "values", "arrays")
    arrays = object_of(table.get("arrays", {}), f"{where}.arrays")
    return {
        **object_of(table.get("values", {}), f"{where}.values"),
        **{name: _array(array, f"{where}.arrays.{name}") for name, array in arrays.items()},
    }


def object_of(given: Any, where: str, *known: str) -> dict[str, Any]:
    """Return a JSON object, with these keys at most if any are given. Raise SnapshotError."""
    if not isinstance(given, dict):
        raise SnapshotError(f"{where}: must be an object (got {given!r:.40})")
    for key in given:
        if known and key not in known:
            raise SnapshotError(f"{where}: unknown key {key!r}; known are {', '.join(known)}")
    return given


def _with_nulls(array: Any) -> Any:
    """Return an array whose values JSON has: null is unknown, and infinity a text."""
    if array.dtype.kind != "f":
        return array
    cells = array.astype(object)
    cells[np.isnan(array)] = None
    cells[np.isposinf(array)], cells[np.isneginf(array)] = "inf", "-inf"
    return cells


_NUMBERS = {
    kind.str: kind
    for kind in map(np.dtype, ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"))
}
"""The types of arrays, by the names in a file."""


def _array(given: Any, where: str) -> Any:
    table = object_of(given, where, "dtype", "shape", "values")
    try:
        kind = _NUMBERS[table["dtype"]]
        if kind.kind == "f":
            cells = [np.nan if value is None else float(value) for value in table["values"]]
        else:
            cells = table["values"]
        return np.array(cells, dtype=kind).reshape(table["shape"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise SnapshotError(f"{where}: is not an array: {error}") from None


def _to_json(value: Any) -> Any:
    if is_dataclass(value):
        return settings_to_json(value)
    if isinstance(value, Mapping):
        return {name: _to_json(item) for name, item in value.items()}
    return str(value) if isinstance(value, StrEnum) else value


def _from_json(wanted: Any, given: Any, where: str) -> Any:
    if is_dataclass(wanted) and isinstance(wanted, type):
        return settings_from_json(wanted, given, where)
    if get_origin(wanted) is Mapping:
        element = get_args(wanted)[1]
        table = object_of(given, where)
        return {name: _from_json(element, item, f"{where}.{name}") for name, item in table.items()}
    if issubclass(wanted, StrEnum):
        if given not in list(wanted):
            raise SnapshotError(f"{where}: must be one of {', '.join(wanted)} (got {given!r})")
        return wanted(given)
    if wanted is float and isinstance(given, int) and not isinstance(given, bool):
        given = float(given) if abs(given) < _TOO_LARGE else None
    if type(given) is not wanted or (wanted is float and not isfinite(given)):
        raise SnapshotError(f"{where}: must be {_NAMES[wanted]} (got {given!r:.40})")
    return given


_TOO_LARGE = 10**300
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def _check_range(described: StrategyParameter | None, value: Any, where: str) -> None:
    if described is not None and not described.least <= value <= described.most:
        raise SnapshotError(
            f"{where}: must be between {described.least:g} and {described.most:g} (got {value:g})"
        )
