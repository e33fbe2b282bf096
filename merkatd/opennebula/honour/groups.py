"""VM groups: roles, what they ask of each other, and of hosts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from merkatd.cluster import Ints, RolePolicy
from merkatd.opennebula.wanted import GroupRule, Member, Role

_POLICIES = {"AFFINED": RolePolicy.TOGETHER, "ANTI_AFFINED": RolePolicy.APART}


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The roles of all VM groups, in a row."""

    rows: Mapping[tuple[int, str], int]
    """By group and name of the role."""
    roles: Sequence[Role]
    names: tuple[str, ...]
    policy: Ints
    pairs: tuple[tuple[int, int, int], ...]

    def row(self, member: Member | None) -> int:
        """The row of a VM's role; -1 where it has none, or one that is gone."""
        return -1 if member is None else self.rows.get((member.group, member.role), -1)


def groups_of(rules: Sequence[GroupRule]) -> Groups:
    """All roles, and the pairs of roles that must or must not share a host."""
    every = [(rule, role) for rule in rules for role in rule.roles]
    rows = {(rule.id, role.name): row for row, (rule, role) in enumerate(every)}
    policies = [_POLICIES.get(role.policy, RolePolicy.NONE) for _, role in every]
    return Groups(
        rows=rows,
        roles=[role for _, role in every],
        names=_names(every),
        policy=np.array(policies, dtype=np.int64),
        pairs=tuple(pair for rule in rules for pair in _pairs(rule, rows)),
    )


def _names(every: Sequence[tuple[GroupRule, Role]]) -> tuple[str, ...]:
    """Two users may have groups of one name: then the id says which."""
    plain = [f"{rule.name}/{role.name}" for rule, role in every]
    return tuple(
        name if plain.count(name) == 1 else f"{rule.name} ({rule.id})/{role.name}"
        for name, (rule, role) in zip(plain, every, strict=True)
    )


def _pairs(rule: GroupRule, rows: Mapping[tuple[int, str], int]) -> Iterator[tuple[int, int, int]]:
    for sets, policy in (
        (rule.affined, RolePolicy.TOGETHER),
        (rule.anti_affined, RolePolicy.APART),
    ):
        for names in sets:
            found = sorted({rows[rule.id, name] for name in names if (rule.id, name) in rows})
            for first, second in combinations(found, 2):
                yield first, second, int(policy)
