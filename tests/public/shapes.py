"""Types as text, without the names of classes: a class may be renamed, its fields may not."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

_PLAIN = {
    int: "int",
    float: "float",
    str: "str",
    bool: "bool",
    bytes: "bytes",
    NoneType: "None",
    Any: "any",
    object: "any",
}


def shape(hint: Any) -> str:
    """Return what values of this type consist of."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    parts = get_args(hint)
    return _of_class(hint) if not parts else _of_parts(get_origin(hint), parts)


def _of_class(kind: type) -> str:
    if is_dataclass(kind):
        return "{" + ", ".join(members(kind)) + "}"
    if issubclass(kind, Enum):
        return " or ".join(repr(member.value) for member in kind)
    return kind.__name__


def _of_parts(origin: Any, parts: tuple[Any, ...]) -> str:
    if origin is Annotated:
        return shape(parts[0])
    if origin is Literal:
        return " or ".join(sorted(map(repr, parts)))
    if origin in {Union, UnionType}:
        return " or ".join(sorted(map(shape, parts)))
    if issubclass(origin, Mapping):
        return f"{shape(parts[0])} -> {shape(parts[1])}"
    if origin is tuple and parts[-1] is not Ellipsis:
        return f"({', '.join(map(shape, parts))})"
    return f"[{shape(parts[0])}]"


def members(kind: type) -> Iterator[str]:
    """Yield each field of a dataclass with the shape of its values; one with a default has `?`."""
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        optional = field.default is not MISSING or field.default_factory is not MISSING
        yield f"{field.name}{'?' if optional else ''}: {shape(hints[field.name])}"
