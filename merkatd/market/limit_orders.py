"""Limit orders: a whole bundle of goods while it costs at most a limit, and nothing above.

# Note [Bids and orders in one market]

A bid b asks for clip(b / p, floor, cap) of a good at price p; an order asks for its whole bundle as
long as it costs at most its limit. Both ask for less as prices rise. Orders can't be divided, so a
single price may leave some capacity that is too small for the next order. Three rules decide:

1. *Which order runs.* The weights w (slow averages of prices: `goods_weights.py`) make the goods
   comparable. An order with bundle q and limit L can pay L / (w . q) times these prices: its
   *height*. Of equal heights, a running order comes first, then the older one. From the highest to
   the lowest, an order runs if, at prices of its height, there is room for its bundle, the orders
   that run already, and the demand of all bids. An order that lacks room is skipped, and a smaller
   one below it may still run. The weights don't depend on this period's limits, so a
   higher limit never stops an order. An order that no limit could start counts as absent: its VMs
   fit on no hosts, or it lacks room beside the floors of bids.
2. *What an order pays.* The least limit with which it would still run, computed without it: the
   height of the first order or bid below it whose demand leaves it no room. A higher limit doesn't
   change this cost, and a lower limit either doesn't or stops the order. So a tenant states what
   the bundle is worth.
3. *What a bid pays.* Bids divide the capacity left by orders (Eq. 1). The price of a good is what
   they pay per unit there, or the height of the first order that lacked room in this good if that
   is more: a bid that can't use more than its cap keeps that order out, and pays as much.

Example, one good, capacity 100, weight 1, no reserve price. Orders: A 60 units for 120 credits, B
60 for 90, C 30 for 30; one bid of 10 for at most 100 units. Heights: 2, 1.5, 1. At price 2 the bid
asks for 5, and A runs. At 1.5 there is no room for A and B: B waits. At 1 the bid asks for 10, and
60 + 30 + 10 fit: C runs. The bid gets the other 10 units, and the price is 1.5: the bid pays its 10
credits. A pays 90, as at any lower height B would run before it. C pays 30 x 1 = 30, since below a
height of 1 the bid would ask for more than the 10 units.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from merkatd.cluster.columns import Bools, Floats, Ints
from merkatd.market.demand import Demand
from merkatd.market.goods_weights import comparable, margin_offers
from merkatd.market.share import ENOUGH

_AT_ONCE = 64
"""The number of lacking orders that are compared at once with all that run."""
_NEARLY_EQUAL = 1e-9
"""The part by which a running order may be lower than one that displaces it: limits are sums."""


class Bids(NamedTuple):
    """The proportional bids of one market, each [rows, resources]."""

    bid: Floats
    floor: Floats
    cap: Floats


class LimitOrders(NamedTuple):
    """The limit orders of one market."""

    limit: Floats
    """[orders]: the most credits a period for the whole bundle."""
    bundle: Floats
    """[orders, resources]"""
    runs: Bools | None = None
    """[orders]: whether it ran in the last period; None if none did."""


class Clearing(NamedTuple):
    """The orders that run, what they cost, and the price of each good."""

    runs: Bools
    """[orders]"""
    placeless: Bools
    """[orders]: whether there are no hosts for the order's VMs, whatever room the market has."""
    cost: Floats
    """[orders]: credits a period; 0 for orders that wait."""
    price: Floats
    """[resources]: credits per unit and period."""
    lacking: Floats
    """[resources]: the part of the price that the highest order without room offers."""
    offers: Floats
    """[resources]: what is offered at the margin (Note [Slow weights] in `goods_weights.py`)."""


def _anywhere(_order: int) -> bool:
    return True


