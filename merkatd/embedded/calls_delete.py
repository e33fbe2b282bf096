"""The calls that remove users, groups, VM groups and networks that nothing needs."""

from __future__ import annotations

from merkatd.embedded.access import GROUP, Kind, Right
from merkatd.embedded.call import (
    ACTION,
    Call,
    Refusal,
    group_target,
    method,
    network_target,
    user_target,
    vm_group_target,
)

_SYSTEM = 100
"""Ids below this one belong to groups that every cloud has."""


@method("one.user.delete", "i")
def user_delete(call: Call, oid: int) -> int:
    """Remove a user."""
    world = call.cloud.world
    user = call.find(world.users, Kind.USER, oid)
    call.need(Right.ADMIN, user_target(user))
    if oid == 0:
        raise Refusal(ACTION, "Cannot delete user. oneadmin cannot be deleted.")
    del world.users.rows[oid]
    world.changed("user", oid)
    return oid


@method("one.group.delete", "i")
def group_delete(call: Call, oid: int) -> int:
    """Remove a group that nobody is in, and the rules about it."""
    world = call.cloud.world
    group = call.find(world.groups, Kind.GROUP, oid)
    call.need(Right.ADMIN, group_target(group))
    if oid < _SYSTEM:
        raise Refusal(
            ACTION, f"Cannot delete group. System Groups (ID < {_SYSTEM}) cannot be deleted."
        )
    members = sum(oid == user.gid for user in world.users)
    if members:
        raise Refusal(ACTION, f"Cannot delete group. Group {oid} is not empty.")
    for rule in [rule.id for rule in world.rules if rule.user == GROUP | oid]:
        del world.rules.rows[rule]
        world.changed("acl", rule)
    del world.groups.rows[oid]
    world.changed("group", oid)
    return oid


@method("one.vmgroup.delete", "i")
def vmgroup_delete(call: Call, oid: int) -> int:
    """Remove a VM group that no VM is in."""
    world = call.cloud.world
    group = call.find(world.vm_groups, Kind.VMGROUP, oid)
    call.need(Right.MANAGE, vm_group_target(group))
    if any(vms for _, vms, _ in group.roles):
        raise Refusal(ACTION, "Can not remove a VM group with VMs in roles.")
    del world.vm_groups.rows[oid]
    world.changed("vmgroup", oid)
    return oid


@method("one.vn.delete", "i")
def vn_delete(call: Call, oid: int) -> int:
    """Remove a virtual network."""
    world = call.cloud.world
    network = call.find(world.networks, Kind.NET, oid)
    call.need(Right.MANAGE, network_target(network))
    for cluster_id in network.clusters:
        world.clusters.rows[cluster_id].networks.remove(oid)
        world.changed("cluster", cluster_id)
    del world.networks.rows[oid]
    world.changed("vnet", oid)
    return oid
