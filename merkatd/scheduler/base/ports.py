"""The period's interfaces to the world: a cloud, hosts, and the cloud's own placement rules.

Adapters implement them; the period knows nothing else of a cloud. Observations are columns, like
snapshots, so that reading ten thousand VMs costs a few arrays.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np

from merkatd.cluster import Bools, FailureRates, Floats, Ints, OnHost, Step
from merkatd.limits import EnforcedLimits, Topology
from merkatd.scheduler.base.traits import HostTraits

OwnedKey = tuple[str, int]
"""A creation key, and the owner of the VM that has it."""


class CapacityPort(Protocol):
    """A limited resource with fewer places than VMs; it is counted down while VMs are placed."""

    def take(self, vm: int, host: int) -> str | None:
        """Reserve the VM's needs on the host (ids); return why not, and then reserve nothing."""

    def why_never(
        self, gangs: Sequence[Collection[int]], hosts: Collection[int]
    ) -> list[str | None]:
        """Return why the VMs of each gang can't start together on these hosts without all others.

        None stands for a gang that may start. Nothing is reserved.
        """


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Constraints:
    """The cloud's placement rules; rows of VMs and hosts are those of the observation."""

    vm_class: Ints
    """[vms]: the class of hosts that may take the VM, -1 for any host."""
    class_name: tuple[str, ...]
    """The description of each class."""
    allowed: Bools
    """[classes, hosts]"""
    rank: Floats
    """[classes, hosts]: the preference among equally good hosts; the highest wins."""
    unplaceable: Mapping[int, str] = field(default_factory=dict)
    """By VM id, for VMs that no host may take: the violated constraint, and a way out."""
    remarks: Mapping[int, str] = field(default_factory=dict)
    """By VM id: mistakes in its template that do not prevent a placement."""
    vm_role: Ints
    """[vms]: the row of the VM's role, -1 for none."""
    role_name: tuple[str, ...] = ()
    role_policy: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The `RolePolicy` of each role among its own members."""
    role_pairs: tuple[tuple[int, int, int], ...] = ()
    """The policies between two roles: both rows, then the `RolePolicy`."""
    fixed: Bools
    """[vms]: whether OpenNebula can't move the VM while it runs."""
    stock: Callable[[], CapacityPort] | None = None
    """A factory of fresh counts of the scarce resources."""


class CloudUnreachableError(Exception):
    """No answer, or an unreadable one, from the cloud; the effect of the call is unknown."""


class ReplyKind(StrEnum):
    """Kinds of answers to a step. No answer confirms a step; only a later observation does."""

    ACCEPTED = "accepted"
    LOOK_AGAIN = "look again"
    """The VM is not in the state that the step expects."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class StepReply:
    """A cloud's answer to one step."""

    answer: ReplyKind
    why: str = ""
    vm: int | None = None
    """The id of the VM that a creation made."""
    changed: bool = False
    """Whether the VM left the state that the step expects, which its owner can cause."""


class VmChange(StrEnum):
    """A change of a VM, running or not, that concerns its charge."""

    SIZE = "size"
    NETWORK = "network"
    """A network card was attached or changed: it has no limit."""
    DISK = "disk"
    """A disk was attached: it has no limit."""


DEVICES = (VmChange.NETWORK, VmChange.DISK)
"""The changes that attach a device. Their values are the names of the goods."""


class GuestRecord(NamedTuple):
    """A history record of a VM: when its guest ran on one host, on OpenNebula's clock."""

    seq: int
    """The number of the record, -1 if the VM has no record yet."""
    ran_from_s: int = 0
    """The start (RSTIME), 0 until the guest has started."""
    ran_until_s: int = 0
    """The end (RETIME), 0 while the guest runs."""
    goes_on: bool = False
    """Whether the guest of the record before went on without a restart; known in histories only."""
    change: VmChange | None = None
    """The change of the VM with which the record begins; known in histories only."""


