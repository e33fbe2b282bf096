"""Sets of hosts that VMs with bids can't leave, each as a market of its own for limit orders.

# Note [Local prices]

The market counts all hosts as one. So an order could take a host at the low price of a cloud that
is mostly idle, from VMs that bid far more and may use no other host. Therefore the hosts that a
requirement allows are a *local market*: its capacity is theirs, its bids are those of VMs that
can't leave them, and its orders are the VMs of orders on them, each at the limit that remains
beside the reserve price of its other VMs. The rules of `market/limit_orders.py` decide which of
these orders run and what they pay. VMs that can leave don't count.

Smaller sets are looked at first. In a larger set, the bids of a smaller one count with at most what
they get there: they can't use the other hosts.

Example: four hosts of 100 units, three of them idle. Two VMs bid 50 credits each and may use host 0
only. An order of 60 units for host 0 leaves 40 units there. At a price of 100 / 40 = 2.5 the bids
ask for just that. So the order needs a limit of 150 credits, and the market's price is the reserve
price.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import NO_HOST
from merkatd.market.limit_orders import Bids, LimitOrders, OrderBook, Walk
from merkatd.market.share import ENOUGH, share
from merkatd.placement.market.orders.order_books import OpenedBook
from merkatd.placement.market.orders.order_walk import (
    AT,
    DONE,
    LEFT,
    OrderWalk,
    note_look,
    walk_calm,
)

MOST_SETS = 32
"""The most sets of hosts in a market; a tenant may state any number of requirements."""
_MOST_LOOKED_AT = 8 * MOST_SETS
"""The most sets among which those with contention are found."""


class LocalSets(NamedTuple):
    """Sets of hosts, from the smallest, and the VMs that can't leave them."""

    hosts: Bools
    """[sets, hosts + 1]; the last column is for no host."""
    bids: Bools
    """[sets, bids]"""
    members: Bools
    """[sets, members of orders]"""


class LocalResult(NamedTuple):
    """What local markets decide about the orders with VMs there."""

    outbid: Bools
    """[sets, orders]: whether it lacks room in the local market."""
    needed: Floats
    """[orders]: the limit that it needs at least, if it is outbid; else 0."""
    paid: Floats
    """[members]: what each VM of an order pays at local prices; 0 where none counts."""
    books: Mapping[int, OrderBook]
    """By set, if its VMs want more than its capacity: the book of its local market."""


def local_sets(opened: OpenedBook, owner: Ints) -> LocalSets | None:
    """Return the sets of hosts of bids with requirements; None if there are none.

    `owner` is [VMs of the view].
    """
    places, rules = opened.places, opened.places.rules
    view, required = places.view, rules.requirement[opened.bidders]
    hosts = _counted_sets(opened, owner)
    if not len(hosts):
        return None
    hosts = hosts[np.argsort(hosts.sum(axis=1), kind="stable")]
    members = places.members
    known, row = np.unique(
        np.concatenate([required, rules.requirement[members]]), return_inverse=True
    )
    classes = rules.classes[known]
    outside = classes.astype(np.float32) @ (~hosts).T.astype(np.float32)
    inside = (outside == 0) & classes.any(axis=1)[:, np.newaxis]
    hosts = np.append(hosts, np.zeros((len(hosts), 1), dtype=bool), axis=1)
    place = view.place[members]
    return LocalSets(
        hosts,
        inside[row[: len(required)]].T & hosts[:, opened.place],
        inside[row[len(required) :]].T & (hosts[:, place] | (place == NO_HOST)),
    )


