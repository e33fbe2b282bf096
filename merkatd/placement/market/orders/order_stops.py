"""The stops of displaced limit orders: all VMs of an order together.

# Note [Displaced orders whose VMs migrate]

OpenNebula stops no VM while it migrates it. If the scheduler stopped the other VMs of a displaced
order at once, the migrating VM would go on alone: it pays for work that is worth nothing without
the others. So the scheduler sends no stop to the order until the migration has ended. That event
starts a period early, which stops all VMs of the order. Until then they pay what they paid before.

The scheduler waits for at most `MOST_WAIT_S`, since the order that displaces them pays for the room
meanwhile. An owner can prolong a migration: its guest writes to memory faster than the hosts copy.
The scheduler waits for no migration if a VM of the order is already being saved, or is saved.

Example: an order has VMs 1, 2 and 3, and VM 3 migrates for 22 s. A dearer order displaces it after
2 s. VMs 1 and 2 run on for 20 s, and then all three are saved.
"""

from merkatd.cluster import Bools, Ints, Snapshot, VmState
from merkatd.cluster.columns import NO_HOST, NO_ROW

MOST_WAIT_S = 120.0
"""The longest time for which a displaced order waits for its migrations."""


def awaited_migrations(snapshot: Snapshot, displaced: Ints, stuck: Bools) -> dict[int, int]:
    """Return, by row of each displaced order that waits for a migration, the id of the VM.

    `displaced` are the snapshot rows of displaced VMs with a host, `stuck` whether each can't be
    stopped.
    """
    vms, orders = snapshot.vms, snapshot.orders
    rows = displaced[~stuck]
    migrates = vms.source[rows] != NO_HOST
    if not migrates.any():
        return {}
    leaves = (vms.state[rows] == VmState.BUSY) & ~migrates
    saved = vms.saved & (vms.order != NO_ROW)
    in_part = {*vms.order[rows[leaves]].tolist(), *vms.order[saved].tolist()}
    moving = rows[migrates]
    return {
        order: vm
        for order, vm in zip(vms.order[moving].tolist(), vms.id[moving].tolist(), strict=True)
        if order not in in_part and orders.displaced_s[order] < MOST_WAIT_S
    }


def stopped_after(migrating: int | None) -> str:
    """Return the end of the reason of a VM whose order waits for this VM's migration, if any."""
    if migrating is None:
        return ""
    return f"; its VMs are saved together, once VM {migrating} has been migrated"
