"""Xen, with pins through `xl`."""

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
    Described,
    Guest,
    GuestReading,
    Words,
)
from merkatd.hypervisor.libvirt.host.host_connection import HostConnection
from merkatd.hypervisor.libvirt.host.libvirt_module import LibvirtRefusedError
from merkatd.limits import CGROUP_V1, NO_CAP, UNSET, XEN, Cores, credit, whole_quota

_PATIENCE = 0.8
"""The part of a call's limit that the command may take: it ends before its thread is given up."""
_EVERYWHERE = "all"
_MOST_CORES = 4095
"""The highest core number that is believed."""
_LONGEST = 4 * 1024 * 1024
"""The most bytes of an answer."""
_LINE = re.compile(
    r"(?P<domain>\S+)\s+(?P<id>\d+)\s+(?P<vcpu>\d+)\s+(?P<cpu>\S+)\s+(?P<state>\S+)"
    r"\s+(?P<time>[\d.]+)\s+(?P<hard>all|any cpu|[\d,-]+)(\s*/.*)?",
    re.ASCII,
)
"""Of `xl vcpu-list`; what is behind a slash are wishes of Xen's scheduler, which we don't set."""


def pin(host: HostConnection, domain: str, vcpu: int, cores: Sequence[int]) -> None:
    """Let a virtual CPU use these cores, all where there are none. Raises RefusedError."""
    named = ",".join(map(str, cores)) or _EVERYWHERE
    _run(host, "vcpu-pin", domain, str(vcpu), named)


def pins(host: HostConnection) -> Mapping[str, Cores]:
    """By domain, the cores of each virtual CPU, none where it may use all.

    Raises RefusedError.
    """
    found: dict[str, dict[int, tuple[int, ...]]] = {}
    for line in _run(host, "vcpu-list").splitlines():
        read = _LINE.fullmatch(line.strip())
        if read is not None:
            found.setdefault(read["domain"], {})[int(read["vcpu"])] = _cores(read["hard"])
    return {domain: tuple(cores[vcpu] for vcpu in sorted(cores)) for domain, cores in found.items()}


def _cores(text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        if max(len(first), len(last)) > len(str(_MOST_CORES)) or int(last or first) > _MOST_CORES:
            raise LibvirtRefusedError(f"xl names core {(last or first)[:20]}: no host has so many")
        found |= set(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))


def _run(host: HostConnection, *words: str) -> str:
    command = [word.format(host=host.place.name) for word in shlex.split(host.settings.xen_command)]
    whole = [*command, *words]
    limit_s = host.settings.call_limit_s * _PATIENCE
    try:
        said, code = _output(whole, limit_s)
    except OSError as error:
        raise LibvirtRefusedError(f"{whole[0]}: {error}") from error
    if len(said) > _LONGEST:
        raise LibvirtRefusedError(f"{' '.join(whole)}: it says more than {_LONGEST} bytes")
    text = said.decode(errors="replace")
    if code == -signal.SIGKILL:
        raise LibvirtRefusedError(f"{' '.join(whole)}: it did not end within {limit_s:g} s")
    if code:
        raise LibvirtRefusedError(
            f"{' '.join(whole)}: {' '.join(text.split()) or f'exit code {code}'}"
        )
    return text


