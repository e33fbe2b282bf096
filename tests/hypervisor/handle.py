"""libvirt's handle of a domain, as a double of a host answers it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libvirt

if TYPE_CHECKING:
    from tests.hypervisor.double import DoubleConnection, DoubleDomain

KIB = 1024
NS = 1_000_000_000
NO_QUOTA = -1
QUOTAS = ("vcpu_quota", "global_quota", "emulator_quota", "iothread_quota")
PERIODS = ("vcpu_period", "global_period", "emulator_period", "iothread_period")
ENDLESS = 17_592_186_044_415


def libvirt_error(code: int, message: str) -> Exception:
    """Return libvirt's own error, as its library raises it."""
    libvirt.virResetLastError()  # otherwise it would repeat a real error of this thread
    error: Exception = libvirt.libvirtError(message)
    vars(error)["err"] = (code, 10, message, 2, "", "", "", -1, -1)
    return error


class Handle:
    """libvirt's handle of a domain; each call goes to its host."""

    def __init__(self, domain: "DoubleDomain", connection: "DoubleConnection") -> None:
        self._of = domain
        self._connection = connection

    def name(self) -> str:
        """Return the name without calling the host."""
        return self._of.label

    def ID(self) -> int:  # noqa: N802 - libvirt's name
        """Answer without calling the host."""
        return self._of.run

    def _call(self, name: str) -> "DoubleDomain":
        self._connection.call(name, self._of.label)
        if self._of.host.domains.get(self._of.label) is not self._of:
            raise libvirt_error(libvirt.VIR_ERR_NO_DOMAIN, "Domain not found")
        return self._of

    def XMLDesc(self, _flags: int) -> str:  # noqa: N802 - libvirt's name
        """Return the parts of the XML that Merkat reads."""
        of = self._call("XMLDesc")
        stats = f"<stats period='{of.stats_period_s}'/>" if of.stats_period_s else ""
        balloon = f"<memballoon model='{of.balloon}'>{stats}</memballoon>"
        devices = "".join([balloon, *of.nics_xml(), *of.disks_xml()])
        return f"<domain><vcpu>{of.vcpus}</vcpu><devices>{devices}</devices></domain>"

    def jobStats(self) -> dict[str, int]:  # noqa: N802 - libvirt's name
        """Return the present job on the domain."""
        of = self._call("jobStats")
        if of.host.kind == "lxc":
            raise libvirt_error(libvirt.VIR_ERR_NO_SUPPORT, "this function is not supported")
        if of.comes_in:
            raise libvirt_error(libvirt.VIR_ERR_OPERATION_UNSUPPORTED, "only on the source host")
        return of.job

    def info(self) -> list[int]:
        """Return state, size, memory, virtual CPUs and CPU time."""
        of = self._call("info")
        kib = int((of.used_mib or 0) * KIB) if of.host.kind == "lxc" else of.held_kib
        return [1, of.size_kib, kib, of.vcpus, int(of.cpu_s * NS)]

    def schedulerParameters(self) -> dict[str, int]:  # noqa: N802 - libvirt's name
        """Return the parameters in force."""
        of = self._call("schedulerParameters")
        parameters = dict(of.scheduler)
        if not of.iothreads and "iothread_quota" in parameters:
            parameters["iothread_quota"] = parameters["global_quota"]
        return parameters

    def schedulerParametersFlags(self, flags: int) -> dict[str, int]:  # noqa: N802
        """Return the parameters of the running domain."""
        assert flags == (0 if self._of.host.kind == "xen" else libvirt.VIR_DOMAIN_AFFECT_LIVE)
        return self.schedulerParameters()

    def setSchedulerParametersFlags(self, words: dict[str, int], flags: int) -> int:  # noqa: N802
        """Set the parameters in order, up to the first invalid one."""
        of = self._call("setSchedulerParametersFlags")
        live = 0 if of.host.kind == "xen" else libvirt.VIR_DOMAIN_AFFECT_LIVE
        if flags != live:
            raise libvirt_error(libvirt.VIR_ERR_INVALID_ARG, f"unsupported flags ({flags:#x})")
        assert type(words) is dict, "libvirt accepts only a dict"
        for name, value in words.items():
            if name not in of.scheduler:
                raise LookupError(f'Attribute name "{name}" could not be recognized')
            self._check(of, name, value)
            if of.iothreads or name != "iothread_quota":
                of.scheduler[name] = value
        return 0

    def _check(self, of: "DoubleDomain", name: str, value: int) -> None:
        wrong = {
            "cpu_shares": not 2 <= value <= of.host.most_shares,
            **dict.fromkeys(QUOTAS, value != NO_QUOTA and not 1_000 <= value <= ENDLESS),
            **dict.fromkeys(PERIODS, not 1_000 <= value <= 1_000_000),
            "weight": not 1 <= value <= 65_535,
            "cap": not 0 <= value <= 100 * of.vcpus,
        }[name]
        # As with control groups v1: no part may exceed the whole.
        there = of.scheduler | {name: value}
        global_quota = there.get("global_quota", NO_QUOTA)
        parts = [there[part] for part in QUOTAS if part in there]
        wrong |= name in QUOTAS and 0 < global_quota < max(parts)
        if wrong:
            raise libvirt_error(
                libvirt.VIR_ERR_INVALID_ARG, f"value {value} of '{name}' is out of range"
            )

    def vcpuPinInfo(self, _flags: int) -> list[tuple[bool, ...]]:  # noqa: N802 - libvirt's name
        """Return a map of cores for each virtual CPU."""
        return list(self._call("vcpuPinInfo").pins)

    def pinVcpuFlags(self, vcpu: int, cores: Sequence[bool], flags: int) -> int:  # noqa: N802
        """Pin a virtual CPU."""
        of = self._call("pinVcpuFlags")
        assert flags == libvirt.VIR_DOMAIN_AFFECT_LIVE
        if vcpu >= of.vcpus or not any(cores):
            raise libvirt_error(libvirt.VIR_ERR_INVALID_ARG, f"vcpu {vcpu} is out of range")
        of.pins[vcpu] = tuple(cores)
        return 0

    def emulatorPinInfo(self, flags: int) -> tuple[bool, ...]:  # noqa: N802 - libvirt's name
        """Return the map of cores of the emulator threads."""
        assert flags == libvirt.VIR_DOMAIN_AFFECT_LIVE
        return self._call("emulatorPinInfo").emulator

    def pinEmulator(self, cores: Sequence[bool], flags: int) -> int:  # noqa: N802
        """Pin the emulator threads."""
        of = self._call("pinEmulator")
        assert flags == libvirt.VIR_DOMAIN_AFFECT_LIVE
        of.emulator = tuple(cores)
        return 0

    def memoryStats(self) -> dict[str, int]:  # noqa: N802 - libvirt's name
        """Return the memory use."""
        of = self._call("memoryStats")
        use = {"available": of.held_kib, "usable": of.free_kib} if of.reports_use else {}
        return {"actual": of.held_kib, **use}

    def memoryParameters(self, _flags: int) -> dict[str, int]:  # noqa: N802 - libvirt's name
        """Return a container's limit."""
        return {"hard_limit": self._call("memoryParameters").held_kib}

    def setMemoryFlags(self, kib: int, flags: int) -> int:  # noqa: N802 - libvirt's name
        """Set the memory of the running domain."""
        assert flags == libvirt.VIR_DOMAIN_AFFECT_LIVE
        return self.setMemory(kib)

    def setMemory(self, kib: int) -> int:  # noqa: N802 - libvirt's name
        """Set the memory; a working balloon follows at once."""
        of = self._call("setMemory")
        if kib > of.size_kib:
            raise libvirt_error(
                libvirt.VIR_ERR_INVALID_ARG, "cannot set memory higher than max memory"
            )
        if of.follows:
            of.held_kib = kib
        return 0

    def setMemoryStatsPeriod(self, period_s: int, flags: int) -> int:  # noqa: N802
        """Set the period of the guest's reports."""
        of = self._call("setMemoryStatsPeriod")
        assert flags == libvirt.VIR_DOMAIN_AFFECT_LIVE
        of.stats_period_s = period_s
        return 0

    def startDirtyRateCalc(self, seconds: int, flags: int) -> int:  # noqa: N802
        """Start a measurement; QEMU refuses a second one at the same time."""
        of = self._call("startDirtyRateCalc")
        assert (seconds, flags) == (1, 0)
        if of.measuring:
            raise libvirt_error(libvirt.VIR_ERR_INTERNAL_ERROR, "already being measured")
        of.measuring, of.measured_mib_s = True, of.writes_mib_s
        return 0

    def setInterfaceParameters(self, nic: str, words: dict[str, int], flags: int) -> int:  # noqa: N802
        """Limit both directions at once; 0 removes the limit."""
        of = self._call("setInterfaceParameters")
        assert flags == libvirt.VIR_DOMAIN_AFFECT_LIVE
        assert type(words) is dict, "libvirt accepts only a dict"
        if nic not in of.nics or nic in of.kinds:
            raise libvirt_error(libvirt.VIR_ERR_INVALID_ARG, f"cannot find interface {nic}")
        of.nics[nic] = words["inbound.average"], words["outbound.average"]
        return 0

    def setBlockIoTune(self, disk: str, words: dict[str, int], flags: int) -> int:  # noqa: N802
        """Limit reads and writes together; 0 removes the limit."""
        of = self._call("setBlockIoTune")
        assert flags == libvirt.VIR_DOMAIN_AFFECT_LIVE
        if disk not in of.disks:
            raise libvirt_error(
                libvirt.VIR_ERR_INVALID_ARG, f"missing persistent configuration for {disk}"
            )
        of.disks[disk] = words["total_bytes_sec"]
        return 0
