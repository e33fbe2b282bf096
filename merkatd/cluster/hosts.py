"""Markets, hosts and requirement classes, with capacities, failure domains and topology."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

import numpy as np

from merkatd.cluster.columns import (
    Bools,
    Floats,
    Ints,
    Table,
    choice,
    flag,
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
    """Monitored: runs its VMs and takes new VMs."""
    DRAINED = 1
    """To be emptied: takes no new VMs, and its VMs are migrated away."""
    OFF = 2
    """In error, disabled by its monitoring or offline: unreachable."""
    DISABLED = 3
    """Takes no new VMs and keeps its VMs."""


@dataclass(frozen=True, slots=True, eq=False)
class Markets(Table):
    """Markets: sets of clusters with a price of their own."""

    name: tuple[str, ...] = text()
    reserve: Floats = vector(default=None, later=True)
    """The least prices, even if capacity is free: they limit what a bid buys. NaN, or no columns at
    all, if bids have no such limit."""
    announced: Floats = vector(default=None, later=True)
    """The prices announced last. NaN, or no columns at all, before the first."""
    weights: Floats = vector(default=None, later=True)
    """The weights that make the goods of limit orders comparable. NaN, or no columns at all, before
    the first orders."""


@dataclass(frozen=True, slots=True, eq=False)
class Hosts(Table):
    """The machines that run VMs."""

    id: Ints = whole()
    name: tuple[str, ...] = text()
    state: Ints = choice(HostState, HostState.ON)
    market: Ints = reference("markets")
    capacity: Floats = vector()
    used: Floats = vector(default=None)
    """Use of the host by all processes, at the last monitoring."""
    domains: Mapping[str, Ints] = pairs()
    """Failure domains by kind (network, power): the domain and the redundant domain."""
    topology: Ints = levels()
    """The host's place in the network, from the widest level to the narrowest."""
    link_mbps: Floats = number(default=None, from_0=True)
    reserved: Floats = vector(default=None, later=True)
    """Amounts still held by failed VMs and by VMs on their way to another host. The capacity
    excludes them until they are free. No columns at all if there are none."""
    idle_watts: Floats = number(default=None, later=True, from_0=True)
    """The power that the host draws without any load."""
    full_watts: Floats = number(default=None, later=True, from_0=True)
    """The power that the host draws at full load."""
    can_sleep: Bools = flag(default=False, later=True)
    """Whether the daemon can switch the host off and on; not while it is drained."""
    asleep: Bools = flag(default=False, later=True)
    """Whether the daemon has switched the host off: its state is `OFF`, and it can be woken."""


@dataclass(frozen=True, slots=True, eq=False)
class FailureRates(Table):
    """The assumed failures a year of a host, and of a failure domain of each kind."""

    key: ClassVar[str] = "kind"
    kind: tuple[str, ...] = text()
    """`host`, or a kind of domain (`network`, `power`)."""
    per_year: Floats = number(from_0=True)


@dataclass(frozen=True, slots=True, eq=False)
class Requirements(Table):
    """Classes of VMs with the same allowed hosts, so that no V x H matrix is needed."""

    name: tuple[str, ...] = text()
    allowed: Bools = members("hosts")
    """[classes, hosts]: whether the host may take VMs of the class."""
    rank: Floats = scores("hosts")
    """[classes, hosts]: the preference of a new VM between equally good hosts; the highest wins."""


def less(capacity: Floats, reserved: Sequence[tuple[int, int]], amount: Floats) -> Floats:
    """Return the capacity of each host without the reservations of these VMs."""
    if not reserved:
        return capacity
    rows, hosts = np.array(reserved, dtype=np.int64).T
    taken = np.zeros_like(capacity)
    np.add.at(taken, hosts, amount[rows])
    left: Floats = np.maximum(capacity - taken, 0.0)
    return left


def kept_from(full: Floats, left: Floats) -> Floats:
    """[hosts, resources]: the reservations; no columns if all are zero."""
    taken = full - left
    return taken if taken.any() else np.zeros((len(full), 0))
