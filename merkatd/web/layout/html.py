"""HTML elements, and the fields of forms."""

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, TypeAlias

_VOID = frozenset({"br", "input", "link", "meta"})


class Markup(str):
    """Text that is HTML and needs no escaping."""

    __slots__ = ()


Part: TypeAlias = str | int | float | Iterable["Part"] | None
Value: TypeAlias = str | int | float | bool | None
NOTHING = Markup("")


def element(tag: str, *parts: Part, **attributes: Value) -> Markup:
    """Return an element. `class_` is class, `aria_label` aria-label; None and False are omitted."""
    words = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Markup(f"<{tag}{words}>")
    return Markup(f"<{tag}{words}>{joined(parts)}</{tag}>")


def joined(parts: Part) -> Markup:
    """Return the parts as one text, escaped unless they are HTML."""
    if parts is None:
        return NOTHING
    if isinstance(parts, Markup):
        return parts
    if isinstance(parts, str | int | float):
        return Markup(escape(str(parts)))
    return Markup("".join(map(joined, parts)))


def compact(value: Any) -> str:
    """Return compact JSON, for an attribute that a script reads."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def _attribute(name: str, value: Value) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


_LONGEST = 40


class WrongInputError(Exception):
    """A form has invalid fields; `wrong` has a message for each."""

    def __init__(self, wrong: Mapping[str, str]) -> None:
        super().__init__("; ".join(wrong.values()))
        self.wrong = wrong


def numbers(fields: Mapping[str, str]) -> dict[str, float]:
    """Return the numbers in these fields; empty fields are omitted. Raise WrongInputError."""
    amounts: dict[str, float] = {}
    wrong: dict[str, str] = {}
    for name, text in fields.items():
        if not text:
            continue
        try:
            value = float(text) if len(text) <= _LONGEST else -1.0
        except ValueError:
            value = -1.0
        if 0 <= value < float("inf"):  # false for NaN too
            amounts[name] = value
        else:
            wrong[name] = f"Must be a number of at least 0 (got {text[:_LONGEST]!r})."
    if wrong:
        raise WrongInputError(wrong)
    return amounts


def input_text(value: float) -> str:
    """Return a number as the text of an input: a form that is sent unchanged changes nothing."""
    return repr(float(value)).removesuffix(".0")


def field(
    name: str,
    label: str,
    value: str,
    wrong: Mapping[str, str],
    hint: str = "",
    choices: Sequence[tuple[str, str]] = (),
    **more: Value,
) -> Markup:
    """Return an input with its label, its hint, and the error in its value.

    With `choices`, values with their words, it is a list to choose from.
    """
    problem = wrong.get(name)
    about = " ".join([f"hint-{name}"] * bool(hint) + [f"wrong-{name}"] * bool(problem))
    attributes: dict[str, Value] = {
        "id": f"field-{name}",
        "name": name,
        "value": None if choices else value,
        "aria_invalid": "true" if problem else None,
        "aria_describedby": about or None,
    }
    options = [
        element("option", words, value=choice, selected=choice == value)
        for choice, words in choices
    ]
    return element(
        "div",
        element("label", label, for_=f"field-{name}"),
        element("select", options, **attributes)
        if choices
        else element("input", **attributes, **more),
        element("small", hint, id=f"hint-{name}") if hint else None,
        element("p", problem, class_="wrong", id=f"wrong-{name}", role="alert")
        if problem
        else None,
        class_="field",
    )


def hidden(values: Mapping[str, Value]) -> list[Markup]:
    """Return hidden inputs, which carry these values to the next form."""
    return [
        element("input", type="hidden", name=name, value=value) for name, value in values.items()
    ]
