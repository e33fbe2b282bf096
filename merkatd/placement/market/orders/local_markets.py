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
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import NO_HOST
from merkatd.market.demand import Demand
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
_LOOKS = 2
"""The number of looks in each turn: before orders take hosts, and after that."""


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
    classes = rules.classes
    narrow = classes.any(axis=1) & (classes != view.open).any(axis=1)
    if not narrow.any():
        return classes[:0]
    required, credits_of = rules.requirement[opened.bidders], bids.bid.sum(axis=1)
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


@dataclass(frozen=True)
class _LocalBids:
    """The bids of a local market."""

    bids: Bids
    capacity: Floats

    @cached_property
    def wanted(self) -> Floats:
        """Return [resources]: what the VMs with bids can use."""
        bid, floor, cap = self.bids
        wanted: Floats = np.where(bid > 0, cap, floor).sum(axis=0)
        return wanted

    @cached_property
    def demand(self) -> Demand:
        return Demand.of_goods(*self.bids, self.capacity)


class LocalMarkets:
    """The local markets of a cloud, with what does not change from one look to the next."""

    def __init__(self, sets: LocalSets, opened: OpenedBook) -> None:
        self._sets, self._opened = sets, opened
        self._rows = [np.flatnonzero(mine) for mine in sets.bids]
        self._capacity = [opened.places.view.capacity[of].sum(axis=0) for of in sets.hosts[:, :-1]]
        in_larger: Bools = np.logical_or.accumulate(sets.bids[::-1], axis=0)[-2::-1]
        self._overlaps: Bools = np.append((in_larger & sets.bids[:-1]).any(axis=1), False)
        """By set: whether a larger one has some of its bids."""
        places = opened.places
        self._weight: Floats = places.view.size[places.members] @ opened.book.weights
        """[members]: the full size, in comparable units."""
        self._known: list[list[_LocalBids]] = [[] for _ in self._rows]
        """By set: its bids at the last looks."""

    def look_at(self, there: Bools, surely: Bools, fits: Callable[[int], bool]) -> LocalResult:
        """Return what each local market decides about the VMs `there`, [sets, members].

        `fits` returns whether an order's VMs fit on hosts without the other orders. `surely` is
        [orders]: whether this is known.
        """
        sets, opened = self._sets, self._opened
        places, book = opened.places, opened.book
        order, count, top = places.order, len(places.orders), book.bids.cap.copy()
        outbid, needed = np.zeros((len(sets.hosts), count), dtype=bool), np.zeros(count)
        books: dict[int, OrderBook] = {}
        paid, left_out = np.zeros(len(order)), np.zeros(count, dtype=bool)
        for at, rows in enumerate(self._rows):
            mine = np.flatnonzero(there[at] & ~left_out[order])
            bids = self._bids(at, top)
            amounts = amounts_of(opened, mine)
            if (bids.wanted + amounts.sum(axis=0) <= bids.capacity * ENOUGH).all():
                continue
            here, capacity = np.flatnonzero(amounts.any(axis=1)), bids.capacity
            if len(here):
                sure = surely[here]
                local, other_costs = _local_book(book, bids, here, amounts[here], sure, fits)
                books[at], (runs, placeless, costs) = local, local.costs()
                lacks = np.zeros(len(here), dtype=bool)
                lacks[local.ranked] = True
                lacks &= ~runs & ~placeless
                outbid[at, here[lacks]] = left_out[here[lacks]] = True
                limits = local.limits_that_run(amounts[here[lacks]]) + other_costs[lacks]
                needed[here[lacks]] = np.maximum(needed[here[lacks]], limits)
                per_weight = np.zeros(count)
                per_weight[here] = costs / (amounts[here] @ book.weights)
                local_costs = self._weight[mine] * per_weight[order[mine]]
                paid[mine] = np.maximum(paid[mine], local_costs)
                capacity = capacity - amounts[here[runs]].sum(axis=0)
            if self._overlaps[at]:
                top[rows] = _shares(bids.bids, np.maximum(capacity, 0.0))
        return LocalResult(outbid, needed, paid, books)

    def _bids(self, at: int, top: Floats) -> _LocalBids:
        """Return the bids of a set, of which each gets at most `top`, [bids, resources]."""
        bids, rows, known = self._opened.book.bids, self._rows[at], self._known[at]
        cap = top[rows]
        for each in known:
            if np.array_equal(each.bids.cap, cap):
                return each
        of_set = Bids(bids.bid[rows], np.minimum(bids.floor[rows], cap), cap)
        known.insert(0, _LocalBids(of_set, self._capacity[at]))
        del known[_LOOKS:]
        return known[0]


def amounts_of(opened: OpenedBook, members: Bools | Ints) -> Floats:
    """Return [orders, resources]: the full size of these members' VMs."""
    places = opened.places
    size = places.view.size[places.members[members]]
    return _sums(places.order[members], size, len(places.orders))


def _local_book(
    book: OrderBook,
    bids: _LocalBids,
    here: Ints,
    amounts: Floats,
    surely: Bools,
    fits: Callable[[int], bool],
) -> tuple[OrderBook, Floats]:
    """Return the book of a local market, and the least that each order pays elsewhere.

    `here` are the orders there, and `amounts` what their VMs need there. `surely` is [here].
    """
    orders = book.orders
    other_costs = (orders.bundle[here] - amounts) @ book.reserve
    limit = np.maximum(orders.limit[here] - other_costs, 0.0)
    runs = None if orders.runs is None else orders.runs[here]

    def walk(ranked: Ints, needed: Floats, room: Floats) -> Walk:
        return _walk(needed, room, surely[ranked], lambda at: fits(int(here[ranked[at]])))

    local = OrderBook(
        bids.bids,
        LimitOrders(limit, amounts, runs),
        bids.capacity,
        book.weights,
        book.reserve,
        walk=walk,
        known_demand=bids.demand,
    )
    return local, other_costs


def _walk(needed: Floats, room: Floats, surely: Bools, fits: Callable[[int], bool]) -> Walk:
    """Look at orders as the market's machine code does, without their places on hosts.

    Only orders that lack room, and don't surely fit, are tested: these could raise what others pay.
    `fits` gets the place of an order in the walk.
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
        surely=surely,
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
        exists = fits(int(walk.state[AT]))
        note_look(walk, True, exists, exists)
    return Walk(walk.runs, walk.placeless, walk.exist, walk.before, walk.lacking)


def _shares(bids: Bids, capacity: Floats) -> Floats:
    """Return [bids, resources]: their shares of this capacity (Eq. 1)."""
    rows, goods = bids.bid.shape
    pool = np.tile(np.arange(goods), rows)
    bid, floor, cap = (column.ravel() for column in bids)
    shares: Floats = share(bid, floor, cap, pool, capacity).allocation.reshape(rows, goods)
    return shares
