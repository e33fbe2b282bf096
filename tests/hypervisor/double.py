"""A host that behaves like libvirt's: transient domains, its error codes, its refusals, its hangs.

What it accepts and refuses was seen on libvirt 9.0 with QEMU and LXC. Calls are counted; each
can take its time, hang until it is let go, or be refused.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import libvirt

KIB = 1024
NS = 1_000_000_000
NO_QUOTA = -1
ENDLESS = 17_592_186_044_415


def error(code: int, message: str) -> Exception:
    """Libvirt's own error, as if it came from its library."""
    libvirt.virResetLastError()  # a real failure in this thread would be told again
    found: Exception = libvirt.libvirtError(message)
    vars(found)["err"] = (code, 10, message, 2, "", "", "", -1, -1)
    return found


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
    busy: bool = False
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
            },
            "lxc": {"cpu_shares": 1024, "vcpu_period": period, "vcpu_quota": quota},
            "xen": {"weight": 256, "cap": 0},
        }[self.host.kind]

    def on(self, connection: DoubleConnection) -> "Handle":
        """A handle."""
        return Handle(self, connection)

    def stats(self) -> dict[str, Any]:
        """What one call tells of it."""
        found: dict[str, Any] = {"state.state": 1, "cpu.time": int(self.cpu_s * NS)}
        if self.busy:
            return found
        found |= {"balloon.current": self.held_kib, "balloon.maximum": self.size_kib}
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