@dataclass(frozen=True)
class OrderBook:
    """The bids and orders of one market with its whole capacity as one host."""

    bids: Bids
    orders: LimitOrders
    capacity: Floats
    weights: Floats
    """[resources]: prices that make the goods of a bundle comparable, above zero."""
    reserve: Floats
    """[resources]"""
    take_places: Callable[[int], bool] = _anywhere
    """A function that takes hosts for an order's VMs, from the highest order with room to the
    lowest, and returns whether there are any."""
    has_places: Callable[[int], bool] = _anywhere
    """A function that returns whether an order's VMs fit on hosts without the other orders, called
    for those without room: an order that could never run must raise no price."""
    elsewhere: Floats | float = 0.0
    """[orders, resources]: the part of each bundle on hosts that are outside the capacity."""
    absent: Bools | bool = False
    """[orders]: whether it waits at any limit, and raises no price."""
    walk: Callable[[Ints, Floats, Floats], "Walk"] | None = None
    """A function that looks at all orders as `take_places` and `has_places` do one by one. It gets
    the orders from the highest, what each needs, and what bids leave at prices of its height."""
    known_demand: Demand | None = None
    """The demand of these bids, if another book with the same capacity has computed it."""

    @cached_property
    def height(self) -> Floats:
        """Return [orders]: the multiple of the weights that each order can pay."""
        return self.orders.limit / (self.orders.bundle @ self.weights)

    def clear(self) -> Clearing:
        """Return the orders that run, their costs and the prices."""
        runs, placeless, cost = self.costs()
        lacking = self.weights * self._heights[self._walk.lacking]
        prices = self._prices(runs, lacking)
        return Clearing(runs, placeless, cost, prices, lacking, self._offers)

    def costs(self) -> tuple[Bools, Bools, Floats]:
        """Return the first three columns of the clearing, without the prices."""
        walk = self._walk
        runs, placeless = np.zeros((2, len(self.height)), dtype=bool)
        places = np.flatnonzero(walk.runs)
        rows = self.ranked[places]
        runs[rows] = True
        cost = np.zeros(len(runs))
        cost[rows] = self._limits_at(self._bounds(places), self.orders.bundle[rows])
        np.minimum(cost, self.orders.limit, out=cost)  # equal but for rounding
        placeless[self.ranked[walk.placeless]] = True
        return runs, placeless, cost

    def limits_that_run(self, bundles: Floats) -> Floats:
        """Return the least limit with which one more order, of each bundle, would run.

        `bundles` is [bundles, resources]. The limit is infinite if no limit is enough. For an order
        that waits this is the limit that it lacks.
        """
        return self._limits_at(self._bounds_of_others(bundles), bundles)

    def heights_that_run(self, bundles: Floats) -> Floats:
        """Return the least height with which one more order, of each bundle, would run.

        At this height the order may still have to pay more, at the reserve prices.
        """
        return self._heights_at(self._bounds_of_others(bundles))

    def _prices(self, runs: Bools, lacking: Floats) -> Floats:
        """Return the price that bids pay for what orders leave, at least that of lacking orders."""
        left = self.capacity - self._needed[runs].sum(axis=0)
        levels = [self.demand.level(good, room) for good, room in enumerate(left.tolist())]
        with np.errstate(divide="ignore"):
            paid = 1.0 / np.array(levels)
        prices: Floats = np.maximum(np.maximum(paid, lacking), self.reserve)
        return prices

    @cached_property
    def _needed(self) -> Floats:
        """Return [orders, resources]: what each order needs of the capacity."""
        return self.orders.bundle - self.elsewhere

    @cached_property
    def _offers(self) -> Floats:
        """Return what is offered for each good at the margin, as weights of later periods."""
        there = np.flatnonzero(self._walk.exist)
        heights, bundles, rooms = self._heights[there], self._bundle[there], self._room[there]
        most = self.capacity * ENOUGH
        offers = margin_offers(heights, bundles, rooms, self.demand, self.weights, most)
        return comparable(offers, self.capacity, self.reserve)

    @cached_property
    def demand(self) -> Demand:
        """Return the demand of all bids, with a pool per good."""
        return self.known_demand or Demand.of_goods(*self.bids, self.capacity)

    @cached_property
    def ranked(self) -> Ints:
        """Return the rows of the orders that a limit can start, from the highest.

        They pay the reserve prices, and fit beside the floors of bids. Orders that ran come before
        others of nearly equal height, and then the oldest.
        """
        orders = self.orders
        pays = (orders.limit > 0) & (orders.limit >= orders.bundle @ self.reserve)
        floors = [self.demand.floors(good) for good in range(len(self.capacity))]
        fits = (self._needed <= self.capacity * ENOUGH - np.array(floors)).all(axis=1)
        fits |= ~self._needed.any(axis=1)
        rows = np.flatnonzero(pays & fits & np.logical_not(self.absent))
        height = self.height[rows]
        if orders.runs is not None:
            height = height * np.where(orders.runs[rows], 1.0 + _NEARLY_EQUAL, 1.0)
        return rows[np.argsort(-height, kind="stable")]

    @cached_property
    def _heights(self) -> Floats:
        """Return [ranked orders + 1]: their heights, and 0 for none."""
        return np.append(self.height[self.ranked], 0.0)

    @cached_property
    def _bundle(self) -> Floats:
        """Return [ranked orders, resources]: what each needs."""
        return self._needed[self.ranked]

    @cached_property
    def _room(self) -> Floats:
        """Return [ranked orders, resources]: what bids leave at prices of its height."""
        heights = self.height[self.ranked]
        rooms = np.empty((len(heights), len(self.capacity)))
        with np.errstate(divide="ignore"):
            for good, weight in enumerate(self.weights.tolist()):
                levels = 1.0 / np.maximum(heights * weight, self.reserve[good])
                rooms[:, good] = self.capacity[good] * ENOUGH - self.demand.asked(good, levels)
        return rooms

    @cached_property
    def _walk(self) -> "Walk":
        """Look at each order once, from the highest."""
        if self.walk is not None:
            return self.walk(self.ranked, self._bundle, self._room)
        goods, used = range(len(self.capacity)), [0.0] * len(self.capacity)
        lacking = [len(self.ranked)] * len(self.capacity)
        before, runs, placeless, exist = [], [], [], []
        asked = self._bundle.tolist(), self._room.tolist()
        for place, (bundle, room) in enumerate(zip(*asked, strict=True)):
            before.append(tuple(used))
            lacks = [
                good for good in goods if used[good] + bundle[good] > room[good] and any(bundle)
            ]
            row = int(self.ranked[place])
            has_places = self.has_places(row) if lacks else self.take_places(row)
            placed = has_places and not lacks
            runs.append(placed)
            placeless.append(not has_places)
            # An order that others leave no hosts takes part in the offers, whoever is higher.
            exist.append(has_places or (not lacks and self.has_places(row)))
            for good in lacks if has_places else ():
                lacking[good] = min(lacking[good], place)
            if placed:
                used = [used[good] + bundle[good] for good in goods]
        before.append(tuple(used))
        found = np.array([runs, placeless, exist], dtype=bool)
        return Walk(found[0], found[1], found[2], np.array(before), np.array(lacking))

    def _bounds(self, places: Ints) -> "_Bounds":
        """Return the orders or the bids that stop the orders at these places at lower heights.

        Without it, each order below does what it does beside it, down to the first that lacks room
        beside it only, or to the first place at which bids leave less than orders use.
        """
        walk, count = self._walk, len(self.ranked)
        before, room, bundle = walk.before, self._room, self._bundle
        end = _next(np.any(before[:-1] > room, axis=1))[places + 1]
        stops = np.full(len(places), count)
        lacking = np.flatnonzero(~walk.runs & ~walk.placeless)
        left = np.arange(len(places))
        for first in range(0, len(lacking), _AT_ONCE):
            others = lacking[first : first + _AT_ONCE]
            left = left[end[left] > others[0]]
            if not len(left):
                break
            at = others[np.newaxis]
            fits = (at > places[left, np.newaxis]) & (at < end[left, np.newaxis])
            for good in range(len(self.capacity)):
                without = before[others, good] - bundle[places[left], good, np.newaxis]
                fits &= without + bundle[others, good] <= room[others, good]
            stopped = fits.any(axis=1)
            stops[left[stopped]] = others[fits[stopped].argmax(axis=1)]
            left = left[~stopped]
        height, by_bids = self._heights[stops], stops == count
        needs_none = ~bundle[places].any(axis=1)
        height[needs_none], by_bids[needs_none] = 0.0, False
        return _Bounds(height, by_bids, before[end])

    def _bounds_of_others(self, bundles: Floats) -> "_Bounds":
        """Return the orders or the bids that stop orders which are not among those that run.

        Orders that lack room without it lack it beside it, too.
        """
        before, left = self._walk.before, self._room - self._walk.before[:-1]
        beside = np.where(self._walk.runs[:, np.newaxis], left - self._bundle, left)
        stops = np.full(len(bundles), len(left))
        for good, units in enumerate(bundles.T):
            least = np.minimum.accumulate(beside[:, good])
            np.minimum(stops, np.searchsorted(-least, -units, side="right"), out=stops)
        by_bids = (bundles > np.vstack([left, np.full(len(self.capacity), -np.inf)])[stops]).any(
            axis=1
        )
        return _Bounds(self._heights[stops], by_bids, before[stops] + bundles)

    def _limits_at(self, bounds: "_Bounds", bundles: Floats) -> Floats:
        """Return the least limits of bundles with these bounds, at least at the reserve prices."""
        heights = self._heights_at(bounds)
        limits: Floats = np.maximum(heights * (bundles @ self.weights), bundles @ self.reserve)
        return limits

    def _heights_at(self, bounds: "_Bounds") -> Floats:
        """Return the heights of these bounds."""
        by_bids = bounds.by_bids
        heights: Floats = np.where(by_bids, 0.0, bounds.height)
        for good, weight in enumerate(self.weights.tolist()):
            left = self.capacity[good] * ENOUGH - bounds.used[by_bids, good]
            with np.errstate(divide="ignore"):
                price = 1.0 / self.demand.levels(good, left)
            # At the reserve price bids ask for the most.
            price[price <= self.reserve[good]] = 0.0
            heights[by_bids] = np.maximum(heights[by_bids], price / weight)
        return heights


class _Bounds(NamedTuple):
    """What stops each of several orders at lower heights: another order, or bids."""

    height: Floats
    """[orders]: the height of the order that stops it."""
    by_bids: Bools
    """[orders]: whether bids stop it."""
    used: Floats
    """[orders, resources]: what orders use where bids stop it."""


def _next(marked: Bools) -> Ints:
    """Return [places + 1]: the first marked place from each place on, or the number of places."""
    places = np.where(marked, np.arange(len(marked)), len(marked))
    first: Ints = np.minimum.accumulate(np.append(places, len(marked))[::-1])[::-1]
    return first


class Walk(NamedTuple):
    """The result of a look at every order, by its place among the ranked ones."""

    runs: Bools
    placeless: Bools
    exist: Bools
    """Whether there are hosts for the order's VMs without all other orders."""
    before: Floats
    """[orders + 1]: what the orders above use of each good."""
    lacking: Ints
    """[resources]: the first order that lacks room in the good; the number of orders for none."""
