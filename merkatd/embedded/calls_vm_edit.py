"""The calls that show or change one VM: info, monitoring, update, resize, ownership and name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.access import Kind, Right
from merkatd.embedded.call import (
    ACTION,
    INTERNAL,
    RPC_API,
    Call,
    Refusal,
    group_target,
    method,
    user_target,
)
from merkatd.embedded.render_vm import sample_xml, vm_xml
from merkatd.embedded.states import Lcm, State, state_name
from merkatd.embedded.template import Template, number

if TYPE_CHECKING:
    from merkatd.embedded.records import Vm

_CONFIGURABLE = frozenset(
    {
        "BACKUP_CONFIG", "CONTEXT", "CPU_MODEL", "FEATURES", "GRAPHICS", "INPUT", "OS", "RAW",
        "TPM", "VIDEO",
    }
)  # fmt: skip
_RESIZABLE = frozenset({State.PENDING, State.HOLD, State.POWEROFF, State.UNDEPLOYED})


@method("one.vm.info", "i?b")
def info(call: Call, vm_id: int, decrypt: bool = False) -> str:  # noqa: ARG001
    """A VM with all its history and its last sample."""
    vm = call.vm(vm_id, Right.USE)
    sample = call.cloud.monitoring.vm_sample(vm)
    polled = sample.stamp if sample else 0
    inner = sample_xml(sample.values(vm_id)) if sample else ""
    return vm_xml(call.cloud.world, vm, vm.history, inner, polled)


@method("one.vm.monitoring", "i")
def monitoring(call: Call, vm_id: int) -> str:
    """The samples of a VM that are still kept."""
    vm = call.vm(vm_id, Right.USE)
    rows = "".join(
        f"<MONITORING>{sample_xml(sample.values(vm_id))}</MONITORING>"
        for sample in call.cloud.monitoring.vm_samples(vm)
    )
    return f"<MONITORING_DATA>{rows}</MONITORING_DATA>"


@method("one.vm.update", "isi")
def update(call: Call, vm_id: int, text: str, kind: int) -> int:
    """Replace the user template, or add to it."""
    vm = call.vm(vm_id, Right.MANAGE)
    vm.user_template = merged(
        call, vm.user_template, text, kind, call.cloud.world.settings.vm_restricted
    )
    call.cloud.world.changed("vm", vm_id)
    call.cloud.guests.described(vm)
    return vm_id


def merged(call: Call, old: Template, text: str, kind: int, restricted: frozenset[str]) -> Template:
    """A template replaced (0) or added to (1); only administrators touch what is restricted."""
    if kind not in {0, 1}:
        raise Refusal(RPC_API, "Wrong update type")
    new = call.parse(text, "Cannot update template. ")
    guarded = frozenset[str]() if call.admin else restricted
    new = new.without(guarded)
    if kind == 1:
        return old.plus(new.attributes)
    return new.plus(old.only(guarded).attributes)


@method("one.vm.updateconf", "is?i")
def updateconf(call: Call, vm_id: int, text: str, kind: int = 0) -> int:
    """Change the part of a VM's own template that may change after its creation."""
    vm = call.vm(vm_id, Right.MANAGE)
    new = call.parse(text).only(_CONFIGURABLE)
    running = vm.state is State.ACTIVE and vm.lcm is Lcm.RUNNING and vm.run is None
    if vm.state is State.DONE or (vm.state is State.ACTIVE and not running):
        raise Refusal(ACTION, f"Update configuration is not available for state {_name(vm)}")
    kept = vm.template if kind == 1 else vm.template.without(_CONFIGURABLE - {"OS"})
    uuid = vm.template.vector("OS").get("UUID", "")
    os = {"UUID": uuid, **new.vector("OS")}
    vm.template = kept.plus(new.attributes).plus([("OS", tuple(sorted(os.items())))])
    call.cloud.world.changed("vm", vm_id)
    if running:
        call.cloud.lifecycle.begin(vm, "reconfigure", at_once=True)
    return vm_id


