"""Samples of the use of VMs and hosts, taken at intervals or on the first request."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from merkatd.embedded.model.vm_states import Lcm, OneVmState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from merkatd.embedded.machines.host_simulation import HostSimulation
    from merkatd.embedded.machines.power_meter import PowerMeter
    from merkatd.embedded.model.records import Host, Vm
    from merkatd.embedded.model.world import World


_HOSTS_AT_ONCE = 2
"""The hosts measured in one event: a large cloud is measured over several turns."""


@dataclass(frozen=True, slots=True)
class VmSample:
    """A VM's use: average hundredths of a core since the previous sample, and memory."""

    stamp: int
    cpu: float
    memory_kib: int

    def values(self, vm_id: int) -> dict[str, int | float]:
        """Return the values of the MONITORING element."""
        return {
            "CPU": round(self.cpu, 2),
            "DISKRDBYTES": 0,
            "DISKRDIOPS": 0,
            "DISKWRBYTES": 0,
            "DISKWRIOPS": 0,
            "ID": vm_id,
            "MEMORY": self.memory_kib,
            "NETRX": 0,
            "NETTX": 0,
            "TIMESTAMP": self.stamp,
        }


@dataclass(frozen=True, slots=True)
class HostSample:
    """The use of all guests of a host together."""

    stamp: int
    cpu: float
    memory_kib: int
    energy_wh: float
    """The energy that the host has used since it exists."""


@dataclass(slots=True)
class _Meter:
    samples: deque[VmSample]
    cpu_s: float
    at_s: float


class Monitoring:
    """The last samples of all running VMs and hosts."""

    def __init__(self, world: World, guests: HostSimulation, power: PowerMeter) -> None:
        self._world = world
        self._guests = guests
        self._power = power
        self._vms: dict[int, _Meter] = {}
        self._hosts: dict[int, deque[HostSample]] = {}
        self._wait()

    def vm_sample(self, vm: Vm) -> VmSample | None:
        """Return the last sample of a VM."""
        samples = self.vm_samples(vm)
        return samples[-1] if samples else None

    def vm_samples(self, vm: Vm) -> Sequence[VmSample]:
        """Return a VM's samples, oldest first; take the first sample if the VM runs."""
        meter = self._vms.get(vm.id)
        if meter is None or self._world.settings.monitor_interval_s <= 0:
            self._measure_vm(vm.id)
            meter = self._vms.get(vm.id)
        return tuple(meter.samples) if meter else ()

    def host_samples(self, host: Host) -> Sequence[HostSample]:
        """Return a host's samples, oldest first; take the first sample if the host is alive."""
        if not host.monitored:
            return tuple(self._hosts.get(host.id, ()))
        if host.id not in self._hosts or self._world.settings.monitor_interval_s <= 0:
            self._measure_host(host)
        return tuple(self._hosts[host.id])

    def _wait(self) -> None:
        interval_s = self._world.settings.monitor_interval_s
        if interval_s > 0:
            self._world.agenda.at(self._world.now() + interval_s, self._tick)

    def _tick(self) -> None:
        hosts = [host.id for host in self._world.hosts]
        now = self._world.now()
        for start in range(0, len(hosts), _HOSTS_AT_ONCE):
            some = hosts[start : start + _HOSTS_AT_ONCE]
            self._world.agenda.at(now, partial(self._measure_hosts, some))
        for vm_id in [vm_id for vm_id in self._vms if not self._runs(vm_id)]:
            del self._vms[vm_id]
        self._wait()

    def _measure_hosts(self, host_ids: Sequence[int]) -> None:
        for host_id in host_ids:
            host = self._world.hosts.get(host_id)
            if host is not None and host.monitored:
                self._measure_host(host)

    def _runs(self, vm_id: int) -> bool:
        vm = self._world.vms.get(vm_id)
        return vm is not None and vm.state is OneVmState.ACTIVE and vm.lcm is not Lcm.UNKNOWN

    def _measure_host(self, host: Host) -> None:
        cpu, memory_kib = 0.0, 0
        for guest in self._guests.on_host(host.id):
            sample = self._measure_vm(guest.vm)
            if sample is not None:
                cpu += sample.cpu
                memory_kib += sample.memory_kib
        samples = self._hosts.setdefault(host.id, self._queue())
        energy_wh = self._power.energy_wh(host)
        samples.append(HostSample(self._world.stamp(), cpu, memory_kib, energy_wh))

    def _measure_vm(self, vm_id: int) -> VmSample | None:
        guest = self._guests.guest(vm_id)
        if guest is None or guest.host < 0 or not self._world.hosts.rows[guest.host].monitored:
            return None
        now = self._world.now()
        meter = self._vms.get(vm_id)
        if meter is None:
            meter = self._vms[vm_id] = _Meter(self._queue(), guest.cpu_s, now)
        elapsed_s = now - meter.at_s
        before_s = meter.cpu_s if guest.cpu_s >= meter.cpu_s else 0.0
        cores = (guest.cpu_s - before_s) / elapsed_s if elapsed_s > 0 else guest.rate
        meter.cpu_s, meter.at_s = guest.cpu_s, now
        sample = VmSample(int(now), cores * 100, round(guest.balloon_mib * 1024))
        meter.samples.append(sample)
        return sample

    def _queue(self) -> deque[Any]:
        return deque(maxlen=self._world.settings.samples_kept)
