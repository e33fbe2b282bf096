"""The call that creates a VM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.access import Kind, Right, Target
from merkatd.embedded.call import (
    AUTHORIZATION,
    INTERNAL,
    Call,
    Refusal,
    check_name,
    image_target,
    method,
    network_target,
    vm_group_target,
)
from merkatd.embedded.completing import NOT_KEPT, completed
from merkatd.embedded.images import named, with_images
from merkatd.embedded.quotas import check_quota
from merkatd.embedded.records import Vm, VmGroup
from merkatd.embedded.restricted import of_new
from merkatd.embedded.states import State
from merkatd.embedded.template import number, transforms

if TYPE_CHECKING:
    from merkatd.embedded.template import Template


@method("one.vm.allocate", "s?b")
def allocate(call: Call, text: str, hold: bool = False) -> int:
    """A new VM, pending or held."""
    template = call.parse(text)
    call.need(Right.CREATE, Target(Kind.VM, -1, call.user.id, call.user.gid))
    check_restricted(call, template, "VM Template")
    return new_vm(call, template, hold=hold)


def new_vm(call: Call, template: Template, *, hold: bool) -> int:
    """A VM of a template that its owner may use."""
    world = call.cloud.world
    oid = world.vms.next_id
    name = template.get("NAME") or f"one-{oid}"
    check_name(name)
    _check_sizes(template)
    group = _group(call, template)
    _check_images(call, template)
    _check_networks(call, template)
    check_quota(call, template)
    vm = Vm(
        id=oid,
        uid=call.user.id,
        gid=call.user.gid,
        name=name,
        template=with_images(world, completed(template, oid, world.uuid())),
        user_template=template.without(NOT_KEPT),
        stime=world.stamp(),
        state=State.HOLD if hold else State.PENDING,
    )
    vm.prev_state = vm.state
    if not transforms(vm.template, vm.user_template):
        raise Refusal(INTERNAL, "Error transforming the VM to XML.")
    world.vms.add(vm)
    world.changed("vm", oid)
    if group is not None:
        _join(call, group, vm)
    return oid


def check_restricted(call: Call, template: Template, what: str) -> None:
    """Refuse what only administrators may set."""
    restricted = of_new(template, call.cloud.world.settings.vm_restricted)
    if restricted is not None and not call.admin:
        text = f"{what} includes a restricted attribute {restricted}"
        raise Refusal(AUTHORIZATION, f"User [{call.user.id}] : {text}.")


def _check_sizes(template: Template) -> None:
    """Refuse a template without the sizes that capacity is reckoned with."""
    if number(template.get("MEMORY"), int, 0) <= 0:
        raise Refusal(INTERNAL, "MEMORY attribute must be a positive integer value.")
    if number(template.get("CPU"), float, 0) <= 0:
        raise Refusal(INTERNAL, "CPU attribute must be a positive float or integer value.")
    if template.get("VCPU") and number(template.get("VCPU"), int, 0) <= 0:
        raise Refusal(INTERNAL, "VCPU attribute must be a positive integer value.")


def _group(call: Call, template: Template) -> VmGroup | None:
    wanted = template.vector("VMGROUP")
    if not wanted:
        return None
    group = call.cloud.world.vm_groups.get(int(number(wanted.get("VMGROUP_ID", ""), int, -1)))
    if group is None:
        raise Refusal(INTERNAL, "Cannot find VM Group to associate the VM")
    call.need(Right.USE, vm_group_target(group))
    return group


def _check_images(call: Call, template: Template) -> None:
    """Refuse images that aren't there, or that their owner keeps from others."""
    for place, disk in enumerate(template.vectors("DISK")):
        oid = named(disk)
        if oid is None:
            continue
        image = call.cloud.world.images.get(oid)
        if image is None:
            raise Refusal(INTERNAL, f"DISK {place}: Image with ID: {oid} does not exist")
        call.need(Right.USE, image_target(image))


def _check_networks(call: Call, template: Template) -> None:
    """Refuse networks that their owner keeps from others."""
    for nic in template.vectors("NIC"):
        network = call.cloud.world.networks.get(int(number(nic.get("NETWORK_ID", ""), int, -1)))
        if network is not None:
            call.need(Right.USE, network_target(network))


def _join(call: Call, group: VmGroup, vm: Vm) -> None:
    for name, vms, _ in group.roles:
        if name == vm.template.vector("VMGROUP").get("ROLE"):
            vms.append(vm.id)
            call.cloud.world.changed("vmgroup", group.id)
