"""The strict decoder of dataclasses from plain data (JSON, XML-RPC, SQLite), and an encoder."""

from __future__ import annotations

import dataclasses
import json
import re
import types
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

R = TypeVar("R")
_PLAIN_TYPES = (str, int, float, bool, type(None))


def to_plain(record: object) -> str:
    """Return a record as a line of JSON."""
    return json.dumps(_lower(record), separators=(",", ":"))


def from_plain(kind: type[R], text: str) -> R:
    """Return the record that a line of JSON describes."""
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
    """Return a reader for a union: a value or None, or a text or a vector."""
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
        # Records from older versions lack the last fields: these get their defaults.
        there = zip(readers[: len(value)], value, strict=True)
        return kind(*(read_one(entry) for read_one, entry in there))

    return read


Reader = Callable[[Any], Any]
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,40}")
MOST_IDS = 10_000
"""The most entries of a mapping whose keys are VM ids."""
DEEPEST = 20
"""The most levels of a value of any type: an accepted value can be written again."""


class ShapeError(ValueError):
    """A value of a wrong type or form; the message names its place and the accepted values."""

    def below(self, name: str) -> ShapeError:
        """Return the same error with `name`, the key of the level above, added to its place."""
        joint = "" if self.args[0].startswith((".", " ")) else " "
        return ShapeError(f".{quoted_name(name)}{joint}{self.args[0]}")


def quoted_name(name: str) -> str:
    """Return an untrusted name in a form safe for errors and logs: short, and on one line."""
    return name if _PLAIN.fullmatch(name) else ascii(name[:40])


_WORDS: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    str: "a text",
    dict: "an object",
    list: "a list",
}


@cache
def decoder_of(hint: Hashable) -> Reader:
    """Return a reader of values of this type. The reader raises ShapeError."""
    if hint is Any:
        return _anything
    if hint is float:
        return _number
    origin = get_origin(hint)
    if origin is UnionType:
        return _optional(hint)
    if origin is Mapping:
        return _mapping(*get_args(hint))
    if origin is tuple:
        return _sequence(get_args(hint)[0])
    return _object(cast("type", hint)) if is_dataclass(hint) else _plain(cast("type", hint))


def _anything(value: Any) -> Any:
    level = [value]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for element in level:
            # A message can have a hundred thousand values, so this loop makes no call for each.
            kind = type(element)
            if kind is list:
                inner += element
            elif kind is dict:
                inner += element.values()
            elif kind is float and not isfinite(element):
                raise ShapeError("must have only finite numbers")
        if not inner:
            return value
        level = inner
    raise ShapeError(f"is nested deeper than {DEEPEST} levels")


def _plain(wanted: type) -> Reader:
    def read(value: Any) -> Any:
        # The type must match exactly: in Python, true is also an int.
        if type(value) is wanted:
            return value
        raise ShapeError(f"must be {_WORDS[wanted]}")

    return read


def _number(value: Any) -> float:
    if type(value) is float and isfinite(value):
        return value
    if type(value) is int and -(2**53) <= value <= 2**53:
        return float(value)
    raise ShapeError("must be a finite number")


def _optional(hint: Any) -> Reader:
    (inner,) = (argument for argument in get_args(hint) if argument is not NoneType)
    read = decoder_of(inner)
    return lambda value: None if value is None else read(value)


def _mapping(key: type, element: Any) -> Reader:
    read, checked = decoder_of(element), _plain(dict)
    read_key = _id if key is int else decoder_of(key)

    def read_all(value: Any) -> Any:
        if key is int and len(checked(value)) > MOST_IDS:
            raise ShapeError(f"must name at most {MOST_IDS} VMs")
        values = {}
        for name, member in checked(value).items():
            try:
                values[read_key(name)] = read(member)
            except ShapeError as error:
                raise error.below(name) from None
        return values

    return read_all


def _id(name: str) -> int:
    """Return the id in a JSON key, which is a text; each number has a single accepted form."""
    if name.isascii() and name.isdigit() and len(name) < 16 and (name[0] != "0" or name == "0"):
        return int(name)
    raise ShapeError("must have a whole number as its key")


def _sequence(element: Any) -> Reader:
    read, checked = decoder_of(element), _plain(list)

    def read_all(value: Any) -> Any:
        values = []
        for row, item in enumerate(checked(value)):
            try:
                values.append(read(item))
            except ShapeError as error:
                raise error.below(str(row)) from None
        return tuple(values)

    return read_all


def _object(wanted: type) -> Reader:
    hints = get_type_hints(wanted)
    readers = {field.name: decoder_of(hints[field.name]) for field in fields(wanted)}
    needed = frozenset(
        field.name
        for field in fields(wanted)
        if field.default is MISSING and field.default_factory is MISSING
    )
    checked = _plain(dict)

    def read(value: Any) -> Any:
        given = checked(value)
        for name in needed.difference(given):
            raise ShapeError(f"lacks {name}")
        values = {}
        for name, member in given.items():
            if name not in readers:
                raise ShapeError(f"has an unknown field {name[:40]!a}")
            try:
                values[name] = readers[name](member)
            except ShapeError as error:
                raise error.below(name) from None
        return wanted(**values)

    return read