def _counted_sets(opened: OpenedBook, owner: Ints) -> Bools:
    """Return [sets, hosts]: at most `MOST_SETS` sets that orders and bids may contend for.

    Each owner's set with its highest bids comes first, then each owner's second, and so on, so that
    the bids of one owner do not keep out the sets of others.
    """
    view, rules, bids = opened.places.view, opened.places.rules, opened.book.bids
    required, credits_of = rules.requirement[opened.bidders], bids.bid.sum(axis=1)
    classes = rules.classes
    narrow = classes.any(axis=1) & (classes != view.open).any(axis=1)
    rows = np.flatnonzero(narrow[required] & (credits_of > 0))
    used, at = np.unique(required[rows], return_inverse=True)
    allowed = classes[used]
    _, one, set_of = np.unique(
        np.packbits(allowed, axis=1), axis=0, return_index=True, return_inverse=True
    )
    hosts: Bools = allowed[one]
    if len(hosts) <= MOST_SETS:
        return hosts
    row, credits_of = set_of.reshape(-1)[at], credits_of[rows]
    key = owner[opened.bidders[rows]] * len(hosts) + row
    pairs, pair = np.unique(key, return_inverse=True)
    owners, sets = np.divmod(pairs, len(hosts))
    order = np.lexsort((-np.bincount(pair, credits_of), owners))
    turn = np.empty(len(order), dtype=np.int64)
    turn[order] = np.arange(len(order)) - np.searchsorted(owners[order], owners[order])
    first = np.full(len(hosts), len(order))
    np.minimum.at(first, sets, turn)
    highest = np.lexsort((-np.bincount(row, credits_of), first))[:_MOST_LOOKED_AT]
    counted = highest[_contended(opened, hosts[highest])][:MOST_SETS]
    return hosts[np.sort(counted)]


def _contended(opened: OpenedBook, hosts: Bools) -> Bools:
    """Return [sets]: whether all that VMs there may want is more than the capacity."""
    places, bids = opened.places, opened.book.bids
    view, members, required = places.view, places.members, places.rules.requirement
    there = np.flatnonzero(view.place[members] != NO_HOST)
    on_hosts = _sums(opened.place, np.where(bids.bid > 0, bids.cap, bids.floor), hosts.shape[1])
    on_hosts += _sums(view.place[members[there]], view.size[members[there]], hosts.shape[1])
    kinds, kind = np.unique(required[members], return_inverse=True)
    coming = _sums(kind, view.size[members], len(kinds))
    sets = hosts.astype(np.float32)
    overlap = places.rules.classes[kinds].astype(np.float32) @ sets.T > 0
    wanted = hosts @ on_hosts + overlap.T @ coming
    contended: Bools = np.any(wanted > hosts @ view.capacity * ENOUGH, axis=1)
    return contended


def _sums(row: Ints, amounts: Floats, rows: int) -> Floats:
    """Return [rows, resources]: the sums of the amounts with the same row."""
    sums = [np.bincount(row, good, rows) for good in amounts.T]
    return np.stack(sums, axis=1).astype(np.float64)


def look_at(
    sets: LocalSets, opened: OpenedBook, there: Bools, fits: Callable[[int], bool]
) -> LocalResult:
    """Return what each local market decides about the VMs `there`, [sets, members].

    `fits` returns whether an order's VMs fit on hosts without the other orders.
    """
    places, book = opened.places, opened.book
    size, order = places.view.size[places.members], places.order
    count, top = len(places.orders), book.bids.cap.copy()
    outbid, needed = np.zeros((len(sets.hosts), count), dtype=bool), np.zeros(count)
    books: dict[int, OrderBook] = {}
    paid, left_out = np.zeros(len(order)), np.zeros(count, dtype=bool)
    for at, hosts in enumerate(sets.hosts[:, :-1]):
        rows = np.flatnonzero(sets.bids[at])
        mine = there[at] & ~left_out[order]
        bids = Bids(book.bids.bid[rows], np.minimum(book.bids.floor, top)[rows], top[rows])
        capacity = places.view.capacity[hosts].sum(axis=0)
        amounts = amounts_of(opened, mine)
        wanted = np.where(bids.bid > 0, bids.cap, bids.floor).sum(axis=0)
        if (wanted + amounts.sum(axis=0) <= capacity * ENOUGH).all():
            continue
        here = np.flatnonzero(amounts.any(axis=1))
        if len(here):
            local, other_costs = _local_book(book, bids, capacity, here, amounts[here], fits)
            books[at], cleared = local, local.clear()
            lacks = np.zeros(len(here), dtype=bool)
            lacks[local.ranked] = True
            lacks &= ~cleared.runs & ~cleared.placeless
            outbid[at, here[lacks]] = left_out[here[lacks]] = True
            limits = local.limits_that_run(amounts[here[lacks]]) + other_costs[lacks]
            needed[here[lacks]] = np.maximum(needed[here[lacks]], limits)
            per_weight = np.zeros(count)
            per_weight[here] = cleared.cost / (amounts[here] @ book.weights)
            local_costs = (size @ book.weights) * per_weight[order]
            paid[mine] = np.maximum(paid, local_costs)[mine]
            capacity = capacity - amounts[here[cleared.runs]].sum(axis=0)
        top[rows] = _shares(bids, np.maximum(capacity, 0.0))
    return LocalResult(outbid, needed, paid, books)


