"""Facts for placement constraints: texts and numbers of VMs, hosts and other objects of a cloud.

The facts are taken from the pools unchanged; `constraints` evaluates them. Most VMs of a cloud have
the same requirements, so equal requirements are the same object if they were read together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

NO_VM = -1
NO_NODE = -1


@dataclass(frozen=True, slots=True)
class PciWant:
    """A VM's request for a PCI device; empty texts match any device."""

    vendor: str = ""
    device: str = ""
    kind: str = ""
    """The CLASS of the device."""
    address: str = ""
    """The SHORT_ADDRESS of a specific device."""
    profile: str = ""


@dataclass(frozen=True, slots=True)
class NicWant:
    """A NIC with NETWORK_MODE = auto, whose network the scheduler chooses."""

    nic: int
    requirements: str = ""
    rank: str = ""
    automatic: str = ""
    """oned's requirements on the network; empty if the owner has no requirements."""


@dataclass(frozen=True, slots=True)
class NumaWant:
    """The NUMA request of a VM with a PIN_POLICY or virtual nodes."""

    policy: str
    """CORE, THREAD, SHARED or NODE_AFFINITY."""
    nodes: tuple[tuple[int, int], ...]
    """Pairs of virtual CPUs and memory in MiB, one for each virtual node."""
    threads: int = 0
    """Threads per core; 0 for any number."""
    hugepage_mib: int = 0
    node_affinity: int = NO_NODE


@dataclass(frozen=True, slots=True)
class VmRequirements:
    """The placement requirements of a VM."""

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
    """The space that the VM's disks take in a system datastore."""
    image_mib: tuple[tuple[int, int], ...] = ()
    """Pairs of image datastore id and the MiB of the VM's disks there (CLONE_TARGET = SELF)."""
    disk_mib: int = field(default=0, compare=False)
    """The size of all disks; no constraint depends on it."""


@dataclass(frozen=True, slots=True)
class DiskLocation:
    """The location of the disks of a VM that has been on a host; a new VM has none."""

    datastore: int
    """The id of the VM's system datastore."""
    running: bool
    """Whether the VM is on a host; if not, it was stopped or undeployed."""


@dataclass(frozen=True, slots=True)
class RoleMember:
    """A VM's role in a VM group."""

    group: int
    role: str


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The facts of a host for requirements: upper-case attribute names, first value first.

    They come from the host's own elements (NAME, ID, HYPERVISOR...), share, template and monitoring
    and from its cluster's template, in the order in which OpenNebula searches them.
    """

    host: int
    cluster: int
    values: Mapping[str, Sequence[str]]
    vms: frozenset[int] = frozenset()
    """CURRENT_VMS"""
    pcis: Sequence["PciDevice"] = ()
    numa: Sequence["Node"] = ()
    disk_mib: float = 0.0
    """FREE_DISK of the host's share: the free space of non-shared datastores on the host."""
    datastore_mib: Mapping[int, float] = field(default_factory=dict)
    """Free space on the host by datastore id (DATASTORES/DS: ID, FREE_MB), if measured."""


@dataclass(frozen=True, slots=True)
class PciDevice:
    """A PCI device of a host; `vm` is the id of the VM that uses it, or NO_VM."""

    vendor: str
    device: str
    kind: str
    address: str
    vm: int = NO_VM
    profiles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A NUMA node of a host, without the resources of pinned VMs."""

    id: int
    cores: Sequence[tuple[int, int, bool]]
    """For each core: all threads, free threads, and whether it is dedicated to a VM."""
    free_mib: int
    free_hugepages: Mapping[int, int] = field(default_factory=dict)
    """The number of free huge pages by size in MiB."""


@dataclass(frozen=True, slots=True)
class DatastoreFacts:
    """A datastore."""

    id: int
    name: str
    kind: int
    """TYPE: 0 image, 1 system, 2 file."""
    clusters: frozenset[int]
    usable: bool
    """Whether STATE is READY."""
    free_mib: float
    total_mib: float
    shared: bool
    """Whether the datastore has its own space; a local one (TM_MAD ssh...) uses the host's."""
    owner: int
    group: int
    permissions: int
    """The nine permission bits, from the owner's use (0o400) to others' admin (0o001)."""
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Attributes for requirements and ranks."""


@dataclass(frozen=True, slots=True)
class GroupRule:
    """The placement rules of a VM group."""

    id: int
    name: str
    roles: Sequence["Role"]
    affined: Sequence[tuple[str, ...]] = ()
    """Sets of names of roles that must share a host."""
    anti_affined: Sequence[tuple[str, ...]] = ()
    """Sets of names of roles that must not share a host."""


@dataclass(frozen=True, slots=True)
class Role:
    """A role of a VM group."""

    id: int
    name: str
    policy: str = "NONE"
    """AFFINED, ANTI_AFFINED or NONE, for the members of the role."""
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
    """A user and the user's groups; the first group is the primary one.

    If no user is known at all, rights are not checked.
    """

    id: int
    name: str
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AccessRule:
    """An access rule: four numbers as OpenNebula stores them (user, resource, rights, zone)."""

    id: int
    user: int
    resource: int
    rights: int
    zone: int


@dataclass(frozen=True, slots=True)
class SiteFacts:
    """The objects that constrain placements, besides VMs and hosts."""

    datastores: Sequence[DatastoreFacts] = ()
    groups: Sequence[GroupRule] = ()
    networks: Sequence[NetworkFacts] = ()
    users: Mapping[int, UserFacts] = field(default_factory=dict)
    users_in_part: bool = False
    """Whether the pool of users can't be read: then `users` has only owners of VMs that can be read
    one by one, and the others have no rights."""
    group_names: Mapping[int, str] = field(default_factory=dict)
    acl: Sequence[AccessRule] = ()
    clusters: Mapping[int, str] = field(default_factory=dict)
    """Names of clusters by id."""
    zone: int = 0
    """The id of the server's zone, for ACL rules that apply to a single zone."""
