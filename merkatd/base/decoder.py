"""The one strict decoder of dataclasses from plain data (JSON, XML-RPC, SQLite), and an encoder."""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

R = TypeVar("R")
_PLAIN_TYPES = (str, int, float, bool, type(None))


def dump(record: object) -> str:
    """A record as a line of JSON."""
    return json.dumps(_lower(record), separators=(",", ":"))


def load(kind: type[R], text: str) -> R:
    """The record that a line of JSON holds."""
    read: Callable[[Any], R] = _reader(cast("Any", kind))
    return read(json.loads(text))


def _lower(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, _PLAIN_TYPES):
        return value
    if isinstance(value, list | tuple):
        return [_lower(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _lower(item) for key, item in value.items()}
    return [_lower(getattr(value, name)) for name in _names(cast("Any", type(value)))]


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in {Union, types.UnionType}:
        return _union(arguments)
    if origin is list:
        item = _reader(arguments[0])
        return lambda value: [item(entry) for entry in value]
    if origin is tuple:
        return _tuple(arguments)
    if origin is dict:
        key, item = arguments[0], _reader(arguments[1])
        return lambda value: {key(name): item(entry) for name, entry in value.items()}
    if dataclasses.is_dataclass(kind):
        return _record(kind)
    return kind  # type: ignore[no-any-return]  # a plain type or an enumeration reads itself


def _union(arguments: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Of the unions that occur: something or nothing, and a text or a vector."""
    other = next(item for item in arguments if item not in {str, type(None)})
    read = _reader(other)
    if type(None) in arguments:
        return lambda value: None if value is None else read(value)
    return lambda value: value if isinstance(value, str) else read(value)


def _tuple(arguments: tuple[Any, ...]) -> Callable[[Any], Any]:
    if len(arguments) == 2 and arguments[1] is ...:
        item = _reader(arguments[0])
        return lambda value: tuple(item(entry) for entry in value)
    readers = [_reader(argument) for argument in arguments]
    return lambda value: tuple(read(entry) for read, entry in zip(readers, value, strict=True))


def _record(kind: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(kind)
    readers = [_reader(hints[name]) for name in _names(kind)]

    def read(value: Any) -> Any:
        # What was written before the last fields were there has their defaults.
        there = zip(readers[: len(value)], value, strict=True)
        return kind(*(read_one(entry) for read_one, entry in there))

    return read
