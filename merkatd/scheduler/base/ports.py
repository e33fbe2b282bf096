"""What the period needs of the world: a cloud, hosts, and what a cloud's own rules say.

Adapters implement these; the period knows nothing else of them. Observations are columns,
like snapshots, so that ten thousand VMs are read at the price of a few arrays.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np

from merkatd.cluster import Bools, Floats, Ints, OnHost, Step
from merkatd.limits import EnforcedLimits, Topology


class CapacityPort(Protocol):
    """What only so many VMs can have, as it is counted down while places are given away."""

    def take(self, vm: int, host: int) -> str | None:
        """Set aside what the VM needs on the host (ids); why that can't be, and then nothing is."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Constraints:
    """Rows of VMs and hosts are those of the observation."""

    vm_class: Ints
    """The class of hosts that may take the VM, -1: any host may."""
    class_name: tuple[str, ...]
    """In words, each once."""
    allowed: Bools
    """[classes, hosts]"""
    rank: Floats
    """[classes, hosts]: among hosts that are equally good the highest is preferred."""
    unplaceable: Mapping[int, str] = field(default_factory=dict)
    """By VM id, of those that no host may take: which constraint that is, and what would help."""
    remarks: Mapping[int, str] = field(default_factory=dict)
    """By VM id: what was said wrongly, but keeps it from nothing."""
    vm_role: Ints
    """-1: none."""
    role_name: tuple[str, ...] = ()
    role_policy: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """`RolePolicy` among the role's own members,"""
    role_pairs: tuple[tuple[int, int, int], ...] = ()
    """and of two roles, with their rows first."""
    fixed: Bools
    """[vms]: OpenNebula can't move it while it runs."""
    stock: Callable[[], CapacityPort] | None = None
    """What is scarce, counted afresh at each call."""


class CloudUnreachableError(Exception):
    """The cloud did not answer, or not in words anybody knows: nothing is known of what it did."""


class ReplyKind(StrEnum):
    """What a cloud said to a step. None of these confirms it: only what is seen later does."""

    ACCEPTED = "accepted"
    LOOK_AGAIN = "look again"
    """The VM is not in the state that the step was made for."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class StepReply:
    """A cloud's answer to one step."""

    answer: ReplyKind
    why: str = ""
    vm: int | None = None
    """The id of a VM that a creation made."""
    changed: bool = False
    """Whether the VM left the state that the step was made for, as its owner can have it do."""


class GuestRecord(NamedTuple):
    """A history record of a VM: when its guest ran there, on OpenNebula's clock."""

    seq: int
    """-1: the VM has no record yet."""
    ran_from_s: int = 0
    """RSTIME, 0 as long as the guest did not start,"""
    ran_until_s: int = 0
    """and RETIME, 0 as long as it runs."""


NO_RECORD = GuestRecord(-1)
UNKNOWN = -3
"""In the place of `seq`: the VM's texts are not read, and may have records or none."""


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """[vms]: the last history record of each VM."""

    seq: Ints
    ran_from_s: Ints
    ran_until_s: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """The cloud as its pools showed it. Rows ascend by id."""

    at_s: float
    """When the last pool had been read, on the injected clock."""
    host_id: Ints
    host_name: tuple[str, ...]
    host_cluster: Ints
    host_state: Ints
    """`HostState`: ON only where OpenNebula monitors the host; it is not drained by being full."""
    host_capacity: Floats
    """[hosts, 2]: CPU in percent of a core, memory in MiB, less what is reserved there."""
    host_used: Floats
    """[hosts, 2]: as last monitored, NaN where it never was."""
    vm_id: Ints
    vm_name: tuple[str, ...]
    vm_state: Ints
    """`VmState`"""
    vm_words: tuple[str, ...]
    """OpenNebula's own name of the state, for people."""
    vm_host: Ints
    """The id of the host that OpenNebula charges for the VM, -1 for none. While it migrates:
    the host it comes from as long as that is known, the target otherwise."""
    vm_owner: Ints
    vm_group: Ints
    vm_size: Floats
    """[vms, 2]: VCPU (or CPU, rounded up) x 100 and MEMORY of the template."""
    vm_reserved: Floats
    """[vms, 2]: CPU x 100 and MEMORY of the template: what oned charges its host."""
    vm_vcpus: Ints
    vm_movable: Sequence[bool]
    """False where OpenNebula can't move it live (pinned by PIN_POLICY) or its owner forbids it."""
    attributes: Mapping[int, Mapping[str, str]]
    """By VM id: its MERKAT_* attributes, upper-case; MERKAT=[BID_CPU=..] as MERKAT_BID_CPU."""
    keys: Mapping[str, int]
    """MERKAT_KEY of VMs that Merkat created, to their ids."""
    ailing: Mapping[int, str]
    """By VM id: VMs whose elements could not be read, and why; they are in no column."""
    pin_policy: frozenset[int] = frozenset()
    """Ids of the VMs that OpenNebula pins to cores (PIN_POLICY)."""
    constraints: Constraints | None = None
    """Who may be where, None: everybody anywhere."""
    vm_priority: Floats | None = None
    """[vms]: USER_PRIORITY"""
    vm_leaves: Bools | None = None
    """[vms]: is to be moved away from its host (RESCHED)"""
    vm_stays: Bools | None = None
    """[vms]: is busy, and runs on its host all the while"""
    vm_idle: Bools | None = None
    """[vms]: is busy on a host, and has no guest there"""
    vm_coming: Ints | None = None
    """[vms]: while it migrates, the id of the host that it comes to, -1 where that is none"""
    messages: Mapping[int, str] = field(default_factory=dict)
    """By VM id: what is shown to its owner now, where that is anything."""
    cluster_name: Mapping[int, str] = field(default_factory=dict)
    """Names by id, of clusters,"""
    group_name: Mapping[int, str] = field(default_factory=dict)
    """of groups,"""
    owner_name: Mapping[int, str] = field(default_factory=dict)
    """and of users."""
    owner_group: Mapping[int, int] = field(default_factory=dict)
    """By user id: the user's primary group, which no user can change."""
    host_trouble: Mapping[int, str] = field(default_factory=dict)
    """By host id: OpenNebula's state of a host that it can't monitor, with its error."""
    balanced_clusters: frozenset[int] = frozenset()
    """Ids of the clusters whose VMs OneDRS migrates by itself."""
    vm_error: Mapping[int, str] = field(default_factory=dict)
    """By VM id: what OpenNebula last said that went wrong with it (ERROR)."""
    records: Records | None = None
    """The last history record of each VM, None where the cloud keeps none."""
    ended: Mapping[int, GuestRecord] = field(default_factory=dict)
    """By VM id: the last history record of VMs that ended last."""
    by_record: Mapping[int, str] = field(default_factory=dict)
    """By VM id: why its own texts were not read, where OpenNebula's record stands in for them."""
    host_goods: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """By host id: what MERKAT_NETWORK and MERKAT_DISK say there, by `network` and `disk`."""


