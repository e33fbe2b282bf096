"""What a VM, a host and the rest say about who may be where: the words, as the pools give them.

Everything here is text and numbers taken from the pools; `honour` judges them. Most VMs of a
cloud say the same, so equal wants are one object where they were read together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

NOBODY = -1


@dataclass(frozen=True, slots=True)
class PciWant:
    """One PCI device that a VM asks for; an empty text: any."""

    vendor: str = ""
    device: str = ""
    kind: str = ""
    """The class."""
    address: str = ""
    """SHORT_ADDRESS: that very device."""
    profile: str = ""


@dataclass(frozen=True, slots=True)
class NicWant:
    """A NIC with NETWORK_MODE = auto: the scheduler picks its network."""

    nic: int
    requirements: str = ""
    rank: str = ""
    automatic: str = ""
    """What oned asks of its network, where its owner asks for something."""


@dataclass(frozen=True, slots=True)
class NumaWant:
    """A VM with a PIN_POLICY or nodes of its own: whole cores of single NUMA nodes."""

    policy: str
    """CORE, THREAD, SHARED or NODE_AFFINITY."""
    nodes: tuple[tuple[int, int], ...]
    """Of each node: virtual CPUs and memory in MiB."""
    threads: int = 0
    """Threads a core, 0: any."""
    hugepage_mib: int = 0
    node_affinity: int = NOBODY


@dataclass(frozen=True, slots=True)
class VmRequirements:
    """What one VM says about where it may be."""

    automatic: str = ""
    """AUTOMATIC_REQUIREMENTS"""
    requirements: str = ""
    """SCHED_REQUIREMENTS"""
    automatic_ds: str = ""
    requirements_ds: str = ""
    rank: str = ""
    rank_ds: str = ""
    pcis: tuple[PciWant, ...] = ()
    nics: tuple[NicWant, ...] = ()
    numa: NumaWant | None = None
    system_mib: int = 0
    """What its disks take of a system datastore."""
    image_mib: tuple[tuple[int, int], ...] = ()
    """Image datastore id and what its disks take there (CLONE_TARGET = SELF)."""


@dataclass(frozen=True, slots=True)
class DiskLocation:
    """Where the disks of a VM are that was on a host before; a new VM has none."""

    datastore: int
    """Its system datastore."""
    running: bool
    """On a host now, or suspended there; otherwise it was stopped or undeployed and waits."""


@dataclass(frozen=True, slots=True)
class RoleMember:
    """The VM's place in a VM group."""

    group: int
    role: str


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What a host is asked by requirements: attribute names upper-case, first value first.

    The host's template, its share and monitoring, its own elements (NAME, ID, HYPERVISOR...),
    and its cluster's template, in the order in which OpenNebula looks for them.
    """

    host: int
    cluster: int
    values: Mapping[str, Sequence[str]]
    vms: frozenset[int] = frozenset()
    """CURRENT_VMS"""
    pcis: Sequence["PciDevice"] = ()
    numa: Sequence["Node"] = ()
    disk_mib: float = 0.0
    """FREE_DISK of the host's share: what datastores have there that are not shared,"""
    datastore_mib: Mapping[int, float] = field(default_factory=dict)
    """and by datastore (DATASTORES/DS: ID, FREE_MB) where the host says so."""


@dataclass(frozen=True, slots=True)
class PciDevice:
    """A PCI device of a host; `vm` is who has it, NOBODY: free."""

    vendor: str
    device: str
    kind: str
    address: str
    vm: int = NOBODY
    profiles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A NUMA node of a host, less what its pinned VMs have."""

    id: int
    cores: Sequence[tuple[int, int, bool]]
    """Of each core: its threads, how many are free, and whether it is dedicated."""
    free_mib: int
    free_hugepages: Mapping[int, int] = field(default_factory=dict)
    """By size in MiB."""


@dataclass(frozen=True, slots=True)
class DatastoreFacts:
    """A datastore."""

    id: int
    name: str
    kind: int
    """TYPE: 0 image, 1 system, 2 file."""
    clusters: frozenset[int]
    usable: bool
    """STATE is READY."""
    free_mib: float
    total_mib: float
    shared: bool
    """Its space is its own; a local one (TM_MAD ssh...) takes the host's."""
    owner: int
    group: int
    permissions: int
    """The nine bits, owner's use first (0o400) to other's admin (0o001)."""
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """For requirements and rank."""


@dataclass(frozen=True, slots=True)
class GroupRule:
    """One VM group, as far as placement goes."""

    id: int
    name: str
    roles: Sequence["Role"]
    affined: Sequence[tuple[str, ...]] = ()
    """Names of roles that must share a host,"""
    anti_affined: Sequence[tuple[str, ...]] = ()
    """and of roles that must not."""


@dataclass(frozen=True, slots=True)
class Role:
    """A role of a VM group."""

    id: int
    name: str
    policy: str = "NONE"
    """AFFINED, ANTI_AFFINED or NONE, among its own members."""
    host_affined: frozenset[int] = frozenset()
    host_anti_affined: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class NetworkFacts:
    """A virtual network."""

    id: int
    name: str
    clusters: frozenset[int]
    free_leases: int
    owner: int
    group: int
    permissions: int
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UserFacts:
    """A user, and the groups that they are in; the first is the primary one.

    Where no user at all is known, rights are not judged.
    """

    id: int
    name: str
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AccessRule:
    """One rule: four numbers as OpenNebula keeps them (user, resource, rights, zone)."""

    id: int
    user: int
    resource: int
    rights: int
    zone: int


@dataclass(frozen=True, slots=True)
class SiteFacts:
    """Everything besides VMs and hosts that says who may be where."""

    datastores: Sequence[DatastoreFacts] = ()
    groups: Sequence[GroupRule] = ()
    networks: Sequence[NetworkFacts] = ()
    users: Mapping[int, UserFacts] = field(default_factory=dict)
    group_names: Mapping[int, str] = field(default_factory=dict)
    acl: Sequence[AccessRule] = ()
    clusters: Mapping[int, str] = field(default_factory=dict)
    """Names by id."""
    zone: int = 0
    """The server's own, for ACL rules that hold in one zone alone."""