@method("one.vm.resize", "isb")
def resize(call: Call, vm_id: int, text: str, enforce: bool) -> int:
    """Change a VM's size; a running one passes through HOTPLUG_RESIZE."""
    new = call.parse(text)
    vm = call.vm(vm_id, Right.MANAGE)
    sizes = _sizes(new)
    running = vm.state is State.ACTIVE and vm.lcm is Lcm.RUNNING and vm.run is None
    if not running and vm.state not in _RESIZABLE:
        raise Refusal(ACTION, f"Cannot resize a VM in state {_name(vm)}")
    if running:
        _check_hotplug(vm, sizes)
    if enforce or not call.admin:
        _check_growth(call, vm, sizes)
    before = vm.template

    def change() -> None:
        vm.template = before.plus(sizes.items())

    call.cloud.lifecycle.resize(vm, change)
    call.cloud.world.changed("vm", vm_id)
    if running:
        vm.undo = before
        call.cloud.lifecycle.begin(vm, "resize", at_once=True)
    call.cloud.guests.described(vm)
    return vm_id


def _sizes(new: Template) -> dict[str, str]:
    cpu = number(new.get("CPU"), float, 0)
    memory, vcpu = (int(number(new.get(name), float, 0)) for name in ("MEMORY", "VCPU"))
    if cpu < 0:
        raise Refusal(INTERNAL, "CPU must be a positive float or integer value.")
    if memory < 0:
        raise Refusal(INTERNAL, "MEMORY must be a positive integer value.")
    if vcpu < 0:
        raise Refusal(INTERNAL, "VCPU must be a positive integer value.")
    texts = {"CPU": f"{cpu:g}", "MEMORY": str(memory), "VCPU": str(vcpu)}
    return {name: text for name, text in texts.items() if text != "0"}


def _check_growth(call: Call, vm: Vm, sizes: dict[str, str]) -> None:
    if not vm.charged:
        return
    host = call.host(vm.charged[-1])
    cpu = round(float(sizes.get("CPU", vm.template.get("CPU"))) * 100)
    memory_kib = int(sizes.get("MEMORY", str(vm.memory_mib))) * 1024
    free_cpu = host.max_cpu - host.used_cpu + vm.cpu
    free_memory_kib = host.max_memory_kib - host.used_memory_kib + vm.memory_mib * 1024
    if cpu > free_cpu or memory_kib > free_memory_kib:
        raise Refusal(ACTION, f"Host {host.id} does not have enough capacity.")


def _check_hotplug(vm: Vm, sizes: dict[str, str]) -> None:
    if vm.pinned:
        raise Refusal(ACTION, "Cannot resize a pinned VM")
    if all(vm.template.get(name) == text for name, text in sizes.items()):
        raise Refusal(ACTION, "Nothing to resize")


def _name(vm: Vm) -> str:
    return state_name(vm.state, vm.lcm)


@method("one.vm.chown", "iii")
def chown(call: Call, vm_id: int, uid: int, gid: int) -> int:
    """Give a VM to another user, another group, or both; -1 leaves one as it is."""
    vm = call.vm(vm_id, Right.MANAGE)
    world = call.cloud.world
    if uid >= 0:
        call.need(Right.MANAGE, user_target(call.find(world.users, Kind.USER, uid)))
    if gid >= 0:
        call.need(Right.USE, group_target(call.find(world.groups, Kind.GROUP, gid)))
    vm.uid = uid if uid >= 0 else vm.uid
    vm.gid = gid if gid >= 0 else vm.gid
    world.changed("vm", vm_id)
    return vm_id


@method("one.vm.chmod", "iiiiiiiiii")
def chmod(call: Call, vm_id: int, *bits: int) -> int:
    """Change the permissions of a VM; -1 leaves one as it is."""
    vm = call.vm(vm_id, Right.MANAGE)
    if any(bit not in {-1, 0, 1} for bit in bits[:9]):
        raise Refusal(RPC_API, "New permissions must be -1, 0 or 1")
    new = [old if bit < 0 else bit for bit, old in zip(bits, vm.permissions, strict=False)]
    u1, m1, a1, u2, m2, a2, u3, m3, a3 = new
    vm.permissions = (u1, m1, a1, u2, m2, a2, u3, m3, a3)
    call.cloud.world.changed("vm", vm_id)
    return vm_id


@method("one.vm.rename", "is")
def rename(call: Call, vm_id: int, name: str) -> int:
    """Give a VM another name."""
    vm = call.vm(vm_id, Right.MANAGE)
    if not name.strip() or len(name) > 128:
        raise Refusal(INTERNAL, "Invalid NAME, it must have 1 to 128 characters")
    vm.name = name
    call.cloud.world.changed("vm", vm_id)
    return vm_id
