"""Actions, recovery and locks of VMs."""

from __future__ import annotations

from merkatd.embedded.machines.operations import choose
from merkatd.embedded.methods.call import Call, mark, method
from merkatd.embedded.model.access import Kind, Right, vm_target
from merkatd.embedded.model.errors import ACTION, Refusal
from merkatd.embedded.model.records import Lock, Vm
from merkatd.embedded.model.vm_states import Action, Lcm, State, state_name

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


_CLOSING = {
    "suspend": Action.SUSPEND,
    "stop": Action.STOP,
    "undeploy": Action.UNDEPLOY,
    "undeploy-hard": Action.UNDEPLOY_HARD,
    "poweroff": Action.POWEROFF,
    "poweroff-hard": Action.POWEROFF_HARD,
    "terminate": Action.TERMINATE,
    "terminate-hard": Action.TERMINATE_HARD,
}
_RIGHTS = {"resched": Right.ADMIN, "unresched": Right.ADMIN}
_INSTANT = frozenset({"hold", "release", "resched", "unresched", "reboot", "reboot-hard"})
_SUPPORTED = (
    _INSTANT
    | {name + hard for name in ("undeploy", "poweroff", "terminate") for hard in ("", "-hard")}
    | {"suspend", "resume", "stop"}
)


@method("one.vm.action", "si")
def action(call: Call, name: str, vm_id: int) -> int:
    """Everything that needs no more than a word."""
    vm = call.vm(vm_id, _RIGHTS.get(name, Right.MANAGE))
    if name not in _SUPPORTED:
        raise Refusal(ACTION, f'Action "{name}" is not supported')
    if name in _INSTANT:
        done = _instant(call, name.removesuffix("-hard"), vm)
    else:
        done = _operate(call, name, vm)
    if not done:
        raise Refusal(
            ACTION,
            f'Error performing action "{name}": This action is not available for state '
            f"{state_name(vm.state, vm.lcm)}",
        )
    return vm_id


def _instant(call: Call, name: str, vm: Vm) -> bool:
    if name in {"hold", "release"}:
        before, after = (
            (State.PENDING, State.HOLD) if name == "hold" else (State.HOLD, State.PENDING)
        )
        if vm.state is not before:
            return False
        call.cloud.lifecycle.move(vm, after)
        return True
    running = vm.state is State.ACTIVE and vm.lcm in {Lcm.RUNNING, Lcm.UNKNOWN}
    if name == "reboot":
        if vm.state is State.ACTIVE and vm.lcm is Lcm.RUNNING:
            call.cloud.guests.reboot(vm.id)
            vm.resched = 0
            call.cloud.world.changed("vm", vm.id)
            return True
        return False
    if not running and vm.state is not State.POWEROFF:
        return False
    vm.resched = int(name == "resched")
    call.cloud.world.changed("vm", vm.id)
    return True


def _operate(call: Call, name: str, vm: Vm) -> bool:
    plain = name.removesuffix("-hard")
    lifecycle = call.cloud.lifecycle
    if plain == "terminate" and vm.state in {State.PENDING, State.HOLD, State.DONE}:
        if vm.state is not State.DONE:
            lifecycle.move(vm, State.DONE)
        return True
    operation = choose(plain, vm.state, vm.lcm)
    if operation is None:
        return False
    if vm.run is not None and not vm.run.failed:
        # oned accepts it, and drops it when its turn comes: the VM has moved on by then.
        return True
    if vm.history and plain != "resume":
        vm.history[-1].action = _CLOSING[name]
        mark(call, vm.history[-1])
    lifecycle.begin(vm, operation, at_once=operation == "resume-stopped")
    return True


# -- recover ----------------------------------------------------------------------------------


@method("one.vm.recover", "ii")
def recover(call: Call, vm_id: int, operation: int) -> int:
    """Help a VM out of where it is stuck."""
    if not 0 <= operation <= 5:
        raise Refusal(ACTION, "Wrong recovery operation code")
    vm = call.vm(vm_id, Right.ADMIN)
    if operation <= 2:
        _recover_step(call, vm, operation)
    elif operation == 4:
        _recreate(call, vm)
    else:
        _delete(call, vm, at_once=operation == 5)
    return vm_id


def _recover_step(call: Call, vm: Vm, operation: int) -> None:
    if vm.state is not State.ACTIVE:
        what = "retry" if operation == 2 else "recover operation"
        raise Refusal(
            ACTION, f"Could not perform a {what} on VM {vm.id}, wrong state {vm.state.name}."
        )
    lifecycle = call.cloud.lifecycle
    if operation == 1 and vm.lcm is Lcm.UNKNOWN:
        lifecycle.find(vm, alive=True)
        return
    (lifecycle.fail, lifecycle.finish, lifecycle.retry)[operation](vm)


def _recreate(call: Call, vm: Vm) -> None:
    lifecycle = call.cloud.lifecycle
    if vm.state is State.DONE:
        raise Refusal(ACTION, "Cannot delete-recreate a VM already in DONE state")
    if vm.state in {State.ACTIVE, State.POWEROFF, State.SUSPENDED}:
        vm.history[-1].action = Action.DELETE_RECREATE
        lifecycle.begin(vm, "recreate", at_once=True)
        return
    if vm.history:
        vm.history[-1].action = Action.DELETE_RECREATE
    call.cloud.guests.forget(vm.id)
    lifecycle.move(vm, State.PENDING)


def _delete(call: Call, vm: Vm, *, at_once: bool) -> None:
    lifecycle = call.cloud.lifecycle
    if vm.state is State.DONE:
        return
    if vm.state in {State.ACTIVE, State.POWEROFF, State.SUSPENDED}:
        vm.history[-1].action = Action.DELETE
        if not at_once:
            lifecycle.begin(vm, "delete", at_once=True)
            return
        for host_id in list(vm.charged):
            lifecycle.release(vm, host_id)
    lifecycle.forget(vm)
    lifecycle.move(vm, State.DONE)
