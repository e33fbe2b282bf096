"""The roles of a VM group and the rules between them, as far as they can be had together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.call import INTERNAL, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from merkatd.embedded.template import Template

Role = tuple[str, list[int], dict[str, str]]
"""Name, VMs and other attributes."""

_TOGETHER, _APART = "AFFINED", "ANTI_AFFINED"


def read_roles(template: Template) -> list[Role]:
    """The roles of a new group. Raises Refusal where they, or rules about them, can't be."""
    roles: dict[str, Role] = {}
    for name, value in template.attributes:
        if name != "ROLE" or isinstance(value, str):
            continue
        role = dict(value)
        called = role.get("NAME", "")
        if not called:
            raise Refusal(INTERNAL, "Missing NAME in VM group role")
        if called in roles:
            raise Refusal(INTERNAL, "Role already exists")
        roles[called] = called, [], role
    _check_rules(template, roles)
    return list(roles.values())


def _check_rules(template: Template, roles: dict[str, Role]) -> None:
    ruled = {rule: set(_named(template, rule, roles)) for rule in (_TOGETHER, _APART)}
    both = [name for name in roles if name in ruled[_TOGETHER] and name in ruled[_APART]]
    if both:
        raise Refusal(
            INTERNAL, f"Roles defined in {_TOGETHER} and {_APART} rules: {' '.join(both)}"
        )
    for name, _, words in roles.values():
        if name in ruled[_TOGETHER] and words.get("POLICY", "").upper() == _APART:
            raise Refusal(
                INTERNAL,
                f"Role {name} is in an {_TOGETHER} rule but the role policy is {_APART}",
            )


def _named(template: Template, rule: str, roles: dict[str, Role]) -> Iterator[str]:
    for name, value in template.attributes:
        if name != rule or not isinstance(value, str):
            continue
        names = [one.strip() for one in value.split(",") if one.strip()]
        if not roles.keys() >= set(names):
            raise Refusal(
                INTERNAL, f"Some roles used in {rule} attribute ({value}) are not defined"
            )
        yield from names
