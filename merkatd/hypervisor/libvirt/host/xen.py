"""Xen guests, with pins through the command `xl`."""

import math
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence

from merkatd.cluster import Limit
from merkatd.hypervisor.libvirt.host.driver import NS_PER_S, one_by_one
from merkatd.hypervisor.libvirt.host.guest import (
    KIB_PER_MIB,
    Cpu,
    DomainFacts,
    Guest,
    GuestReading,
    Words,
)
from merkatd.hypervisor.libvirt.host.host_connection import HostConnection
from merkatd.hypervisor.libvirt.host.libvirt_module import LibvirtRefusedError
from merkatd.limits import CGROUP_V1, NO_CAP, UNSET, XEN, Cores, credit, whole_quota

_PATIENCE = 0.8
"""The part of a call's limit that the command may use: it ends before its thread is given up."""
_EVERYWHERE = "all"
_MOST_CORES = 4095
"""The highest core number that is accepted."""
_LONGEST = 4 * 1024 * 1024
"""The most bytes of a command's output."""
_LINE = re.compile(
    r"(?P<domain>\S+)\s+(?P<id>\d+)\s+(?P<vcpu>\d+)\s+(?P<cpu>\S+)\s+(?P<state>\S+)"
    r"\s+(?P<time>[\d.]+)\s+(?P<hard>all|any cpu|[\d,-]+)(\s*/.*)?",
    re.ASCII,
)
"""A line of `xl vcpu-list`; the part behind a slash is soft affinity, which merkatd never sets."""


def pin(host: HostConnection, domain: str, vcpu: int, cores: Sequence[int]) -> None:
    """Pin a virtual CPU to these cores, or to all if empty. Raise LibvirtRefusedError."""
    named = ",".join(map(str, cores)) or _EVERYWHERE
    _run(host, "vcpu-pin", domain, str(vcpu), named)


def pins(host: HostConnection) -> Mapping[str, Cores]:
    """Return the cores of each virtual CPU by domain; empty means all cores.

    Raise LibvirtRefusedError if the command fails.
    """
    by_domain: dict[str, dict[int, tuple[int, ...]]] = {}
    for line in _run(host, "vcpu-list").splitlines():
        read = _LINE.fullmatch(line.strip())
        if read is not None:
            by_domain.setdefault(read["domain"], {})[int(read["vcpu"])] = _cores(read["hard"])
    return {
        domain: tuple(cores[vcpu] for vcpu in sorted(cores)) for domain, cores in by_domain.items()
    }


def _cores(text: str) -> tuple[int, ...]:
    cores: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        if max(len(first), len(last)) > len(str(_MOST_CORES)) or int(last or first) > _MOST_CORES:
            raise LibvirtRefusedError(
                f"xl reports core {(last or first)[:20]}; the limit is {_MOST_CORES}"
            )
        cores |= set(range(int(first), int(last or first) + 1))
    return tuple(sorted(cores))


def _run(host: HostConnection, *words: str) -> str:
    command = [word.format(host=host.place.name) for word in shlex.split(host.settings.xen_command)]
    full_command = [*command, *words]
    limit_s = host.settings.call_limit_s * _PATIENCE
    try:
        output, code = _output(full_command, limit_s)
    except OSError as error:
        raise LibvirtRefusedError(f"{full_command[0]}: {error}") from error
    if len(output) > _LONGEST:
        raise LibvirtRefusedError(f"{' '.join(full_command)}: its output exceeds {_LONGEST} bytes")
    text = output.decode(errors="replace")
    if code == -signal.SIGKILL:
        raise LibvirtRefusedError(f"{' '.join(full_command)}: it did not end within {limit_s:g} s")
    if code:
        raise LibvirtRefusedError(
            f"{' '.join(full_command)}: {' '.join(text.split()) or f'exit code {code}'}"
        )
    return text


