"""HTML from values; form fields read and shown."""

import json
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, TypeAlias

_VOID = frozenset({"br", "input", "link", "meta"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Part: TypeAlias = str | int | float | Iterable["Part"] | None
Value: TypeAlias = str | int | float | bool | None
NOTHING = Markup("")


def element(tag: str, *parts: Part, **attributes: Value) -> Markup:
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


_LONGEST = 40


class WrongInputError(Exception):
    """A form that can't be taken; the message says why."""

    def __init__(self, wrong: Mapping[str, str]) -> None:
        super().__init__("; ".join(wrong.values()))
        self.wrong = wrong


def numbers(said: Mapping[str, str]) -> dict[str, float]:
    """The numbers of fields; those left empty are left out. Raises WrongInputError."""
    found: dict[str, float] = {}
    wrong: dict[str, str] = {}
    for name, text in said.items():
        if not text:
            continue
        try:
            value = float(text) if len(text) <= _LONGEST else -1.0
        except ValueError:
            value = -1.0
        if 0 <= value < float("inf"):  # false for NaN too
            found[name] = value
        else:
            wrong[name] = f"{text[:_LONGEST]!r}: a number from 0 on is right."
    if wrong:
        raise WrongInputError(wrong)
    return found


def field(
    name: str,
    label: str,
    value: str,
    wrong: Mapping[str, str],
    hint: str = "",
    **more: Value,
) -> Markup:
    """An input with its label, a hint, and what is wrong with what it holds."""
    problem = wrong.get(name)
    about = " ".join([f"hint-{name}"] * bool(hint) + [f"wrong-{name}"] * bool(problem))
    return element(
        "div",
        element("label", label, for_=f"field-{name}"),
        element(
            "input",
            id=f"field-{name}",
            name=name,
            value=value,
            aria_invalid="true" if problem else None,
            aria_describedby=about or None,
            **more,
        ),
        element("small", hint, id=f"hint-{name}") if hint else None,
        element("p", problem, class_="wrong", id=f"wrong-{name}", role="alert")
        if problem
        else None,
        class_="field",
    )


def hidden(values: Mapping[str, Value]) -> list[Markup]:
    """What is carried on to the next step."""
    return [
        element("input", type="hidden", name=name, value=value) for name, value in values.items()
    ]
