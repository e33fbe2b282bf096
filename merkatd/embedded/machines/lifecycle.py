"""The life cycle of VMs: their operations, executed step by step over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from merkatd.embedded.machines import history_records
from merkatd.embedded.machines.operations import FAILURE, OPERATIONS, Effect, OperationStep
from merkatd.embedded.model import pci_devices, vm_resources
from merkatd.embedded.model.records import Host, RunningOperation, Vm
from merkatd.embedded.model.vm_states import FAILURES, Lcm, OneVmState, VmAction

if TYPE_CHECKING:
    from collections.abc import Callable

    from merkatd.embedded.model.world import World

Watcher: TypeAlias = "Callable[[Vm, OneVmState, Lcm], None]"
"""Called after a VM changes its state, with the previous STATE and LCM_STATE."""

_HOSTLESS = frozenset({Lcm.CLEANUP_DELETE, Lcm.CLEANUP_RESUBMIT, Lcm.EPILOG})
"""The states that succeed even if the host is dead or disconnected."""

_RESUMED_IN_PLACE = frozenset({"resume-suspended", "resume-off"})

_SEEN = frozenset({Lcm.RUNNING, Lcm.UNKNOWN})
_AT_REST = frozenset({OneVmState.POWEROFF, OneVmState.SUSPENDED})

_BOTH_HOSTS = frozenset({Lcm.MIGRATE, Lcm.SAVE_MIGRATE})
"""The states that need both the last host and the one before it."""


class Lifecycle:
    """The states of all VMs over time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._serial = 0
        self._watchers: list[Watcher] = []
        self.fails: Callable[[Vm, Lcm], bool] = lambda _vm, _lcm: False
        """Called at the end of each step: returns whether the step failed."""

    def watch(self, watcher: Watcher) -> None:
        """Call a watcher after every change of state from now on."""
        self._watchers.append(watcher)

    # -- operations ---------------------------------------------------------------------------

    def begin(self, vm: Vm, operation: str, *, at_once: bool = False) -> None:
        """Start an operation; its first state follows after the reply, or at once."""
        if not self._world.settings.racy_enforce:
            self._charge_early(vm, operation)
        vm.run = RunningOperation(operation, -1, 0.0, 0)
        if at_once:
            self._enter(vm, 0)
        else:
            self._wait(vm, self._world.settings.delays.dispatch_s)
            self._world.changed("vm", vm.id)

    def move(self, vm: Vm, state: OneVmState, lcm: Lcm = Lcm.LCM_INIT) -> None:
        """Change a VM's state without the effects of a step."""
        before = vm.state, vm.lcm
        vm.prev_state, vm.prev_lcm = vm.state, vm.lcm
        vm.state, vm.lcm = state, lcm
        if state is not OneVmState.ACTIVE or lcm is Lcm.RUNNING:
            # In a settled state oned shows the state as its own previous state.
            vm.prev_state, vm.prev_lcm = state, lcm
        if state is OneVmState.DONE:
            vm.etime = self._world.stamp()
            self._leave_group(vm)
            vm_resources.give_back(self._world, vm)
        self._world.changed("vm", vm.id)
        for watcher in self._watchers:
            watcher(vm, *before)

    def _leave_group(self, vm: Vm) -> None:
        if "VMGROUP" not in vm.template.names():
            return
        for group in self._world.vm_groups:
            for _, members, _ in group.roles:
                if vm.id in members:
                    members.remove(vm.id)
                    self._world.changed("vmgroup", group.id)

    def resume_all(self) -> None:
        """Schedule the operations that were running when the world was last stored."""
        for vm in self._world.vms:
            if vm.run is not None and not vm.run.failed:
                self._arm(vm, vm.run)

    def finish(self, vm: Vm) -> None:
        """Let the running or failed step succeed, on an administrator's order."""
        if vm.run is not None and vm.run.step >= 0:
            self._enter(vm, vm.run.step + 1)

    def fail(self, vm: Vm) -> None:
        """Let the running step fail."""
        run = vm.run
        target = FAILURE.get(vm.lcm)
        if run is None or target is None:
            return
        held = target.lcm in FAILURES
        history_records.fail(vm, self._world.stamp())
        vm.run = RunningOperation(run.operation, run.step, 0.0, 0, failed=True) if held else None
        self._apply(vm, target)
        self.move(vm, target.state, target.lcm)
        if vm.history and not self._reachable(vm.history[-1].host):
            self.lose(vm)

    def retry(self, vm: Vm) -> None:
        """Retry a failed step."""
        run = vm.run
        if run is not None and run.failed:
            self._enter(vm, run.step)

    def forget(self, vm: Vm) -> None:
        """Drop the running operation without any other change."""
        vm.run = None

    # -- capacity -----------------------------------------------------------------------------

    def charge(self, vm: Vm, host: Host) -> None:
        """Charge a host for a VM's capacity, at most once."""
        if host.id in vm.charged:
            return
        vm.charged.append(host.id)
        host.vms.append(vm.id)
        host.used_cpu += vm.cpu
        host.used_memory_kib += vm.memory_mib * 1024
        self._pin(vm, host)
        pci_devices.lend(host, vm)
        self._world.changed("host", host.id)

    def release(self, vm: Vm, host_id: int) -> None:
        """Release a VM's capacity on a host."""
        host = self._world.hosts.get(host_id)
        if host is None or host_id not in vm.charged:
            return
        vm.charged.remove(host_id)
        host.vms.remove(vm.id)
        host.used_cpu -= vm.cpu
        host.used_memory_kib -= vm.memory_mib * 1024
        host.pins = {core: owner for core, owner in host.pins.items() if owner != vm.id}
        pci_devices.take_back(host, vm)
        self._world.changed("host", host_id)

    def resize(self, vm: Vm, change: Callable[[], None]) -> None:
        """Change a VM's size and its charges."""
        held = list(vm.charged)
        for host_id in held:
            self.release(vm, host_id)
        change()
        for host_id in held:
            self.charge(vm, self._world.hosts.rows[host_id])

    # -- steps --------------------------------------------------------------------------------

    def _wait(self, vm: Vm, seconds: float) -> None:
        run = vm.run
        if run is None:
            return
        self._serial += 1
        run.due_s = self._world.now() + seconds
        run.serial = self._serial
        self._arm(vm, run)

    def _arm(self, vm: Vm, run: RunningOperation) -> None:
        self._serial = max(self._serial, run.serial)
        vm_id, serial = vm.id, run.serial
        self._world.agenda.at(run.due_s, lambda: self._due(vm_id, serial))

    def _due(self, vm_id: int, serial: int) -> None:
        vm = self._world.vms.get(vm_id)
        if vm is None or vm.run is None or vm.run.serial != serial:
            return
        if vm.run.step >= 0 and (self._stranded(vm) or self.fails(vm, vm.lcm)):
            self.fail(vm)
            return
        self._enter(vm, vm.run.step + 1)

    def _enter(self, vm: Vm, index: int) -> None:
        run = vm.run
        if run is None:
            return
        steps = OPERATIONS[run.operation]
        step = steps[index]
        if index == 0 and run.operation != "resize":
            # Any such operation fulfils the request to reschedule the VM.
            vm.resched = 0
        if index == 0 and run.operation in _RESUMED_IN_PLACE:
            history_records.begin_again(vm, self._world.stamp())
        self._apply(vm, step)
        if index == len(steps) - 1:
            vm.run = None
            vm.undo = None
        else:
            vm.run = RunningOperation(run.operation, index, 0.0, 0)
            self._wait(vm, self._duration(vm, step.lcm))
        self.move(vm, step.state, step.lcm)

    def _duration(self, vm: Vm, lcm: Lcm) -> float:
        delays = self._world.settings.delays
        seconds = delays.of(lcm, vm.memory_mib)
        if delays.jitter > 0:
            seconds *= self._world.rng.uniform(1 - delays.jitter, 1 + delays.jitter)
        return seconds

    def _stranded(self, vm: Vm) -> bool:
        if not vm.history or vm.lcm in _HOSTLESS:
            return False
        needed = vm.history[-2:] if vm.lcm in _BOTH_HOSTS else vm.history[-1:]
        return not all(self._reachable(record.host) for record in needed)

    def _reachable(self, host_id: int) -> bool:
        host = self._world.hosts.get(host_id)
        return host is not None and host.reachable

    def _charge_early(self, vm: Vm, operation: str) -> None:
        if Effect.CHARGE in OPERATIONS[operation][0].effects:
            self._charge_target(vm)

    def _apply(self, vm: Vm, step: OperationStep) -> None:
        effects = {
            Effect.CHARGE: self._charge_target,
            Effect.LEAVE: self._leave,
            Effect.RELEASE: self._release_all,
            Effect.RETURN: self._return,
            Effect.UNDO_RESIZE: self._undo_resize,
        }
        for effect in step.effects:
            if effect in effects:
                effects[effect](vm)
        history_records.enter(vm, step, self._world.stamp())

    def _charge_target(self, vm: Vm) -> None:
        host = self._world.hosts.get(vm.history[-1].host)
        if host is not None:
            self.charge(vm, host)

    def _leave(self, vm: Vm) -> None:
        history_records.leave(vm, self._world.stamp())
        if vm.history[-2].host != vm.history[-1].host:
            self.release(vm, vm.history[-2].host)

    def _release_all(self, vm: Vm) -> None:
        for host_id in list(vm.charged):
            self.release(vm, host_id)
        history_records.end(vm, self._world.stamp())

    def _return(self, vm: Vm) -> None:
        old, failed = vm.history[-2], vm.history[-1]
        if failed.host != old.host:
            self.release(vm, failed.host)
        history_records.come_back(vm, self._world.stamp())

    def _undo_resize(self, vm: Vm) -> None:
        before = vm.undo
        if before is None:
            return

        def change() -> None:
            vm.template = before

        self.resize(vm, change)
        vm.undo = None

    def _pin(self, vm: Vm, host: Host) -> None:
        if vm.pinned:
            free = [core for core in range(host.total_cpu // 100) if core not in host.pins]
            host.pins |= dict.fromkeys(free[: vm.vcpus], vm.id)

    # -- hosts that fail and return -----------------------------------------------------------

    def lose(self, vm: Vm) -> None:
        """Mark a running VM as UNKNOWN: monitoring no longer sees it."""
        if vm.state is OneVmState.ACTIVE and vm.lcm is Lcm.RUNNING and vm.run is None:
            self.move(vm, OneVmState.ACTIVE, Lcm.UNKNOWN)

    def find(self, vm: Vm, *, alive: bool) -> None:
        """Mark a VM as running or off, as monitoring finds its guest."""
        if vm.run is not None:
            return
        active = vm.state is OneVmState.ACTIVE
        if alive and vm.state in _AT_REST:
            history_records.find_running(vm, self._world.stamp())
            self.move(vm, OneVmState.ACTIVE, Lcm.RUNNING)
        elif alive and active and vm.lcm is Lcm.UNKNOWN:
            self.move(vm, OneVmState.ACTIVE, Lcm.RUNNING)
        elif not alive and active and vm.lcm in _SEEN:
            self.power_off(vm)

    def power_off(self, vm: Vm) -> None:
        """Mark a VM as powered off: monitoring sees that its guest is off."""
        vm.history[-1].action, vm.history[-1].retime = VmAction.MONITOR, self._world.stamp()
        self.move(vm, OneVmState.POWEROFF)
