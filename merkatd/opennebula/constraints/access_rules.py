"""Access rights: OpenNebula's access control rules and the permissions of objects.

oned does not check whether the owner of a VM may use a host, because it sees only the rights of the
scheduler, which are an administrator's. So the scheduler must check the owner's rights.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Bools
from merkatd.opennebula.pools.constraint_facts import AccessRule, SiteFacts, UserFacts

INDIVIDUAL = 0x100000000
GROUP = 0x200000000
ALL_USERS = 0x400000000
CLUSTER = 0x800000000
_ID = 0xFFFFFFFF

HOST = 0x2000000000
NETWORK = 0x4000000000
DATASTORE = 0x100000000000

USE, MANAGE = 0x1, 0x2

ONEADMIN = 0
"""The id of the user, and of the group, that may use everything."""


@dataclass(frozen=True, slots=True)
class ProtectedObject:
    """An object to use: a host, a network or a datastore."""

    id: int
    clusters: frozenset[int]
    owner: int = -1
    group: int = -1
    permissions: int = 0
    """The nine permission bits of owner, group and others; a host has none."""


class Rights:
    """The rights that the rules and permissions of a cloud give."""

    def __init__(self, estate: SiteFacts) -> None:
        self.judged = bool(estate.users) or estate.users_in_part
        """Whether the cloud's users are known; if not, rights are not checked."""
        self._users = estate.users
        self._rules: dict[int, list[AccessRule]] = {}
        for rule in estate.acl:
            here = rule.zone & (INDIVIDUAL | _ID) == INDIVIDUAL | estate.zone
            if here or rule.zone & ALL_USERS:
                self._rules.setdefault(rule.user, []).append(rule)
        self._owners = {datastore.owner for datastore in estate.datastores}
        self._owners |= {network.owner for network in estate.networks}

    def subject(self, owner: int, group: int) -> UserFacts | None:
        """Return the user whose rights apply to a VM, None if the VM may use everything."""
        if not self.judged or ONEADMIN in {owner, group}:
            return None
        return self._users.get(owner, UserFacts(owner, str(owner), ()))

    def likeness(self, user: UserFacts) -> tuple[int, frozenset[int]]:
        """Return a key that is equal only for users with equal rights."""
        own = INDIVIDUAL | user.id in self._rules or user.id in self._owners
        known = user.id in self._users
        return (user.id if own else -1 if known else -2), frozenset(user.groups)

    def may(
        self, user: UserFacts, kind: int, right: int, things: Sequence[ProtectedObject]
    ) -> Bools:
        """Return for each thing whether the user has the right to use it."""
        if user.id not in self._users:
            return np.zeros(len(things), dtype=bool)
        rules = [rule.resource for rule in self._rules_for(user) if rule.rights & right == right]
        return np.array(
            [
                _owned(user, thing, right) or any(_covers(rule, kind, thing) for rule in rules)
                for thing in things
            ],
            dtype=bool,
        )

    def _rules_for(self, user: UserFacts) -> Iterable[AccessRule]:
        who = (ALL_USERS, INDIVIDUAL | user.id, *(GROUP | group for group in user.groups))
        return (rule for holder in who for rule in self._rules.get(holder, ()))


def _covers(resource: int, kind: int, thing: ProtectedObject) -> bool:
    """Return whether a rule's resource includes this thing."""
    if resource & (kind | ALL_USERS) == kind | ALL_USERS:
        return True
    if resource & (kind | INDIVIDUAL | _ID) == kind | INDIVIDUAL | thing.id:
        return True
    in_group = resource & (kind | GROUP | _ID) == kind | GROUP | thing.group
    if thing.group >= 0 and in_group:
        return True
    return any(
        resource & (kind | CLUSTER | _ID) == kind | CLUSTER | cluster for cluster in thing.clusters
    )


def _owned(user: UserFacts, thing: ProtectedObject, right: int) -> bool:
    """Return whether the thing's own permissions give the user the right."""
    # Each class has the bits USE, MANAGE and ADMIN, the highest bit first.
    bit = {USE: 0o4, MANAGE: 0o2}[right]
    if thing.permissions & bit:
        return True
    if thing.owner == user.id and thing.permissions & bit << 6:
        return True
    return thing.group in user.groups and bool(thing.permissions & bit << 3)
