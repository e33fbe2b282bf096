"""OpenNebula's numeric states of VMs and hosts: their names, and their meaning for Merkat."""

from functools import cache
from typing import NamedTuple

from merkatd.cluster import HostState, VmState

PENDING = (1, 0)
RUNNING = (3, 3)
ACTIVE = 3
STOPPED = 4
SUSPENDED = 5
DONE = 6
POWEROFF = 8
UNDEPLOYED = 9
CLONING = frozenset({10, 11})
"""The states CLONING and CLONING_FAILURE."""

_STATES = {
    0: "INIT",
    1: "PENDING",
    2: "HOLD",
    3: "ACTIVE",
    4: "STOPPED",
    5: "SUSPENDED",
    6: "DONE",
    8: "POWEROFF",
    9: "UNDEPLOYED",
    10: "CLONING",
    11: "CLONING_FAILURE",
}
_LIFE = (
    "LCM_INIT", "PROLOG", "BOOT", "RUNNING", "MIGRATE", "SAVE_STOP", "SAVE_SUSPEND", "SAVE_MIGRATE",
    "PROLOG_MIGRATE", "PROLOG_RESUME", "EPILOG_STOP", "EPILOG", "SHUTDOWN", "CANCEL", "FAILURE",
    "CLEANUP_RESUBMIT", "UNKNOWN", "HOTPLUG", "SHUTDOWN_POWEROFF", "BOOT_UNKNOWN", "BOOT_POWEROFF",
    "BOOT_SUSPENDED", "BOOT_STOPPED", "CLEANUP_DELETE", "HOTPLUG_SNAPSHOT", "HOTPLUG_NIC",
    "HOTPLUG_SAVEAS", "HOTPLUG_SAVEAS_POWEROFF", "HOTPLUG_SAVEAS_SUSPENDED", "SHUTDOWN_UNDEPLOY",
    "EPILOG_UNDEPLOY", "PROLOG_UNDEPLOY", "BOOT_UNDEPLOY", "HOTPLUG_PROLOG_POWEROFF",
    "HOTPLUG_EPILOG_POWEROFF", "BOOT_MIGRATE", "BOOT_FAILURE", "BOOT_MIGRATE_FAILURE",
    "PROLOG_MIGRATE_FAILURE", "PROLOG_FAILURE", "EPILOG_FAILURE", "EPILOG_STOP_FAILURE",
    "EPILOG_UNDEPLOY_FAILURE", "PROLOG_MIGRATE_POWEROFF", "PROLOG_MIGRATE_POWEROFF_FAILURE",
    "PROLOG_MIGRATE_SUSPEND", "PROLOG_MIGRATE_SUSPEND_FAILURE", "BOOT_UNDEPLOY_FAILURE",
    "BOOT_STOPPED_FAILURE", "PROLOG_RESUME_FAILURE", "PROLOG_UNDEPLOY_FAILURE",
    "DISK_SNAPSHOT_POWEROFF", "DISK_SNAPSHOT_REVERT_POWEROFF", "DISK_SNAPSHOT_DELETE_POWEROFF",
    "DISK_SNAPSHOT_SUSPENDED", "DISK_SNAPSHOT_REVERT_SUSPENDED", "DISK_SNAPSHOT_DELETE_SUSPENDED",
    "DISK_SNAPSHOT", "DISK_SNAPSHOT_REVERT", "DISK_SNAPSHOT_DELETE", "PROLOG_MIGRATE_UNKNOWN",
    "PROLOG_MIGRATE_UNKNOWN_FAILURE", "DISK_RESIZE", "DISK_RESIZE_POWEROFF",
    "DISK_RESIZE_UNDEPLOYED", "HOTPLUG_NIC_POWEROFF", "HOTPLUG_RESIZE", "HOTPLUG_SAVEAS_UNDEPLOYED",
    "HOTPLUG_SAVEAS_STOPPED", "BACKUP", "BACKUP_POWEROFF", "RESTORE",
)  # fmt: skip
"""Names by LCM_STATE; some are no longer in use."""

