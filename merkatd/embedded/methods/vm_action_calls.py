"""The calls for actions, recovery and locks of VMs."""

from __future__ import annotations

from merkatd.embedded.machines.operations import choose
from merkatd.embedded.methods.call import MethodCall, mark, method
from merkatd.embedded.model.access import ObjectType, Right, vm_target
from merkatd.embedded.model.errors import ACTION, OneRefusal
from merkatd.embedded.model.records import Lock, Vm
from merkatd.embedded.model.vm_states import Lcm, OneVmState, VmAction, state_name

_ALL = 4
_SHOWN = {1: 1, 2: 2, 3: 3, _ALL: 1}
"""The stored level of a lock by the requested level."""


@method("one.vm.lock", "ii?b")
def lock(call: MethodCall, vm_id: int, level: int, test: bool = False) -> int:
    """Lock a VM against use (1), manage (2), admin (3) or all operations (4)."""
    vm = call.find(call.cloud.world.vms, ObjectType.VM, vm_id)
    if level not in _SHOWN:
        raise OneRefusal(ACTION, "Wrong lock level specified")
    call.need(Right.MANAGE, vm_target(vm))
    if vm.lock is not None and test:
        raise OneRefusal(ACTION, str(vm.lock.stamp))
    if vm.lock is not None and vm.lock.owner != call.user.id and not call.admin:
        raise OneRefusal(ACTION, "Error trying to lock the resource.")
    now = call.cloud.world.stamp()
    vm.lock = Lock(_SHOWN[level], call.user.id, now, call.cloud.requests)
    call.cloud.world.changed("vm", vm_id)
    return vm_id


@method("one.vm.unlock", "i")
def unlock(call: MethodCall, vm_id: int) -> int:
    """Unlock a VM."""
    vm = call.find(call.cloud.world.vms, ObjectType.VM, vm_id)
    call.need(Right.MANAGE, vm_target(vm))
    if vm.lock is not None and vm.lock.owner != call.user.id and not call.admin:
        raise OneRefusal(ACTION, "Error trying to unlock the resource.")
    vm.lock = None
    call.cloud.world.changed("vm", vm_id)
    return vm_id


_CLOSING = {
    "suspend": VmAction.SUSPEND,
    "stop": VmAction.STOP,
    "undeploy": VmAction.UNDEPLOY,
    "undeploy-hard": VmAction.UNDEPLOY_HARD,
    "poweroff": VmAction.POWEROFF,
    "poweroff-hard": VmAction.POWEROFF_HARD,
    "terminate": VmAction.TERMINATE,
    "terminate-hard": VmAction.TERMINATE_HARD,
}
_RIGHTS = {"resched": Right.ADMIN, "unresched": Right.ADMIN}
_INSTANT = frozenset({"hold", "release", "resched", "unresched", "reboot", "reboot-hard"})
_SUPPORTED = (
    _INSTANT
    | {name + hard for name in ("undeploy", "poweroff", "terminate") for hard in ("", "-hard")}
    | {"suspend", "resume", "stop"}
)


@method("one.vm.action", "si")
def action(call: MethodCall, name: str, vm_id: int) -> int:
    """Execute an action that needs only a name: suspend, stop, resume, terminate and others."""
    vm = call.vm(vm_id, _RIGHTS.get(name, Right.MANAGE))
    if name not in _SUPPORTED:
        raise OneRefusal(ACTION, f'Action "{name}" is not supported')
    if name in _INSTANT:
        done = _instant(call, name.removesuffix("-hard"), vm)
    else:
        done = _operate(call, name, vm)
    if not done:
        raise OneRefusal(
            ACTION,
            f'Error performing action "{name}": This action is not available for state '
            f"{state_name(vm.state, vm.lcm)}",
        )
    return vm_id


