"""A host that behaves like libvirt's: transient domains, its error codes, refusals and hangs.

Its behaviour was observed on libvirt 9.0 with QEMU and LXC. Calls are counted; each one can be
slow, hang until it is released, or be refused.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import libvirt

from tests.hypervisor.handle import KIB, NO_QUOTA, NS, Handle, libvirt_error


@dataclass
class DoubleHost:
    """A machine with libvirtd; `open` makes connections to it."""

    kind: str = "qemu"
    cores: int = 4
    most_shares: int = 262_144
    """10,000 with control groups v2."""
    latency_s: float = 0.0
    domains: dict[str, "DoubleDomain"] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    up: bool = True
    refuse: Callable[[str, str], int | None] = lambda _call, _domain: None
    """By call and domain: the error code to fail with."""
    hold: threading.Event | None = None
    """Calls block until this is set."""
    opened: int = 0
    at_once: int = 0
    most_at_once: int = 0
    _next_id: int = 1
    _lock: Any = field(default_factory=threading.Lock)

    def open(self, _address: str, _keepalive_s: int) -> "DoubleConnection":
        """Open a connection."""
        self._call("open", "")
        self.opened += 1
        return DoubleConnection(self)

    def start(self, vm: int, vcpus: int = 2, memory_mib: int = 1024, **more: Any) -> "DoubleDomain":
        """Start or restart the domain of a VM."""
        domain = DoubleDomain(self, f"one-{vm}", self._next_id, vcpus, memory_mib * KIB, **more)
        self._next_id += 1
        self.domains[domain.name()] = domain
        return domain

    def changes(self) -> Counter[str]:
        """Return the calls that changed something."""
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
            raise libvirt_error(
                libvirt.VIR_ERR_SYSTEM_ERROR, "Cannot recv data: Connection reset by peer"
            )
        code = self.refuse(name, domain)
        if code is not None:
            raise libvirt_error(code, f"{name} is refused")


class DoubleConnection:
    """One connection; it stays dead once its host was down."""

    def __init__(self, host: DoubleHost) -> None:
        self.host = host
        self._lost = False

    def call(self, name: str, domain: str = "") -> None:
        """Count the call and fail it if the host is down."""
        if self._lost:
            raise libvirt_error(libvirt.VIR_ERR_INTERNAL_ERROR, "client socket is closed")
        try:
            self.host._call(name, domain)
        finally:
            if not self.host.up:
                self._lost = True

    def isAlive(self) -> int:  # noqa: N802 - libvirt's name
        """Answer without calling the host."""
        return int(not self._lost)

    def close(self) -> int:
        """Close without calling the host."""
        self.host.calls["close"] += 1
        self._lost = True
        return 0

    def getCPUMap(self) -> tuple[int, list[bool], int]:  # noqa: N802 - libvirt's name
        """Return all cores; Xen does not support this call."""
        self.call("getCPUMap")
        if self.host.kind == "xen":
            raise libvirt_error(libvirt.VIR_ERR_NO_SUPPORT, "this function is not supported")
        return self.host.cores, [True] * self.host.cores, self.host.cores

    def getCapabilities(self) -> str:  # noqa: N802 - libvirt's name
        """Return two cells."""
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
        """Return handles of all running domains."""
        self.call("listAllDomains")
        return [domain.on(self) for domain in self.host.domains.values()]

    def lookupByName(self, name: str) -> Any:  # noqa: N802 - libvirt's name
        """Return a handle."""
        self.call("lookupByName", name)
        if name not in self.host.domains:
            raise libvirt_error(libvirt.VIR_ERR_NO_DOMAIN, "Domain not found")
        return self.host.domains[name].on(self)

    def getAllDomainStats(self, stats: int, _flags: int) -> list[Any]:  # noqa: N802
        """Return bulk statistics, which only QEMU supports."""
        self.call("getAllDomainStats")
        if self.host.kind != "qemu":
            raise libvirt_error(libvirt.VIR_ERR_NO_SUPPORT, "this function is not supported")
        rates = bool(stats & libvirt.VIR_DOMAIN_STATS_DIRTYRATE)
        return [
            (domain.on(self), domain.stats() | (domain.rates() if rates else {}))
            for domain in self.host.domains.values()
        ]


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
    kept_kib: int | None = None
    """The memory of the domain's process, if its balloon says something else."""
    used_mib: float | None = 300.0
    cpu_s: float = 0.0
    scheduler: dict[str, int] = field(default_factory=dict)
    pins: list[tuple[bool, ...]] = field(default_factory=list)
    emulator: tuple[bool, ...] = ()
    held_kib: int = 0
    stats_period_s: int = 0
    told_at: int = 0
    iothreads: int = 0
    """Disk threads in addition to the emulator's thread."""
    busy: bool = False
    """Omit all statistics for which libvirt would wait."""
    job: dict[str, int] = field(default_factory=lambda: {"type": 0})
    """The present job of another program on the domain."""
    comes_in: bool = False
    nics: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By name: receive and send rate in kB/s; 0 for unlimited."""
    kinds: dict[str, str] = field(default_factory=dict)
    """By name: interfaces of another kind than bridges."""
    disks: dict[str, int] = field(default_factory=dict)
    """By name: bytes/s; 0 for unlimited. A name that begins with `hd` is a CD-ROM."""
    writes_mib_s: int = 0
    """The rate at which it writes to its memory."""
    measuring: bool = False
    """Whether QEMU measures this rate now."""
    measured_mib_s: int | None = None
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
        """Return a handle on a connection."""
        return Handle(self, connection)

    def stats(self) -> dict[str, Any]:
        """Return the bulk statistics of the domain."""
        answer: dict[str, Any] = {"state.state": 1, "cpu.time": int(self.cpu_s * NS)}
        if self.busy:
            return answer
        answer |= {"balloon.current": self.held_kib, "balloon.maximum": self.size_kib}
        if self.comes_in or self.job["type"]:
            return answer
        answer["balloon.rss"] = self.held_kib if self.kept_kib is None else self.kept_kib
        answer["balloon.last-update"] = self.told_at
        if self.reports_use:
            answer |= {"balloon.available": self.held_kib, "balloon.usable": self.free_kib}
        return answer

    def rates(self) -> dict[str, Any]:
        """Return the statistics of the last measurement, as libvirt 9.0 shows them."""
        if self.busy or self.comes_in or self.job["type"]:
            return {}
        if self.measured_mib_s is None:
            return {"dirtyrate.calc_status": 0}
        if self.measuring:
            return {"dirtyrate.calc_status": 1}
        return {
            "dirtyrate.calc_status": 2,
            "dirtyrate.megabytes_per_second": self.measured_mib_s,
        }

    @property
    def reports_use(self) -> bool:
        """Whether the guest reports its memory use."""
        return self.used_mib is not None and self.stats_period_s > 0 and self.balloon != "none"

    @property
    def free_kib(self) -> int:
        """Return the unused memory."""
        return self.held_kib - int((self.used_mib or 0) * KIB)

    def nics_xml(self) -> Iterator[str]:
        """Yield the interfaces of a running domain in libvirt's XML."""
        for name, (inbound, outbound) in self.nics.items():
            ways = (("inbound", inbound), ("outbound", outbound))
            limits = "".join(f"<{way} average='{limit}'/>" for way, limit in ways if limit)
            kind = self.kinds.get(name, "bridge")
            bandwidth = f"<bandwidth>{limits}</bandwidth>" if limits else ""
            yield f"<interface type='{kind}'><target dev='{name}'/>{bandwidth}</interface>"

    def disks_xml(self) -> Iterator[str]:
        """Yield the disks in libvirt's XML, after an empty CD-ROM."""
        yield "<disk type='file' device='cdrom'><target dev='hdz' bus='ide'/><readonly/></disk>"
        for name, limit in self.disks.items():
            tune = f"<iotune><total_bytes_sec>{limit}</total_bytes_sec></iotune>" if limit else ""
            kind = "cdrom" if name.startswith("hd") else "disk"
            shown = f"<target dev='{name}'/><source file='{name}.img'/>{tune}"
            yield f"<disk type='file' device='{kind}'>{shown}</disk>"

    def name(self) -> str:
        """Return the name without calling the host."""
        return self.label
