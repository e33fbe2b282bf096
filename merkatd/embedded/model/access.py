"""Access control: rules, permissions, passwords, and the targets of rights."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, replace
from enum import IntEnum, IntFlag
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from merkatd.embedded.model.records import (
        AclRule,
        Cluster,
        Datastore,
        Host,
        Image,
        LoginToken,
        Network,
        Permissions,
        User,
        UserGroup,
        Vm,
        VmGroup,
        VmTemplate,
    )
    from merkatd.embedded.model.world import World


class Right(IntEnum):
    """The rights to an object."""

    USE = 1
    MANAGE = 2
    ADMIN = 4
    CREATE = 8


class ObjectType(IntFlag):
    """The types of objects in rules."""

    VM = 0x1000000000
    HOST = 0x2000000000
    NET = 0x4000000000
    IMAGE = 0x8000000000
    USER = 0x10000000000
    TEMPLATE = 0x20000000000
    GROUP = 0x40000000000
    ACL = 0x80000000000
    DATASTORE = 0x100000000000
    CLUSTER = 0x200000000000
    DOCUMENT = 0x400000000000
    ZONE = 0x800000000000
    SECGROUP = 0x1000000000000
    VDC = 0x2000000000000
    VROUTER = 0x4000000000000
    MARKETPLACE = 0x8000000000000
    MARKETPLACEAPP = 0x10000000000000
    VMGROUP = 0x20000000000000
    VNTEMPLATE = 0x40000000000000
    HOOK = 0x80000000000000
    BACKUPJOB = 0x100000000000000


ONE = 0x100000000
GROUP = 0x200000000
ALL = 0x400000000
CLUSTER = 0x800000000
_SELECTORS = ONE | GROUP | ALL | CLUSTER
_ID = 0xFFFFFFFF
_LETTER = {ONE: "#", GROUP: "@", CLUSTER: "%"}


@dataclass(frozen=True, slots=True)
class Target:
    """The attributes of an object that decide about rights."""

    kind: ObjectType
    id: int = -1
    uid: int = -1
    gid: int = -1
    clusters: tuple[int, ...] = ()
    permissions: Permissions | None = None


def digest(password: str) -> str:
    """Return the digest of a password, as oned stores it."""
    return hashlib.sha256(password.encode()).hexdigest()


def authenticate(world: World, session: str) -> User | None:
    """Return the user of a session string with a correct password or a valid token, else None.

    A token restricted to a group returns the user as a member of that group only.
    """
    name, colon, password = session.partition(":")
    user = world.users.named(name)
    if user is None or not colon or not user.enabled:
        return None
    for token in user.tokens:
        if hmac.compare_digest(token.text.encode(), password.encode()):
            return _with_token(world, user, token)
    return user if hmac.compare_digest(user.password, digest(password)) else None


def _with_token(world: World, user: User, token: LoginToken) -> User | None:
    """Return the user with the token's restriction; None if it has expired or left its group."""
    if token.until_s >= 0 and world.stamp() >= token.until_s:
        return None
    if token.group < 0:
        return user
    return replace(user, groups=[token.group]) if token.group in user.groups else None


def is_admin(user: User) -> bool:
    """Return whether the user may do everything: oneadmin and all members of its group."""
    return user.id == 0 or 0 in user.groups


def allowed(world: World, user: User, right: Right, target: Target) -> bool:
    """Return whether permissions or a rule give a user a right to an object."""
    if is_admin(user) or _permitted(user, right, target):
        return True
    if target.kind is ObjectType.USER and target.id == user.id and right <= Right.MANAGE:
        return True
    return any(
        _concerns(rule, user) and rule.rights & right and _covers(rule, target)
        for rule in world.rules
    )


def _permitted(user: User, right: Right, target: Target) -> bool:
    if target.permissions is None or right is Right.CREATE:
        return False
    place = {Right.USE: 0, Right.MANAGE: 1, Right.ADMIN: 2}[right]
    mine = target.uid == user.id and target.permissions[place]
    ours = target.gid in user.groups and target.permissions[3 + place]
    return bool(mine or ours or target.permissions[6 + place])


def _concerns(rule: AclRule, user: User) -> bool:
    if rule.user & ALL:
        return True
    who = rule.user & _ID
    return who == user.id if rule.user & ONE else who in user.groups


def _covers(rule: AclRule, target: Target) -> bool:
    if not rule.resource & target.kind:
        return False
    which = rule.resource & _ID
    if rule.resource & ALL:
        return True
    if rule.resource & ONE:
        return which == target.id
    return which in target.clusters if rule.resource & CLUSTER else which == target.gid


