"""The stops of displaced limit orders, all VMs of an order together, and their costs until then.

# Note [Displaced orders whose VMs migrate]

OpenNebula stops no VM while it migrates it. If the scheduler stopped the other VMs of a displaced
order at once, the migrating VM would go on alone: it pays for work that is worth nothing without
the others. So the scheduler sends no stop to the order until the migration has ended. That event
starts a period early, which stops all VMs of the order. Until then they get what their parts of the
limit buy as bids, and pay that.

The scheduler waits for at most `MOST_WAIT_S`, since the order that displaces them pays for the room
meanwhile. An owner can prolong a migration: its guest writes to memory faster than the hosts copy.
The scheduler waits for no migration if a VM of the order is already being saved, or is saved.

Example: an order has VMs 1, 2 and 3, and VM 3 migrates for 22 s. A dearer order displaces it after
2 s. VMs 1 and 2 run on for 20 s, and then all three are saved.
"""

import numpy as np

from merkatd.cluster import Bools, Floats, Ints, Snapshot, VmState
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.market.limit_orders import OrderBook
from merkatd.placement.market.orders.order_places import OrderPlaces

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
    leaves = are_saved_now(snapshot, rows)
    saved = vms.saved & (vms.order != NO_ROW)
    in_part = {*vms.order[rows[leaves]].tolist(), *vms.order[saved].tolist()}
    moving = rows[migrates]
    return {
        order: vm
        for order, vm in zip(vms.order[moving].tolist(), vms.id[moving].tolist(), strict=True)
        if order not in in_part and orders.displaced_s[order] < MOST_WAIT_S
    }


def are_saved_now(snapshot: Snapshot, rows: Ints) -> Bools:
    """Return [rows]: whether OpenNebula is saving this displaced VM, if it can be stopped."""
    vms = snapshot.vms
    saved: Bools = (vms.state[rows] == VmState.BUSY) & (vms.source[rows] == NO_HOST)
    return saved


def stopped_after(migrating: int | None) -> str:
    """Return the end of the reason of a VM whose order waits for this VM's migration, if any."""
    if migrating is None:
        return ""
    return f"; its VMs are saved together, once VM {migrating} has been migrated"


def paid_until_left(
    snapshot: Snapshot, places: OrderPlaces, book: OrderBook, size: Floats
) -> Floats:
    """Return [orders]: what displaced VMs pay until they have left; `size` is what they have.

    That is what they paid before, in the order or by their bids, and at least the reserve prices.
    It is at most the order's limit, or the earlier one: otherwise a tenant could lower the limit,
    or state an order with a limit near 0, and would keep room from others for nothing. If it is
    unknown what they paid, they pay the weights, which are slow prices.
    """
    last = snapshot.orders.paid[places.orders]
    before = np.where(np.isnan(last), _sums(size @ book.weights, places), last)
    limit = np.fmax(book.orders.limit, snapshot.orders.earlier_limit[places.orders])
    paid: Floats = np.maximum(np.minimum(limit, before), _sums(size @ book.reserve, places))
    return paid


def parts_of(worth: Floats, paid: Floats, order: Ints) -> Floats:
    """Return [members, resources]: what each VM pays of what its order pays, by its worth.

    `paid` is by order, and `order` has the order of each member.
    """
    whole = np.bincount(order, worth.sum(axis=1), len(paid))
    rate = np.divide(paid, whole, out=np.zeros(len(paid)), where=whole > 0)
    parts: Floats = worth * rate[order][:, np.newaxis]
    return parts


def most_until_left(
    snapshot: Snapshot, places: OrderPlaces, book: OrderBook, stuck: Bools
) -> Floats:
    """Return [members, resources]: the most that each displaced VM pays.

    That is its part of the limit. A VM that migrates keeps its earlier share until it arrives,
    since no host takes new limits for it: it pays its part of the earlier limit, if that was
    higher, also if the limit is now 0 as its payer has no credits left.
    """
    rows = places.view.vms[places.members]
    limit = book.orders.limit
    earlier = np.nan_to_num(snapshot.orders.earlier_limit[places.orders])
    worth = places.view.size[places.members] * book.weights
    most: Floats = snapshot.vms.bid[rows].copy()
    raised = np.where((limit > 0)[places.order][:, np.newaxis], most, worth)
    raised = parts_of(raised, earlier, places.order)
    on_its_way = (snapshot.vms.state[rows] == VmState.BUSY) & ~stuck
    on_its_way &= (earlier > limit)[places.order]
    most[on_its_way] = raised[on_its_way]
    return most


def _sums(amounts: Floats, places: OrderPlaces) -> Floats:
    """Return [orders]: the sums of amounts of their members."""
    sums = np.bincount(places.order, amounts, len(places.orders))
    return np.asarray(sums, dtype=np.float64)
