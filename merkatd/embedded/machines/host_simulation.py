"""The simulated hosts: their guests, the guests' CPU rates, and the limits on them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from merkatd.embedded.machines.core_division import MOST_SHARES, LimitsError, check, rates
from merkatd.embedded.machines.guest_behaviour import behaviour_of
from merkatd.embedded.machines.guest_simulation import GuestLimits, SimulatedGuest
from merkatd.embedded.model.vm_states import EXECUTING, Lcm, OneVmState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from merkatd.embedded.machines.lifecycle import Lifecycle
    from merkatd.embedded.model.records import Vm
    from merkatd.embedded.model.world import World

_STAYS = frozenset({Lcm.MIGRATE, Lcm.UNKNOWN, Lcm.HOTPLUG, Lcm.HOTPLUG_RESIZE})
_RESTORES = ("BOOT_SUSPENDED", "BOOT_STOPPED", "BOOT_MIGRATE")


@dataclass(frozen=True, slots=True)
class Usage:
    """A guest's use and limits at one moment, as its host reports them."""

    vm: int
    host: int
    cpu_s: float
    """The core-seconds used since its domain started or arrived on this host."""
    balloon_mib: float
    used_mib: float
    limits: GuestLimits
    run: int
    """The number of its domain: it changes with each start and each migration."""
    dirty_mib_s: float | None = None
    """The MiB that it writes to its memory in a second; None if this is not measured."""


