"""The methods about groups: what each permits, its permissions say, as OpenNebula's do."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from merkatd.api.xmlrpc.method_table import SELF, Parameter, method, struct, structs
from merkatd.database.fleets.group_store import GroupRow
from merkatd.groups.group_orders import GroupRight, permits
from merkatd.ledger import NotFoundError
from merkatd.service.base.errors import Code, QuestionError, RequestError
from merkatd.service.base.identity import Caller, Identity
from merkatd.service.groups import GroupQuestions, name_of, permissions_of
from merkatd.service.services import DaemonServices

_GROUP = Parameter("group", "int", "The group's id.")
_STAYS = -1
_SHORT = {
    "id": "The group,",
    "name": "its name,",
    "owner": "the user whose it is,",
    "user": "by name too where that is known;",
    "user_group": "the group of users that its permissions speak of,",
    "group": "by name too.",
    "permissions": "Three octal digits for owner, group and others: use 4, manage 2, admin 1;",
    "may": "the same as letters.",
    "market": "The market that its VMs are in.",
    "spending_rate": "Credits for each core that its VMs use for a period.",
    "rate_of_a_vm": "Its part for each VM, by which hosts are divided.",
    "nvm": "How many VMs it is to have,",
    "running": "how many of them run,",
    "vm_ids": "and the ids of those that were made: an array.",
    "cpu": "What they get together, in percent of a core,",
    "cost_at_most": "and what a period costs if they use all of it.",
    "state": "active, or ending once it was deleted.",
    "why": "What went otherwise than was asked for, last.",
    "created_s": "When it was created, in seconds since the epoch.",
}
_LONG = _SHORT | {
    "template": "The template of its VMs.",
    "vms": "Its VMs, a struct each:",
}
_VM = {
    "vm": "the VM,",
    "number": "the how-manieth of the group it is,",
    "leaving": "whether it is to end,",
    "state": "what it is doing,",
    "host": "where,",
    "bid": "its part of the spending rate as far as it can be paid,",
    "cpu": "and what it gets, in percent of a core.",
}
_ONE = struct("The group as it is then.", _LONG, _VM)


@method(
    "merkat.group.create",
    Parameter(
        "request",
        "struct",
        "`rate`, credits for each core that is used for a period; `count`, the number of VMs;"
        " `template`, a text, or `template_id` or `template_name` of one of OpenNebula's;"
        " `name` and `market` where they are not to be chosen.",
    ),
    returns=_ONE,
    example='{"template": vm_template, "rate": 60.0, "count": 2}',
    order=1.0,
)
async def group_create(house: DaemonServices, caller: Caller, request: Mapping[str, Any]) -> Any:
    """Have a number of VMs from a template, which share a spending rate."""
    identity = caller.identity
    ask = partial(house.logins.ask, caller.session)
    return await _there(house).create(
        request, identity.uid, identity.group, ask, admin=identity.is_admin
    )


@method(
    "merkat.group.list",
    Parameter("user", "int", "Whose; -1, which is meant unless said: all that one may see.", SELF),
    returns=structs("A struct a group.", _SHORT),
    example="",
)
async def group_list(house: DaemonServices, caller: Caller, user: int) -> Any:
    """The groups that the caller may use, an administrator's all."""
    identity, there = caller.identity, _there(house)
    asking = None if identity.is_admin else identity.uid
    owner = None if user == SELF else user
    read = partial(there.listed, asking, identity.groups, owner)
    return await house.long_reads.run(identity.uid, read)


@method("merkat.group.info", _GROUP, returns=_ONE, example="group")
async def group_info(house: DaemonServices, caller: Caller, group: int) -> Any:
    """A group and its VMs."""
    there = await _permitted(house, caller, group, GroupRight.USE)
    return await house.long_reads.run(caller.identity.uid, partial(there.shown, group))


