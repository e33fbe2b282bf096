"""Real guests that follow the VMs of the embedded cloud.

They stand in for OpenNebula's drivers, and for the CPU time that an owner can read in a VM. Each
call of libvirt blocks.
"""

import contextlib
import errno
import platform
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from merkatd.base.clock import Threads
from merkatd.demo.demo_options import GuestKind
from merkatd.demo.demo_tenant import Notify, ScriptPlayer
from merkatd.demo.guest_domains import (
    NAMES,
    Change,
    End,
    MoveGuest,
    StartGuest,
    changes,
    described,
    disk,
    name_of,
)
from merkatd.hypervisor.libvirt.host.libvirt_module import LibvirtMissingError, require_libvirt
from merkatd.opennebula import Client
from merkatd.opennebula.pools.vm_pool import VmRow, read_page
from merkatd.opennebula.rpc.client import ANY_STATE
from merkatd.opennebula.rpc.errors import OneError

_NS_PER_S = 1e9
_ARCHITECTURE = "x86_64"
"""The architecture of the guests' boot code."""


class GuestsError(Exception):
    """Guests can't be started here; the message gives the reason."""


class LibvirtGuests:
    """Guests that this object started; it changes no others."""

    def __init__(self, addresses: Mapping[int, str], describe: Callable[[StartGuest], str]) -> None:
        """`addresses` are libvirt addresses by host id; `describe` returns a domain's XML.

        Raise GuestsError if a host does not answer, or if it has domains with names like
        OpenNebula's: the daemon would take them for VMs of the demo.
        """
        self._api = _libvirt()
        self._addresses = dict(addresses)
        self._describe = describe
        self._there: dict[int, int] = {}
        self._before_s: dict[int, float] = {}
        self._seen_s: dict[int, float] = {}
        self._connections: dict[int, Any] = {}
        for host, address in self._addresses.items():
            self._check_names(host, address)

    @property
    def there(self) -> Mapping[int, int]:
        """Return the host of each running guest, by VM id."""
        return self._there

    def follow(self, vms: Iterable[VmRow]) -> list[str]:
        """Start, move and end guests as these VMs need; return the errors."""
        failed = []
        for change in changes(vms, self._there):
            try:
                self._do(change)
            except self._api.libvirtError as error:
                failed.append(f"{name_of(change.vm)}: {error}")
        return failed

    def cpu_s(self) -> Mapping[int, float]:
        """Return the total CPU time of each guest by VM id, including ended guests."""
        for vm, host in self._there.items():
            self._measure(vm, host)
        known = self._before_s.keys() | self._seen_s.keys()
        return {vm: self._before_s.get(vm, 0.0) + self._seen_s.get(vm, 0.0) for vm in known}

    def close(self) -> None:
        """End all guests."""
        for vm, host in list(self._there.items()):
            with contextlib.suppress(self._api.libvirtError):
                self._do(End(vm, host))
        for connection in self._connections.values():
            with contextlib.suppress(self._api.libvirtError):
                connection.close()
        self._connections.clear()

    def _do(self, change: Change) -> None:
        match change:
            case StartGuest(vm=vm, host=host):
                self._connection(host).createXML(self._describe(change), 0)
                self._there[vm] = host
            case MoveGuest(vm=vm, source=source, host=host):
                self._move(vm, source, host)
                self._there[vm] = host
            case End(vm=vm, host=host):
                self._end(vm, host)
                del self._there[vm]

    def _move(self, vm: int, source: int, host: int) -> None:
        target = self._connection(host)
        self._measure(vm, source)
        self._domain(vm, source).migrate3(target, {}, self._api.VIR_MIGRATE_LIVE)
        self._keep(vm)

    def _end(self, vm: int, host: int) -> None:
        self._measure(vm, host)
        try:
            self._domain(vm, host).destroy()
        except self._api.libvirtError as error:
            if error.get_error_code() != self._api.VIR_ERR_NO_DOMAIN:
                raise
        self._keep(vm)

    def _measure(self, vm: int, host: int) -> None:
        # A guest that does not answer now keeps its last value.
        with contextlib.suppress(self._api.libvirtError):
            self._seen_s[vm] = self._domain(vm, host).info()[4] / _NS_PER_S

    def _keep(self, vm: int) -> None:
        """Store the CPU time so far: the counter of the next domain starts at 0."""
        self._before_s[vm] = self._before_s.get(vm, 0.0) + self._seen_s.pop(vm, 0.0)

    def _domain(self, vm: int, host: int) -> Any:
        return self._connection(host).lookupByName(name_of(vm))

    def _connection(self, host: int) -> Any:
        connection = self._connections.get(host)
        if connection is None or not connection.isAlive():
            self._connections[host] = connection = self._api.open(self._addresses[host])
        return connection

    def _check_names(self, host: int, address: str) -> None:
        try:
            names = [domain.name() for domain in self._connection(host).listAllDomains()]
        except self._api.libvirtError as error:
            raise GuestsError(f"{address}: {error}") from error
        for name in names:
            if name.startswith(NAMES):
                raise GuestsError(
                    f"{address}: domains must not have names that start with {NAMES!r} (got"
                    f" {name}): the demo needs these names for its guests"
                )