def malformed(user: int, resource: int, rights: int, zone: int) -> str:
    """Return oned's error text for an invalid rule; empty for a valid one."""
    faults = [
        _one_selector("user", user, ONE | GROUP | ALL),
        _one_selector("resource", resource, _SELECTORS),
        "" if resource & ~(_SELECTORS | _ID) else "[resource] type is missing",
        "wrong [resource] type" if resource >> 57 else "",
        "" if rights else "wrong [rights], it cannot be 0",
        "wrong [rights], it cannot be bigger than 0xF" if rights > 0xF else "",
        _one_selector("zone", zone, ONE | ALL),
    ]
    return "; ".join(fault for fault in faults if fault)


def _one_selector(what: str, value: int, permitted: int) -> str:
    chosen = value & _SELECTORS
    if not chosen & permitted:
        return f"[{what}] is missing one of its selector bits"
    if chosen.bit_count() > 1 or chosen & ~permitted:
        return f"[{what}] selector bits are exclusive"
    if chosen == ALL and value & _ID:
        return f"when using the ALL bit, [{what}] ID must be 0"
    return ""


def describe(rule: AclRule) -> str:
    """Return a rule as administrators write it: `@1 VM+IMAGE/* CREATE *`."""
    return _described(rule.user, rule.resource, rule.rights, rule.zone)


@lru_cache(maxsize=1024)
def _described(user: int, resource: int, granted: int, zone: int) -> str:
    kinds = "+".join(kind.name or "" for kind in ObjectType if resource & kind)
    rights = "+".join(right.name for right in Right if granted & right)
    return f"{_who(user)} {kinds}/{_who(resource)} {rights} {_who(zone)}"


def _who(value: int) -> str:
    if value & ALL:
        return "*"
    selector = next((letter for bit, letter in _LETTER.items() if value & bit), "?")
    return f"{selector}{value & _ID}"


def new_groups_rules(oid: int) -> Iterable[tuple[int, int, int, int]]:
    """Return the rules that oned adds for a new group."""
    rights = {
        ObjectType.HOST: Right.MANAGE,
        ObjectType.NET: Right.USE,
        ObjectType.DATASTORE: Right.USE,
    }
    return tuple((GROUP | oid, ALL | kind, int(right), ONE) for kind, right in rights.items())


DEFAULT_RULES: Iterable[tuple[int, int, int, int]] = (
    (
        GROUP | 1,
        ALL
        | ObjectType.VM
        | ObjectType.IMAGE
        | ObjectType.TEMPLATE
        | ObjectType.DOCUMENT
        | ObjectType.SECGROUP
        | ObjectType.VMGROUP
        | ObjectType.BACKUPJOB,
        Right.CREATE,
        ALL,
    ),
    (ALL, ALL | ObjectType.ZONE, Right.USE, ALL),
    (ALL, ALL | ObjectType.MARKETPLACE | ObjectType.MARKETPLACEAPP, Right.USE, ALL),
    *new_groups_rules(1),
)
"""The rules of a new cloud."""


def vm_target(vm: Vm) -> Target:
    """Return the target of rights for a VM."""
    return Target(ObjectType.VM, vm.id, vm.uid, vm.gid, permissions=vm.permissions)


def host_target(host: Host) -> Target:
    """Return the target of rights for a host; its owner is oneadmin."""
    return Target(ObjectType.HOST, host.id, 0, 0, (host.cluster,))


def datastore_target(store: Datastore) -> Target:
    """Return the target of rights for a datastore."""
    return Target(
        ObjectType.DATASTORE,
        store.id,
        store.uid,
        store.gid,
        tuple(store.clusters),
        store.permissions,
    )


def image_target(image: Image) -> Target:
    """Return the target of rights for an image."""
    return Target(ObjectType.IMAGE, image.id, image.uid, image.gid, permissions=image.permissions)


def network_target(network: Network) -> Target:
    """Return the target of rights for a virtual network."""
    clusters = tuple(network.clusters)
    return Target(
        ObjectType.NET, network.id, network.uid, network.gid, clusters, network.permissions
    )


def vm_group_target(group: VmGroup) -> Target:
    """Return the target of rights for a VM group."""
    return Target(ObjectType.VMGROUP, group.id, group.uid, group.gid, permissions=group.permissions)


def template_target(row: VmTemplate) -> Target:
    """Return the target of rights for a VM template."""
    return Target(ObjectType.TEMPLATE, row.id, row.uid, row.gid, permissions=row.permissions)


def user_target(user: User) -> Target:
    """Return the target of rights for a user."""
    return Target(ObjectType.USER, user.id, user.id, user.gid)


def group_target(group: UserGroup) -> Target:
    """Return the target of rights for a group."""
    return Target(ObjectType.GROUP, group.id, -1, group.id)


def cluster_target(cluster: Cluster) -> Target:
    """Return the target of rights for a cluster."""
    return Target(ObjectType.CLUSTER, cluster.id)
