"""The call that creates a VM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.access import Kind, Right, Target
from merkatd.embedded.call import AUTHORIZATION, INTERNAL, Call, Refusal, method
from merkatd.embedded.records import Vm
from merkatd.embedded.states import State
from merkatd.embedded.template import number

if TYPE_CHECKING:
    from merkatd.embedded.template import Template

_VM_ATTRIBUTES = frozenset(
    {
        "BACKUP_CONFIG", "CONTEXT", "CPU", "CPU_COST", "CPU_MODEL", "DISK", "DISK_COST", "EMULATOR",
        "FEATURES", "GRAPHICS", "HYPERV_OPTIONS", "INPUT", "MEMORY", "MEMORY_COST", "MEMORY_MAX",
        "MEMORY_SLOTS", "MEMORY_RESIZE_MODE", "NIC", "NIC_ALIAS", "NIC_DEFAULT", "NUMA_NODE", "OS",
        "PCI", "RAW", "SCHED_ACTION", "SECURITY_GROUP_RULE", "SNAPSHOT", "SPICE_OPTIONS",
        "SUBMIT_ON_HOLD", "TEMPLATE_ID", "TOPOLOGY", "TPM", "VCPU", "VCPU_MAX", "VIDEO", "VMGROUP",
    }
)  # fmt: skip
"""What stays in a VM's own template; all else is its user template."""


@method("one.vm.allocate", "s?b")
def allocate(call: Call, text: str, hold: bool = False) -> int:
    """A new VM, pending or held."""
    world = call.cloud.world
    template = call.parse(text)
    call.need(Right.CREATE, Target(Kind.VM, -1, call.user.id, call.user.gid))
    restricted = sorted(template.names() & world.settings.vm_restricted)
    if restricted and not call.admin:
        text = f"VM Template includes a restricted attribute {restricted[0]}"
        raise Refusal(AUTHORIZATION, f"User [{call.user.id}] : {text}.")
    _check_sizes(template)
    oid = world.vms.next_id
    held = hold or template.get("SUBMIT_ON_HOLD").upper() == "YES"
    vm = Vm(
        id=oid,
        uid=call.user.id,
        gid=call.user.gid,
        name=template.get("NAME") or f"one-{oid}",
        template=_complete(call, template, oid),
        user_template=template.without(_VM_ATTRIBUTES | {"NAME"}),
        stime=world.stamp(),
        state=State.HOLD if held else State.PENDING,
    )
    vm.prev_state = vm.state
    world.vms.add(vm)
    world.changed("vm", oid)
    _join_group(call, vm)
    return oid


def _complete(call: Call, template: Template, oid: int) -> Template:
    os = {**template.vector("OS"), "UUID": call.cloud.world.uuid()}
    return template.only(_VM_ATTRIBUTES).plus(
        [
            ("AUTOMATIC_REQUIREMENTS", "!(PUBLIC_CLOUD = YES) & !(PIN_POLICY = PINNED)"),
            ("CPU", f"{number(template.get('CPU'), float, 0):g}"),
            ("OS", tuple(sorted(os.items()))),
            ("VMID", str(oid)),
        ]
    )


def _check_sizes(template: Template) -> None:
    """Refuse a template without the sizes that capacity is reckoned with."""
    cpu = number(template.get("CPU"), float, 0)
    if cpu <= 0:
        raise Refusal(INTERNAL, "CPU attribute must be a positive float or integer value.")
    if number(template.get("MEMORY"), int, 0) <= 0:
        raise Refusal(INTERNAL, "MEMORY attribute must be a positive integer value.")
    if template.get("VCPU") and number(template.get("VCPU"), int, 0) <= 0:
        raise Refusal(INTERNAL, "VCPU attribute must be a positive integer value.")


def _join_group(call: Call, vm: Vm) -> None:
    wanted = vm.template.vector("VMGROUP")
    group = call.cloud.world.vm_groups.get(int(number(wanted.get("VMGROUP_ID", ""), int, -1)))
    if group is None:
        return
    for name, vms, _ in group.roles:
        if name == wanted.get("ROLE"):
            vms.append(vm.id)
            call.cloud.world.changed("vmgroup", group.id)