_UNKNOWN = _LIFE.index("UNKNOWN")
_AT_WORK = frozenset(
    map(
        _LIFE.index,
        (
            "SHUTDOWN", "HOTPLUG", "SHUTDOWN_POWEROFF", "HOTPLUG_SNAPSHOT", "HOTPLUG_NIC",
            "HOTPLUG_SAVEAS", "SHUTDOWN_UNDEPLOY", "DISK_SNAPSHOT", "DISK_SNAPSHOT_REVERT",
            "DISK_SNAPSHOT_DELETE", "DISK_RESIZE", "HOTPLUG_RESIZE", "BACKUP",
        ),
    )
)  # fmt: skip
"""Busy states in which the guest goes on computing; owners can cause them as they like."""
_IDLE = frozenset(
    map(
        _LIFE.index,
        (
            "PROLOG", "PROLOG_MIGRATE", "PROLOG_RESUME", "EPILOG_STOP", "EPILOG",
            "CLEANUP_RESUBMIT", "CLEANUP_DELETE", "HOTPLUG_SAVEAS_POWEROFF",
            "HOTPLUG_SAVEAS_SUSPENDED", "EPILOG_UNDEPLOY", "PROLOG_UNDEPLOY",
            "HOTPLUG_PROLOG_POWEROFF", "HOTPLUG_EPILOG_POWEROFF", "PROLOG_MIGRATE_POWEROFF",
            "PROLOG_MIGRATE_SUSPEND", "DISK_SNAPSHOT_POWEROFF", "DISK_SNAPSHOT_REVERT_POWEROFF",
            "DISK_SNAPSHOT_DELETE_POWEROFF", "DISK_SNAPSHOT_SUSPENDED",
            "DISK_SNAPSHOT_REVERT_SUSPENDED", "DISK_SNAPSHOT_DELETE_SUSPENDED",
            "PROLOG_MIGRATE_UNKNOWN", "DISK_RESIZE_POWEROFF", "HOTPLUG_NIC_POWEROFF",
            "BACKUP_POWEROFF", "RESTORE", "BOOT", "BOOT_UNKNOWN", "BOOT_POWEROFF",
            "BOOT_SUSPENDED", "BOOT_STOPPED", "BOOT_UNDEPLOY",
        ),
    )
)  # fmt: skip
"""Busy states without a computing guest: disk operations, or booting."""
_DISKS_ONLY = frozenset(
    map(
        _LIFE.index,
        ("DISK_RESIZE_UNDEPLOYED", "HOTPLUG_SAVEAS_UNDEPLOYED", "HOTPLUG_SAVEAS_STOPPED"),
    )
)
"""Disk operations on a VM that is on no host."""


class StateMeaning(NamedTuple):
    """The meaning of a pair of STATE and LCM_STATE."""

    state: VmState
    words: str
    charged: bool
    """Whether oned counts the VM on a host, that of its last history record."""
    stays: bool = False
    """Whether a busy VM still runs on its host, and can be limited there."""
    idle: bool = False
    """Whether a busy VM has no computing guest."""


_SETTLED = {
    1: (VmState.PENDING, False),
    SUSPENDED: (VmState.SUSPENDED, True),
    POWEROFF: (VmState.POWERED_OFF, True),
}


@cache
def state_meaning(state: int, life: int) -> StateMeaning:
    """Return the VM's state for Merkat, its readable name, and whether oned counts it on a host.

    An UNKNOWN VM, whose host is not monitored or whose guest has disappeared, is counted on its
    host and may still run there. Like a powered-off VM, it bids and pays nothing, and its floor
    stays reserved until its state is known. A failed VM takes nothing for Merkat, although oned
    still counts it on the host of its record.
    """
    if state == ACTIVE:
        return _active(life)
    folded, charged = _SETTLED.get(state, (VmState.ABSENT, False))
    return StateMeaning(folded, _STATES.get(state, f"in the unknown state {state}"), charged)


def _active(life: int) -> StateMeaning:
    known = 0 <= life < len(_LIFE)
    words = _LIFE[life] if known else f"in the unknown life-cycle state {life}"
    if (ACTIVE, life) == RUNNING:
        return StateMeaning(VmState.RUNNING, words, charged=True)
    if life == _UNKNOWN:
        return StateMeaning(VmState.POWERED_OFF, words, charged=True)
    if life in _DISKS_ONLY:
        return StateMeaning(VmState.ABSENT, words, charged=False)
    if words.endswith("FAILURE"):
        return StateMeaning(VmState.ABSENT, words, charged=True)
    return StateMeaning(
        VmState.BUSY, words, charged=True, stays=life in _AT_WORK, idle=life in _IDLE
    )


_HOSTS = {
    1: HostState.ON,
    2: HostState.ON,
    4: HostState.DISABLED,
    7: HostState.DISABLED,
}
"""States by OpenNebula's number: MONITORING and MONITORED are on; 4 and 7 are disabled."""


OFFLINE = 8
TAKES_VMS = frozenset(state for state, meaning in _HOSTS.items() if meaning is HostState.ON)
"""The states of hosts that OpenNebula monitors and uses."""
DISABLED = frozenset(_HOSTS) - TAKES_VMS
IN_ERROR = frozenset({3, 5})
TROUBLED = {**dict.fromkeys(IN_ERROR, "ERROR"), OFFLINE: "OFFLINE"}
"""Names of the states in which OpenNebula does not reach a host; in 5 it tries again."""


def host_state(state: int) -> HostState:
    """Return a host's state for Merkat; OFF if it has an error, is offline or not yet monitored."""
    return _HOSTS.get(state, HostState.OFF)
