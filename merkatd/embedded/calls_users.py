"""The calls about users, groups and the access control list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.access import (
    ALL,
    Kind,
    Right,
    Target,
    digest,
    malformed,
    new_groups_rules,
)
from merkatd.embedded.call import (
    INTERNAL,
    Call,
    Plain,
    Refusal,
    check_name,
    group_target,
    method,
    name_fault,
    user_target,
)
from merkatd.embedded.calls_vm_edit import merged
from merkatd.embedded.quotas import vm_quota_xml
from merkatd.embedded.records import AclRule, Group, User
from merkatd.embedded.render_rest import QUOTAS, group_xml, quotas_xml, rule_xml, user_xml

if TYPE_CHECKING:
    from merkatd.embedded.world import World


@method("one.userpool.info")
def userpool_info(call: Call) -> str:
    """All users that the caller may use."""
    rows = (
        user_xml(call.cloud.world, user, quotas=False) + quotas_xml(user.id)
        for user in call.cloud.world.users.descending()
        if call.may(Right.USE, user_target(user))
    )
    defaults = f"<DEFAULT_USER_QUOTAS>{QUOTAS}</DEFAULT_USER_QUOTAS>"
    return f"<USER_POOL>{''.join(rows)}{defaults}</USER_POOL>"


@method("one.user.info", "?ib")
def user_info(call: Call, oid: int = -1, decrypt: bool = False) -> str:  # noqa: ARG001
    """One user; -1 is the caller."""
    user = call.find(call.cloud.world.users, Kind.USER, call.user.id if oid == -1 else oid)
    call.need(Right.USE, user_target(user))
    shown = user_xml(call.cloud.world, user, quotas=True)
    quota = f"<VM_QUOTA>{vm_quota_xml(call.cloud.world, user)}</VM_QUOTA>"
    return quota.join(shown.rsplit("<VM_QUOTA></VM_QUOTA>", 1))


@method("one.user.allocate", "ss?sa")
def user_allocate(
    call: Call, name: str, password: str, driver: str = "core", groups: Plain = ""
) -> int:
    """A new user, in the group `users` unless others are named."""
    call.need(Right.CREATE, Target(Kind.USER))
    chosen = [item for item in groups if type(item) is int] if isinstance(groups, list) else []
    for gid in chosen:
        call.find(call.cloud.world.groups, Kind.GROUP, gid)
    _check_user(call.cloud.world, name, password)
    user = new_user(call.cloud.world, name, password, chosen or [1])
    user.driver = driver or "core"
    return user.id


_BLANKS = frozenset(" \t\n\v\f\r")


def _check_user(world: World, name: str, password: str) -> None:
    if not password:
        raise Refusal(INTERNAL, "Invalid password, it cannot be empty.")
    fault = name_fault(name, _BLANKS)
    if fault:
        raise Refusal(INTERNAL, f"{fault}.")
    taken = world.users.named(name)
    if taken is not None:
        raise Refusal(INTERNAL, f"NAME is already taken by USER {taken.id}.")


def new_user(world: World, name: str, password: str, groups: list[int]) -> User:
    """Add a user with a password in the clear."""
    user = world.users.add(User(world.users.next_id, name, digest(password), groups))
    world.changed("user", user.id)
    return user


@method("one.user.update", "is?i")
def user_update(call: Call, oid: int, text: str, kind: int = 0) -> int:
    """Replace a user's template, or add to it; users may do so with their own."""
    user = call.find(call.cloud.world.users, Kind.USER, oid)
    call.need(Right.MANAGE, user_target(user))
    restricted = call.cloud.world.settings.user_restricted
    user.template = merged(call, user.template, text, kind, restricted)
    call.cloud.world.changed("user", user.id)
    return user.id


@method("one.user.passwd", "is")
def user_passwd(call: Call, oid: int, password: str) -> int:
    """Change a password."""
    user = call.find(call.cloud.world.users, Kind.USER, call.user.id if oid == -1 else oid)
    call.need(Right.MANAGE, user_target(user))
    if not password:
        raise Refusal(INTERNAL, "Password cannot be empty")
    user.password = digest(password)
    call.cloud.world.changed("user", user.id)
    return user.id


@method("one.user.chgrp", "ii")
def user_chgrp(call: Call, oid: int, gid: int) -> int:
    """Make a group a user's own group."""
    user = call.find(call.cloud.world.users, Kind.USER, oid)
    group = call.find(call.cloud.world.groups, Kind.GROUP, gid)
    call.need(Right.MANAGE, user_target(user))
    call.need(Right.USE, group_target(group))
    user.groups = [gid, *(other for other in user.groups[1:] if other != gid)]
    call.cloud.world.changed("user", oid)
    return oid


