"""Hosts reached through libvirt: KVM, LXC and Xen behind the period's HypervisorPort.

Every call of the period ends within its time limit, even if hosts hang. A host that can't be
called is away, and the last known state of its guests stays valid.
"""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from merkatd.base.clock import Executor, Inline, ThreadClock
from merkatd.cluster import Pin
from merkatd.hypervisor.libvirt.host import libvirt_module
from merkatd.hypervisor.libvirt.host.driver import GuestDriver
from merkatd.hypervisor.libvirt.host.host_connection import CallProgress, HostConnection, always
from merkatd.hypervisor.libvirt.host.kvm import Kvm
from merkatd.hypervisor.libvirt.host.libvirt_module import AbandonedError, HostAwayError, error_line
from merkatd.hypervisor.libvirt.host.lxc import Lxc
from merkatd.hypervisor.libvirt.host.settings import HostAddress, LibvirtSettings, driver_of
from merkatd.hypervisor.libvirt.host.xen import Xen
from merkatd.hypervisor.libvirt.host_queues import Lines, Steps, Workers
from merkatd.hypervisor.libvirt.host_reader import HostReading, Row, read_host, read_runs, use_of
from merkatd.hypervisor.libvirt.host_steps import HostStep, StepResults, apply_steps, release_host
from merkatd.hypervisor.libvirt.host_waiting import wait_for_hosts
from merkatd.limits import LimitsSettings, Topology
from merkatd.scheduler.base.ports import (
    FullSize,
    GuestUse,
    HostReachability,
    Observation,
    ReleaseResult,
)

Result = TypeVar("Result")

_DRIVERS: Mapping[str, Callable[[], GuestDriver]] = {
    "qemu": Kvm,
    "test": Kvm,
    "lxc": Lxc,
    "xen": Xen,
}
_log = Logger()


@dataclass
class _Known:
    """A host, with its guests' rows as last read."""

    host: HostConnection
    driver: GuestDriver
    rows: Mapping[int, Row]


