"""The creation of VMs, with oned's additions to their templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.methods.call import MethodCall, check_name, method
from merkatd.embedded.model.access import (
    ObjectType,
    Right,
    Target,
    image_target,
    network_target,
    vm_group_target,
)
from merkatd.embedded.model.errors import AUTHORIZATION, INTERNAL, OneRefusal
from merkatd.embedded.model.quotas import check_quota
from merkatd.embedded.model.records import Vm, VmGroup
from merkatd.embedded.model.restricted_attributes import of_new
from merkatd.embedded.model.template_text import Template, number, transforms
from merkatd.embedded.model.vm_resources import named, with_images
from merkatd.embedded.model.vm_states import OneVmState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from merkatd.embedded.model.template_text import Attribute, Vector


VM_ATTRIBUTES = frozenset(
    {
        "BACKUP_CONFIG", "CONTEXT", "CPU", "CPU_COST", "CPU_MODEL", "DISK", "DISK_COST", "EMULATOR",
        "FEATURES", "GRAPHICS", "HYPERV_OPTIONS", "INPUT", "MEMORY", "MEMORY_COST", "MEMORY_MAX",
        "MEMORY_SLOTS", "MEMORY_RESIZE_MODE", "NIC", "NIC_ALIAS", "NIC_DEFAULT", "NUMA_NODE", "OS",
        "PCI", "RAW", "SCHED_ACTION", "SECURITY_GROUP_RULE", "SNAPSHOT", "SPICE_OPTIONS",
        "SUBMIT_ON_HOLD", "TEMPLATE_ID", "TOPOLOGY", "TPM", "VCPU", "VCPU_MAX", "VIDEO", "VMGROUP",
    }
)  # fmt: skip
"""The attributes of a VM's own template; all others belong to its user template."""
NOT_KEPT = VM_ATTRIBUTES | {"NAME", "VMID"}
"""The attributes that are not part of the user template."""
_UNPINNED = frozenset({"", "NONE"})


def completed_template(template: Template, oid: int, uuid: str) -> Template:
    """Return the VM's own template, as oned stores it."""
    own = template.only(VM_ATTRIBUTES)
    os = {**template.vector("OS"), "UUID": uuid}
    pin = "" if pinned(own) else "!"
    more: dict[str, str | Vector] = {
        "AUTOMATIC_REQUIREMENTS": f"!(PUBLIC_CLOUD = YES) & {pin}(PIN_POLICY = PINNED)",
        "CPU": f"{number(template.get('CPU'), float, 0):g}",
        "OS": tuple(sorted(os.items())),
        "VMID": str(oid),
    }
    if own.get("SUBMIT_ON_HOLD"):
        more["SUBMIT_ON_HOLD"] = own.get("SUBMIT_ON_HOLD").upper()
    return _numbered(own.plus({**more, **dict(_topology(own))}.items()))


def pinned(template: Template) -> bool:
    """Return whether oned pins the VM to cores."""
    return template.vector("TOPOLOGY").get("PIN_POLICY", "").upper() not in _UNPINNED


def _topology(own: Template) -> Iterable[Attribute]:
    topology = own.vector("TOPOLOGY")
    if not topology:
        return
    vcpus = own.get("VCPU") or "1"
    policy = topology.get("PIN_POLICY", "NONE").upper()
    values = {"SOCKETS": "1", "PIN_POLICY": policy, **topology}
    if policy in _UNPINNED:
        values = {"CORES": vcpus, "THREADS": "1", **values}
    yield "TOPOLOGY", tuple(sorted(values.items()))
    if policy not in _UNPINNED:
        # A pinned VM gets one whole core per virtual CPU.
        yield "CPU", vcpus
        yield "VCPU", vcpus
    if policy not in _UNPINNED or "NODE_AFFINITY" in topology:
        kib = int(number(own.get("MEMORY"), int, 0)) * 1024
        yield "NUMA_NODE", (("MEMORY", str(kib)), ("TOTAL_CPUS", vcpus))


_EXTRA: dict[str, Callable[[int], dict[str, str]]] = {
    "NIC": lambda place: {"NIC_ID": str(place), "NAME": f"NIC{place}"},
    "PCI": lambda place: {
        "PCI_ID": str(place),
        "VM_ADDRESS": f"01:{place + 1:02x}.0",
        "VM_BUS": "0x01",
        "VM_DOMAIN": "0x0000",
        "VM_FUNCTION": "0",
        "VM_SLOT": f"0x{place + 1:02x}",
    },
    "DISK": lambda place: {
        "DISK_ID": str(place),
        "DEV_PREFIX": "sd",
        "TARGET": f"sd{chr(ord('a') + place)}",
    },
}