def _instant(call: MethodCall, name: str, vm: Vm) -> bool:
    if name in {"hold", "release"}:
        before, after = (
            (OneVmState.PENDING, OneVmState.HOLD)
            if name == "hold"
            else (OneVmState.HOLD, OneVmState.PENDING)
        )
        if vm.state is not before:
            return False
        call.cloud.lifecycle.move(vm, after)
        return True
    running = vm.state is OneVmState.ACTIVE and vm.lcm in {Lcm.RUNNING, Lcm.UNKNOWN}
    if name == "reboot":
        if vm.state is OneVmState.ACTIVE and vm.lcm is Lcm.RUNNING:
            call.cloud.guests.reboot(vm.id)
            vm.resched = 0
            call.cloud.world.changed("vm", vm.id)
            return True
        return False
    if not running and vm.state is not OneVmState.POWEROFF:
        return False
    vm.resched = int(name == "resched")
    call.cloud.world.changed("vm", vm.id)
    return True


def _operate(call: MethodCall, name: str, vm: Vm) -> bool:
    plain = name.removesuffix("-hard")
    lifecycle = call.cloud.lifecycle
    if plain == "terminate" and vm.state in {OneVmState.PENDING, OneVmState.HOLD, OneVmState.DONE}:
        if vm.state is not OneVmState.DONE:
            lifecycle.move(vm, OneVmState.DONE)
        return True
    operation = choose(plain, vm.state, vm.lcm)
    if operation is None:
        return False
    if vm.run is not None and not vm.run.failed:
        # oned accepts the action and drops it later: by then the VM is in another state.
        return True
    if vm.history and plain != "resume":
        vm.history[-1].action = _CLOSING[name]
        mark(call, vm.history[-1])
    lifecycle.begin(vm, operation, at_once=operation == "resume-stopped")
    return True


# -- recover ----------------------------------------------------------------------------------


@method("one.vm.recover", "ii")
def recover(call: MethodCall, vm_id: int, operation: int) -> int:
    """Recover a stuck VM: fail, finish or retry its step, delete or recreate it."""
    if not 0 <= operation <= 5:
        raise OneRefusal(ACTION, "Wrong recovery operation code")
    vm = call.vm(vm_id, Right.ADMIN)
    if operation <= 2:
        _recover_step(call, vm, operation)
    elif operation == 4:
        _recreate(call, vm)
    else:
        _delete(call, vm, at_once=operation == 5)
    return vm_id


def _recover_step(call: MethodCall, vm: Vm, operation: int) -> None:
    if vm.state is not OneVmState.ACTIVE:
        what = "retry" if operation == 2 else "recover operation"
        raise OneRefusal(
            ACTION, f"Could not perform a {what} on VM {vm.id}, wrong state {vm.state.name}."
        )
    lifecycle = call.cloud.lifecycle
    if operation == 1 and vm.lcm is Lcm.UNKNOWN:
        lifecycle.find(vm, alive=True)
        return
    (lifecycle.fail, lifecycle.finish, lifecycle.retry)[operation](vm)


def _recreate(call: MethodCall, vm: Vm) -> None:
    lifecycle = call.cloud.lifecycle
    if vm.state is OneVmState.DONE:
        raise OneRefusal(ACTION, "Cannot delete-recreate a VM already in DONE state")
    if vm.state in {OneVmState.ACTIVE, OneVmState.POWEROFF, OneVmState.SUSPENDED}:
        vm.history[-1].action = VmAction.DELETE_RECREATE
        lifecycle.begin(vm, "recreate", at_once=True)
        return
    if vm.history:
        vm.history[-1].action = VmAction.DELETE_RECREATE
    call.cloud.guests.forget(vm.id)
    lifecycle.move(vm, OneVmState.PENDING)


def _delete(call: MethodCall, vm: Vm, *, at_once: bool) -> None:
    lifecycle = call.cloud.lifecycle
    if vm.state is OneVmState.DONE:
        return
    if vm.state in {OneVmState.ACTIVE, OneVmState.POWEROFF, OneVmState.SUSPENDED}:
        vm.history[-1].action = VmAction.DELETE
        if not at_once:
            lifecycle.begin(vm, "delete", at_once=True)
            return
        for host_id in list(vm.charged):
            lifecycle.release(vm, host_id)
    lifecycle.forget(vm)
    lifecycle.move(vm, OneVmState.DONE)