NO_RECORD = GuestRecord(-1)
UNKNOWN = -3
"""A value of `seq`: the VM's texts were not read, so its records are unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """The last history record of each VM, as columns [vms]."""

    seq: Ints
    ran_from_s: Ints
    ran_until_s: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """The cloud's pools at one time, with rows in ascending order of ids."""

    at_s: float
    """The time when the last pool had been read, on the injected clock."""
    host_id: Ints
    host_name: tuple[str, ...]
    host_cluster: Ints
    host_state: Ints
    """`HostState`; ON only if OpenNebula monitors the host. A full host does not count as
    drained."""
    host_capacity: Floats
    """[hosts, 2]: CPU in percent of a core and memory in MiB, without the reserved part."""
    host_used: Floats
    """[hosts, 2]: the use that was last monitored, NaN if none was."""
    vm_id: Ints
    vm_name: tuple[str, ...]
    vm_state: Ints
    """`VmState`"""
    vm_words: tuple[str, ...]
    """OpenNebula's own name of each state, for people."""
    vm_host: Ints
    """The id of the host that OpenNebula charges for the VM, -1 for none. During a migration: the
    source as long as it is known, otherwise the target."""
    vm_owner: Ints
    vm_group: Ints
    vm_size: Floats
    """[vms, 2]: VCPU (or CPU, rounded up) x 100 and MEMORY of the template."""
    vm_reserved: Floats
    """[vms, 2]: CPU x 100 and MEMORY of the template, which OpenNebula charges to the host."""
    vm_vcpus: Ints
    vm_movable: Sequence[bool]
    """[vms]: False if OpenNebula can't move it live (PIN_POLICY), or if its owner forbids it."""
    attributes: Mapping[int, Mapping[str, str]]
    """By VM id: its MERKAT_* attributes in upper case; MERKAT=[BID_CPU=..] as MERKAT_BID_CPU."""
    keys: Mapping[OwnedKey, int]
    """The ids of VMs with a MERKAT_KEY, by key and owner."""
    ailing: Mapping[int, str]
    """By VM id: why its elements could not be read; such a VM is in no column."""
    pin_policy: frozenset[int] = frozenset()
    """The ids of the VMs that OpenNebula pins to cores (PIN_POLICY)."""
    constraints: Constraints | None = None
    """The cloud's placement rules; None if any VM may be on any host."""
    vm_boots_mib: Floats | None = None
    """[vms]: the memory that the guest boots with, if it is more than its size; infinite if it is
    unknown."""
    vm_priority: Floats | None = None
    """[vms]: USER_PRIORITY."""
    vm_leaves: Bools | None = None
    """[vms]: whether the VM must leave its host (RESCHED)."""
    vm_stays: Bools | None = None
    """[vms]: whether the VM is busy but keeps running on its host."""
    vm_idle: Bools | None = None
    """[vms]: whether the VM is busy on a host and has no guest there."""
    vm_coming: Ints | None = None
    """[vms]: the id of the target host during a migration, -1 for none."""
    messages: Mapping[int, str] = field(default_factory=dict)
    """By VM id: the message that its owner sees now, if there is any."""
    cluster_name: Mapping[int, str] = field(default_factory=dict)
    """Names of clusters, by id."""
    group_name: Mapping[int, str] = field(default_factory=dict)
    """Names of groups, by id."""
    owner_name: Mapping[int, str] = field(default_factory=dict)
    """Names of users, by id."""
    owner_group: Mapping[int, int] = field(default_factory=dict)
    """By user id: the user's primary group, which no user can change."""
    host_trouble: Mapping[int, str] = field(default_factory=dict)
    """By host id: the state and the error of a host that OpenNebula can't monitor."""
    balanced_clusters: frozenset[int] = frozenset()
    """The ids of the clusters whose VMs OneDRS migrates automatically."""
    vm_error: Mapping[int, str] = field(default_factory=dict)
    """By VM id: OpenNebula's last error for the VM (ERROR)."""
    records: Records | None = None
    """The last history record of each VM; None if the cloud keeps no records."""
    ended: Mapping[int, GuestRecord] = field(default_factory=dict)
    """By VM id: the last history record of recently ended VMs."""
    by_record: Mapping[int, str] = field(default_factory=dict)
    """By VM id: why the VM's own texts were replaced by OpenNebula's record."""
    host_goods: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """By host id: the values of MERKAT_NETWORK and MERKAT_DISK, by `network` and `disk`."""
    host_traits: HostTraits | None = None
    """Failure domains, topology, link speed and power of the hosts; None if they are unknown."""
    failure_rates: FailureRates | None = None
    vm_disk_mib: Floats | None = None
    """[vms]: the size of all disks."""
    vm_shared_disk: Bools | None = None
    """[vms]: whether the VM's host shares the storage of its disks with other hosts."""


