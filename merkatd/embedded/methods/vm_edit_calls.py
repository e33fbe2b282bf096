"""The calls that show or change a VM: info, monitoring, update, resize, ownership and name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.machines.history_records import split
from merkatd.embedded.methods.call import MethodCall, check_name, mark, method
from merkatd.embedded.model.access import ObjectType, Right, group_target, user_target
from merkatd.embedded.model.errors import ACTION, INTERNAL, RPC_API, OneRefusal
from merkatd.embedded.model.restricted_attributes import kept, of_change
from merkatd.embedded.model.template_text import (
    Attribute,
    ParseError,
    Template,
    number,
    parse,
    transforms,
)
from merkatd.embedded.model.vm_states import Lcm, OneVmState, VmAction, state_name
from merkatd.embedded.render.render_vm import sample_xml, vm_xml

if TYPE_CHECKING:
    from merkatd.embedded.model.records import Vm

_CONFIGURABLE = frozenset(
    {
        "BACKUP_CONFIG", "CONTEXT", "CPU_MODEL", "FEATURES", "GRAPHICS", "INPUT", "OS", "RAW",
        "TPM", "VIDEO",
    }
)  # fmt: skip
_TOUCHED = (
    "Tried to change restricted attribute:",
    "User Template includes a restricted attribute",
)
_RESIZABLE = frozenset(
    {OneVmState.PENDING, OneVmState.HOLD, OneVmState.POWEROFF, OneVmState.UNDEPLOYED}
)


@method("one.vm.info", "i?b")
def info(call: MethodCall, vm_id: int, decrypt: bool = False) -> str:  # noqa: ARG001
    """Return a VM with its whole history and its last sample."""
    vm = call.vm(vm_id, Right.USE)
    sample = call.cloud.monitoring.vm_sample(vm)
    polled = sample.stamp if sample else 0
    inner = sample_xml(sample.values(vm_id)) if sample else ""
    return vm_xml(call.cloud.world, vm, vm.history, inner, polled)


@method("one.vm.monitoring", "i")
def monitoring(call: MethodCall, vm_id: int) -> str:
    """Return the stored samples of a VM."""
    vm = call.vm(vm_id, Right.USE)
    rows = "".join(
        f"<MONITORING>{sample_xml(sample.values(vm_id))}</MONITORING>"
        for sample in call.cloud.monitoring.vm_samples(vm)
    )
    return f"<MONITORING_DATA>{rows}</MONITORING_DATA>"


@method("one.vm.update", "is?i")
def update(call: MethodCall, vm_id: int, text: str, kind: int = 0) -> int:
    """Replace the user template, or add to it."""
    vm = call.vm(vm_id, Right.MANAGE)
    _check_kind(kind)
    try:
        new = parse(text)
    except ParseError as error:
        # Only this call reports a parse error with the code of a wrong state.
        raise OneRefusal(ACTION, str(error)) from None
    restricted = call.cloud.world.settings.vm_restricted
    changed = _merged(call, vm.user_template, new, kind, restricted)
    if not transforms(vm.template, changed):
        return vm_id  # oned can't store it, and reports no error
    vm.user_template = changed
    call.cloud.world.changed("vm", vm_id)
    call.cloud.guests.described(vm)
    return vm_id


def merged(
    call: MethodCall, old: Template, text: str, kind: int, restricted: frozenset[str]
) -> Template:
    """Return a template replaced (0) or extended (1); restricted parts are for administrators."""
    _check_kind(kind)
    return _merged(call, old, call.parse(text, "Cannot update template. "), kind, restricted)


def _check_kind(kind: int) -> None:
    if kind not in {0, 1}:
        raise OneRefusal(RPC_API, "Wrong update type")


def _merged(
    call: MethodCall, old: Template, new: Template, kind: int, restricted: frozenset[str]
) -> Template:
    guarded = frozenset[str]() if call.admin else restricted
    touched = of_change(new, old, guarded, append=kind == 1)
    if touched is not None:
        raise OneRefusal(INTERNAL, f"Cannot update template. {_TOUCHED[kind]} {touched}")
    return old.plus(new.attributes) if kind == 1 else kept(new, old, guarded)


@method("one.vm.updateconf", "is?i")
def updateconf(call: MethodCall, vm_id: int, text: str, kind: int = 0) -> int:
    """Change the configurable part of a VM's own template."""
    vm = call.vm(vm_id, Right.MANAGE)
    new = call.parse(text).only(_CONFIGURABLE)
    running = vm.state is OneVmState.ACTIVE and vm.lcm is Lcm.RUNNING and vm.run is None
    if not running and vm.state not in _RESIZABLE:
        raise OneRefusal(INTERNAL, f"configuration cannot be updated in state {_name(vm)}")
    kept = vm.template if kind == 1 else vm.template.without(_CONFIGURABLE - {"OS"})
    uuid = vm.template.vector("OS").get("UUID", "")
    os = {"UUID": uuid, **new.vector("OS")}
    vm.template = kept.plus(new.attributes).plus([("OS", tuple(sorted(os.items())))])
    call.cloud.world.changed("vm", vm_id)
    if running:
        call.cloud.lifecycle.begin(vm, "reconfigure", at_once=True)
    return vm_id


