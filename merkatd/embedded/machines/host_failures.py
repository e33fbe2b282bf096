"""Hosts that fail and return: alone, or with their network or power domain; hosts that sleep.

# Note [What oned sees of a host]

A host is on if a power domain feeds it, it has not crashed, and it neither sleeps nor starts. It is
connected if one of its network domains works. A host without domains depends on none, and one with
two survives the loss of either. oned monitors a host that is on and connected. Otherwise its state
turns from MONITORED to ERROR and its running VMs are UNKNOWN. A disabled host stays DISABLED. oned
does not monitor an OFFLINE host, so nothing changes until an administrator enables it. Guests end
with the power, and run on without the network. Once oned monitors the host again, it finds the VMs
of guests that have ended POWEROFF and all others RUNNING. Used by `HostFailures._refresh`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from merkatd.embedded.model.vm_states import OneHostState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from merkatd.embedded.machines.host_simulation import HostSimulation
    from merkatd.embedded.machines.lifecycle import Lifecycle
    from merkatd.embedded.machines.power_meter import PowerMeter, PowerRecord
    from merkatd.embedded.model.records import Host, Vm
    from merkatd.embedded.model.world import World

NETWORK, POWER, HOST = "network", "power", "host"
_ATTRIBUTES = {NETWORK: "MERKAT_NETWORK_DOMAIN", POWER: "MERKAT_POWER_DOMAIN"}
_MOST_SHOWN = 20


class HostFailureError(ValueError):
    """An order that does not fit the hosts; the message names the accepted values."""


@dataclass(frozen=True, slots=True)
class FailedDomain:
    """A failed domain."""

    id: int
    kind: str
    name: str


class HostFailures:
    """The failed domains, and the hosts that are down, disconnected or asleep."""

    def __init__(
        self,
        world: World,
        lifecycle: Lifecycle,
        guests: HostSimulation,
        power: PowerMeter,
        start_s: float,
    ) -> None:
        """`start_s` is the time that a host needs to start."""
        self._world = world
        self._lifecycle = lifecycle
        self._guests = guests
        self._power = power
        self._start_s = start_s
        self.failed: dict[int, FailedDomain] = {}
        world.on_change(self._follow)

    # -- domains ------------------------------------------------------------------------------

    def fail_domain(self, kind: str, name: str) -> list[int]:
        """Let a domain fail; return the ids of the hosts that name it."""
        if kind == HOST:
            return [self._down_by_name(name).id]
        named = self._named(kind, name)
        if self._number(kind, name) is None:
            number = max(self.failed, default=-1) + 1
            self.failed[number] = FailedDomain(number, kind, name)
            self._world.changed("domain", number)
        return self._refresh_all(named)

    def repair_domain(self, kind: str, name: str) -> list[int]:
        """Repair a domain; return the ids of the hosts that name it."""
        if kind == HOST:
            host = self._host_named(name)
            self.host_up(host)
            return [host.id]
        number = self._number(kind, name)
        named = self._named(kind, name) if number is None else self._hosts_of(kind, name)
        if number is not None:
            del self.failed[number]
            self._world.changed("domain", number)
        return self._refresh_all(named)

    def _refresh_all(self, hosts: list[Host]) -> list[int]:
        for host in hosts:
            self._refresh(host)
        return [host.id for host in hosts]

    def _named(self, kind: str, name: str) -> list[Host]:
        if kind not in _ATTRIBUTES:
            raise HostFailureError(
                f"kind must be one of {NETWORK}, {POWER}, {HOST} (got {kind[:40]!r})"
            )
        hosts = self._hosts_of(kind, name)
        if hosts:
            return hosts
        names = sorted({known for host in self._world.hosts for known in domains_of(host, kind)})
        more = len(names) - _MOST_SHOWN
        shown = ", ".join(names[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")
        raise HostFailureError(
            f"unknown {kind} domain {name[:40]!r}; known domains: {shown or 'none'}"
        )

    def _hosts_of(self, kind: str, name: str) -> list[Host]:
        return [host for host in self._world.hosts if name in domains_of(host, kind)]

    def _number(self, kind: str, name: str) -> int | None:
        return next(
            (row.id for row in self.failed.values() if (row.kind, row.name) == (kind, name)), None
        )

    def _works(self, host: Host, kind: str) -> bool:
        """Return whether a host has no domain of this kind, or one that works."""
        names = domains_of(host, kind)
        return not names or any(self._number(kind, name) is None for name in names)

    # -- single hosts -------------------------------------------------------------------------

    def host_down(self, host: Host, *, crash: bool = True) -> None:
        """Let a host fail: it dies with its guests, or only its monitoring is lost."""
        if crash:
            row = self._power.row(host)
            row.crashed, row.ready_s = True, 0.0
        else:
            host.silent = True
        self._refresh(host)

    def host_up(self, host: Host) -> None:
        """Let a host return; guests that died with it are found powered off."""
        self._power.row(host).crashed = False
        host.silent = False
        self._refresh(host)

    def _down_by_name(self, name: str) -> Host:
        host = self._host_named(name)
        self.host_down(host)
        return host

    def _host_named(self, name: str) -> Host:
        host = self._world.hosts.named(name)
        if host is None:
            raise HostFailureError(f"unknown host {name[:40]!r}; `one.hostpool.info` lists them")
        return host

    # -- sleep --------------------------------------------------------------------------------

    def sleep(self, host: Host) -> None:
        """Turn a host off. Raise HostFailureError if a guest runs or an operation uses it."""
        row = self._commanded(host)
        busy = sorted({*self._guests.runs(host.id), *(vm.id for vm in self._operations(host))})
        if busy:
            vms = ", ".join(map(str, busy[:_MOST_SHOWN]))
            raise HostFailureError(
                f"host {host.name} must have no guests to sleep (it has those of VMs {vms})"
            )
        row.asleep, row.ready_s = True, 0.0
        self._refresh(host)

    def wake(self, host: Host) -> None:
        """Turn a host on; it is ready after its start."""
        row = self._commanded(host)
        if row.asleep:
            row.asleep = False
            self._start(row)
            self._refresh(host)

    def _operations(self, host: Host) -> Iterator[Vm]:
        for vm_id in host.vms:
            vm = self._world.vms.get(vm_id)
            if vm is not None and vm.run is not None and not vm.run.failed:
                yield vm

    def _commanded(self, host: Host) -> PowerRecord:
        """Return the power of a host that receives orders about it."""
        row = self._power.row(host)
        if not row.fed or row.crashed:
            raise HostFailureError(f"host {host.name} has failed: it can neither sleep nor wake")
        if host.cut:
            raise HostFailureError(f"the network does not connect host {host.name}")
        return row

    def _start(self, row: PowerRecord) -> None:
        row.ready_s = self._world.now() + self._start_s
        self._arm(row)

    def _arm(self, row: PowerRecord) -> None:
        self._world.agenda.at(row.ready_s, partial(self._ready, row.id, row.ready_s))

    def _ready(self, host_id: int, ready_s: float) -> None:
        host = self._world.hosts.get(host_id)
        if host is not None and self._power.row(host).ready_s == ready_s:
            self._power.row(host).ready_s = 0.0
            self._refresh(host)

    def resume_all(self) -> None:
        """Schedule the starts of hosts that were under way when the world was last stored."""
        for row in self._power.rows.values():
            if row.starting:
                self._arm(row)

    # -- what oned sees -----------------------------------------------------------------------

    def set_status(self, host: Host, state: OneHostState) -> None:
        """Enable or disable a host, or take it offline, as an administrator orders."""
        host.prev_state, host.state = host.state, state
        host.unmeasured = host.unmeasured or host.offline
        self._show(host)
        self._world.changed("host", host.id)

    def _refresh(self, host: Host) -> None:
        """Follow changes of domains and power. See Note [What oned sees of a host]."""
        row = self._power.row(host)
        fed = self._works(host, POWER)
        if fed != row.fed:
            row.fed, row.ready_s = fed, 0.0
            if fed and not row.asleep and not row.crashed:
                self._start(row)
        if host.alive and not row.on:
            self._guests.crash(host.id)
        host.alive = row.on
        host.cut = not self._works(host, NETWORK)
        self._power.update(host)
        self._guests.mark_unsettled(host.id)
        self._show(host)
        self._world.changed("host", host.id)

    def _show(self, host: Host) -> None:
        """Give a host and its VMs the states in which oned finds them."""
        if host.offline:
            return
        seen = host.monitored
        if seen:
            host.unmeasured = False
        usual, other = OneHostState.MONITORED, OneHostState.ERROR
        if host.state is (other if seen else usual):
            host.prev_state, host.state = host.state, usual if seen else other
        for vm_id in list(host.vms):
            vm = self._world.vms.get(vm_id)
            if vm is None or vm.history[-1].host != host.id:
                continue
            if seen:
                self._lifecycle.find(vm, alive=self._guests.runs_on(vm_id, host.id))
            else:
                self._lifecycle.lose(vm)

    def _follow(self, kind: str, host_id: int) -> None:
        """Follow a host whose domains have changed while one of them is down."""
        host = self._world.hosts.get(host_id) if kind == "host" else None
        if host is None:
            return
        row = self._power.rows.get(host_id)
        fed = row is None or row.fed
        if (self.failed or host.cut or not fed) and (
            self._works(host, POWER) != fed or self._works(host, NETWORK) == host.cut
        ):
            self._refresh(host)


def domains_of(host: Host, kind: str) -> tuple[str, ...]:
    """Return the one or two domains of a host; none if its attribute is missing or wrong."""
    name = _ATTRIBUTES[kind]
    text = host.template.get(name) or host.inherited.get(name)
    names = tuple(text.replace(",", " ").split())
    return names if len(names) <= 2 and len(set(names)) == len(names) else ()
