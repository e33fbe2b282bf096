"""Settings, and where hosts are."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

PLACEHOLDERS = ("host", "id", "cluster")
DRIVERS = ("qemu", "lxc", "xen", "test")
"""What the word before `:` or `+` of an address may be."""
_ADDRESS = re.compile(r"(?P<driver>[a-z]+)(\+[a-z0-9]+)?://\S*")


@dataclass(frozen=True, slots=True)
class HostAddress:
    """A host by all that an address may be made of."""

    id: int
    name: str
    cluster: int = -1


@dataclass(frozen=True, slots=True)
class Addresses:
    """An address for each host: the first pattern of names that fits, else the common one."""

    common: str
    by_name: Mapping[str, str]

    def __call__(self, place: HostAddress) -> str:
        """The address of a host."""
        pattern = next(
            (found for names, found in self.by_name.items() if fnmatchcase(place.name, names)),
            self.common,
        )
        return pattern.format(host=place.name, id=place.id, cluster=place.cluster)


def driver_of(address: str) -> str:
    """What answers there; `address` is one that `wrong_pattern` finds nothing wrong with."""
    match = _ADDRESS.fullmatch(address)
    return match["driver"] if match else ""


def wrong_pattern(pattern: str) -> str | None:
    """What is wrong with a pattern of addresses, None where nothing is."""
    sample = dict.fromkeys(PLACEHOLDERS, "1")
    try:
        address = pattern.format(**sample)
    except (KeyError, IndexError, ValueError, AttributeError):
        return f"has braces around something else than {', '.join(PLACEHOLDERS)}"
    if driver_of(address) not in DRIVERS:
        return (
            f"must begin with {', '.join(DRIVERS[:3])}, for example"
            " 'qemu+ssh://oneadmin@{host}/system'"
        )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LibvirtSettings:
    """How hosts are called, and how patiently."""

    threads: int = 16
    """The most hosts that are called at the same time."""
    call_limit_s: float = 10.0
    """A host that has not answered a call for so long is away until it does."""
    period_limit_s: float = 20.0
    """How long a period waits for all hosts to be read, and again for all to be told."""
    keepalive_s: float = 5.0
    """How often a connection is asked whether it is alive; three silences end it."""
    retry_least_s: float = 5.0
    """How long after a failure a host is called again, twice as long after each further one,"""
    retry_most_s: float = 300.0
    """and the longest."""
    check_every: int = 10
    """Limits of each VM are read back once in so many periods."""
    balloon_stats_s: float = 10.0
    """How often guests are asked for their use of memory, where nobody has set it already."""
    reserved_cores: frozenset[int] | None = None
    """Cores of each host that has pins for emulator threads: no virtual CPU is pinned there."""
    pin_hosts: frozenset[str] | None = None
    """Patterns of the names of hosts on which virtual CPUs are pinned."""
    xen_command: str = "ssh {host} xl"
    """What runs xl on a Xen host, for pins: libvirt can neither set nor read them there."""


def wrong_command(command: str) -> str | None:
    """What is wrong with a command that is run for a host, None where nothing is."""
    try:
        words = [word.format(host="node") for word in shlex.split(command)]
    except (KeyError, IndexError, ValueError, AttributeError):
        words = []
    return None if words else "must be a command, with {host} where the host's name belongs"
