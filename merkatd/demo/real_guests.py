"""Real guests that follow the VMs.

A stand-in for OpenNebula's drivers, and for what a VM's owner would see in it: how much CPU
time it really got. Every call blocks for as long as libvirt takes.
"""

import contextlib
import errno
import platform
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from merkatd.base.clock import Threads
from merkatd.demo.demo_tenant import Notify, ScriptPlayer
from merkatd.demo.guest_domains import (
    NAMES,
    Change,
    End,
    GuestKind,
    MoveGuest,
    StartGuest,
    changes,
    described,
    disk,
    name_of,
)
from merkatd.hypervisor.libvirt.host.libvirt_module import LibvirtMissingError, needed
from merkatd.opennebula import Client
from merkatd.opennebula.pools.vm_pool import VmRow, read_page
from merkatd.opennebula.rpc.client import ANY_STATE
from merkatd.opennebula.rpc.errors import OneError

_NS_PER_S = 1e9
_OUR_CODE = "x86_64"
"""What the guests without an operating system are written for."""


class GuestsError(Exception):
    """Guests can't be started here; the message says why."""


class LibvirtGuests:
    """Guests that this object started; it touches no others."""

    def __init__(self, addresses: Mapping[int, str], describe: Callable[[StartGuest], str]) -> None:
        """`addresses` are libvirt's, by host id; `describe` writes a domain's XML.

        Raises GuestsError where a host does not answer, or has domains that are named like
        OpenNebula's: the daemon would take them for its own VMs.
        """
        self._api = _libvirt()
        self._addresses = dict(addresses)
        self._describe = describe
        self._there: dict[int, int] = {}
        self._before_s: dict[int, float] = {}
        self._seen_s: dict[int, float] = {}
        self._connections: dict[int, Any] = {}
        for host, address in self._addresses.items():
            self._look_at(host, address)

    @property
    def there(self) -> Mapping[int, int]:
        """The host of each guest that runs, by VM id."""
        return self._there

    def follow(self, vms: Iterable[VmRow]) -> list[str]:
        """Do what has to be done for these VMs; what could not be done, in words."""
        failed = []
        for change in changes(vms, self._there):
            try:
                self._do(change)
            except self._api.libvirtError as error:
                failed.append(f"{name_of(change.vm)}: {error}")
        return failed

    def cpu_s(self) -> Mapping[int, float]:
        """CPU time that each guest ever got, by VM id, of all there ever were."""
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
        # A guest that can't be asked now has what it had.
        with contextlib.suppress(self._api.libvirtError):
            self._seen_s[vm] = self._domain(vm, host).info()[4] / _NS_PER_S

    def _keep(self, vm: int) -> None:
        """What comes next counts from nothing again."""
        self._before_s[vm] = self._before_s.get(vm, 0.0) + self._seen_s.pop(vm, 0.0)

    def _domain(self, vm: int, host: int) -> Any:
        return self._connection(host).lookupByName(name_of(vm))

    def _connection(self, host: int) -> Any:
        found = self._connections.get(host)
        if found is None or not found.isAlive():
            self._connections[host] = found = self._api.open(self._addresses[host])
        return found

    def _look_at(self, host: int, address: str) -> None:
        try:
            names = [domain.name() for domain in self._connection(host).listAllDomains()]
        except self._api.libvirtError as error:
            raise GuestsError(f"{address}: {error}") from error
        for name in names:
            if name.startswith(NAMES):
                raise GuestsError(
                    f"{address}: has the domain {name}, which would be taken for one of the demo's"
                )


def kind_here() -> GuestKind:
    """The best guests that this machine's libvirtd runs. Raises GuestsError where it runs none."""
    api = _libvirt()
    why: dict[str, list[str]] = {}
    for kind in (GuestKind.QEMU, GuestKind.LXC):
        try:
            connection = api.open(kind.address)
        except api.libvirtError as error:
            why.setdefault(_helped(api, error), []).append(kind.address)
            continue
        described = connection.getCapabilities()
        connection.close()
        if kind is GuestKind.LXC:
            return kind
        if platform.machine() == _OUR_CODE and f"<domain type='{kind}'" in described:
            return GuestKind.KVM if f"<domain type='{GuestKind.KVM}'" in described else kind
        why.setdefault(f"has no machine that runs {_OUR_CODE}", []).append(kind.address)
    found = "; ".join(f"{' and '.join(addresses)}: {what}" for what, addresses in why.items())
    raise GuestsError(f"no real guests here: {found}")


def _helped(api: Any, error: Any) -> str:
    """What libvirt says, and what can be done about it where that is known."""
    closed = {api.VIR_ERR_AUTH_FAILED, api.VIR_ERR_AUTH_UNAVAILABLE, api.VIR_ERR_AUTH_CANCELLED}
    found = error.get_int1()
    if found in {errno.ENOENT, errno.ECONNREFUSED}:
        return f"{error} (does libvirtd run? It is in Debian's package libvirt-daemon-system)"
    if found in {errno.EACCES, errno.EPERM} or error.get_error_code() in closed:
        return f"{error} (root may, and so may members of the group libvirt)"
    return str(error)


def _libvirt() -> Any:
    try:
        api = needed()
    except LibvirtMissingError as error:
        raise GuestsError(str(error)) from error
    # What goes wrong is raised; it would be printed besides.
    api.registerErrorHandler(lambda _context, _error: None, None)
    return api


_LATELY_S = 3.0
_HOST = 0
"""The embedded cloud's name for this machine."""


class RealGuests:
    """The guests of a demo, all on this machine."""

    def __init__(self, reactor: Any, kind: GuestKind, minute_s: float, directory: Path) -> None:
        """Raises GuestsError where there can be none; guests boot from a file in `directory`."""
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
        """Let guests be where the cloud has its VMs; core-minutes that each ever got, by VM."""
        vms = read_page(await administrator.vm_range(0, None, ANY_STATE)).vms
        for why in await self._thread.run(lambda: self._guests.follow(vms)):
            tell("a guest fails", why)
        used_s = await self._thread.run(self._guests.cpu_s)
        self._lately.append((self._seconds(), used_s))
        while self._lately[-1][0] - self._lately[0][0] > _LATELY_S:
            self._lately.popleft()
        return {vm: seconds / self._minute_s for vm, seconds in used_s.items()}

    def cores(self, vms: Iterable[int]) -> float:
        """How many cores these VMs really got together in the last few seconds."""
        if len(self._lately) < 2:
            return 0.0
        (began_s, before), (ended_s, after) = self._lately[0], self._lately[-1]
        got_s = sum(after.get(vm, 0.0) - before.get(vm, 0.0) for vm in vms)
        return got_s / (ended_s - began_s)

    async def end_finished(self, administrator: Client, player: ScriptPlayer) -> None:
        """Guests that have done their work turn themselves off."""
        now = player.now
        if now is None:
            return
        for vm in sorted(now.alive):
            if now.vms.get(vm, 0.0) >= now.errand.work:
                try:
                    await administrator.action("poweroff-hard", vm)
                except OneError:
                    # It is off already, or on its way somewhere: there is another turn.
                    continue

    async def close(self) -> None:
        """End all guests."""
        await self._thread.run(self._guests.close)
        self._thread.stop()

    def _described(self, start: StartGuest) -> str:
        return described(self._kind, start.vm, start.vcpus, start.memory_mib, str(self._disk))