def kind_here() -> GuestKind:
    """Return the best kind of guests that libvirtd here runs. Raise GuestsError without any."""
    api = _libvirt()
    why: dict[str, list[str]] = {}
    for kind in (GuestKind.QEMU, GuestKind.LXC):
        try:
            connection = api.open(kind.address)
        except api.libvirtError as error:
            why.setdefault(_with_way_out(api, error), []).append(kind.address)
            continue
        described = connection.getCapabilities()
        connection.close()
        if kind is GuestKind.LXC:
            return kind
        if platform.machine() == _ARCHITECTURE and f"<domain type='{kind}'" in described:
            return GuestKind.KVM if f"<domain type='{GuestKind.KVM}'" in described else kind
        why.setdefault(f"can't run {_ARCHITECTURE} machines", []).append(kind.address)
    reasons = "; ".join(f"{' and '.join(addresses)}: {what}" for what, addresses in why.items())
    raise GuestsError(f"this machine can't run real guests: {reasons}")


def _with_way_out(api: Any, error: Any) -> str:
    """Return libvirt's error, with a way out if one is known."""
    closed = {api.VIR_ERR_AUTH_FAILED, api.VIR_ERR_AUTH_UNAVAILABLE, api.VIR_ERR_AUTH_CANCELLED}
    number = error.get_int1()
    if number in {errno.ENOENT, errno.ECONNREFUSED}:
        return f"{error} (start libvirtd; it is in Debian's package libvirt-daemon-system)"
    if number in {errno.EACCES, errno.EPERM} or error.get_error_code() in closed:
        return f"{error} (run the demo as root or as a member of the group libvirt)"
    return str(error)


def _libvirt() -> Any:
    try:
        api = require_libvirt()
    except LibvirtMissingError as error:
        raise GuestsError(str(error)) from error
    # libvirt raises each error; without this handler it would also print it.
    api.registerErrorHandler(lambda _context, _error: None, None)
    return api


_LATELY_S = 3.0
_HOST = 0
"""The embedded cloud's host id of this machine."""


class RealGuests:
    """The real guests of a demo, all on this machine."""

    def __init__(self, reactor: Any, kind: GuestKind, minute_s: float, directory: Path) -> None:
        """Guests boot from a file in `directory`. Raise GuestsError if guests can't run here."""
        self._seconds = reactor.seconds
        self._lately: deque[tuple[float, Mapping[int, float]]] = deque()
        self._kind = kind
        self._minute_s = minute_s
        self._disk = directory / "guest.img"
        self._disk.write_bytes(disk())
        self._disk.chmod(0o644)
        self._guests = LibvirtGuests({_HOST: kind.address}, self._described)
        self._thread = Threads(reactor, 1, name="guests")

    async def turn(self, administrator: Client, tell: Notify) -> Mapping[int, float]:
        """Make guests follow the cloud's VMs; return the total core-minutes of each guest by VM."""
        vms = read_page(await administrator.vm_range(0, None, ANY_STATE)).vms
        for why in await self._thread.run(lambda: self._guests.follow(vms)):
            tell("a guest fails", why)
        used_s = await self._thread.run(self._guests.cpu_s)
        self._lately.append((self._seconds(), used_s))
        while self._lately[-1][0] - self._lately[0][0] > _LATELY_S:
            self._lately.popleft()
        return {vm: seconds / self._minute_s for vm, seconds in used_s.items()}

    def cores(self, vms: Iterable[int]) -> float:
        """Return the cores that these VMs used together in the last few seconds."""
        if len(self._lately) < 2:
            return 0.0
        (began_s, before), (ended_s, after) = self._lately[0], self._lately[-1]
        got_s = sum(after.get(vm, 0.0) - before.get(vm, 0.0) for vm in vms)
        return got_s / (ended_s - began_s)

    async def end_finished(self, administrator: Client, player: ScriptPlayer) -> None:
        """Power off the guests that have done their work, in place of their programs."""
        now = player.now
        if now is None:
            return
        for vm in sorted(now.alive):
            if now.vms.get(vm, 0.0) >= now.errand.work:
                try:
                    await administrator.action("poweroff-hard", vm)
                except OneError:
                    # The VM is off already, or in a transition: the next turn tries again.
                    continue

    async def close(self) -> None:
        """End all guests."""
        await self._thread.run(self._guests.close)
        self._thread.stop()

    def _described(self, start: StartGuest) -> str:
        return described(self._kind, start.vm, start.vcpus, start.memory_mib, str(self._disk))