def _output(full_command: Sequence[str], limit_s: float) -> tuple[bytes, int]:
    """Return a command's output, errors included, and its exit code; cut long output."""
    with subprocess.Popen(  # noqa: S603 - the administrator's own command, with numbers behind it
        full_command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        ending = threading.Timer(limit_s, process.kill)
        ending.start()
        try:
            output = b"" if process.stdout is None else process.stdout.read(_LONGEST + 1)
            if len(output) > _LONGEST:
                process.kill()
            return output, process.wait()
        finally:
            ending.cancel()


_UNITS_PER_CORE = 100
_OWN_WEIGHT = 256
"""The weight of a VM with one core in OpenNebula and Xen."""
_NO_FLAGS = 0
"""The only flags that Xen's driver accepts; it changes the running domain."""


class Xen:
    """Implements `merkatd.hypervisor.libvirt.host.driver.GuestDriver`."""

    measures = False
    pins = True
    throttles = False
    hard = False

    def __init__(self) -> None:
        self._pins: Mapping[str, Cores] | None = None
        self._trouble: LibvirtRefusedError | None = None
        """The failure to read the pins since the last survey."""

    def survey(self, host: HostConnection, vms: Sequence[int]) -> list[GuestReading]:
        """Read the guests with a call per guest."""
        self._pins = self._trouble = None
        return [
            GuestReading(vm, domain, cpu_ns / NS_PER_S, float(held), float(most), math.nan)
            for vm, domain, (_, most, held, _, cpu_ns) in one_by_one(host, vms)
        ]

    def describe(self, host: HostConnection, guest: Guest) -> None:
        """Read the virtual CPUs; every Xen guest has a balloon."""
        vcpus = int(host.call(host.handle(guest).info)[3])
        guest.described = DomainFacts(vcpus=vcpus, balloon=True)

    def forget(self, host: HostConnection, guest: Guest) -> None:
        """Do nothing: `describe` changes nothing."""

    def used_kib(self, host: HostConnection, guest: Guest) -> float:
        """Return NaN: Xen guests do not report their use."""
        del host, guest
        return math.nan

    def words(self, host: HostConnection, guest: Guest) -> Words:
        """Return weight and cap."""
        there = host.call(host.handle(guest).schedulerParameters)
        return {"weight": int(there["weight"]), "cap": int(there["cap"])}

    def cores(self, host: HostConnection, guest: Guest) -> Cores:
        """Return the guest's pins; `xl` runs at most once between two surveys."""
        if self._trouble is not None:
            raise self._trouble
        try:
            if self._pins is None:
                self._pins = host.call(pins, host)
        except LibvirtRefusedError as error:
            self._trouble = error
            raise
        known = self._pins.get(guest.name, ())
        return known if any(known) else ()

    def emulator(self, host: HostConnection, guest: Guest) -> tuple[int, ...]:
        """Return nothing: the emulator threads belong to another domain."""
        del host, guest
        return ()

    def memory_mib(self, host: HostConnection, guest: Guest) -> int | None:
        """Return None: the survey shows its memory."""
        del host, guest
        return None

    def measure(self, host: HostConnection, guest: Guest) -> None:
        """Do nothing: libvirt measures QEMU's guests only."""

    def wording(self, limit: Limit, guest: Guest) -> Words:
        """Return the weight and cap of the credit scheduler."""
        credit_limit = credit(limit, guest.vcpus)
        return {"weight": credit_limit.weight, "cap": credit_limit.cap}

    def meaning(self, words: Words, guest: Guest, period_us: int) -> Cpu:
        """Convert the cap to quotas, an equal part for each virtual CPU."""
        quota = total_quota = UNSET
        if words["cap"] != NO_CAP:
            quota = words["cap"] * period_us // (_UNITS_PER_CORE * guest.vcpus)
            total_quota = whole_quota(quota, guest.vcpus, period_us)
        shares = round(words["weight"] * CGROUP_V1.greatest / XEN.greatest)
        return Cpu(quota, total_quota, shares)

    def own_shares(self, host: HostConnection, guest: Guest, cpu_units: float) -> Words:
        """Return a weight of 256 per core."""
        del host, guest
        weight = math.ceil(cpu_units / _UNITS_PER_CORE * _OWN_WEIGHT)
        return {"weight": min(max(weight, XEN.least), XEN.greatest)}

    def set_words(self, host: HostConnection, guest: Guest, words: Words) -> None:
        """Set all values in one call."""
        host.call(host.handle(guest).setSchedulerParametersFlags, dict(words), _NO_FLAGS)

    def set_cores(self, host: HostConnection, guest: Guest, cores: Cores) -> None:
        """Run `xl vcpu-pin` for each virtual CPU that differs."""
        there = guest.cores or ()
        self._pins = None
        for vcpu in range(guest.vcpus):
            wanted = cores[vcpu] if vcpu < len(cores) else ()
            known = there[vcpu] if vcpu < len(there) else ()
            if guest.cores is None or wanted != known:
                host.call(pin, host, guest.name, vcpu, wanted)

    def set_memory(self, host: HostConnection, guest: Guest, memory_mib: int) -> None:
        """Set the memory of the running guest."""
        host.call(host.handle(guest).setMemory, memory_mib * KIB_PER_MIB)