class Handle:
    """libvirt's handle of a domain: each call goes to its host."""

    def __init__(self, domain: DoubleDomain, connection: DoubleConnection) -> None:
        self._of = domain
        self._connection = connection

    def name(self) -> str:
        """Asks nobody."""
        return self._of.label

    def ID(self) -> int:  # noqa: N802 - libvirt's name
        """Asks nobody."""
        return self._of.run

    def _call(self, name: str) -> DoubleDomain:
        self._connection.call(name, self._of.label)
        if self._of.host.domains.get(self._of.label) is not self._of:
            raise error(libvirt.VIR_ERR_NO_DOMAIN, "Domain not found")
        return self._of

    def XMLDesc(self, _flags: int) -> str:  # noqa: N802 - libvirt's name
        """As far as anybody reads it."""
        of = self._call("XMLDesc")
        stats = f"<stats period='{of.stats_period_s}'/>" if of.stats_period_s else ""
        balloon = f"<memballoon model='{of.balloon}'>{stats}</memballoon>"
        devices = "".join([balloon, *of.nics_xml(), *of.disks_xml()])
        return f"<domain><vcpu>{of.vcpus}</vcpu><devices>{devices}</devices></domain>"

    def info(self) -> list[int]:
        """State, memory, memory, virtual CPUs, CPU time."""
        of = self._call("info")
        kib = int((of.used_mib or 0) * KIB) if of.host.kind == "lxc" else of.held_kib
        return [1, of.size_kib, kib, of.vcpus, int(of.cpu_s * NS)]

    def schedulerParameters(self) -> dict[str, int]:  # noqa: N802 - libvirt's name
        """What is enforced."""
        return dict(self._call("schedulerParameters").scheduler)

    def schedulerParametersFlags(self, flags: int) -> dict[str, int]:  # noqa: N802
        """The same of what runs."""
        assert flags == (0 if self._of.host.kind == "xen" else libvirt.VIR_DOMAIN_AFFECT_LIVE)
        return self.schedulerParameters()

    def setSchedulerParametersFlags(self, words: dict[str, int], flags: int) -> int:  # noqa: N802
        """One after another; the first that is wrong ends it."""
        of = self._call("setSchedulerParametersFlags")
        live = 0 if of.host.kind == "xen" else libvirt.VIR_DOMAIN_AFFECT_LIVE
        if flags != live:
            raise error(libvirt.VIR_ERR_INVALID_ARG, f"unsupported flags ({flags:#x})")
        assert type(words) is dict, "libvirt takes nothing but a dict"
        for name, value in words.items():
            if name not in of.scheduler:
                raise LookupError(f'Attribute name "{name}" could not be recognized')
            self._check(of, name, value)
            of.scheduler[name] = value
        return 0

    def _check(self, of: DoubleDomain, name: str, value: int) -> None:
        wrong = {
            "cpu_shares": not 2 <= value <= of.host.most_shares,
            "vcpu_quota": value != NO_QUOTA and not 1_000 <= value <= ENDLESS,
            "global_quota": value != NO_QUOTA and not 1_000 <= value <= ENDLESS,
            "vcpu_period": not 1_000 <= value <= 1_000_000,
            "global_period": not 1_000 <= value <= 1_000_000,
            "weight": not 1 <= value <= 65_535,
            "cap": not 0 <= value <= 100 * of.vcpus,
        }[name]
        # Stricter than the kernel, which compares the two: never both at a time.
        there = of.scheduler
        wrong |= name == "global_quota" and value > 0 and there["vcpu_quota"] > 0
        wrong |= name == "vcpu_quota" and value > 0 and there.get("global_quota", -1) > 0
        if wrong:
            raise error(libvirt.VIR_ERR_INVALID_ARG, f"value {value} of '{name}' is out of range")

    def vcpuPinInfo(self, _flags: int) -> list[tuple[bool, ...]]:  # noqa: N802 - libvirt's name
        """A map for each virtual CPU."""
        return list(self._call("vcpuPinInfo").pins)

    def pinVcpuFlags(self, vcpu: int, cores: Sequence[bool], flags: int) -> int:  # noqa: N802
        """Pin one."""
        of = self._call("pinVcpuFlags")
        assert flags == libvirt.VIR_DOMAIN_AFFECT_LIVE
        if vcpu >= of.vcpus or not any(cores):
            raise error(libvirt.VIR_ERR_INVALID_ARG, f"vcpu {vcpu} is out of range")
        of.pins[vcpu] = tuple(cores)
        return 0

    def pinEmulator(self, cores: Sequence[bool], flags: int) -> int:  # noqa: N802
        """Pin its other threads."""
        of = self._call("pinEmulator")
        assert flags == libvirt.VIR_DOMAIN_AFFECT_LIVE
        of.emulator = tuple(cores)
        return 0

    def memoryStats(self) -> dict[str, int]:  # noqa: N802 - libvirt's name
        """What it uses."""
        of = self._call("memoryStats")
        told = {"available": of.held_kib, "usable": of.free_kib} if of.tells else {}
        return {"actual": of.held_kib, **told}

    def memoryParameters(self, _flags: int) -> dict[str, int]:  # noqa: N802 - libvirt's name
        """A container's limit."""
        return {"hard_limit": self._call("memoryParameters").held_kib}

    def setMemoryFlags(self, kib: int, flags: int) -> int:  # noqa: N802 - libvirt's name
        """Of what runs."""
        assert flags == libvirt.VIR_DOMAIN_AFFECT_LIVE
        return self.setMemory(kib)

    def setMemory(self, kib: int) -> int:  # noqa: N802 - libvirt's name
        """A balloon follows at once, if at all."""
        of = self._call("setMemory")
        if kib > of.size_kib:
            raise error(libvirt.VIR_ERR_INVALID_ARG, "cannot set memory higher than max memory")
        if of.follows:
            of.held_kib = kib
        return 0

    def setMemoryStatsPeriod(self, period_s: int, flags: int) -> int:  # noqa: N802
        """How often it tells."""
        of = self._call("setMemoryStatsPeriod")
        assert flags == libvirt.VIR_DOMAIN_AFFECT_LIVE
        of.stats_period_s = period_s
        return 0

    def setInterfaceParameters(self, nic: str, words: dict[str, int], flags: int) -> int:  # noqa: N802
        """Both ways at once; 0 takes a limit off."""
        of = self._call("setInterfaceParameters")
        assert flags == libvirt.VIR_DOMAIN_AFFECT_LIVE
        assert type(words) is dict, "libvirt takes nothing but a dict"
        if nic not in of.nics or nic in of.kinds:
            raise error(libvirt.VIR_ERR_INVALID_ARG, f"cannot find interface {nic}")
        of.nics[nic] = words["inbound.average"], words["outbound.average"]
        return 0

    def setBlockIoTune(self, disk: str, words: dict[str, int], flags: int) -> int:  # noqa: N802
        """Reading and writing together; 0 takes the limit off."""
        of = self._call("setBlockIoTune")
        assert flags == libvirt.VIR_DOMAIN_AFFECT_LIVE
        if disk not in of.disks:
            raise error(libvirt.VIR_ERR_INVALID_ARG, f"missing persistent configuration for {disk}")
        of.disks[disk] = words["total_bytes_sec"]
        return 0