@method(
    "merkat.group.edit",
    _GROUP,
    Parameter(
        "change",
        "struct",
        "`rate`, another spending rate; `count`, another number of VMs: exactly the difference is"
        " started or ended, the newest first, or those of the array `vms`.",
    ),
    returns=_ONE,
    example='group, {"rate": 90.0, "count": 3}',
    order=1.0,
)
async def group_edit(
    house: DaemonServices, caller: Caller, group: int, change: Mapping[str, Any]
) -> Any:
    """Change what a group spends, and how many VMs it has, from the next period on."""
    return await (await _permitted(house, caller, group, GroupRight.MANAGE)).edit(group, change)


@method("merkat.group.delete", _GROUP, returns=_ONE, example="group", order=1.0)
async def group_delete(house: DaemonServices, caller: Caller, group: int) -> Any:
    """End a group and all its VMs; once they are gone, it is gone too."""
    return await (await _permitted(house, caller, group, GroupRight.MANAGE)).delete(group)


@method(
    "merkat.group.rename",
    _GROUP,
    Parameter("name", "string", "The new name."),
    returns=_ONE,
    example='group, "renders"',
    order=1.0,
)
async def group_rename(house: DaemonServices, caller: Caller, group: int, name: str) -> Any:
    """Call a group otherwise; its VMs keep their names."""
    there = await _permitted(house, caller, group, GroupRight.MANAGE)
    return await there.change(group, name=name_of({"name": name}) or "")


@method(
    "merkat.group.chmod",
    _GROUP,
    Parameter("permissions", "string", 'Three octal digits, such as "640".'),
    returns=_ONE,
    example='group, "640"',
    order=1.0,
)
async def group_chmod(house: DaemonServices, caller: Caller, group: int, permissions: str) -> Any:
    """Change who may use and manage a group; only an administrator lets others administer it."""
    there = await _permitted(house, caller, group, GroupRight.MANAGE)
    bits = permissions_of(permissions)
    admin = 0o111
    if not caller.identity.is_admin and bits & admin & ~(await there.group(group)).permissions:
        raise _denied(caller.identity, GroupRight.ADMIN, group)
    return await there.change(group, permissions=bits)


@method(
    "merkat.group.chown",
    _GROUP,
    Parameter("user", "int", "The new owner, for administrators to change; -1: as it is.", _STAYS),
    Parameter("user_group", "int", "The new group, one of the caller's; -1: as it is.", _STAYS),
    returns=_ONE,
    example="group",
    order=1.0,
)
async def group_chown(
    house: DaemonServices, caller: Caller, group: int, user: int, user_group: int
) -> Any:
    """Change whose a group is; VMs that it has already keep their owner."""
    identity = caller.identity
    there = await _permitted(house, caller, group, GroupRight.MANAGE)
    foreign = user_group != _STAYS and user_group not in identity.groups
    if not identity.is_admin and (user != _STAYS or foreign):
        raise _denied(identity, GroupRight.ADMIN, group)
    values = {"owner": user, "user_group": user_group}
    if min(values.values()) < _STAYS:
        raise QuestionError("user, user_group: ids from 0 on, or -1, are right")
    given = {name: value for name, value in values.items() if value != _STAYS}
    return await there.change(group, **given) if given else await there.shown(group)


def _there(house: DaemonServices) -> GroupQuestions:
    if house.groups is None:
        raise RequestError(Code.ACTION, "This daemon keeps no groups.")
    return house.groups


async def _permitted(
    house: DaemonServices, caller: Caller, group: int, right: GroupRight
) -> GroupQuestions:
    """Once it is settled that the caller may. Raises Refusal, NotFoundError."""
    there = _there(house)
    try:
        found = await there.group(group)
    except NotFoundError:
        raise RequestError(Code.NO_EXISTS, f"Error getting group [{group}].", group) from None
    if not _may(caller.identity, found, right):
        raise _denied(caller.identity, right, group)
    return there


def _may(identity: Identity, group: GroupRow, right: GroupRight) -> bool:
    return identity.is_admin or permits(group, identity.uid, identity.groups, right)


def _denied(identity: Identity, right: GroupRight, group: int) -> RequestError:
    return RequestError(
        Code.AUTHORIZATION,
        f"User [{identity.uid}] : Not authorized to perform {right.name} GROUP [{group}].",
        group,
    )
