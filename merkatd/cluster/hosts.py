"""Markets, hosts and requirement classes: capacity, failure domains, topology, link speed."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from merkatd.cluster.columns import (
    Bools,
    Floats,
    Ints,
    Table,
    choice,
    levels,
    members,
    number,
    pairs,
    reference,
    scores,
    text,
    vector,
    whole,
)


class HostState(IntEnum):
    """Whether a host runs VMs and takes new ones."""

    ON = 0
    """Monitored: runs what it has and takes more."""
    DRAINED = 1
    """To be emptied: takes no new VMs, and its VMs are moved away."""
    OFF = 2
    """In error, disabled by its monitoring or offline: nothing there can be reached."""
    DISABLED = 3
    """Takes no new VMs and keeps the VMs it has."""


@dataclass(frozen=True, slots=True, eq=False)
class Markets(Table):
    """Each a set of clusters with a price of its own."""

    name: tuple[str, ...] = text()
    reserve: Floats = vector(default=None, later=True)
    """Below these prices nothing is sold, also where there is enough for all: a bid buys no more
    than it pays for at them. NaN, or no columns at all, where bids have no such bound."""


@dataclass(frozen=True, slots=True, eq=False)
class Hosts(Table):
    """The machines that run VMs."""

    id: Ints = whole()
    name: tuple[str, ...] = text()
    state: Ints = choice(HostState, HostState.ON)
    market: Ints = reference("markets")
    capacity: Floats = vector()
    used: Floats = vector(default=None)
    """What monitoring last saw in use, whoever used it."""
    domains: Mapping[str, Ints] = pairs()
    """Failure domains by kind (network, power): the domain and the redundant one."""
    topology: Ints = levels()
    """The host's place in the network, from the widest level to the narrowest."""
    link_mbps: Floats = number(default=None)
    reserved: Floats = vector(default=None, later=True)
    """What VMs keep there that are on their way to another host, or failed. It is not in the
    capacity, and will be soon. No columns at all where there is nothing of the kind."""


@dataclass(frozen=True, slots=True, eq=False)
class Requirements(Table):
    """Classes of VMs that the same hosts may take, so that no V x H matrix is needed."""

    name: tuple[str, ...] = text()
    allowed: Bools = members("hosts")
    """[classes, hosts]"""
    rank: Floats = scores("hosts")
    """[classes, hosts]: of hosts that are equally good a new VM prefers the highest."""