class HostSimulation:
    """The guests of all hosts. An adapter controls it by `set_limits` and `read`."""

    def __init__(self, world: World, lifecycle: Lifecycle) -> None:
        self._world = world
        self._lifecycle = lifecycle
        self._settings = world.settings.guests
        self.guests: dict[int, SimulatedGuest] = {}
        self._on: dict[int, dict[int, SimulatedGuest]] = {}
        self._unsettled: set[int] = set()
        self._wakings: dict[int, float] = {}
        self.divided: Callable[[int, float], None] = lambda _host_id, _cores: None
        """Called after each division of a host's cores, with the cores in use."""
        lifecycle.watch(self._moved)

    # -- for the adapter ----------------------------------------------------------------------

    def set_limits(
        self,
        vm_id: int,
        *,
        cpu_shares: int | None = None,
        vcpu_quota: int | None = None,
        global_quota: int | None = None,
        pins: Sequence[Sequence[int]] | None = None,
        memory_mib: int | None = None,
        network_kb_s: int | None = None,
        disk_kib_s: int | None = None,
    ) -> GuestLimits:
        """Set the given limits of a running guest; quotas are per 100,000 us."""
        guest = self.guests.get(vm_id)
        host = self._world.hosts.get(guest.host) if guest else None
        if guest is None or host is None:
            raise LimitsError(f"VM {vm_id} has no domain: it runs on no host")
        if host.cut:
            raise LimitsError(f"VM {vm_id}: the network does not connect host {host.name}")
        old = guest.limits
        new = GuestLimits(
            cpu_shares=old.cpu_shares if cpu_shares is None else cpu_shares,
            memory_mib=old.memory_mib if memory_mib is None else memory_mib,
            vcpu_quota=old.vcpu_quota if vcpu_quota is None else vcpu_quota,
            global_quota=old.global_quota if global_quota is None else global_quota,
            pins=old.pins if pins is None else tuple(tuple(sorted(set(pin))) for pin in pins),
            network_kb_s=old.network_kb_s if network_kb_s is None else network_kb_s,
            disk_kib_s=old.disk_kib_s if disk_kib_s is None else disk_kib_s,
        )
        check(guest, new, host)
        guest.advance(self._world.now(), self._settings)
        guest.limits = new
        self.mark_unsettled(guest.host)
        return new

    def read(self, vm_ids: Iterable[int] | None = None) -> dict[int, Usage]:
        """Return the present use of these guests, or of all, without those that do not run."""
        self.settle()
        now = self._world.now()
        usage: dict[int, Usage] = {}
        for vm_id in self.guests if vm_ids is None else vm_ids:
            guest = self.guests.get(vm_id)
            if guest is None or guest.host < 0:
                continue
            guest = guest.seen_at(now, self._settings)
            usage[vm_id] = Usage(
                vm_id,
                guest.host,
                guest.cpu_s,
                guest.balloon_mib,
                guest.used_mib,
                guest.limits,
                guest.run,
                guest.dirty_mib_s,
            )
        return usage

    def runs(self, host_id: int) -> dict[int, int]:
        """Return the domain numbers on a host by VM id."""
        return {vm: guest.run for vm, guest in self._on.get(host_id, {}).items()}

    # -- for the cloud ------------------------------------------------------------------------

    def guest(self, vm_id: int) -> SimulatedGuest | None:
        """Return a guest's present state, running or not."""
        self.settle()
        guest = self.guests.get(vm_id)
        return None if guest is None else guest.seen_at(self._world.now(), self._settings)

    def on_host(self, host_id: int) -> list[SimulatedGuest]:
        """Return the present state of the guests that run on a host."""
        self.settle()
        now = self._world.now()
        return [guest.seen_at(now, self._settings) for guest in self._on.get(host_id, {}).values()]

    def described(self, vm: Vm) -> None:
        """Apply a change of a VM's templates: its size or its guest's behaviour."""
        guest = self.guests.get(vm.id)
        if guest is None:
            return
        guest.advance(self._world.now(), self._settings)
        guest.become(behaviour_of(vm, self._settings))
        guest.vcpus = vm.vcpus
        if guest.size_mib != vm.boots_mib:
            guest.size_mib = vm.boots_mib
            guest.limits = replace(guest.limits, memory_mib=vm.memory_mib)
        guest.limits = replace(guest.limits, pins=guest.limits.pins[: guest.vcpus])
        self._keep(guest)

    def reboot(self, vm_id: int) -> None:
        """Reboot a guest inside its domain; the limits belong to the domain and stay."""
        guest = self.guests.get(vm_id)
        if guest is not None:
            guest.advance(self._world.now(), self._settings)
            guest.reboot()
            self._keep(guest)

    def forget(self, vm_id: int) -> None:
        """Drop the guest of a VM: its next start begins without any state."""
        guest = self.guests.pop(vm_id, None)
        if guest is not None:
            self._remove_guest(guest)
            self._world.changed("guest", vm_id)

    def runs_on(self, vm_id: int, host_id: int) -> bool:
        """Return whether a VM's guest runs on this host."""
        return vm_id in self._on.get(host_id, {})

    def crash(self, host_id: int) -> None:
        """Let a host die with all its guests."""
        for guest in list(self._on.get(host_id, {}).values()):
            self._remove_guest(guest)
            guest.reboot()
            self._keep(guest)

    def can_arrive(self, vm: Vm) -> bool:
        """Return whether a live migration can succeed: the target must have the pinned cores."""
        guest = self.guests.get(vm.id)
        target = self._world.hosts.get(vm.history[-1].host)
        if guest is None or target is None:
            return True
        cores = target.total_cpu // 100
        return all(core < cores for pin in guest.limits.pins for core in pin)

    def restore(self, guest: SimulatedGuest) -> None:
        """Add a guest from the store; a later `settle` resumes it."""
        self.guests[guest.vm] = guest
        if guest.host >= 0:
            self._on.setdefault(guest.host, {})[guest.vm] = guest
            self._plan(guest.host)

    def settle(self) -> None:
        """Divide the cores of changed hosts anew."""
        while self._unsettled:
            self._divide(self._unsettled.pop())

    # -- inside -------------------------------------------------------------------------------

    def _moved(self, vm: Vm, _state: OneVmState, before: Lcm) -> None:
        if vm.state is OneVmState.DONE or (
            vm.state is OneVmState.PENDING and before is Lcm.CLEANUP_RESUBMIT
        ):
            self.forget(vm.id)
            return
        guest = self.guests.get(vm.id)
        if vm.state is OneVmState.ACTIVE and vm.lcm in EXECUTING:
            if vm.lcm not in _STAYS or guest is None:
                self._run(vm, before)
        elif guest is not None and guest.host >= 0 and not self._is_cut(guest.host):
            self._remove_guest(guest)
            if not vm.lcm.name.startswith("SAVE") and vm.state is not OneVmState.SUSPENDED:
                guest.reboot()
            self._keep(guest)

    def _is_cut(self, host_id: int) -> bool:
        """Return whether no order reaches the guests of a host."""
        host = self._world.hosts.get(host_id)
        return host is not None and host.cut

    def _run(self, vm: Vm, before: Lcm) -> None:
        host = self._world.hosts.get(vm.history[-1].host)
        if host is None or not host.alive:
            return
        guest = self.guests.get(vm.id)
        if guest is None:
            guest = SimulatedGuest(
                vm.id,
                vm.vcpus,
                vm.boots_mib,
                behaviour_of(vm, self._settings),
                self._limits(vm),
                at_s=self._world.now(),
                balloon_mib=vm.boots_mib,
            )
            self.guests[vm.id] = guest
        elif before is Lcm.HOTPLUG_RESIZE:
            # The resize may have been undone meanwhile.
            self.described(vm)
        elif before.name.startswith("BOOT"):
            guest.limits = self._limits(vm)
            guest.size_mib, guest.vcpus = vm.boots_mib, vm.vcpus
            guest.balloon_mib = vm.boots_mib
            guest.cpu_s = 0.0  # a new domain
            if not before.name.startswith(_RESTORES):
                guest.reboot()
        if guest.host != host.id:
            if guest.host >= 0:
                guest.advance(self._world.now(), self._settings)
                guest.cpu_s = 0.0
            self._remove_guest(guest)
            guest.host = host.id
            guest.run += 1
            self._on.setdefault(host.id, {})[vm.id] = guest
        self._keep(guest)
        if guest.finished and before in {Lcm.MIGRATE, Lcm.UNKNOWN}:
            self._end(guest)

    def _limits(self, vm: Vm) -> GuestLimits:
        shares = math.ceil(vm.cpu * self._settings.shares_per_core / 100)
        return GuestLimits(cpu_shares=min(max(2, shares), MOST_SHARES), memory_mib=vm.memory_mib)

    def _remove_guest(self, guest: SimulatedGuest) -> None:
        """Take a guest off its host, if it is on one."""
        if guest.host < 0:
            return
        guest.advance(self._world.now(), self._settings)
        self._on[guest.host].pop(guest.vm, None)
        self.mark_unsettled(guest.host)
        guest.host, guest.rate, guest.share, guest.arrivals = -1, 0.0, 0.0, 0.0

    def _keep(self, guest: SimulatedGuest) -> None:
        self._world.changed("guest", guest.vm)
        if guest.host >= 0:
            self.mark_unsettled(guest.host)

    def mark_unsettled(self, host_id: int) -> None:
        """Have the host's CPU divided again in this moment, after all other changes."""
        if not self._unsettled:
            self._world.agenda.at(self._world.now(), self.settle)
        self._unsettled.add(host_id)

    def _divide(self, host_id: int) -> None:
        host = self._world.hosts.get(host_id)
        guests = list(self._on.get(host_id, {}).values())
        now = self._world.now()
        for guest in guests:
            guest.advance(now, self._settings)
            if guest.finished and guest.rate > 0:
                self._end(guest)
            connected = guest.behaviour.serves and not (host is not None and host.cut)
            arrivals = guest.behaviour.arrivals.rate(now) if connected else 0.0
            guest.receive(arrivals, self._settings)
        if host is not None:
            got, shares = rates(host, guests, self._settings)
            for guest, rate, share in zip(guests, got, shares, strict=True):
                guest.rate, guest.share = rate, share
        for guest in guests:
            self._world.changed("guest", guest.vm)
        self.divided(host_id, math.fsum(guest.rate for guest in guests))
        self._plan(host_id)

    def _plan(self, host_id: int) -> None:
        """Schedule a wake-up when the next guest changes; an early wake-up is harmless."""
        guests, settings = self._on.get(host_id, {}).values(), self._settings
        turns = (min(guest.finish_s(settings), guest.turn_s(settings)) for guest in guests)
        due_s = min(turns, default=math.inf)
        if math.isfinite(due_s) and due_s < self._wakings.get(host_id, math.inf):
            self._wakings[host_id] = due_s
            self._world.agenda.at(due_s, lambda: self._wake(host_id, due_s))

    def _wake(self, host_id: int, due_s: float) -> None:
        if self._wakings.get(host_id) != due_s:
            return
        del self._wakings[host_id]
        now = self._world.now()
        for guest in self._on.get(host_id, {}).values():
            # An earlier reading may have moved the end by a rounding error.
            if guest.finish_s(self._settings) <= now + 1e-6:
                guest.complete(now, self._settings)
                self.mark_unsettled(host_id)
            if guest.turn_s(self._settings) <= now + 1e-6:
                self.mark_unsettled(host_id)
        # A division plans the next wake-up. One planned before it could repeat for ever: it may be
        # due before the division, by a rounding error.
        if host_id not in self._unsettled:
            self._plan(host_id)

    def _end(self, guest: SimulatedGuest) -> None:
        if guest.behaviour.poweroff:
            self._world.agenda.at(self._world.now(), lambda: self.turn_off(guest.vm))

    def turn_off(self, vm_id: int) -> None:
        """Power off the VM of a guest that ended by itself, as monitoring would."""
        vm = self._world.vms.get(vm_id)
        if vm is not None and vm.lcm is Lcm.RUNNING and vm.run is None:
            self._lifecycle.power_off(vm)
