"""Answers of the client as the values of JSON, which the commands' tables show."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def json_row(answer: "DataclassInstance") -> dict[str, Any]:
    """Return an answer as a dict, with lists instead of tuples."""
    return {name: _listed(value) for name, value in asdict(answer).items()}


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _listed(inner) for name, inner in value.items()}
    return [_listed(inner) for inner in value] if isinstance(value, list | tuple) else value