Histories = Mapping[int, Sequence[GuestRecord]]
"""By VM id."""


class CloudPort(Protocol):
    """An OpenNebula, or something that speaks like one."""

    async def observe(self) -> Observation:
        """Read all pools. Raises UnreachableError."""

    async def histories(self, vms: Collection[int], since_s: float) -> Histories:
        """Read the history records of these VMs, the oldest first. Raises UnreachableError.

        Records that ended before `since_s` may be left out, and so may VMs that are not known
        any more.
        """

    async def send(self, step: Step) -> StepReply:
        """Ask for one step. Raises UnreachableError: then it may have been done or not."""

    async def tell(self, vm: int, message: str) -> None:
        """Show a message to the VM's owner where OpenNebula shows a scheduler's (SCHED_MESSAGE)."""


@dataclass(frozen=True, slots=True, eq=False)
class GuestUse:
    """What guests really did and have, as hosts saw it: rows ascend by VM id."""

    vm_id: Ints
    cpu_s: Floats
    """CPU time since the guest started, in core-seconds."""
    held_mib: Floats
    used_mib: Floats
    """NaN where the guest does not say."""
    in_force: EnforcedLimits
    away: Mapping[int, str] = field(default_factory=dict)
    """By host id: why a host can't be asked. Its VMs are as they were last seen."""
    run: Ints | None = None
    """The number of each guest's run, another one after each start; None where none is known."""


@dataclass(frozen=True, slots=True)
class HostReachability:
    """How far hosts can be reached."""

    away: Mapping[int, str] = field(default_factory=dict)
    """By host id: why it can't be asked."""
    drift: int = 0
    """How many limits somebody else was found to have changed."""


@dataclass(frozen=True, slots=True)
class FullSize:
    """A VM that is to get its full size back."""

    vm: int
    host: int
    cpu_units: float
    """What OpenNebula charges its host for it, in percent of a core,"""
    memory_mib: int
    """and of memory."""
    vcpus: int


@dataclass(frozen=True, slots=True)
class Released:
    """What a VM was given back."""

    did: str
    problem: str = ""
    """What could not be given back, and why."""


class HypervisorPort(Protocol):
    """All hosts' hypervisors."""

    def meet(self, seen: Observation) -> None:
        """The hosts and VMs there are; told before they are read."""

    async def read(self, vms: Mapping[int, int]) -> GuestUse:
        """Use and limits in force of these VMs (VM id to host id); those not found are left out."""

    async def runs(self, hosts: Collection[int]) -> Mapping[int, Mapping[int, int]]:
        """Return the runs on these hosts, by host id and VM id, with one call a host.

        Hosts without an answer are left out; VMs outside Merkat may be among them.
        Raises UnreachableError.
        """

    async def apply(self, steps: Sequence[OnHost]) -> Mapping[str, str]:
        """Set limits; by step id, why it could not be done, for those that could not."""

    def topologies(self) -> Mapping[int, Topology]:
        """By host id, of the hosts on which virtual CPUs are to be pinned."""

    def reach(self) -> HostReachability:
        """How far hosts can be reached at present."""

    async def release(self, vms: Sequence[FullSize]) -> Mapping[int, Released]:
        """Take back all that was ever set on these VMs; by VM id, for those that were found."""
