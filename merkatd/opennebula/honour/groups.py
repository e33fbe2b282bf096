"""VM groups: roles, what they ask of each other, and of hosts."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from merkatd.cluster import Ints, RolePolicy
from merkatd.opennebula.wanted import GroupRule, Member, Role

_POLICIES = {"AFFINED": RolePolicy.TOGETHER, "ANTI_AFFINED": RolePolicy.APART}


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The roles of VM groups, in a row."""

    rows: Mapping[tuple[int, str], int]
    """By group and name of the role."""
    roles: Sequence[Role]
    names: tuple[str, ...]
    policy: Ints
    pairs: tuple[tuple[int, int, int], ...]

    def row(self, member: Member | None) -> int:
        """The row of a VM's role; -1 where it has none, or one that is gone."""
        return -1 if member is None else self.rows.get((member.group, member.role), -1)


def groups_of(rules: Sequence[GroupRule], used: Collection[int]) -> Groups:
    """Return the roles of the groups with these ids, and the pairs of roles that are bound.

    A group that no VM uses asks nothing of any host.
    """
    rules = [rule for rule in rules if rule.id in used]
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
    count = Counter(plain)
    return tuple(
        name if count[name] == 1 else f"{rule.name} ({rule.id})/{role.name}"
        for name, (rule, role) in zip(plain, every, strict=True)
    )


def _pairs(rule: GroupRule, rows: Mapping[tuple[int, str], int]) -> Iterator[tuple[int, int, int]]:
    """Yield each pair of roles once, however many lines name it.

    A line is read into one bit for each role, so the time follows the length of the text.
    """
    place = {role.name: bit for bit, role in enumerate(rule.roles)}
    for lines, policy in (
        (rule.affined, RolePolicy.TOGETHER),
        (rule.anti_affined, RolePolicy.APART),
    ):
        beside = dict.fromkeys(place.values(), 0)
        for names in lines:
            found = {place[name] for name in names if name in place}
            mask = sum(1 << bit for bit in found)
            for bit in found:
                beside[bit] |= mask
        row = {bit: rows[rule.id, name] for name, bit in place.items()}
        for first, second in combinations(sorted(row), 2):
            if beside[first] >> second & 1:
                yield row[first], row[second], int(policy)
