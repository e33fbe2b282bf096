"""VMs and their roles: states, bids, floors, caps, kinds, dirty rates.

The names of states and policies are those of the JSON form and of every command. OpenNebula has
many more states; the adapter that reads its pools maps them to these.
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
    is_one_of,
    number,
    reference,
    text,
    vector,
    whole,
)


class VmState(IntEnum):
    """The state of a VM, as far as shares and places depend on it."""

    PENDING = 0
    """Waits for a host."""
    RUNNING = 1
    BUSY = 2
    """Runs or is about to run, in the middle of an operation: keeps its host, gets no steps."""
    SUSPENDED = 3
    """Holds its floor on its host, bids nothing."""
    POWERED_OFF = 4
    """Holds its floor on its host, bids nothing."""
    ABSENT = 5
    """Held, stopped, undeployed, failed or of an unknown state: holds nothing anywhere."""


ACTIVE = (VmState.RUNNING, VmState.BUSY)
"""States of a VM on a host whose guest runs, or may run while a step is in progress."""
BIDDING = (VmState.PENDING, *ACTIVE)
"""States of a VM that bids."""
RESTING = (VmState.SUSPENDED, VmState.POWERED_OFF)
"""States of a VM on a host that does not run: it holds its floor there, and bids nothing."""
ON_HOST = (*ACTIVE, *RESTING)
"""States of a VM that has a host."""


class VmKind(IntEnum):
    """The purpose of a VM; some strategies treat the two differently."""

    SERVICE = 0
    BATCH = 1


class RolePolicy(IntEnum):
    """The rule of a role, or of a pair of roles, for its members' hosts."""

    NONE = 0
    TOGETHER = 1
    """All members on one host."""
    APART = 2
    """No two members on one host."""


@dataclass(frozen=True, slots=True, eq=False)
class Roles(Table):
    """The roles of VM groups, and the rule for members of the same role."""

    name: tuple[str, ...] = text()
    policy: Ints = choice(RolePolicy, RolePolicy.NONE)


@dataclass(frozen=True, slots=True, eq=False)
class RolePairs(Table):
    """The rules for members of two different roles."""

    key: ClassVar[str] = "first"
    first: Ints = reference("roles")
    second: Ints = reference("roles")
    policy: Ints = choice(RolePolicy)


@dataclass(frozen=True, slots=True, eq=False)
class Orders(Table):
    """The limit orders: VMs that run together at full size, or not at all.

    The limit of an order is the sum of its VMs' bids.
    """

    key: ClassVar[str] = "id"
    id: Ints = whole()
    funded_s: Floats = number(default=0.0, later=True)
    """The time for which the payer must have the limit: the rest of the order's least run."""
    postponed: Bools = flag(default=False, later=True)
    """Whether the order's waiting VMs get hosts but start later, when these have the memory."""
    runs: Bools = flag(default=False, later=True)
    """Whether it ran by the last decision."""
    paid: Floats = number(default=None, later=True)
    """The credits per period that its VMs on hosts paid last, in an order or by their bids; NaN if
    that is unknown."""
    earlier_limit: Floats = number(default=None, later=True)
    """The most credits per period that its VMs on hosts could cost by the last decision, in an
    order or by their bids; NaN if that is unknown."""
    displaced_s: Floats = number(default=0.0, later=True)
    """The time since the decision that it does not run, or since it was stated if it never ran; 0
    while it runs."""
    rests: Bools = flag(default=False, later=True)
    """Whether it takes no room from others now, because OpenNebula refused its VMs lately."""


@dataclass(frozen=True, slots=True, eq=False)
class Vms(Table):
    """The virtual machines, inside and outside markets."""

    key: ClassVar[str] = "id"
    id: Ints = whole()
    name: tuple[str, ...] = text(default="")
    state: Ints = choice(VmState, VmState.RUNNING)
    host: Ints = reference("hosts")
    market: Ints = reference("markets")
    """Row of the VM's market; -1 outside every market: then the VM reserves its cap in full."""
    bid: Floats = vector()
    floor: Floats = vector(default=0.0)
    cap: Floats = vector()
    held: Floats = vector(default=None)
    """Amounts that the VM held at the last monitoring."""
    application: Ints = whole(default=None)
    owner: Ints = whole(default=None)
    vcpus: Ints = whole(default=1)
    moved_at_s: Floats = number(default=None)
    movable: Bools = flag(default=True)
    requirement: Ints = reference("requirements")
    """Row of the VM's requirement class; -1 if every host of the market is allowed."""
    role: Ints = reference("roles")
    dirty_mib_s: Floats = number(default=None, from_0=True)
    kind: Ints = choice(VmKind, VmKind.SERVICE)
    priority: Floats = number(default=0.0, later=True)
    """Order of new VMs: the highest priority is placed first."""
    leaves: Bools = flag(default=False, later=True)
    """Whether the VM must be migrated away from its host, as far as the limits allow."""
    stays: Bools = flag(default=False, later=True)
    """Whether a busy VM keeps running on its host during the operation, and gets limits there."""
    source: Ints = reference("hosts", later=True)
    """Host that a migrating VM comes from. `host` is already its destination, and the VM holds its
    memory on both until it has arrived."""
    order: Ints = reference("orders", later=True)
    """Row of the VM's limit order."""
    saved: Bools = flag(default=False, later=True)
    """Whether the scheduler has saved the VM; a resumption makes it wait for a host again."""
    starts: Bools = flag(default=False, later=True)
    """Whether the VM is in a limit order and on its host, but its guest does not compute yet."""
    stop_fails: Bools = flag(default=False, later=True)
    """Whether OpenNebula did not stop the VM lately, so that the next attempt has to wait."""
    kept: Floats = vector(default=None, later=True)
    """Amounts of a VM in a limit order by the last decision, which it keeps while it is saved or
    migrated; NaN if unknown."""
    started_s: Floats = number(default=None, later=True)
    """The time since which the guest runs, by OpenNebula's last record of the VM: a migration or a
    changed device begins a new record. NaN without a running guest."""
    disk_mib: Floats = number(default=None, later=True, from_0=True)
    """The size of all disks of the VM."""
    shared_disk: Bools = flag(default=True, later=True)
    """Whether the VM's host shares the storage of its disks with other hosts, so that a migration
    copies no disk."""
    placeable: Bools = flag(default=True, later=True)
    """False for a VM that waits and may get no host in this period: it bids nothing."""

    @property
    def waiting(self) -> Bools:
        """Return [vms]: whether the VM waits for a host and may get one in this period."""
        waiting: Bools = (self.state == VmState.PENDING) & self.placeable
        return waiting

    @property
    def bidding(self) -> Bools:
        """Return [vms]: whether the VM bids: it waits, or it runs."""
        bidding: Bools = is_one_of(self.state, ACTIVE) | self.waiting
        return bidding
