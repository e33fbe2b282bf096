"""The calls that lock VMs."""

from __future__ import annotations

from merkatd.embedded.access import Kind, Right
from merkatd.embedded.call import ACTION, Call, Refusal, method, vm_target
from merkatd.embedded.records import Lock

_ALL = 4
_SHOWN = {1: 1, 2: 2, 3: 3, _ALL: 1}
"""By the level asked for, the one that is kept."""


@method("one.vm.lock", "ii?b")
def lock(call: Call, vm_id: int, level: int, test: bool = False) -> int:
    """Let nobody use (1), manage (2) or administer (3) a VM, or do any of these (4)."""
    vm = call.find(call.cloud.world.vms, Kind.VM, vm_id)
    if level not in _SHOWN:
        raise Refusal(ACTION, "Wrong lock level specified")
    call.need(Right.MANAGE, vm_target(vm))
    if vm.lock is not None and test:
        raise Refusal(ACTION, str(vm.lock.stamp))
    if vm.lock is not None and vm.lock.owner != call.user.id and not call.admin:
        raise Refusal(ACTION, "Error trying to lock the resource.")
    now = call.cloud.world.stamp()
    vm.lock = Lock(_SHOWN[level], call.user.id, now, call.cloud.requests)
    call.cloud.world.changed("vm", vm_id)
    return vm_id


@method("one.vm.unlock", "i")
def unlock(call: Call, vm_id: int) -> int:
    """Let everybody do what they may."""
    vm = call.find(call.cloud.world.vms, Kind.VM, vm_id)
    call.need(Right.MANAGE, vm_target(vm))
    if vm.lock is not None and vm.lock.owner != call.user.id and not call.admin:
        raise Refusal(ACTION, "Error trying to unlock the resource.")
    vm.lock = None
    call.cloud.world.changed("vm", vm_id)
    return vm_id