def _output(whole: Sequence[str], limit_s: float) -> tuple[bytes, int]:
    """Return what a command says, errors included, and its exit code; no more is kept."""
    with subprocess.Popen(  # noqa: S603 - the administrator's own command, with numbers behind it
        whole, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        ending = threading.Timer(limit_s, process.kill)
        ending.start()
        try:
            said = b"" if process.stdout is None else process.stdout.read(_LONGEST + 1)
            if len(said) > _LONGEST:
                process.kill()
            return said, process.wait()
        finally:
            ending.cancel()


_UNITS_PER_CORE = 100
_OWN_WEIGHT = 256
"""Of a VM with one core, as OpenNebula and Xen have it."""
_NO_FLAGS = 0
"""Xen's driver takes no others, and changes what runs."""


class Xen:
    """Implements `merkatd.hypervisor.libvirt.host.driver.GuestDriver`."""

    measures = False
    pins = True
    throttles = False
    hard = False

    def __init__(self) -> None:
        self._pins: Mapping[str, Cores] | None = None
        self._trouble: LibvirtRefusedError | None = None
        """Why the host could not say them, since it was last surveyed."""

    def survey(self, host: HostConnection, vms: Sequence[int]) -> list[GuestReading]:
        """A call each."""
        self._pins = self._trouble = None
        return [
            GuestReading(vm, domain, cpu_ns / NS_PER_S, float(held), float(most), math.nan)
            for vm, domain, (_, most, held, _, cpu_ns) in one_by_one(host, vms)
        ]

    def describe(self, host: HostConnection, guest: Guest) -> None:
        """Its virtual CPUs; every Xen guest has a balloon."""
        vcpus = int(host.call(host.handle(guest).info)[3])
        guest.described = Described(vcpus=vcpus, balloon=True)

    def forget(self, host: HostConnection, guest: Guest) -> None:
        """Nothing was changed."""

    def used_kib(self, host: HostConnection, guest: Guest) -> float:
        """Nobody says."""
        del host, guest
        return math.nan

    def words(self, host: HostConnection, guest: Guest) -> Words:
        """Weight and cap."""
        there = host.call(host.handle(guest).schedulerParameters)
        return {"weight": int(there["weight"]), "cap": int(there["cap"])}

    def cores(self, host: HostConnection, guest: Guest) -> Cores:
        """Of all guests of the host, once between two surveys at most."""
        if self._trouble is not None:
            raise self._trouble
        try:
            if self._pins is None:
                self._pins = host.call(pins, host)
        except LibvirtRefusedError as error:
            self._trouble = error
            raise
        found = self._pins.get(guest.name, ())
        return found if any(found) else ()

    def emulator(self, host: HostConnection, guest: Guest) -> tuple[int, ...]:
        """Its other threads are another domain's."""
        del host, guest
        return ()

    def memory_mib(self, host: HostConnection, guest: Guest) -> int | None:
        """The survey shows what it holds."""
        del host, guest
        return None

    def wording(self, limit: Limit, guest: Guest) -> Words:
        """The credit scheduler's."""
        found = credit(limit, guest.vcpus)
        return {"weight": found.weight, "cap": found.cap}

    def meaning(self, words: Words, guest: Guest, period_us: int) -> Cpu:
        """As if each virtual CPU had its part of the cap."""
        quota = whole = UNSET
        if words["cap"] != NO_CAP:
            quota = words["cap"] * period_us // (_UNITS_PER_CORE * guest.vcpus)
            whole = whole_quota(quota, guest.vcpus, period_us)
        shares = round(words["weight"] * CGROUP_V1.greatest / XEN.greatest)
        return Cpu(quota, whole, shares)

    def own_shares(self, host: HostConnection, guest: Guest, cpu_units: float) -> Words:
        """256 a core, and no cap."""
        del host, guest
        weight = math.ceil(cpu_units / _UNITS_PER_CORE * _OWN_WEIGHT)
        return {"weight": min(max(weight, XEN.least), XEN.greatest)}

    def set_words(self, host: HostConnection, guest: Guest, words: Words) -> None:
        """All at once."""
        host.call(host.handle(guest).setSchedulerParametersFlags, dict(words), _NO_FLAGS)

    def set_cores(self, host: HostConnection, guest: Guest, cores: Cores) -> None:
        """By the command for it, for each virtual CPU that differs."""
        there = guest.cores or ()
        self._pins = None
        for vcpu in range(guest.vcpus):
            wanted = cores[vcpu] if vcpu < len(cores) else ()
            known = there[vcpu] if vcpu < len(there) else ()
            if guest.cores is None or wanted != known:
                host.call(pin, host, guest.name, vcpu, wanted)

    def set_memory(self, host: HostConnection, guest: Guest, memory_mib: int) -> None:
        """Of the running guest."""
        host.call(host.handle(guest).setMemory, memory_mib * KIB_PER_MIB)
