"""What forms say: read once, and shown again with what is wrong beside it."""

from collections.abc import Mapping

from merkatd.web.markup import Markup, Value, h

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
    return h(
        "div",
        h("label", label, for_=f"field-{name}"),
        h(
            "input",
            id=f"field-{name}",
            name=name,
            value=value,
            aria_invalid="true" if problem else None,
            aria_describedby=about or None,
            **more,
        ),
        h("small", hint, id=f"hint-{name}") if hint else None,
        h("p", problem, class_="wrong", id=f"wrong-{name}", role="alert") if problem else None,
        class_="field",
    )


def hidden(values: Mapping[str, Value]) -> list[Markup]:
    """What is carried on to the next step."""
    return [h("input", type="hidden", name=name, value=value) for name, value in values.items()]
