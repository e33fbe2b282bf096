"""The tables of a snapshot: one dataclass a table, one array a column.

Rows of hosts and VMs ascend by OpenNebula's id. Units: CPU in percent of a core, memory
in MiB, bids in credits per period, times in seconds. What a strategy does not need may
be absent: NaN in a column of numbers, -1 in a column of references.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from merkatd.cluster.arrays import Bools, Floats, Ints
from merkatd.cluster.columns import (
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
from merkatd.cluster.states import HostState, RolePolicy, VmKind, VmState


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


@dataclass(frozen=True, slots=True, eq=False)
class Roles(Table):
    """The roles of VM groups, and what each asks of its own members."""

    name: tuple[str, ...] = text()
    policy: Ints = choice(RolePolicy, RolePolicy.NONE)


@dataclass(frozen=True, slots=True, eq=False)
class RolePairs(Table):
    """What two different roles ask of each other."""

    key: ClassVar[str] = "first"
    first: Ints = reference("roles")
    second: Ints = reference("roles")
    policy: Ints = choice(RolePolicy)


@dataclass(frozen=True, slots=True, eq=False)
class Vms(Table):
    """The virtual machines, those of a market and those of none."""

    key: ClassVar[str] = "id"
    id: Ints = whole()
    name: tuple[str, ...] = text(default="")
    state: Ints = choice(VmState, VmState.RUNNING)
    host: Ints = reference("hosts")
    market: Ints = reference("markets")
    """-1: outside every market; such a VM reserves its cap in full."""
    bid: Floats = vector()
    floor: Floats = vector(default=0.0)
    cap: Floats = vector()
    held: Floats = vector(default=None)
    """What the VM was last seen to hold."""
    application: Ints = whole(default=None)
    owner: Ints = whole(default=None)
    vcpus: Ints = whole(default=1)
    moved_at_s: Floats = number(default=None)
    movable: Bools = flag(default=True)
    requirement: Ints = reference("requirements")
    """-1: any host of the market will do."""
    role: Ints = reference("roles")
    dirty_mib_s: Floats = number(default=None)
    kind: Ints = choice(VmKind, VmKind.SERVICE)
    priority: Floats = number(default=0.0, later=True)
    """Of new VMs the highest is placed first."""
    leaves: Bools = flag(default=False, later=True)
    """Must be moved away from its host, as far as the limits allow."""
    stays: Bools = flag(default=False, later=True)
    """Of a busy VM: it runs on its host under the operation, and gets limits there."""
    source: Ints = reference("hosts", later=True)
    """Of a VM that is being migrated: the host that it comes from. It stands on the host that it
    goes to already, and holds its memory on both until it has arrived."""


@dataclass(frozen=True, slots=True, eq=False)
class Jobs(Table):
    """Applications with an amount of work and a goal to finish it by."""

    key: ClassVar[str] = "application"
    application: Ints = whole()
    submitted_s: Floats = number(default=None)
    started_s: Floats = number(default=None)
    goal_s: Floats = number(default=None)
    work_done: Floats = number(default=0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Stages(Table):
    """The stages of jobs, in order; rows of one job stand together."""

    key: ClassVar[str] = "job"
    job: Ints = reference("jobs")
    work: Floats = number()
    least_speed: Floats = number(default=0.0)
    greatest_speed: Floats = number()
    memory_mib: Floats = number(default=0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Services(Table):
    """Applications with a response time to keep."""

    key: ClassVar[str] = "application"
    application: Ints = whole()
    response_goal_s: Floats = number()
    arrivals_per_s: Floats = number()
    work_per_request: Floats = number()


@dataclass(frozen=True, slots=True, eq=False)
class Replicated(Table):
    """Applications that need so many tasks alive for so long, with a reliability."""

    key: ClassVar[str] = "application"
    application: Ints = whole()
    needed: Ints = whole()
    run_time_s: Floats = number()
    reliability: Floats = number()
