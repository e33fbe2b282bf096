"""The settings of an embedded cloud, fixed before it starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from merkatd.embedded.model.vm_states import Lcm

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class HostSize:
    """The size of a host: CPU in hundredths of a core, memory, its link and its power."""

    cpu: int = 800
    memory_mib: int = 16384
    link_mbit_s: float = 10_000.0
    idle_watts: float = 80.0
    full_watts: float = 160.0


MEASURED: Mapping[Lcm, float] = MappingProxyType(
    {
        Lcm.PROLOG: 0.03,
        Lcm.BOOT: 1.05,
        Lcm.MIGRATE: 1.04,
        Lcm.SAVE_STOP: 1.02,
        Lcm.SAVE_SUSPEND: 1.04,
        Lcm.SAVE_MIGRATE: 1.03,
        Lcm.PROLOG_MIGRATE: 0.02,
        Lcm.PROLOG_RESUME: 0.03,
        Lcm.EPILOG_STOP: 0.05,
        Lcm.EPILOG: 0.02,
        Lcm.SHUTDOWN: 1.03,
        Lcm.CLEANUP_RESUBMIT: 0.05,
        Lcm.CLEANUP_DELETE: 0.05,
        Lcm.HOTPLUG: 0.10,
        Lcm.SHUTDOWN_POWEROFF: 1.02,
        Lcm.BOOT_UNKNOWN: 1.04,
        Lcm.BOOT_POWEROFF: 1.04,
        Lcm.BOOT_SUSPENDED: 1.04,
        Lcm.BOOT_STOPPED: 1.04,
        Lcm.SHUTDOWN_UNDEPLOY: 1.03,
        Lcm.EPILOG_UNDEPLOY: 0.05,
        Lcm.PROLOG_UNDEPLOY: 0.02,
        Lcm.BOOT_UNDEPLOY: 1.03,
        Lcm.BOOT_MIGRATE: 1.02,
        Lcm.PROLOG_MIGRATE_POWEROFF: 0.04,
        Lcm.PROLOG_MIGRATE_SUSPEND: 0.04,
        Lcm.HOTPLUG_RESIZE: 0.40,
    }
)
"""Seconds in each state, measured on a real server with its slow dummy drivers."""
MEMORY_MOVES = frozenset(
    {
        Lcm.MIGRATE,
        Lcm.SAVE_STOP,
        Lcm.SAVE_SUSPEND,
        Lcm.SAVE_MIGRATE,
        Lcm.BOOT_SUSPENDED,
        Lcm.BOOT_STOPPED,
        Lcm.BOOT_MIGRATE,
    }
)
"""The states that copy the guest's memory, and last longer for larger guests."""


@dataclass(frozen=True, slots=True)
class Delays:
    """The durations of operations in each state."""

    dispatch_s: float = 0.01
    """The time between the reply to a call and the operation's first state."""
    by_state: Mapping[Lcm, float] = field(default_factory=lambda: MEASURED)
    memory_mib_s: float = 0.0
    """The speed of copying memory in a migration or a save; 0 means no delay."""
    factor: float = 1.0
    jitter: float = 0.0
    """The spread of delays: uniform between delay x (1 - jitter) and delay x (1 + jitter)."""

    def of(self, lcm: Lcm, memory_mib: int) -> float:
        """Return the seconds that a VM of this size stays in a state, without jitter."""
        seconds = self.by_state.get(lcm, 0.0)
        if self.memory_mib_s > 0 and lcm in MEMORY_MOVES:
            seconds += memory_mib / self.memory_mib_s
        return seconds * self.factor


@dataclass(frozen=True, slots=True)
class Guesting:
    """The behaviour of hosts and guests."""

    balloon_mib_s: float = 170.0
    """The speed of a balloon while the guest has free memory."""
    squeeze_mib_s: float = 40.0
    """The speed of a balloon that takes memory in use."""
    margin_mib: int = 64
    """The free memory that a guest keeps: with less, its balloon slows down."""
    least_speed: float = 0.05
    """The lowest speed of a swapping guest, as a fraction of its full speed."""
    shares_per_core: int = 1024
    """The CPU shares of a VM at its start, per core of its template."""
    demand: float = 1.0
    """The default demand of a virtual CPU in cores."""
    memory_part: float = 0.5
    """The fraction of its memory that a guest uses by default."""


