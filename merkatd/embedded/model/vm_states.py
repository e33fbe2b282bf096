"""The states of OpenNebula's virtual machines and hosts, by number and by name."""

from __future__ import annotations

from enum import IntEnum


class OneVmState(IntEnum):
    """STATE of a VM."""

    INIT = 0
    PENDING = 1
    HOLD = 2
    ACTIVE = 3
    STOPPED = 4
    SUSPENDED = 5
    DONE = 6
    POWEROFF = 8
    UNDEPLOYED = 9


class Lcm(IntEnum):
    """LCM_STATE of a VM, which means something only while STATE is ACTIVE."""

    LCM_INIT = 0
    PROLOG = 1
    BOOT = 2
    RUNNING = 3
    MIGRATE = 4
    SAVE_STOP = 5
    SAVE_SUSPEND = 6
    SAVE_MIGRATE = 7
    PROLOG_MIGRATE = 8
    PROLOG_RESUME = 9
    EPILOG_STOP = 10
    EPILOG = 11
    SHUTDOWN = 12
    CLEANUP_RESUBMIT = 15
    UNKNOWN = 16
    HOTPLUG = 17
    SHUTDOWN_POWEROFF = 18
    BOOT_UNKNOWN = 19
    BOOT_POWEROFF = 20
    BOOT_SUSPENDED = 21
    BOOT_STOPPED = 22
    CLEANUP_DELETE = 23
    SHUTDOWN_UNDEPLOY = 29
    EPILOG_UNDEPLOY = 30
    PROLOG_UNDEPLOY = 31
    BOOT_UNDEPLOY = 32
    BOOT_MIGRATE = 35
    BOOT_FAILURE = 36
    BOOT_MIGRATE_FAILURE = 37
    PROLOG_MIGRATE_FAILURE = 38
    PROLOG_FAILURE = 39
    EPILOG_FAILURE = 40
    EPILOG_STOP_FAILURE = 41
    EPILOG_UNDEPLOY_FAILURE = 42
    PROLOG_MIGRATE_POWEROFF = 43
    PROLOG_MIGRATE_POWEROFF_FAILURE = 44
    PROLOG_MIGRATE_SUSPEND = 45
    PROLOG_MIGRATE_SUSPEND_FAILURE = 46
    BOOT_UNDEPLOY_FAILURE = 47
    BOOT_STOPPED_FAILURE = 48
    PROLOG_RESUME_FAILURE = 49
    PROLOG_UNDEPLOY_FAILURE = 50
    HOTPLUG_RESIZE = 66


class OneHostState(IntEnum):
    """STATE of a host."""

    INIT = 0
    MONITORING_MONITORED = 1
    MONITORED = 2
    ERROR = 3
    DISABLED = 4
    MONITORING_ERROR = 5
    MONITORING_INIT = 6
    MONITORING_DISABLED = 7
    OFFLINE = 8


class VmAction(IntEnum):
    """The ACTION that closed a history record."""

    NONE = 0
    MIGRATE = 1
    LIVE_MIGRATE = 2
    UNDEPLOY = 5
    UNDEPLOY_HARD = 6
    STOP = 9
    SUSPEND = 10
    RESUME = 11
    DELETE = 13
    DELETE_RECREATE = 14
    POWEROFF = 19
    POWEROFF_HARD = 20
    TERMINATE = 27
    TERMINATE_HARD = 28
    RESIZE = 35
    MONITOR = 44
    POFF_MIGRATE = 48
    POFF_HARD_MIGRATE = 49


EXECUTING = frozenset({Lcm.RUNNING, Lcm.MIGRATE, Lcm.UNKNOWN, Lcm.HOTPLUG, Lcm.HOTPLUG_RESIZE})
"""The states in which the guest runs (in UNKNOWN only if its host is alive)."""

FAILURES = frozenset(lcm for lcm in Lcm if lcm.name.endswith("_FAILURE"))


def state_name(state: OneVmState, lcm: Lcm) -> str:
    """Return the state's name in error messages: the life-cycle state while ACTIVE."""
    return lcm.name if state is OneVmState.ACTIVE else state.name