def amounts_of(opened: OpenedBook, members: Bools) -> Floats:
    """Return [orders, resources]: the full size of these members' VMs."""
    places = opened.places
    size = places.view.size[places.members[members]]
    return _sums(places.order[members], size, len(places.orders))


def _local_book(
    book: OrderBook,
    bids: Bids,
    capacity: Floats,
    here: Ints,
    amounts: Floats,
    fits: Callable[[int], bool],
) -> tuple[OrderBook, Floats]:
    """Return the book of a local market, and the least that each order pays elsewhere.

    `here` are the orders there, and `amounts` what their VMs need there.
    """
    orders = book.orders
    other_costs = (orders.bundle[here] - amounts) @ book.reserve
    limit = np.maximum(orders.limit[here] - other_costs, 0.0)
    runs = None if orders.runs is None else orders.runs[here]

    def walk(ranked: Ints, needed: Floats, room: Floats) -> Walk:
        return _walk(ranked, needed, room, lambda at: fits(int(here[at])))

    local = OrderBook(
        bids,
        LimitOrders(limit, amounts, runs),
        capacity,
        book.weights,
        book.reserve,
        walk=walk,
    )
    return local, other_costs


def _walk(ranked: Ints, needed: Floats, room: Floats, fits: Callable[[int], bool]) -> Walk:
    """Look at orders as the market's machine code does, without their places on hosts.

    Only orders that lack room are tested: these could raise what others pay.
    """
    (count, goods), none = needed.shape, np.zeros(0, dtype=np.int64)
    unknown, yes = np.zeros(count, dtype=bool), np.ones(count, dtype=bool)
    found = np.zeros((5, count), dtype=bool)
    walk = OrderWalk(
        ranked=np.arange(count),
        bundle=needed,
        room=room,
        runs=found[0],
        placeless=found[1],
        exist=found[2],
        before=np.zeros((count + 1, goods)),
        lacking=np.full(goods, count),
        calm=yes,
        surely=unknown,
        plain=yes,
        movable=yes,
        postponed=unknown,
        later=unknown,
        seen=found[3],
        takes_part=found[4],
        by_part=none,
        hosts=none,
        ends=none,
        classes=np.zeros((0, 0), dtype=bool),
        requirement=none,
        state=np.zeros(LEFT + 1, dtype=np.int64),
        leaving=none,
        vms=none,
        to=none,
    )
    while walk_calm(walk) != DONE:
        exists = fits(int(ranked[walk.state[AT]]))
        note_look(walk, True, exists, exists)
    return Walk(walk.runs, walk.placeless, walk.exist, walk.before, walk.lacking)


def _shares(bids: Bids, capacity: Floats) -> Floats:
    """Return [bids, resources]: their shares of this capacity (Eq. 1)."""
    rows, goods = bids.bid.shape
    pool = np.tile(np.arange(goods), rows)
    bid, floor, cap = (column.ravel() for column in bids)
    shares: Floats = share(bid, floor, cap, pool, capacity).allocation.reshape(rows, goods)
    return shares
