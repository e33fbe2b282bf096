"""The states and kinds that hosts, VMs and roles can have, as the heart sees them.

OpenNebula knows many more; the adapter that reads its pools folds them into these.
The names are the words of the JSON form and of every command.
"""

from enum import IntEnum


class HostState(IntEnum):
    """Whether a host runs VMs and takes new ones."""

    ON = 0
    """Monitored: runs what it has and takes more."""
    DRAINED = 1
    """To be emptied: takes no new VMs, and its VMs are moved away."""
    OFF = 2
    """In error, disabled by its monitoring or offline: nothing there can be reached."""
    DISABLED = 3
    """Takes no new VMs and keeps the VMs it has."""


class VmState(IntEnum):
    """What a VM is doing, as far as shares and places are concerned."""

    PENDING = 0
    """Waits for a host."""
    RUNNING = 1
    BUSY = 2
    """Runs or is about to, in the middle of an operation: holds its place, must be left alone."""
    SUSPENDED = 3
    """Holds its floor on its host, bids nothing."""
    POWERED_OFF = 4
    """Holds its floor on its host, bids nothing."""
    ABSENT = 5
    """Held, stopped, undeployed, failed or of a state nobody knows: holds nothing anywhere."""


RESTING = (VmState.SUSPENDED, VmState.POWERED_OFF)
"""On a host without running: holds its floor there, and bids nothing."""


class VmKind(IntEnum):
    """What a VM is for; some strategies treat the two differently."""

    SERVICE = 0
    BATCH = 1


class RolePolicy(IntEnum):
    """What a role of a VM group, or a pair of roles, asks of its members' hosts."""

    NONE = 0
    TOGETHER = 1
    """All on one host."""
    APART = 2
    """No two on one host."""
