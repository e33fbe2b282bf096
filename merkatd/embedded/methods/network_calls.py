"""The calls about networks, VM groups and the server itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.methods.call import MethodCall, check_name, method
from merkatd.embedded.methods.pool_calls import paged, visible_rows_of
from merkatd.embedded.model.access import ObjectType, Right, Target, network_target, vm_group_target
from merkatd.embedded.model.errors import ACTION, INTERNAL, OneRefusal
from merkatd.embedded.model.records import Network, VmGroup
from merkatd.embedded.model.template_text import cdata
from merkatd.embedded.model.vm_resources import sizes
from merkatd.embedded.render.render_pools import network_xml, vm_group_xml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from merkatd.embedded.model.template_text import Template


@method("one.vmgroup.delete", "i")
def vmgroup_delete(call: MethodCall, oid: int) -> int:
    """Remove a VM group without VMs."""
    world = call.cloud.world
    group = call.find(world.vm_groups, ObjectType.VMGROUP, oid)
    call.need(Right.MANAGE, vm_group_target(group))
    if any(vms for _, vms, _ in group.roles):
        raise OneRefusal(ACTION, "Can not remove a VM group with VMs in roles.")
    del world.vm_groups.rows[oid]
    world.changed("vmgroup", oid)
    return oid


@method("one.vn.delete", "i")
def vn_delete(call: MethodCall, oid: int) -> int:
    """Remove a virtual network."""
    world = call.cloud.world
    network = call.find(world.networks, ObjectType.NET, oid)
    call.need(Right.MANAGE, network_target(network))
    for cluster_id in network.clusters:
        world.clusters.rows[cluster_id].networks.remove(oid)
        world.changed("cluster", cluster_id)
    del world.networks.rows[oid]
    world.changed("vnet", oid)
    return oid


Role = tuple[str, list[int], dict[str, str]]
"""The name, VMs and other attributes of a role."""
_TOGETHER, _APART = "AFFINED", "ANTI_AFFINED"


def read_roles(template: Template) -> list[Role]:
    """Return the roles of a new group. Raise OneRefusal if roles or rules are invalid."""
    roles: dict[str, Role] = {}
    for name, value in template.attributes:
        if name != "ROLE" or isinstance(value, str):
            continue
        role = dict(value)
        called = role.get("NAME", "")
        if not called:
            raise OneRefusal(INTERNAL, "Missing NAME in VM group role")
        if called in roles:
            raise OneRefusal(INTERNAL, "Role already exists")
        roles[called] = called, [], role
    _check_rules(template, roles)
    return list(roles.values())


def _check_rules(template: Template, roles: dict[str, Role]) -> None:
    ruled = {rule: set(_named(template, rule, roles)) for rule in (_TOGETHER, _APART)}
    both = [name for name in roles if name in ruled[_TOGETHER] and name in ruled[_APART]]
    if both:
        raise OneRefusal(
            INTERNAL, f"Roles defined in {_TOGETHER} and {_APART} rules: {' '.join(both)}"
        )
    for name, _, words in roles.values():
        if name in ruled[_TOGETHER] and words.get("POLICY", "").upper() == _APART:
            raise OneRefusal(
                INTERNAL,
                f"Role {name} is in an {_TOGETHER} rule but the role policy is {_APART}",
            )


def _named(template: Template, rule: str, roles: dict[str, Role]) -> Iterator[str]:
    for name, value in template.attributes:
        if name != rule or not isinstance(value, str):
            continue
        names = [name.strip() for name in value.split(",") if name.strip()]
        if not roles.keys() >= set(names):
            raise OneRefusal(
                INTERNAL, f"Some roles used in {rule} attribute ({value}) are not defined"
            )
        yield from names


@method("one.system.version")
def version(call: MethodCall) -> str:
    """Return the version that the server reports."""
    return call.cloud.world.settings.version


@method("one.system.config")
def config(call: MethodCall) -> str:
    """Return the configuration keys that the embedded cloud supports, without secrets."""
    settings = call.cloud.world.settings
    single = {
        "API_LIST_ORDER": "DESC",
        "MONITORING_INTERVAL_HOST": f"{settings.monitor_interval_s:g}",
        "MONITORING_INTERVAL_VM": f"{settings.monitor_interval_s:g}",
    }
    several = [("USER_RESTRICTED_ATTR", name) for name in sorted(settings.user_restricted)]
    several += [("VM_RESTRICTED_ATTR", name) for name in sorted(settings.vm_restricted)]
    rows = "".join(f"<{name}>{cdata(text)}</{name}>" for name, text in [*single.items(), *several])
    return f"<OPENNEBULA_CONFIGURATION>{rows}</OPENNEBULA_CONFIGURATION>"


@method("one.zone.raftstatus")
def raftstatus(call: MethodCall) -> str:
    """Return the server's Raft state: 0 is a single server, 3 the leader."""
    call.need(Right.ADMIN, Target(ObjectType.ZONE, 0))
    state = call.cloud.world.settings.raft_state
    unknown = ("TERM", "VOTEDFOR", "COMMIT", "LOG_INDEX", "LOG_TERM", "FEDLOG_INDEX")
    rows = "".join(f"<{name}>-1</{name}>" for name in unknown)
    return f"<RAFT><SERVER_ID>-1</SERVER_ID><STATE>{state}</STATE>{rows}</RAFT>"


