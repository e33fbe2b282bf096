"""Values read strictly from JSON: every field there and of its type, nothing beside them."""

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Any, cast, get_args, get_origin, get_type_hints

from merkatd.platforms.ports import MOST_VMS

Reader = Callable[[Any], Any]


_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,40}")
DEEPEST = 20
"""Levels of values that may be anything: what is read here can be written again."""


class ShapeError(ValueError):
    """A value is not what it should be; the message says where and what would be right."""

    def below(self, name: str) -> "ShapeError":
        """The same, one level up."""
        joint = "" if self.args[0].startswith((".", " ")) else " "
        return ShapeError(f".{shown(name)}{joint}{self.args[0]}")


def shown(name: str) -> str:
    """Return a name from outside as an error and a log may hold it: short, and on one line."""
    return name if _PLAIN.fullmatch(name) else ascii(name[:40])


_WORDS: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    str: "a text",
    dict: "an object",
    list: "a list",
}


@cache
def reader(hint: Hashable) -> Reader:
    """What reads a value of this type, or raises ShapeError."""
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
        for one in level:
            # A message can have a hundred thousand values: each costs a call less than elsewhere.
            kind = type(one)
            if kind is list:
                inner += one
            elif kind is dict:
                inner += one.values()
            elif kind is float and not isfinite(one):
                raise ShapeError("has a number beyond all bounds")
        if not inner:
            return value
        level = inner
    raise ShapeError(f"is nested deeper than {DEEPEST} levels")


def _plain(wanted: type) -> Reader:
    def read(value: Any) -> Any:
        # A JSON value is of one type exactly: true is no number.
        if type(value) is wanted:
            return value
        raise ShapeError(f"must be {_WORDS[wanted]}")

    return read


def _number(value: Any) -> float:
    if type(value) is float and isfinite(value):
        return value
    if type(value) is int and -(2**53) <= value <= 2**53:
        return float(value)
    raise ShapeError("must be a number that is not beyond all bounds")


def _optional(hint: Any) -> Reader:
    (inner,) = (one for one in get_args(hint) if one is not NoneType)
    read = reader(inner)
    return lambda value: None if value is None else read(value)


def _mapping(key: type, element: Any) -> Reader:
    read, checked = reader(element), _plain(dict)
    read_key = _id if key is int else reader(key)

    def read_all(value: Any) -> Any:
        if key is int and len(checked(value)) > MOST_VMS:
            raise ShapeError(f"must name at most {MOST_VMS} VMs")
        found = {}
        for name, one in checked(value).items():
            try:
                found[read_key(name)] = read(one)
            except ShapeError as error:
                raise error.below(name) from None
        return found

    return read_all


def _id(name: str) -> int:
    """JSON's keys are texts: a number has one way to be written."""
    if name.isascii() and name.isdigit() and len(name) < 16 and (name[0] != "0" or name == "0"):
        return int(name)
    raise ShapeError("must be named by a whole number")


def _sequence(element: Any) -> Reader:
    read, checked = reader(element), _plain(list)

    def read_all(value: Any) -> Any:
        found = []
        for row, one in enumerate(checked(value)):
            try:
                found.append(read(one))
            except ShapeError as error:
                raise error.below(str(row)) from None
        return tuple(found)

    return read_all


def _object(wanted: type) -> Reader:
    hints = get_type_hints(wanted)
    readers = {one.name: reader(hints[one.name]) for one in fields(wanted)}
    needed = frozenset(
        one.name
        for one in fields(wanted)
        if one.default is MISSING and one.default_factory is MISSING
    )
    checked = _plain(dict)

    def read(value: Any) -> Any:
        given = checked(value)
        for name in needed.difference(given):
            raise ShapeError(f"lacks {name}")
        found = {}
        for name, one in given.items():
            if name not in readers:
                raise ShapeError(f"knows no {name[:40]!a}")
            try:
                found[name] = readers[name](one)
            except ShapeError as error:
                raise error.below(name) from None
        return wanted(**found)

    return read
