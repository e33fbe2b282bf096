"""The methods about groups; as in OpenNebula, a group's permissions decide on its use."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from merkatd.api.values.plain_values import members
from merkatd.api.xmlrpc.method_table import SELF, Parameter, method, struct, structs
from merkatd.base.quantities import quoted_value
from merkatd.service.base.arguments import Arguments, number, text, whole
from merkatd.service.base.callers import Caller
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.groups import (
    MOST_RATE,
    MOST_VMS,
    Edit,
    GroupRequest,
    wrong_template,
)
from merkatd.service.services import DaemonServices

_CREATE_WORDS = ("template", "template_id", "template_name", "rate", "count", "name", "market")
_EDIT_WORDS = ("rate", "count", "vms")
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
    "state": "`active`; `ending` after it was deleted.",
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
_ONE = struct("The group.", _LONG, _VM)
_AFTER = struct("The group after the call.", _LONG, _VM)


@method(
    "merkat.group.create",
    Parameter(
        "request",
        "struct",
        "`rate`, the credits for each core that its VMs use for a period; `count`, the number of"
        " VMs; `template`, the text of a VM template, or `template_id` or `template_name` of a"
        " template in OpenNebula; optionally `name` and `market`.",
    ),
    returns=_AFTER,
    example='{"template": vm_template, "rate": 60.0, "count": 2}',
    order=1.0,
)
async def group_create(services: DaemonServices, caller: Caller, request: Mapping[str, Any]) -> Any:
    """Create a group: a number of VMs of the same template that share a spending rate."""
    return members(await services.require_groups().create(caller, _request(request)))


@method(
    "merkat.group.list",
    Parameter("user", "int", "The owner of the groups; the default, -1, is any owner.", SELF),
    returns=structs("A struct for each group.", _SHORT),
    example="",
)
async def group_list(services: DaemonServices, caller: Caller, user: int) -> Any:
    """Return the groups that the caller may use; for an administrator, all groups."""
    read = partial(services.require_groups().groups, caller, None if user == SELF else user)
    return [members(group) for group in await services.long_reads.run(caller.uid, read)]


@method("merkat.group.info", _GROUP, returns=_ONE, example="group")
async def group_info(services: DaemonServices, caller: Caller, group: int) -> Any:
    """Return a group and its VMs."""
    groups = services.require_groups()
    await groups.require_used(caller, group)  # a caller without the right waits for no turn
    return members(await services.long_reads.run(caller.uid, partial(groups.group, caller, group)))


@method(
    "merkat.group.edit",
    _GROUP,
    Parameter(
        "change",
        "struct",
        "`rate`, the new spending rate; `count`, the new number of VMs. A greater number starts"
        " VMs. A smaller number ends the newest VMs, or those in the array `vms`.",
    ),
    returns=_AFTER,
    example='group, {"rate": 90.0, "count": 3}',
    order=1.0,
)
async def group_edit(
    services: DaemonServices, caller: Caller, group: int, change: Mapping[str, Any]
) -> Any:
    """Change a group's spending rate or number of VMs from the next period on."""
    there = services.require_groups()
    await there.require_managed(caller, group)  # judged before the change
    return members(await there.edit(caller, group, _edit(change)))


@method("merkat.group.delete", _GROUP, returns=_AFTER, example="group", order=1.0)
async def group_delete(services: DaemonServices, caller: Caller, group: int) -> Any:
    """End a group and all its VMs; the group disappears after its last VM."""
    return members(await services.require_groups().delete(caller, group))


@method(
    "merkat.group.rename",
    _GROUP,
    Parameter("name", "string", "The new name."),
    returns=_AFTER,
    example='group, "renders"',
    order=1.0,
)
async def group_rename(services: DaemonServices, caller: Caller, group: int, name: str) -> Any:
    """Rename a group; its VMs keep their names."""
    there = services.require_groups()
    await there.require_managed(caller, group)  # judged before the name
    return members(await there.rename(caller, group, text({"name": name}, "name") or ""))


@method(
    "merkat.group.chmod",
    _GROUP,
    Parameter("permissions", "string", 'Three octal digits, such as "640".'),
    returns=_AFTER,
    example='group, "640"',
    order=1.0,
)
async def group_chmod(
    services: DaemonServices, caller: Caller, group: int, permissions: str
) -> Any:
    """Change a group's permissions; only an administrator can add the right to administer it."""
    return members(await services.require_groups().set_permissions(caller, group, permissions))


@method(
    "merkat.group.chown",
    _GROUP,
    Parameter("user", "int", "The new owner, for administrators only; -1: unchanged.", _STAYS),
    Parameter(
        "user_group", "int", "The new user group, one of the caller's; -1: unchanged.", _STAYS
    ),
    returns=_AFTER,
    example="group",
    order=1.0,
)
async def group_chown(
    services: DaemonServices, caller: Caller, group: int, user: int, user_group: int
) -> Any:
    """Change the owner or user group of a group; its existing VMs keep their owner."""
    owner, group_of_users = (None if number == _STAYS else number for number in (user, user_group))
    return members(await services.require_groups().set_owner(caller, group, owner, group_of_users))


def _request(given: Arguments) -> GroupRequest:
    """Return the request for a group."""
    _only(given, _CREATE_WORDS)
    rate, count = _rate(given), _count(given, least=1)
    if rate is None or count is None:
        raise InvalidRequestError(
            "rate and count: both the spending rate and the number of VMs needed"
        )
    template = given.get("template")
    if template is not None and not isinstance(template, str):
        raise wrong_template(template)
    return GroupRequest(
        spending_rate=rate,
        nvm=count,
        name=text(given, "name"),
        market=text(given, "market"),
        template=template,
        template_id=whole(given, "template_id"),
        template_name=text(given, "template_name"),
    )


def _edit(given: Arguments) -> Edit:
    """Return the change of a group."""
    _only(given, _EDIT_WORDS)
    return Edit(
        spending_rate=_rate(given), nvm=_count(given, least=0), ending=_vms(given.get("vms"))
    )


def _only(given: Arguments, known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise InvalidRequestError(
                f"unknown field {quoted_value(name)}; known: {', '.join(known)}"
            )


def _rate(given: Arguments) -> float | None:
    rate = number(given, "rate", MOST_RATE)
    if rate == 0:
        raise InvalidRequestError("rate: must be more than 0 (got 0)")
    return rate


def _count(given: Arguments, least: int) -> int | None:
    count = whole(given, "count")
    if count is not None and not least <= count <= MOST_VMS:
        raise InvalidRequestError(f"count: must be from {least} to {MOST_VMS} VMs (got {count})")
    return count


def _vms(given: Any) -> tuple[int, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not all(type(number) is int for number in given):
        raise InvalidRequestError("vms: must be an array of VM ids")
    return tuple(given)