@method("one.user.addgroup", "ii")
def user_addgroup(call: Call, oid: int, gid: int) -> int:
    """Put a user into one more group."""
    user = call.find(call.cloud.world.users, Kind.USER, oid)
    group = call.find(call.cloud.world.groups, Kind.GROUP, gid)
    call.need(Right.MANAGE, user_target(user))
    call.need(Right.MANAGE, group_target(group))
    if gid in user.groups:
        raise Refusal(INTERNAL, "User is already in this group")
    user.groups.append(gid)
    call.cloud.world.changed("user", oid)
    return oid


# -- groups -----------------------------------------------------------------------------------


@method("one.grouppool.info")
def grouppool_info(call: Call) -> str:
    """All groups that the caller may use; one's own are among them."""
    rows = (
        group_xml(call.cloud.world, group, quotas=False) + quotas_xml(group.id)
        for group in call.cloud.world.groups.descending()
        if group.id in call.user.groups or call.may(Right.USE, group_target(group))
    )
    defaults = f"<DEFAULT_GROUP_QUOTAS>{QUOTAS}</DEFAULT_GROUP_QUOTAS>"
    return f"<GROUP_POOL>{''.join(rows)}{defaults}</GROUP_POOL>"


@method("one.group.info", "i?b")
def group_info(call: Call, oid: int, decrypt: bool = False) -> str:  # noqa: ARG001
    """One group; -1 is the caller's own."""
    group = call.find(call.cloud.world.groups, Kind.GROUP, call.user.gid if oid == -1 else oid)
    if group.id not in call.user.groups:
        call.need(Right.USE, group_target(group))
    return group_xml(call.cloud.world, group, quotas=True)


@method("one.group.allocate", "s")
def group_allocate(call: Call, name: str) -> int:
    """A new group, which may use every host, network and datastore of this zone."""
    world = call.cloud.world
    call.need(Right.CREATE, Target(Kind.GROUP))
    check_name(name)
    taken = world.groups.named(name)
    if taken is not None:
        raise Refusal(INTERNAL, f"NAME is already taken by GROUP {taken.id}.")
    group = new_group(world, name)
    for numbers in new_groups_rules(group.id):
        rule = world.rules.add(AclRule(world.rules.next_id, *numbers))
        world.changed("acl", rule.id)
    return group.id


def new_group(world: World, name: str) -> Group:
    """Add a group; ids from 100 on, as oned's."""
    group = world.groups.add(Group(max(world.groups.next_id, 100), name))
    world.changed("group", group.id)
    return group


@method("one.group.update", "is?i")
def group_update(call: Call, oid: int, text: str, kind: int = 0) -> int:
    """Replace a group's template, or add to it."""
    group = call.find(call.cloud.world.groups, Kind.GROUP, oid)
    call.need(Right.MANAGE, group_target(group))
    group.template = merged(call, group.template, text, kind, frozenset())
    call.cloud.world.changed("group", oid)
    return oid


# -- rules ------------------------------------------------------------------------------------


@method("one.acl.info")
def acl_info(call: Call) -> str:
    """All rules, by whom they concern; to see them is to manage them."""
    call.need(Right.MANAGE, Target(Kind.ACL))
    rules = sorted(call.cloud.world.rules, key=lambda rule: (rule.user, rule.id))
    return f"<ACL_POOL>{''.join(map(rule_xml, rules))}</ACL_POOL>"


@method("one.acl.addrule", "sss?s")
def acl_addrule(call: Call, user: str, resource: str, rights: str, zone: str = "") -> int:
    """A new rule, given as hexadecimal numbers."""
    world = call.cloud.world
    call.need(Right.MANAGE, Target(Kind.ACL))
    try:
        numbers = [int(text, 16) for text in (user, resource, rights, zone or f"{ALL:x}")]
    except ValueError:
        raise Refusal(INTERNAL, "Rule is malformed: its parts must be hexadecimal") from None
    fault = malformed(*numbers)
    if fault:
        raise Refusal(INTERNAL, f"Rule is malformed: {fault}")
    rule = AclRule(world.rules.next_id, *numbers)
    if any((old.user, old.resource, old.rights, old.zone) == tuple(numbers) for old in world.rules):
        raise Refusal(INTERNAL, "Rule already exists")
    world.rules.add(rule)
    world.changed("acl", rule.id)
    return rule.id


@method("one.acl.delrule", "i")
def acl_delrule(call: Call, oid: int) -> int:
    """Remove a rule."""
    world = call.cloud.world
    call.need(Right.MANAGE, Target(Kind.ACL))
    if world.rules.rows.pop(oid, None) is None:
        raise Refusal(INTERNAL, f"Rule {oid} does not exist")
    world.changed("acl", oid)
    return oid
