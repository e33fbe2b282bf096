"""The form that changes what a platform is to reach, or may spend."""

from collections.abc import Mapping
from typing import Any

from merkatd.web.markup import Markup, h
from merkatd.web.pages.fields import field
from merkatd.web.pages.frame import form
from merkatd.web.routes import Here

NAMES = ("deadline", "budget", "replenishment", "performance")


def change_form(
    here: Here, row: Mapping[str, Any], said: Mapping[str, str], wrong: Mapping[str, str]
) -> Markup:
    """What is left empty stays."""

    def one(name: str, label: str, hint: str) -> Markup:
        return field(name, label, said.get(name, ""), wrong, hint, autocomplete="off")

    return form(
        here,
        f"/platforms/{row['id']}/quote",
        one("deadline", "Deadline", "From now, like 6h, or a time like 2026-05-01T09:00:00Z."),
        one("budget", "Budget", f"Credits; {row['budget']:g} now."),
        one("replenishment", "Replenishment", f"Credits; {row['replenishment']:g} now."),
        one("performance", "Performance", "As its controller measures it."),
        h("p", "What is left empty stays as it is.", class_="quiet"),
        h("button", "Show what that means", type="submit", class_="main"),
    )
