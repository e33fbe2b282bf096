"""OpenNebula's states of VMs and hosts, by number: their names, and what they are to the heart."""

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
"""Being cloned, or failed at that."""

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
"""By LCM_STATE; some are no more in use."""

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
"""Owners cause these as often and for as long as they like, and the guest goes on computing."""
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
"""The VM has no guest yet: its disks are copied, or something else is done to them, or it boots."""
_DISKS_ONLY = frozenset(
    map(
        _LIFE.index,
        ("DISK_RESIZE_UNDEPLOYED", "HOTPLUG_SAVEAS_UNDEPLOYED", "HOTPLUG_SAVEAS_STOPPED"),
    )
)
"""Something is done to the disks of a VM that is on no host."""


class StateMeaning(NamedTuple):
    """What a pair of STATE and LCM_STATE means."""

    state: VmState
    words: str
    charged: bool
    """Whether oned charges a host for the VM: the one of its last history record."""
    stays: bool = False
    """Whether a busy VM runs on its host meanwhile, and can be limited there."""
    idle: bool = False
    """Whether a busy VM has no guest that could compute meanwhile."""


_SETTLED = {
    1: (VmState.PENDING, False),
    SUSPENDED: (VmState.SUSPENDED, True),
    POWEROFF: (VmState.POWERED_OFF, True),
}


@cache
def state_meaning(state: int, life: int) -> StateMeaning:
    """The VM's state for the heart, its name for people, and whether a host is charged.

    A VM of which oned knows nothing (UNKNOWN: its host is not seen, or the guest is gone from
    it) is charged to its host and may be running there: like one that is powered off it bids
    and pays nothing, and its floor stays reserved until somebody knows more. One that failed on
    its way holds nothing for the heart, though oned still charges the host that it names.
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
"""Monitoring and monitored; disabled, also while it is monitored."""


TROUBLED = {3: "ERROR", 5: "ERROR", 8: "OFFLINE"}
"""Hosts that OpenNebula does not reach: in error, also while it tries again, and taken offline."""


def host_state(state: int) -> HostState:
    """A host's state for the heart; off in error, offline, or not yet seen."""
    return _HOSTS.get(state, HostState.OFF)