Histories = Mapping[int, Sequence[GuestRecord]]
"""History records, by VM id."""


class CloudPort(Protocol):
    """An OpenNebula, or another cloud with the same interface."""

    async def observe(self) -> Observation:
        """Read all pools. Raise CloudUnreachableError if that fails."""

    async def histories(self, vms: Collection[int], since_s: float) -> Histories:
        """Read the history records of these VMs, oldest first. Raise CloudUnreachableError.

        The answer may omit records that ended before `since_s`, and VMs that no longer exist.
        """

    async def send(self, step: Step) -> StepReply:
        """Ask for one step. After CloudUnreachableError the step may have been done or not."""

    async def tell(self, vm: int, message: str) -> None:
        """Show a message to the VM's owner, as a scheduler's message (SCHED_MESSAGE)."""


@dataclass(frozen=True, slots=True, eq=False)
class GuestUse:
    """The measured use of guests on their hosts, with rows in ascending order of VM ids."""

    vm_id: Ints
    cpu_s: Floats
    """CPU time since the guest started, in core-seconds."""
    held_mib: Floats
    used_mib: Floats
    """Memory that the guest itself reports as used, NaN if it does not report."""
    in_force: EnforcedLimits
    away: Mapping[int, str] = field(default_factory=dict)
    """By host id: why the host does not answer; its VMs keep their last values."""
    run: Ints | None = None
    """The number of each guest's run, different after each start; None if unknown."""
    dirty_mib_s: Floats | None = None
    """The measured rates at which guests write to their memory, NaN for guests without one; None
    if nothing measures them."""


@dataclass(frozen=True, slots=True)
class HostReachability:
    """The reachability of all hosts."""

    away: Mapping[int, str] = field(default_factory=dict)
    """By host id: why the host does not answer."""
    drift: int = 0
    """The number of limits that were found changed by other software."""


@dataclass(frozen=True, slots=True)
class FullSize:
    """The full size of a VM that is released from its limits."""

    vm: int
    host: int
    cpu_units: float
    """The CPU that OpenNebula charges the host for it, in percent of a core."""
    memory_mib: int
    """The memory that OpenNebula charges the host for it."""
    vcpus: int


@dataclass(frozen=True, slots=True)
class ReleaseResult:
    """The result of releasing a VM."""

    did: str
    problem: str = ""
    """The limits that could not be lifted, and why."""


class HypervisorPort(Protocol):
    """The hypervisors of all hosts."""

    def meet(self, seen: Observation) -> None:
        """Take note of the present hosts and VMs before they are read."""

    async def read(self, vms: Mapping[int, int], *, to_show: bool = False) -> GuestUse:
        """Read use and limits of these VMs (VM id to host id); omit VMs that are not found.

        Later steps go to the hosts where these VMs are. A reading `to_show`, at any time, may be of
        other VMs, and has no effect on steps.
        """

    async def runs(self, hosts: Collection[int]) -> Mapping[int, Mapping[int, int]]:
        """Return the number of each guest's run on these hosts, by host and VM id; one call a host.

        Hosts without an answer are omitted; VMs outside Merkat may be included. Raise
        CloudUnreachableError.
        """

    async def apply(self, steps: Sequence[OnHost]) -> Mapping[str, str]:
        """Set limits; return, by step id, why a step failed, for the failed ones."""

    def topologies(self) -> Mapping[int, Topology]:
        """Return the topologies of hosts with pinned virtual CPUs, by host id."""

    def reach(self) -> HostReachability:
        """Return which hosts can be reached at present."""

    async def release(self, vms: Sequence[FullSize]) -> Mapping[int, ReleaseResult]:
        """Lift all limits ever set on these VMs; return the result of each VM found, by id."""
