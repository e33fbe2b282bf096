"""The attributes that only administrators may set, with oned's rules for checking them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from merkatd.embedded.model.template_text import Template


def by_name(listed: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Return the restricted attributes by name, with the restricted parts of vectors."""
    restricted: dict[str, set[str]] = {}
    for attribute in listed:
        name, slash, sub = attribute.upper().partition("/")
        restricted.setdefault(name, set()).update({sub} if slash else ())
    return {name: frozenset(restricted[name]) for name in sorted(restricted)}


def of_new(template: Template, listed: Iterable[str]) -> str | None:
    """Return the first restricted attribute of a new object's template, as oned's error names it.

    An attribute listed without parts is restricted as a single value only: with PCI in the
    list, the vector PCI=[...] is allowed.
    """
    for name, subs in by_name(listed).items():
        for vector in template.vectors(name) if subs else ():
            for sub in sorted(subs):
                if sub in vector:
                    return sub
        if not subs and _single(template, name) is not None:
            return name
    return None


def of_change(new: Template, old: Template, listed: Iterable[str], *, append: bool) -> str | None:
    """Return the first restricted attribute that a template change would affect."""
    for name, subs in by_name(listed).items():
        if subs:
            there = new.vectors(name) or (not append and old.vectors(name))
            if there and _values(new, name, subs) != _values(old, name, subs):
                return name
        elif (value := _single(new, name)) is not None and value != (_single(old, name) or ""):
            return name
    return None


def kept(new: Template, old: Template, listed: Iterable[str]) -> Template:
    """Return the new template with the restricted single values that only the old one has."""
    missing = [
        (name, value)
        for name, subs in by_name(listed).items()
        if not subs and (value := _single(old, name)) is not None and _single(new, name) is None
    ]
    return new.plus(missing)


def _single(template: Template, name: str) -> str | None:
    return next(
        (value for key, value in template.attributes if key == name and isinstance(value, str)),
        None,
    )


def _values(template: Template, name: str, subs: frozenset[str]) -> list[str]:
    return sorted(
        sub + vector[sub] for vector in template.vectors(name) for sub in subs if sub in vector
    )