@method("one.vm.schedupdate", "iis")
def schedupdate(call: MethodCall, vm_id: int, action: int, text: str) -> int:
    """Change a scheduled action in a VM's template."""
    vm = call.vm(vm_id, Right.MANAGE)
    new = call.parse(text).vector("SCHED_ACTION")
    kept: list[Attribute] = []
    changed = False
    for name, value in vm.template.attributes:
        known = {} if isinstance(value, str) else dict(value)
        if name == "SCHED_ACTION" and known.get("ID") == str(action):
            changed = True
            kept.append((name, tuple(sorted((known | new).items()))))
        else:
            kept.append((name, value))
    if not changed:
        raise OneRefusal(ACTION, f"Sched action {action} does not exist")
    vm.template = Template.of(kept)
    call.cloud.world.changed("vm", vm_id)
    return vm_id


@method("one.vm.resize", "isb")
def resize(call: MethodCall, vm_id: int, text: str, _enforce: bool) -> int:
    """Change a VM's size if its host has room; a running VM passes through HOTPLUG_RESIZE."""
    new = call.parse(text)
    vm = call.vm(vm_id, Right.MANAGE)
    sizes = _sizes(new)
    running = vm.state is OneVmState.ACTIVE and vm.lcm is Lcm.RUNNING and vm.run is None
    if not running and vm.state not in _RESIZABLE:
        raise OneRefusal(ACTION, f"Cannot resize a VM in state {_name(vm)}")
    if running and vm.pinned:
        raise OneRefusal(ACTION, "Cannot resize a pinned VM")
    if running and all(vm.template.get(name) == text for name, text in sizes.items()):
        return vm_id
    _check_growth(call, vm, sizes)
    before = vm.template

    def change() -> None:
        vm.template = before.plus(sizes.items())

    call.cloud.lifecycle.resize(vm, change)
    if vm.history:
        split(vm, call.cloud.world.stamp(), VmAction.RESIZE)
        mark(call, vm.history[-2])
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
        raise OneRefusal(INTERNAL, "CPU must be a positive float or integer value.")
    if memory < 0:
        raise OneRefusal(INTERNAL, "MEMORY must be a positive integer value.")
    if vcpu < 0:
        raise OneRefusal(INTERNAL, "VCPU must be a positive integer value.")
    texts = {"CPU": f"{cpu:g}", "MEMORY": str(memory), "VCPU": str(vcpu)}
    return {name: text for name, text in texts.items() if text != "0"}


def _check_growth(call: MethodCall, vm: Vm, sizes: dict[str, str]) -> None:
    if not vm.charged:
        return
    host = call.host(vm.charged[-1])
    cpu = round(float(sizes.get("CPU", vm.template.get("CPU"))) * 100)
    memory_kib = int(sizes.get("MEMORY", str(vm.memory_mib))) * 1024
    free_cpu = host.max_cpu - host.used_cpu + vm.cpu
    free_memory_kib = host.max_memory_kib - host.used_memory_kib + vm.memory_mib * 1024
    if cpu > free_cpu:
        raise OneRefusal(ACTION, f"Not enough CPU: {cpu}/{free_cpu}")
    if memory_kib > free_memory_kib:
        raise OneRefusal(ACTION, f"Not enough memory: {memory_kib}/{free_memory_kib}")


def _name(vm: Vm) -> str:
    return state_name(vm.state, vm.lcm)


@method("one.vm.chown", "iii")
def chown(call: MethodCall, vm_id: int, uid: int, gid: int) -> int:
    """Change a VM's owner, its group, or both; -1 leaves a value unchanged."""
    vm = call.vm(vm_id, Right.MANAGE)
    if vm.state is OneVmState.DONE:
        raise OneRefusal(ACTION, "Could not change VM ownership, wrong state")
    world = call.cloud.world
    if uid >= 0:
        call.need(Right.MANAGE, user_target(call.find(world.users, ObjectType.USER, uid)))
    if gid >= 0:
        call.need(Right.USE, group_target(call.find(world.groups, ObjectType.GROUP, gid)))
    vm.uid = uid if uid >= 0 else vm.uid
    vm.gid = gid if gid >= 0 else vm.gid
    world.changed("vm", vm_id)
    return vm_id


@method("one.vm.chmod", "iiiiiiiiii")
def chmod(call: MethodCall, vm_id: int, *bits: int) -> int:
    """Change a VM's permissions; -1 leaves a value unchanged."""
    vm = call.vm(vm_id, Right.MANAGE)
    if any(bit not in {-1, 0, 1} for bit in bits[:9]):
        raise OneRefusal(INTERNAL, "New permission values must be -1, 0 or 1")
    new = [old if bit < 0 else bit for bit, old in zip(bits, vm.permissions, strict=False)]
    u1, m1, a1, u2, m2, a2, u3, m3, a3 = new
    vm.permissions = (u1, m1, a1, u2, m2, a2, u3, m3, a3)
    call.cloud.world.changed("vm", vm_id)
    return vm_id


@method("one.vm.rename", "is")
def rename(call: MethodCall, vm_id: int, name: str) -> int:
    """Rename a VM."""
    vm = call.vm(vm_id, Right.MANAGE)
    check_name(name, ACTION)
    vm.name = name
    call.cloud.world.changed("vm", vm_id)
    return vm_id
