"""What an administrator can choose about hosts that are reached through libvirt."""

import shlex
from dataclasses import dataclass


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