class LibvirtHypervisors:
    """Implements `merkatd.scheduler.base.ports.HypervisorPort`."""

    def __init__(
        self,
        reactor: ThreadClock,
        address_of: Callable[[HostAddress], str],
        settings: LibvirtSettings | None = None,
        limits: LimitsSettings | None = None,
        *,
        goods: Sequence[str] = (),
        executor: Executor | None = None,
        start: Callable[[Callable[[], None]], None] | None = None,
        opened: Callable[[str, int], Any] = libvirt_module.opened,
        surely: Callable[[], bool] = always,
    ) -> None:
        """`goods` are the traded goods among network and disk.

        Loops over all VMs run on `executor`, or inline without one. `start` replaces the
        adapter's own threads, `opened` opens connections. `surely` returns whether this daemon
        still is the leader; any thread calls it before each call that changes a host.
        Raise LibvirtMissingError if libvirt's module is not installed.
        """
        libvirt_module.require_libvirt()
        self._reactor = reactor
        self._address_of = address_of
        self._settings = settings or LibvirtSettings()
        self._limits = limits or LimitsSettings()
        self._workers = Workers("libvirt")
        self.lines = Lines(
            reactor,
            start or self._workers.start,
            self._settings.threads,
            self._settings.call_limit_s,
        )
        self._look = HostReading(
            every=self._settings.check_every,
            period_us=self._limits.cpu.quota_period_us,
            unmeasured=self._limits.memory.shrink_unmeasured,
            goods=tuple(goods),
        )
        self._opened = opened
        self._surely = surely
        self._aside = (executor or Inline()).run
        self._chance = random.Random()  # noqa: S311 - keeps hosts from being called all at once
        self._places: dict[int, HostAddress] = {}
        self._hosts: dict[int, _Known] = {}
        self._where: dict[int, int] = {}
        self._pinned_by_others: frozenset[int] = frozenset()
        self._away: dict[int, str] = {}
        self._turns = 0

    # -- the period's calls -------------------------------------------------------------------

    def adopt(self, limits: LimitsSettings) -> None:
        """Use new limits settings from now on; their quota period must be the same."""
        self._limits = limits
        self._look = self._look._replace(unmeasured=limits.memory.shrink_unmeasured)

    def meet(self, seen: Observation) -> None:
        """Store the hosts' addresses and the VMs that OpenNebula pins; drop removed hosts."""
        rows = zip(seen.host_id.tolist(), seen.host_name, seen.host_cluster.tolist(), strict=True)
        self._places = {host: HostAddress(host, name, cluster) for host, name, cluster in rows}
        self._pinned_by_others = seen.pin_policy
        for gone in self._hosts.keys() - self._places.keys():
            self.lines.remove(self._hosts.pop(gone).host)
            if self._away.pop(gone, None) is not None:
                _log.info("Host {host} was removed while it was away", host=gone)

    def topologies(self) -> Mapping[int, Topology]:
        """Return the topologies by host id, of hosts with pins that were called before."""
        return {
            host: known.host.topology
            for host, known in self._hosts.items()
            if known.host.topology is not None
        }

    def reach(self) -> HostReachability:
        """Return the away hosts with reasons, and the number of limits found changed."""
        drift = sum(known.host.drift for known in self._hosts.values())
        return HostReachability(away=dict(self._away), drift=drift)

    async def read(self, vms: Mapping[int, int], *, to_show: bool = False) -> GuestUse:
        """Return use and limits of these VMs; those on away hosts as last read."""
        self._turns += 1
        look = self._look._replace(turn=self._turns, to_show=to_show)
        if not to_show:
            self._where = dict(vms)
        grouped = await self._aside(lambda: _grouped(vms))
        by_host = {host: some for host, some in grouped.items() if self._is_there(host)}
        answers = await self._run_on_hosts(
            {host: partial(read_host, vms=some, look=look) for host, some in by_host.items()}
        )
        # A host may be removed while the rows are put together.
        known = {host: self._hosts[host] for host in by_host.keys() & self._hosts.keys()}
        away = {host: why for host, why in self._away.items() if host in by_host}
        pinned = self._pinned_by_others

        def columns() -> GuestUse:
            rows: list[Row] = []
            for host, host_state in known.items():
                some, answer = by_host[host], answers[host]
                if not isinstance(answer, Exception):
                    others = host_state.rows.keys() - some if to_show else ()
                    kept = {vm: host_state.rows[vm] for vm in others}
                    host_state.rows = kept | {row.vm: row for row in answer}
                rows += [host_state.rows[vm] for vm in some if vm in host_state.rows]
            return use_of(rows, pinned, away)

        return await self._aside(columns)

    async def runs(self, hosts: Collection[int]) -> Mapping[int, Mapping[int, int]]:
        """Return the domain ids by host and VM, with one call per host."""
        answers = await self._run_on_hosts(
            {host: read_runs for host in hosts if self._is_there(host)}
        )
        return {
            host: answer for host, answer in answers.items() if not isinstance(answer, Exception)
        }

    async def apply(self, steps: Sequence[HostStep]) -> Mapping[str, str]:
        """Apply steps on the hosts; return the reasons of the steps that failed, by step id."""
        refused: dict[str, str] = {}
        by_host: dict[int, list[HostStep]] = {}
        for step in steps:
            host = self._where.get(step.vm)
            if host is None or not self._is_there(host):
                refused[step.id] = f"VM {step.vm} runs on no host"
            elif isinstance(step, Pin) and step.vm in self._pinned_by_others:
                refused[step.id] = f"VM {step.vm} is pinned by OpenNebula (PIN_POLICY)"
            else:
                by_host.setdefault(host, []).append(step)
        results = {host: StepResults() for host in by_host}
        answers = await self._run_on_hosts(
            {
                host: partial(
                    apply_steps,
                    steps=some,
                    memory=self._limits.memory,
                    look=self._look,
                    results=results[host],
                )
                for host, some in by_host.items()
            },
            may=self._surely,
        )
        for host, some in by_host.items():
            answer, sofar, known = answers[host], results[host], self._hosts[host]
            if not isinstance(answer, Exception):
                known.rows = {**known.rows, **{row.vm: row for row in answer}}
            why = f"{self._place(host).name}: {_why(answer)}"
            for step in some:
                if step.id not in sofar.done:
                    refused[step.id] = sofar.refused.get(step.id, why)
        return refused

    async def release(self, vms: Sequence[FullSize]) -> Mapping[int, ReleaseResult]:
        """Remove the daemon's limits from these VMs; return the outcome of each VM found."""
        await self.read({vm.vm: vm.host for vm in vms})
        by_host: dict[int, list[FullSize]] = {}
        for vm in vms:
            by_host.setdefault(vm.host, []).append(vm)
        results: dict[int, dict[int, ReleaseResult]] = {host: {} for host in by_host}
        answers = await self._run_on_hosts(
            {
                host: partial(
                    release_host,
                    vms=some,
                    pinned_by_others=self._pinned_by_others,
                    goods=self._look.goods,
                    results=results[host],
                )
                for host, some in by_host.items()
            },
            limited=False,
            may=self._surely,
        )
        for host, some in by_host.items():
            answer = answers[host]
            if isinstance(answer, Exception):
                why = f"{self._place(host).name}: {_why(answer)}"
                for vm in some:
                    results[host].setdefault(vm.vm, ReleaseResult("", why))
        return {vm: outcome for some in results.values() for vm, outcome in some.items()}

    async def close(self) -> None:
        """Close the connections to all hosts; limits stay in force."""
        await self._run_on_hosts(dict.fromkeys(self._hosts, _closed))
        self._workers.stop()

    # -- calls to the hosts -------------------------------------------------------------------

    async def _run_on_hosts(
        self,
        work: Mapping[int, Callable[..., Steps[Any]]],
        *,
        limited: bool = True,
        may: Callable[[], bool] = always,
    ) -> Mapping[int, Any]:
        """Run the work on its hosts and return the outcomes by host.

        If `limited`, wait at most `period_limit` for all hosts together.
        """
        progress = {host: CallProgress(may) for host in work}
        running = {
            host: self._ask(self._known(host), do, progress[host]) for host, do in work.items()
        }
        limit_s = self._settings.period_limit_s if limited else None
        answers = await wait_for_hosts(self._reactor, running, progress, limit_s)
        for host, answer in answers.items():
            self._mark(host, answer)
        return answers

    def _ask(
        self, known: _Known, work: Callable[..., Steps[Result]], progress: CallProgress
    ) -> Deferred[Result | Exception]:
        return self.lines.run(known.host, lambda host: work(host, known.driver), progress)

    def _known(self, host: int) -> _Known:
        host_state = self._hosts.get(host)
        place = self._place(host)
        if host_state is None or host_state.host.place != place:
            if host_state is not None:
                self._close(host_state)
            host_state = self._hosts[host] = self._met(place)
        return host_state

    def _met(self, place: HostAddress) -> _Known:
        address = self._address_of(place)
        driver = _DRIVERS[driver_of(address)]()
        patterns = self._settings.pin_hosts or ()
        host = HostConnection(
            place=place,
            address=address,
            settings=self._settings,
            seconds=self._reactor.seconds,
            chance=self._chance,
            pins=driver.pins and any(fnmatchcase(place.name, names) for names in patterns),
            open=self._opened,
        )
        return _Known(host, driver, {})

    def _close(self, known: _Known) -> None:
        self._ask(known, _closed, CallProgress())

    def _is_there(self, host: int) -> bool:
        """Return False for a host that OpenNebula no longer has."""
        return not self._places or host in self._places

    def _place(self, host: int) -> HostAddress:
        return self._places.get(host) or HostAddress(host, str(host))

    def _mark(self, host: int, answer: Any) -> None:
        """Record whether the host is away, and log each change once."""
        name = self._place(host).name
        if host not in self._hosts:  # it was removed meanwhile
            return
        if not isinstance(answer, Exception):
            if self._away.pop(host, None) is not None:
                _log.info("Host {host} answers again", host=name)
            return
        if isinstance(answer, AbandonedError) and not self._surely():
            return  # the host was not called
        why = _why(answer)
        if host in self._away:
            self._away[host] = why
            return
        if not isinstance(answer, HostAwayError | AbandonedError):
            _log.error("Reading or limiting host {host} failed: {why}", host=name, why=repr(answer))
        else:
            _log.warn("Host {host} is away; its VMs keep their limits: {why}", host=name, why=why)
        self._away[host] = why


def _closed(host: HostConnection, _driver: GuestDriver) -> Steps[None]:
    host.close()
    yield


def _why(answer: Any) -> str:
    return error_line(answer) if isinstance(answer, Exception) else ""


def _grouped(vms: Mapping[int, int]) -> dict[int, list[int]]:
    by_host: dict[int, list[int]] = {}
    for vm, host in vms.items():
        by_host.setdefault(host, []).append(vm)
    return by_host