USER_RESTRICTED = frozenset({"VM_USE_OPERATIONS", "VM_MANAGE_OPERATIONS", "VM_ADMIN_OPERATIONS"})
VM_RESTRICTED = frozenset(
    {
        "CPU_COST", "DEPLOY_ID", "DISK_COST", "EMULATOR", "MEMORY_COST", "PCI", "USER_PRIORITY",
        "VCENTER_ESX_HOST", "VCENTER_VM_FOLDER",
        "CONTEXT/FILES", "RAW/DATA", "TOPOLOGY/HUGEPAGE_SIZE", "TOPOLOGY/PIN_POLICY",
        "USER_INPUTS/CPU", "USER_INPUTS/MEMORY", "USER_INPUTS/VCPU",
        *(f"NIC_DEFAULT/{name}" for name in ("BRIDGE", "EXTERNAL", "FILTER", "MAC", "VLAN_ID")),
        *(
            f"DISK/{name}"
            for name in ("OPENNEBULA_MANAGED", "ORIGINAL_SIZE", "SIZE_IOPS_SEC", "SIZE_PREV",
                         "VCENTER_DS_REF", "VCENTER_INSTANCE_ID")
        ),
        *(
            f"DISK/{way}_{what}_SEC{end}"
            for way in ("READ", "TOTAL", "WRITE")
            for what in ("BYTES", "IOPS")
            for end in ("", "_MAX", "_MAX_LENGTH")
        ),
        *(
            f"{nic}/{name}"
            for nic in ("NIC", "NIC_ALIAS")
            for name in ("BRIDGE", "INBOUND_AVG_BW", "INBOUND_PEAK_BW", "INBOUND_PEAK_KB", "MAC",
                         "OPENNEBULA_MANAGED", "OUTBOUND_AVG_BW", "OUTBOUND_PEAK_BW",
                         "OUTBOUND_PEAK_KB", "VCENTER_INSTANCE_ID", "VCENTER_PORTGROUP_TYPE",
                         "VLAN_ID")
        ),
        "NIC/EXTERNAL", "NIC/FILTER", "NIC/FILTER_IP_SPOOFING", "NIC/FILTER_MAC_SPOOFING",
        "NIC/VCENTER_NET_REF", "NIC_ALIAS/VCENTER_NET_REF",
    }
)  # fmt: skip
"""The restricted attributes of a new OpenNebula."""


HOST_START_S = 60.0


@dataclass(frozen=True, slots=True)
class EmbeddedSettings:
    """The fixed settings of a world."""

    version: str = "6.10.0.1"
    epoch_s: float = 0.0
    """The offset between the clock's seconds and the world's time."""
    delays: Delays = field(default_factory=Delays)
    guests: Guesting = field(default_factory=Guesting)
    racy_enforce: bool = True
    """Whether capacity is charged when an operation starts, not when its call is answered: calls
    that arrive together then all see the same free capacity."""
    host_start_s: float = HOST_START_S
    """The time that a host needs to start after it slept or lost its power."""
    monitor_interval_s: float = 60.0
    """The interval between samples of VMs and hosts; 0 takes samples only on request."""
    samples_kept: int = 15
    raft_state: int = 0
    missing_methods: frozenset[str] = frozenset()
    """Calls that the server rejects as unknown, like an older version."""
    token_s: int = -1
    """The longest validity of a login token (MAX_TOKEN_TIME); -1: unlimited, 0: no tokens."""
    vm_restricted: frozenset[str] = VM_RESTRICTED
    """Attributes of a VM that only administrators may set."""
    user_restricted: frozenset[str] = USER_RESTRICTED
    """Attributes of a user that only administrators may set."""
    events_per_turn: int = 0
    """The number of due events that run before the reactor gets its turn; 0 means all."""
