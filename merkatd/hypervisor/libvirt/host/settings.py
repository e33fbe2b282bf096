"""The settings of libvirt hosts, and the hosts' addresses."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

PLACEHOLDERS = ("host", "id", "cluster")
DRIVERS = ("qemu", "lxc", "xen", "test")
"""The accepted drivers: the part of an address before `:` or `+`."""
_ADDRESS = re.compile(r"(?P<driver>[a-z]+)(\+[a-z0-9]+)?://\S*")


@dataclass(frozen=True, slots=True)
class HostAddress:
    """The values of a host that its address may contain."""

    id: int
    name: str
    cluster: int = -1


@dataclass(frozen=True, slots=True)
class Addresses:
    """The address of each host: of the first name pattern that matches, else the common one."""

    common: str
    by_name: Mapping[str, str]

    def __call__(self, place: HostAddress) -> str:
        """Return the address of a host."""
        pattern = next(
            (login for names, login in self.by_name.items() if fnmatchcase(place.name, names)),
            self.common,
        )
        return pattern.format(host=place.name, id=place.id, cluster=place.cluster)


def driver_of(address: str) -> str:
    """Return the driver of an address that `pattern_error` accepts."""
    match = _ADDRESS.fullmatch(address)
    return match["driver"] if match else ""


def pattern_error(pattern: str) -> str | None:
    """Return the error of an address pattern, None if it is valid."""
    sample = dict.fromkeys(PLACEHOLDERS, "1")
    try:
        address = pattern.format(**sample)
    except (KeyError, IndexError, ValueError, AttributeError):
        return f"may have only these names in braces: {', '.join(PLACEHOLDERS)}"
    if driver_of(address) not in DRIVERS:
        return (
            f"must begin with {', '.join(DRIVERS[:3])}, for example"
            " 'qemu+ssh://oneadmin@{host}/system'"
        )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LibvirtSettings:
    """The settings of calls to hosts: threads, time limits, retries."""

    threads: int = 16
    """The most hosts called at the same time."""
    call_limit_s: float = 10.0
    """The longest time for a call: a host that takes longer is away until it answers."""
    period_limit_s: float = 20.0
    """The longest time that a period waits until hosts are read, and again until limits are set."""
    keepalive_s: float = 5.0
    """The interval of keepalive messages; three unanswered messages close the connection."""
    retry_least_s: float = 5.0
    """The time until the next try after a failure; it doubles with each further failure."""
    retry_most_s: float = 300.0
    """The longest time until the next try after a failure."""
    check_every: int = 10
    """The number of periods between two readings of a VM's limits."""
    balloon_stats_s: float = 10.0
    """The interval at which a guest reports its memory use, unless the guest has one already."""
    dirty_rates: bool = False
    """Whether QEMU measures the rates at which KVM guests write to their memory, for a second every
    `check_every` periods. A measured rate replaces MERKAT_DIRTY_RATE."""
    reserved_cores: frozenset[int] | None = None
    """The cores for emulator threads on hosts with pins: no virtual CPU is pinned there."""
    pin_hosts: frozenset[str] | None = None
    """Name patterns of the hosts on which virtual CPUs are pinned."""
    xen_command: str = "ssh {host} xl"
    """The command that runs xl on a Xen host, for pins: libvirt can't read or set them there."""


def command_error(command: str) -> str | None:
    """Return the error of a command for hosts, None if it is valid."""
    try:
        words = [word.format(host="node") for word in shlex.split(command)]
    except (KeyError, IndexError, ValueError, AttributeError):
        words = []
    return None if words else "must be a command, with {host} where the host's name belongs"
