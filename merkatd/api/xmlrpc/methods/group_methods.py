"""The methods about groups; as in OpenNebula, a group's permissions decide on its use."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from merkatd.api.xmlrpc.method_table import SELF, Parameter, method, struct, structs
from merkatd.database.fleets.group_store import GroupRow
from merkatd.groups.group_orders import GroupRight, permits
from merkatd.ledger import NotFoundError
from merkatd.service.base.callers import Caller
from merkatd.service.base.errors import (
    InvalidRequestError,
    NotPermittedError,
    NotSupportedError,
    UnknownObjectError,
)
from merkatd.service.base.identity import Identity
from merkatd.service.groups import GroupQuestions, name_of, permissions_of
from merkatd.service.services import DaemonServices

_GROUP = Parameter("group", "int", "The group's id.")
_STAYS = -1
_SHORT = {
    "id": "The group's id.",
    "name": "The group's name.",
    "owner": "The id of its owner.",
    "user": "The name of its owner, if known.",
    "user_group": "The id of the user group to which its group permissions apply.",
    "group": "The name of that user group, if known.",
    "permissions": "Three octal digits for owner, group and others: use 4, manage 2, admin 1.",
    "may": "The permissions as letters.",
    "market": "The market of its VMs.",
    "spending_rate": "Credits for each core that its VMs use for a period.",
    "rate_of_a_vm": "The part of the spending rate that each VM bids for its share of a host.",
    "nvm": "The wanted number of VMs.",
    "running": "The number of running VMs.",
    "vm_ids": "An array of the ids of its VMs.",
    "cpu": "The sum of its VMs' shares, in percent of a core.",
    "cost_at_most": "The cost of a period if the VMs use all of their shares.",
    "state": "active, or ending after it was deleted.",
    "why": "The last problem with the group, if any.",
    "created_s": "The time of its creation, in seconds since the epoch.",
}
_LONG = _SHORT | {
    "template": "The template of its VMs.",
    "vms": "Its VMs, each a struct:",
}
_VM = {
    "vm": "The VM's id.",
    "number": "The VM's sequence number within its group.",
    "leaving": "Whether it is about to be ended.",
    "state": "Its state.",
    "host": "Its host.",
    "bid": "Its part of the spending rate, as far as the balance pays for it.",
    "cpu": "Its share, in percent of a core.",
}
_ONE = struct("The group after the call.", _LONG, _VM)


@method(
    "merkat.group.create",
    Parameter(
        "request",
        "struct",
        "`rate`, credits for each core used for a period; `count`, the number of VMs; `template`, a"
        " text, or `template_id` or `template_name` of a template in OpenNebula; optionally `name`"
        " and `market`.",
    ),
    returns=_ONE,
    example='{"template": vm_template, "rate": 60.0, "count": 2}',
    order=1.0,
)
async def group_create(house: DaemonServices, caller: Caller, request: Mapping[str, Any]) -> Any:
    """Create a group: a number of VMs of the same template that share a spending rate."""
    identity = caller.identity
    ask = partial(house.logins.ask, caller.session)
    return await _there(house).create(
        request, identity.uid, identity.group, ask, admin=identity.is_admin
    )


@method(
    "merkat.group.list",
    Parameter("user", "int", "The owner of the groups; the default, -1, is any owner.", SELF),
    returns=structs("A struct for each group.", _SHORT),
    example="",
)
async def group_list(house: DaemonServices, caller: Caller, user: int) -> Any:
    """Return the groups that the caller may use; for an administrator, all groups."""
    identity, there = caller.identity, _there(house)
    asking = None if identity.is_admin else identity.uid
    owner = None if user == SELF else user
    read = partial(there.listed, asking, identity.groups, owner)
    return await house.long_reads.run(identity.uid, read)


@method("merkat.group.info", _GROUP, returns=_ONE, example="group")
async def group_info(house: DaemonServices, caller: Caller, group: int) -> Any:
    """Return a group and its VMs."""
    there = await _permitted(house, caller, group, GroupRight.USE)
    return await house.long_reads.run(caller.identity.uid, partial(there.shown, group))


@method(
    "merkat.group.edit",
    _GROUP,
    Parameter(
        "change",
        "struct",
        "`rate`, the new spending rate; `count`, the new number of VMs. Only the difference is"
        " started or ended: the newest VMs end first, or those in the array `vms`.",
    ),
    returns=_ONE,
    example='group, {"rate": 90.0, "count": 3}',
    order=1.0,
)
async def group_edit(
    house: DaemonServices, caller: Caller, group: int, change: Mapping[str, Any]
) -> Any:
    """Change a group's spending rate or number of VMs from the next period on."""
    return await (await _permitted(house, caller, group, GroupRight.MANAGE)).edit(group, change)


@method("merkat.group.delete", _GROUP, returns=_ONE, example="group", order=1.0)
async def group_delete(house: DaemonServices, caller: Caller, group: int) -> Any:
    """End a group and all its VMs; the group disappears after its last VM."""
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
    """Rename a group; its VMs keep their names."""
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
    """Change a group's permissions; only an administrator can add the right to administer it."""
    there = await _permitted(house, caller, group, GroupRight.MANAGE)
    bits = permissions_of(permissions)
    admin = 0o111
    if not caller.identity.is_admin and bits & admin & ~(await there.group(group)).permissions:
        raise _denied(caller.identity, GroupRight.ADMIN, group)
    return await there.change(group, permissions=bits)


@method(
    "merkat.group.chown",
    _GROUP,
    Parameter("user", "int", "The new owner, for administrators only; -1: unchanged.", _STAYS),
    Parameter(
        "user_group", "int", "The new user group, one of the caller's; -1: unchanged.", _STAYS
    ),
    returns=_ONE,
    example="group",
    order=1.0,
)
async def group_chown(
    house: DaemonServices, caller: Caller, group: int, user: int, user_group: int
) -> Any:
    """Change the owner or user group of a group; its existing VMs keep their owner."""
    identity = caller.identity
    there = await _permitted(house, caller, group, GroupRight.MANAGE)
    foreign = user_group != _STAYS and user_group not in identity.groups
    if not identity.is_admin and (user != _STAYS or foreign):
        raise _denied(identity, GroupRight.ADMIN, group)
    values = {"owner": user, "user_group": user_group}
    if min(values.values()) < _STAYS:
        raise InvalidRequestError("user, user_group: must be ids from 0 up, or -1 for unchanged")
    given = {name: value for name, value in values.items() if value != _STAYS}
    return await there.change(group, **given) if given else await there.shown(group)


def _there(house: DaemonServices) -> GroupQuestions:
    if house.groups is None:
        raise NotSupportedError("This daemon does not support groups.")
    return house.groups


async def _permitted(
    house: DaemonServices, caller: Caller, group: int, right: GroupRight
) -> GroupQuestions:
    """Return the service, after a check of the caller's right to the group. Raise RequestError."""
    there = _there(house)
    try:
        found = await there.group(group)
    except NotFoundError:
        raise UnknownObjectError(f"Error getting group [{group}].", group) from None
    if not _may(caller.identity, found, right):
        raise _denied(caller.identity, right, group)
    return there


def _may(identity: Identity, group: GroupRow, right: GroupRight) -> bool:
    return identity.is_admin or permits(group, identity.uid, identity.groups, right)


def _denied(identity: Identity, right: GroupRight, group: int) -> NotPermittedError:
    return NotPermittedError(
        f"User [{identity.uid}] : Not authorized to perform {right.name} GROUP [{group}].",
        group,
    )