def _numbered(own: Template) -> Template:
    """Number the NICs, PCI devices and disks in order."""
    seen = dict.fromkeys(_EXTRA, 0)
    attributes: list[Attribute] = []
    for name, value in own.attributes:
        if name in _EXTRA and not isinstance(value, str):
            attributes.append((name, _with(value, _EXTRA[name](seen[name]))))
            seen[name] += 1
        else:
            attributes.append((name, value))
    return Template(tuple(attributes))


def _with(vector: Vector, more: dict[str, str]) -> Vector:
    return tuple(sorted({**more, **dict(vector)}.items()))


@method("one.vm.allocate", "s?b")
def allocate(call: MethodCall, text: str, hold: bool = False) -> int:
    """Create a VM, pending or on hold."""
    template = call.parse(text)
    call.need(Right.CREATE, Target(ObjectType.VM, -1, call.user.id, call.user.gid))
    check_restricted(call, template, "VM Template")
    return new_vm(call, template, hold=hold)


def new_vm(call: MethodCall, template: Template, *, hold: bool) -> int:
    """Create a VM from a template without a check of the right to create it."""
    world = call.cloud.world
    oid = world.vms.next_id
    name = template.get("NAME") or f"one-{oid}"
    check_name(name)
    _check_sizes(template)
    group = _group(call, template)
    _check_images(call, template)
    _check_networks(call, template)
    check_quota(call.cloud.world, call.user, template)
    vm = Vm(
        id=oid,
        uid=call.user.id,
        gid=call.user.gid,
        name=name,
        template=with_images(world, completed_template(template, oid, world.uuid())),
        user_template=template.without(NOT_KEPT),
        stime=world.stamp(),
        state=OneVmState.HOLD if hold else OneVmState.PENDING,
    )
    vm.prev_state = vm.state
    if not transforms(vm.template, vm.user_template):
        raise OneRefusal(INTERNAL, "Error transforming the VM to XML.")
    world.vms.add(vm)
    world.changed("vm", oid)
    if group is not None:
        _join(call, group, vm)
    return oid


def check_restricted(call: MethodCall, template: Template, what: str) -> None:
    """Refuse a template with attributes that only administrators may set."""
    restricted = of_new(template, call.cloud.world.settings.vm_restricted)
    if restricted is not None and not call.admin:
        text = f"{what} includes a restricted attribute {restricted}"
        raise OneRefusal(AUTHORIZATION, f"User [{call.user.id}] : {text}.")


def _check_sizes(template: Template) -> None:
    """Refuse a template without valid MEMORY, CPU and VCPU."""
    if number(template.get("MEMORY"), int, 0) <= 0:
        raise OneRefusal(INTERNAL, "MEMORY attribute must be a positive integer value.")
    if number(template.get("CPU"), float, 0) <= 0:
        raise OneRefusal(INTERNAL, "CPU attribute must be a positive float or integer value.")
    if template.get("VCPU") and number(template.get("VCPU"), int, 0) <= 0:
        raise OneRefusal(INTERNAL, "VCPU attribute must be a positive integer value.")


def _group(call: MethodCall, template: Template) -> VmGroup | None:
    wanted = template.vector("VMGROUP")
    if not wanted:
        return None
    group = call.cloud.world.vm_groups.get(int(number(wanted.get("VMGROUP_ID", ""), int, -1)))
    if group is None:
        raise OneRefusal(INTERNAL, "Cannot find VM Group to associate the VM")
    call.need(Right.USE, vm_group_target(group))
    return group


def _check_images(call: MethodCall, template: Template) -> None:
    """Refuse images that do not exist or that the caller may not use."""
    for place, disk in enumerate(template.vectors("DISK")):
        oid = named(disk)
        if oid is None:
            continue
        image = call.cloud.world.images.get(oid)
        if image is None:
            raise OneRefusal(INTERNAL, f"DISK {place}: Image with ID: {oid} does not exist")
        call.need(Right.USE, image_target(image))


def _check_networks(call: MethodCall, template: Template) -> None:
    """Refuse networks that the caller may not use."""
    for nic in template.vectors("NIC"):
        network = call.cloud.world.networks.get(int(number(nic.get("NETWORK_ID", ""), int, -1)))
        if network is not None:
            call.need(Right.USE, network_target(network))


def _join(call: MethodCall, group: VmGroup, vm: Vm) -> None:
    for name, vms, _ in group.roles:
        if name == vm.template.vector("VMGROUP").get("ROLE"):
            vms.append(vm.id)
            call.cloud.world.changed("vmgroup", group.id)
