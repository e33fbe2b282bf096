"""The records of the cloud's present objects: VMs, hosts, users and others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from merkatd.embedded.model.template_text import Template, number
from merkatd.embedded.model.vm_states import Lcm, OneHostState, OneVmState, VmAction

Permissions: TypeAlias = tuple[int, int, int, int, int, int, int, int, int]
"""USE, MANAGE and ADMIN of the owner, of the group and of all others."""

OWNER_ONLY: Permissions = (1, 1, 0, 0, 0, 0, 0, 0, 0)
GROUP_USES: Permissions = (1, 1, 0, 1, 0, 0, 0, 0, 0)


@dataclass(slots=True)
class HistoryRecord:
    """A stay of a VM on a host."""

    seq: int
    host: int
    hostname: str
    cluster: int
    datastore: int
    stime: int
    etime: int = 0
    pstime: int = 0
    petime: int = 0
    rstime: int = 0
    retime: int = 0
    estime: int = 0
    eetime: int = 0
    action: VmAction = VmAction.NONE
    uid: int = -1
    gid: int = -1
    request_id: int = -1


@dataclass(slots=True)
class RunningOperation:
    """A running operation: its name, its present step, and the due time of the next step."""

    operation: str
    step: int
    due_s: float
    serial: int
    """The number of this wait, which differs from earlier waits of the same VM."""
    failed: bool = False


@dataclass(slots=True)
class Lock:
    """The lock of a VM: its level and its owner."""

    level: int
    owner: int
    stamp: int
    request_id: int


@dataclass(slots=True)
class Vm:
    """A virtual machine."""

    id: int
    uid: int
    gid: int
    name: str
    template: Template
    user_template: Template
    stime: int
    state: OneVmState = OneVmState.PENDING
    lcm: Lcm = Lcm.LCM_INIT
    prev_state: OneVmState = OneVmState.PENDING
    prev_lcm: Lcm = Lcm.LCM_INIT
    permissions: Permissions = OWNER_ONLY
    resched: int = 0
    etime: int = 0
    deploy_id: str = ""
    history: list[HistoryRecord] = field(default_factory=list)
    charged: list[int] = field(default_factory=list)
    """The ids of the hosts that reserve capacity for it: two hosts during a migration."""
    run: RunningOperation | None = None
    undo: Template | None = None
    """The template before a resize that is not finished yet."""
    lock: Lock | None = None

    @property
    def cpu(self) -> int:
        """The CPU charged on its host, in hundredths of a core."""
        return round(float(self.template.get("CPU", "0")) * 100)

    @property
    def memory_mib(self) -> int:
        """The memory charged on its host, in MiB."""
        return int(self.template.get("MEMORY", "0"))

    @property
    def boots_mib(self) -> int:
        """The memory that its guest boots with, before its balloon shrinks it to `memory_mib`."""
        if self.template.get("MEMORY_RESIZE_MODE") == "HOTPLUG":
            return self.memory_mib
        return max(self.memory_mib, int(number(self.template.get("MEMORY_MAX"), float, 0)))

    @property
    def vcpus(self) -> int:
        """The number of its virtual CPUs."""
        return int(self.template.get("VCPU", "") or 1)

    @property
    def pinned(self) -> bool:
        """Whether oned itself pins it to cores."""
        policy = self.template.vector("TOPOLOGY").get("PIN_POLICY", "NONE").upper()
        return policy not in {"", "NONE"}


@dataclass(slots=True)
class Host:
    """A host: its size, its state and the capacity charged on it."""

    id: int
    name: str
    cluster: int
    total_cpu: int
    total_memory_kib: int
    template: Template
    state: OneHostState = OneHostState.MONITORED
    prev_state: OneHostState = OneHostState.MONITORED
    im_mad: str = "dummy"
    vm_mad: str = "dummy"
    vms: list[int] = field(default_factory=list)
    used_cpu: int = 0
    used_memory_kib: int = 0
    alive: bool = True
    """Whether its guests run; its monitoring may be lost while they still do."""
    pins: dict[int, int] = field(default_factory=dict)
    """The id of the pinned VM by core."""
    inherited: Template = field(default_factory=Template)
    """The cluster's template: its reservations apply if the host has none."""
    lent: dict[str, int] = field(default_factory=dict)
    """The id of the VM that uses a PCI device, by the device's short address."""
    cut: bool = False
    """Whether the network no longer connects it: its guests run, and operations on it fail."""
    silent: bool = False
    """Whether only its monitoring is lost."""
    unmeasured: bool = False
    """Whether it has not been monitored since it was offline."""

    @property
    def offline(self) -> bool:
        """Whether it is offline: oned does not monitor it."""
        return self.state is OneHostState.OFFLINE

    @property
    def reachable(self) -> bool:
        """Whether operations on it can succeed."""
        return self.alive and not self.cut

    @property
    def monitored(self) -> bool:
        """Whether oned gets values from it."""
        return self.reachable and not self.silent and not self.offline

    @property
    def unknown_capacity(self) -> bool:
        """Whether its capacity reads 0, as oned has no values of it."""
        return self.offline or self.unmeasured

    @property
    def max_cpu(self) -> int:
        """The CPU that may be charged, in hundredths of a core."""
        if self.unknown_capacity:
            return 0
        return self.total_cpu - self._reserved("CPU", self.total_cpu)

    @property
    def max_memory_kib(self) -> int:
        """The memory that may be charged, in KiB."""
        if self.unknown_capacity:
            return 0
        return self.total_memory_kib - self._reserved("MEM", self.total_memory_kib)

    def _reserved(self, what: str, total: int) -> int:
        name = f"RESERVED_{what}"
        return _part(self.template.get(name) or self.inherited.get(name), total)


