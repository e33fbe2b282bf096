"""HTML from values: all text is escaped, unless it was made here."""

import json
from collections.abc import Iterable
from html import escape
from typing import Any, TypeAlias

_VOID = frozenset({"br", "input", "link", "meta"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Part: TypeAlias = str | int | float | Iterable["Part"] | None
Value: TypeAlias = str | int | float | bool | None

NOTHING = Markup("")


def h(tag: str, *parts: Part, **attributes: Value) -> Markup:
    """An element. `class_` is class, `aria_label` aria-label; None and False leave one out."""
    words = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Markup(f"<{tag}{words}>")
    return Markup(f"<{tag}{words}>{joined(parts)}</{tag}>")


def joined(parts: Part) -> Markup:
    """Parts one behind the other."""
    if parts is None:
        return NOTHING
    if isinstance(parts, Markup):
        return parts
    if isinstance(parts, str | int | float):
        return Markup(escape(str(parts)))
    return Markup("".join(map(joined, parts)))


def compact(value: Any) -> str:
    """JSON for scripts, as an attribute holds it."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def _attribute(name: str, value: Value) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
