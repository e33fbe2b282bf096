"""The calls about users, groups and access rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.methods.call import MethodCall, Plain, check_name, method, name_fault
from merkatd.embedded.methods.vm_edit_calls import merged
from merkatd.embedded.model.access import (
    ALL,
    GROUP,
    ObjectType,
    Right,
    Target,
    digest,
    group_target,
    malformed,
    new_groups_rules,
    user_target,
)
from merkatd.embedded.model.errors import ACTION, INTERNAL, NO_EXISTS, RPC_API, OneRefusal
from merkatd.embedded.model.quotas import _AS_BY_DEFAULT, _GOODS, vm_quota_xml
from merkatd.embedded.model.records import AclRule, LoginToken, User, UserGroup
from merkatd.embedded.model.template_text import ParseError, number, parse
from merkatd.embedded.render.render_pools import QUOTAS, group_xml, quotas_xml, rule_xml, user_xml

if TYPE_CHECKING:
    from merkatd.embedded.model.world import World


_SYSTEM = 100
"""The first id of groups that users create; lower ids are system groups."""


@method("one.user.delete", "i")
def user_delete(call: MethodCall, oid: int) -> int:
    """Remove a user."""
    world = call.cloud.world
    user = call.find(world.users, ObjectType.USER, oid)
    call.need(Right.ADMIN, user_target(user))
    if oid == 0:
        raise OneRefusal(ACTION, "Cannot delete user. oneadmin cannot be deleted.")
    del world.users.rows[oid]
    world.changed("user", oid)
    return oid


@method("one.group.delete", "i")
def group_delete(call: MethodCall, oid: int) -> int:
    """Remove a group without members, and its rules."""
    world = call.cloud.world
    group = call.find(world.groups, ObjectType.GROUP, oid)
    call.need(Right.ADMIN, group_target(group))
    if oid < _SYSTEM:
        raise OneRefusal(
            ACTION, f"Cannot delete group. System Groups (ID < {_SYSTEM}) cannot be deleted."
        )
    members = sum(oid == user.gid for user in world.users)
    if members:
        raise OneRefusal(ACTION, f"Cannot delete group. Group {oid} is not empty.")
    for rule in [rule.id for rule in world.rules if rule.user == GROUP | oid]:
        del world.rules.rows[rule]
        world.changed("acl", rule)
    del world.groups.rows[oid]
    world.changed("group", oid)
    return oid


MAX_TOKENS = 10
"""The most tokens of a user."""
_ALL_GROUPS = -1
_FOR_EVER = -1


@method("one.user.login", "ssi?i")
def login(call: MethodCall, name: str, token: str, valid_s: int, group: int = _ALL_GROUPS) -> str:
    """Create a login token for `valid_s` seconds; 0 removes the token, or all without a token."""
    user = call.cloud.world.users.named(name)
    if user is None:
        raise OneRefusal(NO_EXISTS, "Error getting user Pool.")
    call.need(Right.MANAGE, user_target(user))
    most_s = call.cloud.world.settings.token_s
    if most_s == 0:
        user.tokens.clear()
        raise OneRefusal(ACTION, f"Login tokens are disabled for driver {user.driver}")
    if valid_s == 0:
        _end(user, token)
    elif valid_s < _FOR_EVER:
        raise OneRefusal(RPC_API, "Wrong valid period for token")
    else:
        if most_s > 0 and not 0 < valid_s <= most_s:
            valid_s = most_s
        _check_group(call, user, group)
        token = _add(call, user, token, valid_s, group)
    call.cloud.world.changed("user", user.id)
    return token


def _check_group(call: MethodCall, user: User, group: int) -> None:
    """Refuse a token with more groups than the caller's login."""
    own = set(user.groups) & set(call.user.groups)
    if group == _ALL_GROUPS and set(user.groups) != set(call.user.groups):
        raise OneRefusal(RPC_API, "Cannot create a full token with a specific group token")
    if group != _ALL_GROUPS and not call.admin and group not in own:
        raise OneRefusal(RPC_API, "EGID is not in user group list")


def _end(user: User, token: str) -> None:
    left = [known for known in user.tokens if token and known.text != token]
    if token and len(left) == len(user.tokens):
        raise OneRefusal(RPC_API, f"Could not find token: {token}")
    user.tokens = left


def _add(call: MethodCall, user: User, token: str, valid_s: int, group: int) -> str:
    world = call.cloud.world
    now = world.stamp()
    user.tokens = [old for old in user.tokens if old.until_s == _FOR_EVER or now <= old.until_s]
    if len(user.tokens) >= MAX_TOKENS:
        raise OneRefusal(RPC_API, "Max number of tokens limit reached.")
    text = token or world.uuid().replace("-", "")
    if all(token.text != text for token in user.tokens):
        until_s = _FOR_EVER if valid_s == _FOR_EVER else now + valid_s
        user.tokens.append(LoginToken(text, until_s, group))
    return text