@method("one.vmgrouppool.info", "iii")
def vmgrouppool_info(call: MethodCall, flag: int, start: int, end: int) -> str:
    """Return the VM groups that the caller may use."""
    world = call.cloud.world
    rows = paged(visible_rows_of(call, world.vm_groups.descending(), flag), start, end)
    seen = (row for row in rows if call.may(Right.USE, vm_group_target(row)))
    return f"<VM_GROUP_POOL>{''.join(vm_group_xml(world, row) for row in seen)}</VM_GROUP_POOL>"


@method("one.vmgroup.info", "i?b")
def vmgroup_info(call: MethodCall, oid: int, decrypt: bool = False) -> str:  # noqa: ARG001
    """Return a VM group."""
    group = call.find(call.cloud.world.vm_groups, ObjectType.VMGROUP, oid)
    call.need(Right.USE, vm_group_target(group))
    return vm_group_xml(call.cloud.world, group)


@method("one.vmgroup.allocate", "s")
def vmgroup_allocate(call: MethodCall, text: str) -> int:
    """Create a VM group with its roles and their rules."""
    world = call.cloud.world
    call.need(Right.CREATE, Target(ObjectType.VMGROUP))
    template = call.parse(text)
    roles = read_roles(template)
    check_name(template.get("NAME"))
    oid = world.vm_groups.next_id
    rest = template.without({"NAME", "ROLE"})
    user = call.user
    world.vm_groups.add(VmGroup(oid, user.id, user.gid, template.get("NAME"), roles, rest))
    world.changed("vmgroup", oid)
    return oid


@method("one.vnpool.info", "iii")
def vnpool_info(call: MethodCall, flag: int, start: int, end: int) -> str:
    """Return the virtual networks that the caller may use."""
    world = call.cloud.world
    rows = paged(visible_rows_of(call, world.networks.descending(), flag), start, end)
    seen = (row for row in rows if call.may(Right.USE, network_target(row)))
    return f"<VNET_POOL>{''.join(network_xml(world, row) for row in seen)}</VNET_POOL>"


@method("one.vn.allocate", "s?i")
def vn_allocate(call: MethodCall, text: str, cluster_id: int = -1) -> int:
    """Create a virtual network."""
    world = call.cloud.world
    call.need(Right.CREATE, Target(ObjectType.NET))
    template = call.parse(text)
    name = template.get("NAME")
    if not name:
        raise OneRefusal(INTERNAL, "No NAME in template for Virtual Network.")
    check_name(name)
    cluster = call.find(world.clusters, ObjectType.CLUSTER, max(cluster_id, 0))
    oid = world.networks.next_id
    rest = template.without({"NAME", "AR"})
    user = call.user
    made = Network(oid, user.id, user.gid, name, [cluster.id], rest, sizes=sizes(template))
    world.networks.add(made)
    cluster.networks.append(oid)
    world.changed("vnet", oid)
    world.changed("cluster", cluster.id)
    return oid
