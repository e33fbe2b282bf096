"""VMs and their roles: bids, floors, caps, kind, moved_at, dirty rate.

OpenNebula knows many more; the adapter that reads its pools folds them into these.
The names are the words of the JSON form and of every command.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from merkatd.cluster.columns import (
    Bools,
    Floats,
    Ints,
    Table,
    choice,
    flag,
    number,
    reference,
    text,
    vector,
    whole,
)


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


@dataclass(frozen=True, slots=True, eq=False)
class Roles(Table):
    """The roles of VM groups, and what each asks of its own members."""

    name: tuple[str, ...] = text()
    policy: Ints = choice(RolePolicy, RolePolicy.NONE)


@dataclass(frozen=True, slots=True, eq=False)
class RolePairs(Table):
    """What two different roles ask of each other."""

    key: ClassVar[str] = "first"
    first: Ints = reference("roles")
    second: Ints = reference("roles")
    policy: Ints = choice(RolePolicy)


@dataclass(frozen=True, slots=True, eq=False)
class Vms(Table):
    """The virtual machines, those of a market and those of none."""

    key: ClassVar[str] = "id"
    id: Ints = whole()
    name: tuple[str, ...] = text(default="")
    state: Ints = choice(VmState, VmState.RUNNING)
    host: Ints = reference("hosts")
    market: Ints = reference("markets")
    """-1: outside every market; such a VM reserves its cap in full."""
    bid: Floats = vector()
    floor: Floats = vector(default=0.0)
    cap: Floats = vector()
    held: Floats = vector(default=None)
    """What the VM was last seen to hold."""
    application: Ints = whole(default=None)
    owner: Ints = whole(default=None)
    vcpus: Ints = whole(default=1)
    moved_at_s: Floats = number(default=None)
    movable: Bools = flag(default=True)
    requirement: Ints = reference("requirements")
    """-1: any host of the market will do."""
    role: Ints = reference("roles")
    dirty_mib_s: Floats = number(default=None)
    kind: Ints = choice(VmKind, VmKind.SERVICE)
    priority: Floats = number(default=0.0, later=True)
    """Of new VMs the highest is placed first."""
    leaves: Bools = flag(default=False, later=True)
    """Must be moved away from its host, as far as the limits allow."""
    stays: Bools = flag(default=False, later=True)
    """Of a busy VM: it runs on its host under the operation, and gets limits there."""
    source: Ints = reference("hosts", later=True)
    """Of a VM that is being migrated: the host that it comes from. It stands on the host that it
    goes to already, and holds its memory on both until it has arrived."""