@method("one.user.quota", "is")
def user_quota(call: MethodCall, oid: int, text: str) -> int:
    """Set a user's quota on VMs; quotas of other kinds are accepted without effect."""
    user = call.find(call.cloud.world.users, ObjectType.USER, oid)
    call.need(Right.ADMIN, user_target(user))
    try:
        wanted = parse(text).vector("VM")
    except ParseError as error:
        raise OneRefusal(ACTION, str(error)) from None
    user.vm_quota |= {
        name: number(wanted[name], float, _AS_BY_DEFAULT) for name in _GOODS if name in wanted
    }
    call.cloud.world.changed("user", user.id)
    return user.id


@method("one.userpool.info")
def userpool_info(call: MethodCall) -> str:
    """Return all users that the caller may use."""
    rows = (
        user_xml(call.cloud.world, user, quotas=False) + quotas_xml(user.id)
        for user in call.cloud.world.users.descending()
        if call.may(Right.USE, user_target(user))
    )
    defaults = f"<DEFAULT_USER_QUOTAS>{QUOTAS}</DEFAULT_USER_QUOTAS>"
    return f"<USER_POOL>{''.join(rows)}{defaults}</USER_POOL>"


@method("one.user.info", "?ib")
def user_info(call: MethodCall, oid: int = -1, decrypt: bool = False) -> str:  # noqa: ARG001
    """Return a user; -1 is the caller."""
    user = call.find(call.cloud.world.users, ObjectType.USER, call.user.id if oid == -1 else oid)
    call.need(Right.USE, user_target(user))
    shown = user_xml(call.cloud.world, user, quotas=True)
    quota = f"<VM_QUOTA>{vm_quota_xml(call.cloud.world, user)}</VM_QUOTA>"
    return quota.join(shown.rsplit("<VM_QUOTA></VM_QUOTA>", 1))


@method("one.user.allocate", "ss?sa")
def user_allocate(
    call: MethodCall, name: str, password: str, driver: str = "core", groups: Plain = ""
) -> int:
    """Create a user, by default in the group `users`."""
    call.need(Right.CREATE, Target(ObjectType.USER))
    chosen = [item for item in groups if type(item) is int] if isinstance(groups, list) else []
    for gid in chosen:
        call.find(call.cloud.world.groups, ObjectType.GROUP, gid)
    _check_user(call.cloud.world, name, password)
    user = new_user(call.cloud.world, name, password, chosen or [1])
    user.driver = driver or "core"
    return user.id


_BLANKS = frozenset(" \t\n\v\f\r")


def _check_user(world: World, name: str, password: str) -> None:
    if not password:
        raise OneRefusal(INTERNAL, "Invalid password, it cannot be empty.")
    fault = name_fault(name, _BLANKS)
    if fault:
        raise OneRefusal(INTERNAL, f"{fault}.")
    taken = world.users.named(name)
    if taken is not None:
        raise OneRefusal(INTERNAL, f"NAME is already taken by USER {taken.id}.")


def new_user(world: World, name: str, password: str, groups: list[int]) -> User:
    """Add a user; the password is given in plain text."""
    user = world.users.add(User(world.users.next_id, name, digest(password), groups))
    world.changed("user", user.id)
    return user


@method("one.user.update", "is?i")
def user_update(call: MethodCall, oid: int, text: str, kind: int = 0) -> int:
    """Replace a user's template, or add to it; users may change their own template."""
    user = call.find(call.cloud.world.users, ObjectType.USER, oid)
    call.need(Right.MANAGE, user_target(user))
    restricted = call.cloud.world.settings.user_restricted
    user.template = merged(call, user.template, text, kind, restricted)
    call.cloud.world.changed("user", user.id)
    return user.id


@method("one.user.passwd", "is")
def user_passwd(call: MethodCall, oid: int, password: str) -> int:
    """Change a password."""
    user = call.find(call.cloud.world.users, ObjectType.USER, call.user.id if oid == -1 else oid)
    call.need(Right.MANAGE, user_target(user))
    if not password:
        raise OneRefusal(INTERNAL, "Password cannot be empty")
    user.password = digest(password)
    call.cloud.world.changed("user", user.id)
    return user.id


@method("one.user.chgrp", "ii")
def user_chgrp(call: MethodCall, oid: int, gid: int) -> int:
    """Change a user's primary group."""
    user = call.find(call.cloud.world.users, ObjectType.USER, oid)
    group = call.find(call.cloud.world.groups, ObjectType.GROUP, gid)
    call.need(Right.MANAGE, user_target(user))
    call.need(Right.USE, group_target(group))
    user.groups = [gid, *(other for other in user.groups[1:] if other != gid)]
    call.cloud.world.changed("user", oid)
    return oid