def _part(text: str, total: int) -> int:
    try:
        if text.strip().endswith("%"):
            return total - int(total * (1 - int(text.strip()[:-1]) / 100))
        return int(text) if text else 0
    except ValueError:
        return 0


@dataclass(slots=True)
class LoginToken:
    """A user's login token with its end."""

    text: str
    until_s: int
    """The end of its validity; -1: for ever."""
    group: int
    """The only group of a login with this token; -1: no restriction."""


@dataclass(slots=True)
class User:
    """A login and its template."""

    id: int
    name: str
    password: str
    """The digest of the password, as oned stores it."""
    groups: list[int]
    """The ids of its groups; the first is the user's primary group."""
    driver: str = "core"
    enabled: bool = True
    template: Template = field(default_factory=Template)
    tokens: list[LoginToken] = field(default_factory=list)
    vm_quota: dict[str, float] = field(default_factory=dict)

    @property
    def gid(self) -> int:
        """The id of the user's primary group."""
        return self.groups[0]


@dataclass(slots=True)
class UserGroup:
    """A group of users."""

    id: int
    name: str
    template: Template = field(default_factory=Template)
    admins: list[int] = field(default_factory=list)


FIRST_CLUSTER = "default"
"""The name of the cluster with which each cloud begins."""


@dataclass(slots=True)
class Cluster:
    """A cluster: hosts, datastores and networks that belong together."""

    id: int
    name: str
    hosts: list[int] = field(default_factory=list)
    datastores: list[int] = field(default_factory=list)
    networks: list[int] = field(default_factory=list)
    template: Template = field(default_factory=Template)


@dataclass(slots=True)
class Datastore:
    """A datastore; type 1 is a system datastore, where VMs run."""

    id: int
    name: str
    type: int
    clusters: list[int]
    template: Template
    total_mib: int = 4796800
    free_mib: int = 3333260
    used_mib: int = 1429920
    uid: int = 0
    gid: int = 0
    permissions: Permissions = GROUP_USES


@dataclass(slots=True)
class Image:
    """An image; type 2 is an empty data disk."""

    id: int
    uid: int
    gid: int
    name: str
    type: int
    datastore: int
    size_mib: int
    format: str
    persistent: bool
    template: Template
    regtime: int
    permissions: Permissions = OWNER_ONLY


@dataclass(slots=True)
class VmGroup:
    """A VM group: roles and the affinity rules between them."""

    id: int
    uid: int
    gid: int
    name: str
    roles: list[tuple[str, list[int], dict[str, str]]]
    """The name, VMs and other attributes of each role, in order."""
    template: Template
    permissions: Permissions = OWNER_ONLY


@dataclass(slots=True)
class VmTemplate:
    """A template for new VMs."""

    id: int
    uid: int
    gid: int
    name: str
    template: Template
    regtime: int
    permissions: Permissions = OWNER_ONLY


@dataclass(slots=True)
class Network:
    """A virtual network."""

    id: int
    uid: int
    gid: int
    name: str
    clusters: list[int]
    template: Template
    permissions: Permissions = GROUP_USES
    sizes: list[int] = field(default_factory=list)
    """The number of addresses of each range."""
    leases: list[int] = field(default_factory=list)
    """The ids of the VMs that use its addresses, one per address."""


@dataclass(slots=True)
class AclRule:
    """A rule of the access control list, as four numbers."""

    id: int
    user: int
    resource: int
    rights: int
    zone: int
