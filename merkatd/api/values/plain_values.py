"""The results of services as plain values, as interfaces send them."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def members(value: "DataclassInstance") -> dict[str, Any]:
    """Return the plain values of a dataclass by their names, in order."""
    return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}


def _plain(value: Any) -> Any:
    """Return a value with dataclasses and mappings as dicts, and sequences as lists."""
    if hasattr(value, "__dataclass_fields__"):
        return members(value)
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