@method("one.user.addgroup", "ii")
def user_addgroup(call: MethodCall, oid: int, gid: int) -> int:
    """Add a user to another group."""
    user = call.find(call.cloud.world.users, ObjectType.USER, oid)
    group = call.find(call.cloud.world.groups, ObjectType.GROUP, gid)
    call.need(Right.MANAGE, user_target(user))
    call.need(Right.MANAGE, group_target(group))
    if gid in user.groups:
        raise OneRefusal(INTERNAL, "User is already in this group")
    user.groups.append(gid)
    call.cloud.world.changed("user", oid)
    return oid


# -- groups -----------------------------------------------------------------------------------


@method("one.grouppool.info")
def grouppool_info(call: MethodCall) -> str:
    """Return all groups that the caller may use, including the caller's own groups."""
    rows = (
        group_xml(call.cloud.world, group, quotas=False) + quotas_xml(group.id)
        for group in call.cloud.world.groups.descending()
        if group.id in call.user.groups or call.may(Right.USE, group_target(group))
    )
    defaults = f"<DEFAULT_GROUP_QUOTAS>{QUOTAS}</DEFAULT_GROUP_QUOTAS>"
    return f"<GROUP_POOL>{''.join(rows)}{defaults}</GROUP_POOL>"


@method("one.group.info", "i?b")
def group_info(call: MethodCall, oid: int, decrypt: bool = False) -> str:  # noqa: ARG001
    """Return a group; -1 is the caller's primary group."""
    group = call.find(
        call.cloud.world.groups, ObjectType.GROUP, call.user.gid if oid == -1 else oid
    )
    if group.id not in call.user.groups:
        call.need(Right.USE, group_target(group))
    return group_xml(call.cloud.world, group, quotas=True)


@method("one.group.allocate", "s")
def group_allocate(call: MethodCall, name: str) -> int:
    """Create a group that may use every host, network and datastore of this zone."""
    world = call.cloud.world
    call.need(Right.CREATE, Target(ObjectType.GROUP))
    check_name(name)
    taken = world.groups.named(name)
    if taken is not None:
        raise OneRefusal(INTERNAL, f"NAME is already taken by GROUP {taken.id}.")
    group = new_group(world, name)
    for numbers in new_groups_rules(group.id):
        rule = world.rules.add(AclRule(world.rules.next_id, *numbers))
        world.changed("acl", rule.id)
    return group.id


def new_group(world: World, name: str) -> UserGroup:
    """Add a group; ids start at 100, as in oned."""
    group = world.groups.add(UserGroup(max(world.groups.next_id, 100), name))
    world.changed("group", group.id)
    return group


@method("one.group.update", "is?i")
def group_update(call: MethodCall, oid: int, text: str, kind: int = 0) -> int:
    """Replace a group's template, or add to it."""
    group = call.find(call.cloud.world.groups, ObjectType.GROUP, oid)
    call.need(Right.MANAGE, group_target(group))
    group.template = merged(call, group.template, text, kind, frozenset())
    call.cloud.world.changed("group", oid)
    return oid


# -- rules ------------------------------------------------------------------------------------


@method("one.acl.info")
def acl_info(call: MethodCall) -> str:
    """Return all rules by user; reading them needs the right to manage them."""
    call.need(Right.MANAGE, Target(ObjectType.ACL))
    rules = sorted(call.cloud.world.rules, key=lambda rule: (rule.user, rule.id))
    return f"<ACL_POOL>{''.join(map(rule_xml, rules))}</ACL_POOL>"


@method("one.acl.addrule", "sss?s")
def acl_addrule(call: MethodCall, user: str, resource: str, rights: str, zone: str = "") -> int:
    """Add a rule, given as hexadecimal numbers."""
    world = call.cloud.world
    call.need(Right.MANAGE, Target(ObjectType.ACL))
    try:
        numbers = [int(text, 16) for text in (user, resource, rights, zone or f"{ALL:x}")]
    except ValueError:
        raise OneRefusal(INTERNAL, "Rule is malformed: its parts must be hexadecimal") from None
    fault = malformed(*numbers)
    if fault:
        raise OneRefusal(INTERNAL, f"Rule is malformed: {fault}")
    rule = AclRule(world.rules.next_id, *numbers)
    if any((old.user, old.resource, old.rights, old.zone) == tuple(numbers) for old in world.rules):
        raise OneRefusal(INTERNAL, "Rule already exists")
    world.rules.add(rule)
    world.changed("acl", rule.id)
    return rule.id


@method("one.acl.delrule", "i")
def acl_delrule(call: MethodCall, oid: int) -> int:
    """Remove a rule."""
    world = call.cloud.world
    call.need(Right.MANAGE, Target(ObjectType.ACL))
    if world.rules.rows.pop(oid, None) is None:
        raise OneRefusal(INTERNAL, f"Rule {oid} does not exist")
    world.changed("acl", oid)
    return oid
