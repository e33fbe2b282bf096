"""A host that behaves like libvirt's: transient domains, its error codes, its refusals, its hangs.

What it accepts and refuses was seen on libvirt 9.0 with QEMU and LXC. Calls are counted; each
can take its time, hang until it is let go, or be refused.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import libvirt

from tests.hypervisor.handle import KIB, NO_QUOTA, NS, Handle, error


@dataclass
class DoubleHost:
    """A machine with libvirtd; connections to it are made with `open`."""

    kind: str = "qemu"
    cores: int = 4
    most_shares: int = 262_144
    """10,000 with control groups v2."""
    latency_s: float = 0.0
    domains: dict[str, "DoubleDomain"] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    up: bool = True
    refuse: Callable[[str, str], int | None] = lambda _call, _domain: None
    """By call and domain: the code of the error it ends with."""
    hold: threading.Event | None = None
    """Calls do not return before this is set."""
    opened: int = 0
    at_once: int = 0
    most_at_once: int = 0
    _next_id: int = 1
    _lock: Any = field(default_factory=threading.Lock)

    def open(self, _address: str, _keepalive_s: int) -> "DoubleConnection":
        """A new connection."""
        self._call("open", "")
        self.opened += 1
        return DoubleConnection(self)

    def start(self, vm: int, vcpus: int = 2, memory_mib: int = 1024, **more: Any) -> "DoubleDomain":
        """Start the domain of a VM, also anew."""
        domain = DoubleDomain(self, f"one-{vm}", self._next_id, vcpus, memory_mib * KIB, **more)
        self._next_id += 1
        self.domains[domain.name()] = domain
        return domain

    def changes(self) -> Counter[str]:
        """The calls that changed something."""
        return Counter(
            {name: count for name, count in self.calls.items() if name.startswith(("set", "pin"))}
        )

    def _call(self, name: str, domain: str) -> None:
        with self._lock:
            self.calls[name] += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.latency_s:
                time.sleep(self.latency_s)
            if self.hold is not None:
                self.hold.wait(30)
        finally:
            with self._lock:
                self.at_once -= 1
        if not self.up:
            raise error(libvirt.VIR_ERR_SYSTEM_ERROR, "Cannot recv data: Connection reset by peer")
        code = self.refuse(name, domain)
        if code is not None:
            raise error(code, f"{name} is refused")


class DoubleConnection:
    """One connection; it is dead once its host was down."""

    def __init__(self, host: DoubleHost) -> None:
        self.host = host
        self._lost = False

    def call(self, name: str, domain: str = "") -> None:
        """Every call passes here."""
        if self._lost:
            raise error(libvirt.VIR_ERR_INTERNAL_ERROR, "client socket is closed")
        try:
            self.host._call(name, domain)
        finally:
            if not self.host.up:
                self._lost = True

    def isAlive(self) -> int:  # noqa: N802 - libvirt's name
        """Asks nobody."""
        return int(not self._lost)

    def close(self) -> int:
        """Asks nobody."""
        self.host.calls["close"] += 1
        self._lost = True
        return 0

    def getCPUMap(self) -> tuple[int, list[bool], int]:  # noqa: N802 - libvirt's name
        """All cores are there; Xen does not say, and nor does it then where guests are pinned."""
        self.call("getCPUMap")
        if self.host.kind == "xen":
            raise error(libvirt.VIR_ERR_NO_SUPPORT, "this function is not supported")
        return self.host.cores, [True] * self.host.cores, self.host.cores

    def getCapabilities(self) -> str:  # noqa: N802 - libvirt's name
        """Two cells."""
        self.call("getCapabilities")
        half = self.host.cores // 2
        cells = "".join(
            f"<cell id='{cell}'><cpus>"
            + "".join(f"<cpu id='{core}'/>" for core in cores)
            + "</cpus></cell>"
            for cell, cores in enumerate((range(half), range(half, self.host.cores)))
        )
        return (
            f"<capabilities><host><topology><cells>{cells}</cells></topology></host></capabilities>"
        )

    def listAllDomains(self, _flags: int) -> list[Any]:  # noqa: N802 - libvirt's name
        """Handles of all that run."""
        self.call("listAllDomains")
        return [domain.on(self) for domain in self.host.domains.values()]

    def lookupByName(self, name: str) -> Any:  # noqa: N802 - libvirt's name
        """A handle."""
        self.call("lookupByName", name)
        if name not in self.host.domains:
            raise error(libvirt.VIR_ERR_NO_DOMAIN, "Domain not found")
        return self.host.domains[name].on(self)

    def getAllDomainStats(self, _stats: int, _flags: int) -> list[Any]:  # noqa: N802
        """QEMU alone has this."""
        self.call("getAllDomainStats")
        if self.host.kind != "qemu":
            raise error(libvirt.VIR_ERR_NO_SUPPORT, "this function is not supported")
        return [(one.on(self), one.stats()) for one in self.host.domains.values()]


@dataclass
class DoubleDomain:
    """A domain, or a handle of it on one connection."""

    host: DoubleHost
    label: str
    run: int
    vcpus: int
    size_kib: int
    balloon: str = "virtio"
    follows: bool = True
    used_mib: float | None = 300.0
    cpu_s: float = 0.0
    scheduler: dict[str, int] = field(default_factory=dict)
    pins: list[tuple[bool, ...]] = field(default_factory=list)
    emulator: tuple[bool, ...] = ()
    held_kib: int = 0
    stats_period_s: int = 0
    told_at: int = 0
    iothreads: int = 0
    """Threads for disks, beside that of the emulator."""
    busy: bool = False
    """Nothing of it is told that would mean to wait for it."""
    job: dict[str, int] = field(default_factory=lambda: {"type": 0})
    """What somebody else does to it."""
    comes_in: bool = False
    nics: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By name: what it may receive and send, in kB/s; 0 for anything."""
    kinds: dict[str, str] = field(default_factory=dict)
    """By name, interfaces of another kind than bridges."""
    disks: dict[str, int] = field(default_factory=dict)
    """By name: bytes/s; 0 for anything."""
    connection: Any = None

    def __post_init__(self) -> None:
        if self.scheduler:
            return
        self.held_kib = self.size_kib
        everywhere = (True,) * self.host.cores
        self.pins = [everywhere] * self.vcpus
        self.emulator = everywhere
        period, quota = 100_000, NO_QUOTA
        self.scheduler = {
            "qemu": {
                "cpu_shares": 1024,
                "vcpu_period": period,
                "vcpu_quota": quota,
                "global_period": period,
                "global_quota": quota,
                "emulator_period": period,
                "emulator_quota": quota,
                "iothread_period": period,
                "iothread_quota": quota,
            },
            "lxc": {"cpu_shares": 1024, "vcpu_period": period, "vcpu_quota": quota},
            "xen": {"weight": 256, "cap": 0},
        }[self.host.kind]

    def on(self, connection: DoubleConnection) -> Handle:
        """A handle."""
        return Handle(self, connection)

    def stats(self) -> dict[str, Any]:
        """What one call tells of it."""
        found: dict[str, Any] = {"state.state": 1, "cpu.time": int(self.cpu_s * NS)}
        if self.busy:
            return found
        found |= {"balloon.current": self.held_kib, "balloon.maximum": self.size_kib}
        if self.comes_in or self.job["type"]:
            return found
        found["balloon.rss"] = self.held_kib
        found["balloon.last-update"] = self.told_at
        if self.tells:
            found |= {"balloon.available": self.held_kib, "balloon.usable": self.free_kib}
        return found

    @property
    def tells(self) -> bool:
        """Whether it says how much it uses."""
        return self.used_mib is not None and self.stats_period_s > 0 and self.balloon != "none"

    @property
    def free_kib(self) -> int:
        """What it does not use."""
        return self.held_kib - int((self.used_mib or 0) * KIB)

    def nics_xml(self) -> Iterator[str]:
        """As libvirt shows interfaces of what runs."""
        for name, (inbound, outbound) in self.nics.items():
            ways = (("inbound", inbound), ("outbound", outbound))
            limits = "".join(f"<{way} average='{limit}'/>" for way, limit in ways if limit)
            kind = self.kinds.get(name, "bridge")
            bandwidth = f"<bandwidth>{limits}</bandwidth>" if limits else ""
            yield f"<interface type='{kind}'><target dev='{name}'/>{bandwidth}</interface>"

    def disks_xml(self) -> Iterator[str]:
        """And disks, behind the image with the context."""
        yield "<disk type='file' device='cdrom'><target dev='hdb' bus='ide'/><readonly/></disk>"
        for name, limit in self.disks.items():
            tune = f"<iotune><total_bytes_sec>{limit}</total_bytes_sec></iotune>" if limit else ""
            yield f"<disk type='file' device='disk'><target dev='{name}'/>{tune}</disk>"

    def name(self) -> str:
        """Asks nobody."""
        return self.label
