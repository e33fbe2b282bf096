"""Clearing of a market's limit orders with the prices of local markets.

# Note [Orders in local markets]

Orders are compared with local bids (Note [Local prices] in `local_markets.py`) before they take
hosts and after that:

- Before: the VMs of an order that can't leave a set of hosts need room in its local market. An
  order that lacks it is left out, so that it takes no host from others and raises no price.
- After: VMs that can leave may have taken hosts of a local market. If they would pay more there
  than elsewhere, the set is closed to all VMs that can leave. It is opened again for orders that
  find no other hosts. If it has no room for one of these, it is closed to that order and the lower
  ones for good. An order with VMs there that can't leave is left out.

Then the orders take hosts again, until all of them have room where they are. Each such turn leaves
out orders or closes sets, so that at most `_MOST_TURNS` follow one another. In the last one an
order may keep a host for its whole limit, although that is less than the local price.

An order pays the sum of what its VMs pay, each at the market's price or at its local price if that
is higher, and at most its limit. The strategy may move VMs of orders only to hosts whose local
markets have been counted for them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from merkatd.cluster import Bools, Floats, Ints, Snapshot
from merkatd.market.limit_orders import Clearing, OrderBook
from merkatd.placement.base.narrowed_hosts import narrowed_to
from merkatd.placement.contract import Pricing
from merkatd.placement.market.orders.local_markets import (
    LocalMarkets,
    LocalResult,
    LocalSets,
    amounts_of,
    local_sets,
)
from merkatd.placement.market.orders.order_books import OpenedBook, opened_book
from merkatd.placement.market.orders.order_places import OrderPlaces

_MOST_TURNS = 8
_NEARLY = 1 + 1e-9
_LABEL = "the hosts that its limit order pays for"


class ClearedMarket(NamedTuple):
    """The limit orders of a market, with the prices of local markets."""

    places: OrderPlaces
    book: OrderBook
    clearing: Clearing
    needed: Floats
    """[orders]: the limit that it needs in a local market, if it waits for that; else 0."""
    allowed: Mapping[int, Bools]
    """By snapshot row of a VM: [hosts of the snapshot] that the strategy may use for it."""


def cleared_market(snapshot: Snapshot, market: int, pricing: Pricing) -> ClearedMarket:
    """Return which orders run, where, and what they pay."""
    opened = opened_book(snapshot, market, pricing)
    sets = local_sets(opened, snapshot.vms.owner[opened.places.view.vms])
    if sets is None:
        none = np.zeros(len(opened.places.orders))
        return ClearedMarket(*opened[:2], opened.book.clear(), none, {})
    return _LocalClearing(snapshot, opened, sets).cleared()


class _LocalClearing:
    """The turns in which orders take hosts."""

    def __init__(self, snapshot: Snapshot, opened: OpenedBook, sets: LocalSets) -> None:
        self._snapshot, self._opened, self._sets = snapshot, opened, sets
        count = len(opened.places.orders)
        self._left_out, self._gone = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        """[orders]: whether it waits, and whether it takes no part in the first comparison."""
        self._closed = np.zeros((len(sets.hosts), count), dtype=bool)
        """[sets, orders]: whether the order's VMs that can leave may not use the set."""
        self._for_now = np.zeros((len(sets.hosts), count), dtype=bool)
        """[sets, orders]: whether it is closed only until the order finds no other hosts."""
        self._compared = np.zeros(len(sets.hosts), dtype=bool)
        """[sets]: whether orders that can leave have been sent to other hosts first."""
        self._needed = np.zeros((2, count))
        """[2, orders]: the limit that it needs if it is left out, or a closed set keeps it out."""
        self._fits: dict[int, bool] = {}
        self._places, self._last_closed = opened.places, self._closed[:, opened.places.order]
        """The places of the last turn, and [sets, members] that were closed then."""
        self._places.in_turns()

    def cleared(self) -> ClearedMarket:
        """Return the result of the last turn."""
        sets, first_places = self._sets, self._opened.places
        order, surely = first_places.order, first_places.surely_exist
        markets, everywhere = LocalMarkets(sets, self._opened), np.ones(len(surely), dtype=bool)
        for _ in range(_MOST_TURNS):
            absent = self._left_out | self._gone
            first = markets.look_at(sets.members & ~absent[order], surely, self._fit)
            outbid = first.outbid.any(axis=0)
            places, book = self._take_hosts(self._left_out | outbid)
            clearing = book.clear()
            at = self._host_of(places, clearing.runs)
            last = markets.look_at(sets.hosts[:, at], everywhere, self._fit)
            # Orders that lack room before they take hosts raise what others pay there, too.
            paid, shares = np.maximum(first.paid, last.paid), self._shares(book, clearing)
            raised = paid > shares * _NEARLY
            cost = self._sums(clearing.cost, np.where(raised, paid, shares), raised)
            over = clearing.runs & (cost > book.orders.limit * _NEARLY)
            over &= ~last.outbid.any(axis=0)
            changes = self._open_again(clearing.placeless)
            changes |= self._close(at, clearing.runs, last, raised)
            changes |= self._leave_out(over, cost)
            if outbid.any():
                captive = np.bincount(order, sets.members.any(axis=0), len(cost)) > 0
                changes |= _mark(self._gone, captive & ~absent & ~outbid & ~clearing.runs)
            if not changes:
                break
        cost = np.where(last.outbid.any(axis=0), book.orders.limit, cost)
        left_out, kept_out = self._needed
        needed = np.where(clearing.runs, 0.0, np.maximum(first.needed, left_out))
        needed[clearing.placeless] = np.maximum(needed, kept_out)[clearing.placeless]
        cost = np.where(clearing.runs, np.minimum(cost, book.orders.limit), 0.0)
        clearing = clearing._replace(cost=cost, placeless=clearing.placeless & (needed == 0))
        return ClearedMarket(places, book, clearing, needed, self._allowed(at))

    def _fit(self, order: int) -> bool:
        if order not in self._fits:
            self._fits[order] = self._opened.places.exist(order)
        return self._fits[order]

    def _take_hosts(self, absent: Bools) -> tuple[OrderPlaces, OrderBook]:
        """Return the orders before they take hosts, without absent ones and on open sets."""
        first, book = self._opened.places, self._opened.book
        order = first.order
        closed: Bools = self._closed[:, order] & ~self._sets.members
        only = self._without_sets(np.any(closed, axis=0), closed)
        must = (closed & self._sets.hosts[:, first.view.place[first.members]]).any(axis=0)
        differs = (closed != self._last_closed).any(axis=0)
        must_move, changed = (
            np.bincount(order[of], minlength=len(absent)) > 0 for of in (must, differs)
        )
        narrowed = narrowed_to(self._snapshot, only, _LABEL)
        places = self._places.next_turn(narrowed, must_move, changed)
        self._places, self._last_closed = places, closed
        return places, replace(
            book,
            absent=absent,
            take_places=places.take,
            has_places=places.exist,
            walk=places.walk,
            known_demand=book.demand,
        )

    def _of_snapshot(self, closed: Bools) -> Bools:
        """Return [hosts of the snapshot]: whether it is in none of the marked sets."""
        allowed = np.ones(len(self._snapshot.hosts), dtype=bool)
        allowed[self._opened.places.view.hosts] = ~self._sets.hosts[closed, :-1].any(axis=0)
        return allowed

    def _host_of(self, places: OrderPlaces, runs: Bools) -> Ints:
        """Return [members]: the host of each VM of the orders that run; -1 for others."""
        hosts: Ints = np.full(len(places.members), -1)
        running = runs[places.order]
        hosts[running] = places.taken(running)
        return hosts

    def _shares(self, book: OrderBook, clearing: Clearing) -> Floats:
        """Return [members]: what each VM pays of its order's cost in the whole market."""
        places = self._opened.places
        size = places.view.size[places.members] @ book.weights
        shares: Floats = size * (clearing.cost / (book.orders.bundle @ book.weights))[places.order]
        return shares

    def _sums(self, cost: Floats, paid: Floats, raised: Bools) -> Floats:
        """Return [orders]: the cost in the whole market, or the sum with VMs that pay more."""
        order = self._opened.places.order
        some = np.bincount(order, raised, len(cost)) > 0
        return np.where(some, np.bincount(order, paid, len(cost)), cost)

    def _open_again(self, placeless: Bools) -> bool:
        """Open the sets that were closed for now to orders that find no other hosts."""
        opened = self._for_now & placeless
        self._closed &= ~opened
        self._for_now &= ~opened
        return bool(opened.any())

    def _close(self, at: Ints, runs: Bools, last: LocalResult, raised: Bools) -> bool:
        """Close sets to orders that pay more or are outbid there, or leave these orders out."""
        sets, order = self._sets, self._opened.places.order
        height, changes = self._opened.book.height, False
        for row in last.books:
            outbid, there, free = last.outbid[row], sets.hosts[row, at], ~sets.members[row]
            can_leave = _count(order, free, runs) > 0
            visits = _count(order, there & free, runs) > 0
            pays_more = _count(order, there & free & raised, runs) > 0
            if not outbid.any() and not (pays_more.any() and not self._compared[row]):
                continue
            others = self._have_others(row)
            if not self._compared[row] and (visits & (outbid | pays_more)).any():
                self._compared[row] = changes = True
                self._for_now[row] |= others & can_leave & ~self._closed[row]
                self._closed[row] |= others & can_leave
                continue
            leave = outbid & others & visits
            changes |= self._leave_out(outbid & ~leave, last.needed)
            if leave.any():
                accepted = runs & ~outbid & (_count(order, there, runs) > 0)
                lower = ~accepted & others & can_leave & (height <= height[leave].max())
                changes |= _mark(self._closed[row], leave | lower)
                self._for_now[row] &= ~(leave | lower)
                self._note_kept_out(row, leave | lower, last)
        return changes

    def _note_kept_out(self, row: int, orders: Bools, last: LocalResult) -> None:
        """Note the limits with which orders could use this set."""
        amounts = amounts_of(self._opened, ~self._sets.members[row])
        book, all_orders = self._opened.book, np.flatnonzero(orders)
        elsewhere = (book.orders.bundle - amounts)[all_orders] @ book.reserve
        limits = last.books[row].limits_that_run(amounts[all_orders]) + elsewhere
        kept_out = self._needed[1]
        kept_out[all_orders] = np.maximum(kept_out[all_orders], limits)

    def _have_others(self, row: int) -> Bools:
        """Return [orders]: whether VMs that can leave this set have hosts outside all closed."""
        places, sets = self._opened.places, self._sets
        closed = self._closed[:, places.order] & ~sets.members
        closed[row] = ~sets.members[row]
        required = places.rules.requirement[places.members]
        pattern = (1 << np.arange(len(closed))) @ closed
        kinds, kind = np.unique(required * 2 ** len(closed) + pattern, return_inverse=True)
        some = np.zeros(len(kinds), dtype=bool)
        for at, member in enumerate(np.unique(kind, return_index=True)[1].tolist()):
            shut = sets.hosts[closed[:, member], :-1].any(axis=0)
            some[at] = (places.rules.classes[required[member]] & ~shut).any()
        some = some[kind]
        without = np.bincount(places.order, ~some, len(places.orders))
        have: Bools = without == 0
        return have

    def _leave_out(self, orders: Bools, needed: Floats) -> bool:
        self._needed[0, orders] = np.maximum(self._needed[0], needed)[orders]
        return _mark(self._left_out, orders)

    def _allowed(self, at: Ints) -> Mapping[int, Bools]:
        """Return the hosts that the strategy may use for the VMs of orders that run."""
        sets = self._sets
        uncounted = ~sets.members & ~sets.hosts[:, at]
        return self._without_sets((at >= 0) & uncounted.any(axis=0), uncounted)

    def _without_sets(self, members: Bools, without: Bools) -> dict[int, Bools]:
        """Return, by snapshot row of these members' VMs, the hosts in none of the marked sets.

        `without` is [sets, members].
        """
        places = self._opened.places
        masks: dict[bytes, Bools] = {}
        hosts: dict[int, Bools] = {}
        rows = np.flatnonzero(members)
        vms = places.view.vms[places.members[rows]].tolist()
        for vm, marked in zip(vms, without.T[rows], strict=True):
            key = marked.tobytes()
            if key not in masks:
                masks[key] = self._of_snapshot(marked)
            hosts[vm] = masks[key]
        return hosts


def _count(order: Ints, marked: Bools, orders: Bools) -> Floats:
    """Return [orders]: the number of marked members."""
    return np.bincount(order, marked, len(orders)).astype(np.float64)


def _mark(marked: Bools, more: Bools) -> bool:
    """Mark more rows; return whether any of them is new."""
    new = bool((more & ~marked).any())
    marked |= more
    return new
