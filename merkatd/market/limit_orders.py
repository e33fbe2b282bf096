"""Limit orders: a whole bundle of goods while it costs at most a limit, and nothing above.

# Note [Bids and orders in one market]

A bid b asks for clip(b / p, floor, cap) of a good at price p; an order asks for its whole bundle as
long as it costs at most its limit. Both ask for less as prices rise. Orders can't be divided, so a
single price may leave some capacity that is too small for the next order. Three rules decide:

1. *Which order runs.* The weights w (the last announced prices) make the goods comparable. An order
   with bundle q and limit L can pay L / (w . q) times these prices: its *height*. From the highest
   to the lowest, an order runs if, at prices of its height, there is room for its bundle, the
   orders that run already, and the demand of all bids. An order that lacks room is skipped, and a
   smaller one below it may still run. The weights don't depend on this period's limits, so a
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
from merkatd.market.share import ENOUGH


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
    """A function that takes hosts for an order's VMs, and returns whether there are any. It is
    called from the highest order to the lowest, for those with room."""
    has_places: Callable[[int], bool] = _anywhere
    """A function that returns whether an order's VMs fit on hosts without the other orders. It is
    called for those without room. An order that could never run must raise no price."""

    @cached_property
    def height(self) -> Floats:
        """Return [orders]: the multiple of the weights that each order can pay."""
        return self.orders.limit / (self.orders.bundle @ self.weights)

    def clear(self) -> Clearing:
        """Return the orders that run, their costs and the prices."""
        walk = self._walk
        runs = np.zeros(len(self.height), dtype=bool)
        places = np.flatnonzero(walk.runs)
        rows = self._ranked[places]
        runs[rows] = True
        bounds = [self._bound(place) for place in places.tolist()]
        cost = np.zeros(len(runs))
        cost[rows] = self._limits_at(bounds, self.orders.bundle[rows])
        np.minimum(cost, self.orders.limit, out=cost)  # equal but for rounding
        placeless = np.zeros(len(runs), dtype=bool)
        placeless[self._ranked[walk.placeless]] = True
        lacking = self.weights * walk.lacking
        return Clearing(runs, placeless, cost, self._prices(runs, lacking), lacking)

    def limits_that_run(self, bundles: Floats) -> Floats:
        """Return the least limit with which one more order, of each bundle, would run.

        `bundles` is [bundles, resources]. The limit is infinite if no limit is enough. For an order
        that waits this is the limit that it lacks.
        """
        return self._limits_at([self._bound_of_another(bundle) for bundle in bundles], bundles)

    def heights_that_run(self, bundles: Floats) -> Floats:
        """Return the least height with which one more order, of each bundle, would run.

        At this height the order may still have to pay more, at the reserve prices.
        """
        return self._heights_at([self._bound_of_another(bundle) for bundle in bundles])

    def _prices(self, runs: Bools, lacking: Floats) -> Floats:
        """Return the price that bids pay for what orders leave, at least that of lacking orders."""
        left = self.capacity - self.orders.bundle[runs].sum(axis=0)
        levels = [self._demand.level(good, room) for good, room in enumerate(left.tolist())]
        with np.errstate(divide="ignore"):
            paid = 1.0 / np.array(levels)
        prices: Floats = np.maximum(np.maximum(paid, lacking), self.reserve)
        return prices

    @cached_property
    def _demand(self) -> Demand:
        """Return the demand of all bids, with a pool per good."""
        rows, goods = self.bids.bid.shape
        pool = np.tile(np.arange(goods), rows)
        bid, floor, cap = (column.ravel() for column in self.bids)
        return Demand.of(bid, floor, cap, pool, self.capacity)

    @cached_property
    def _ranked(self) -> Ints:
        """Return the rows of the orders that a limit can start, from the highest.

        They pay the reserve prices, and fit beside the floors of bids.
        """
        orders = self.orders
        pays = (orders.limit > 0) & (orders.limit >= orders.bundle @ self.reserve)
        floors = [self._demand.floors(good) for good in range(len(self.capacity))]
        fits = (orders.bundle <= self.capacity * ENOUGH - np.array(floors)).all(axis=1)
        rows = np.flatnonzero(pays & fits)
        return rows[np.argsort(-self.height[rows], kind="stable")]

    @cached_property
    def _heights(self) -> list[float]:
        heights: list[float] = self.height[self._ranked].tolist()
        return heights

    @cached_property
    def _bundles(self) -> list[list[float]]:
        bundles: list[list[float]] = self.orders.bundle[self._ranked].tolist()
        return bundles

    @cached_property
    def _rooms(self) -> list[list[float]]:
        """Return, for each ranked order, the room that bids leave at prices of its height."""
        heights = self.height[self._ranked]
        rooms = np.empty((len(heights), len(self.capacity)))
        with np.errstate(divide="ignore"):
            for good, weight in enumerate(self.weights.tolist()):
                levels = 1.0 / np.maximum(heights * weight, self.reserve[good])
                rooms[:, good] = self.capacity[good] * ENOUGH - self._demand.asked(good, levels)
        found: list[list[float]] = rooms.tolist()
        return found

    @cached_property
    def _walk(self) -> "_Walk":
        """Look at each order once, from the highest."""
        goods = range(len(self.capacity))
        used = [0.0] * len(self.capacity)
        lacking = [0.0] * len(self.capacity)
        before, runs, placeless = [], [], []
        for place, (bundle, room) in enumerate(zip(self._bundles, self._rooms, strict=True)):
            before.append(tuple(used))
            lacks = [good for good in goods if used[good] + bundle[good] > room[good]]
            row = int(self._ranked[place])
            has_places = self.has_places(row) if lacks else self.take_places(row)
            placed = has_places and not lacks
            runs.append(placed)
            placeless.append(not has_places)
            for good in lacks if has_places else ():
                lacking[good] = lacking[good] or self._heights[place]
            if placed:
                used = [used[good] + bundle[good] for good in goods]
        before.append(tuple(used))
        return _Walk(
            np.array(runs, dtype=bool), np.array(placeless, dtype=bool), before, np.array(lacking)
        )

    @cached_property
    def _first_lacking(self) -> int:
        """Return the place of the first order that lacks room."""
        lacking = np.flatnonzero(~self._walk.runs & ~self._walk.placeless)
        return int(lacking[0]) if len(lacking) else len(self._heights)

    def _bound(self, place: int) -> "_Bound":
        """Return the order or the bids that stop the order at this place at a lower height.

        Down to the first order that lacks room, all orders run with it, so they do without it.
        """
        goods, bundle = range(len(self.capacity)), self._bundles[place]
        start, placeless = max(self._first_lacking, place + 1), self._walk.placeless
        used = list(self._walk.before[start])  # by the orders above and this one
        for at in range(start, len(self._heights)):
            room, other = self._rooms[at], self._bundles[at]
            if any(used[good] > room[good] for good in goods):
                break
            without = (used[good] - bundle[good] + other[good] for good in goods)
            if not placeless[at] and all(
                units <= limit for units, limit in zip(without, room, strict=True)
            ):
                used = [used[good] + other[good] for good in goods]
                if any(used[good] > room[good] for good in goods):
                    return _Bound(self._heights[at], None)
        return _Bound(0.0, used)

    def _bound_of_another(self, bundle: Floats) -> "_Bound":
        """Return the order or the bids that stop an order which is not among those that run.

        Orders that lack room without it lack it beside it, too.
        """
        before, room = self._used_above, self._room_left
        stopped_by_bids: Bools = np.any(bundle > room, axis=1)
        beside = room - self._of_running
        stops: Bools = stopped_by_bids | (np.any(bundle > beside, axis=1) & self._walk.runs)
        if not stops.any():
            return _Bound(0.0, (before[-1] + bundle).tolist())
        at = int(np.argmax(stops))
        if stopped_by_bids[at]:
            return _Bound(0.0, (before[at] + bundle).tolist())
        return _Bound(self._heights[at], None)

    @cached_property
    def _used_above(self) -> Floats:
        return np.array(self._walk.before)

    @cached_property
    def _room_left(self) -> Floats:
        """Return [ranked orders, resources]: the room beside bids and the orders above."""
        left: Floats = np.array(self._rooms).reshape(-1, len(self.capacity))
        return left - self._used_above[:-1]

    @cached_property
    def _of_running(self) -> Floats:
        """Return [ranked orders, resources]: the bundles of those that run, else 0."""
        bundles = np.array(self._bundles).reshape(-1, len(self.capacity))
        return np.where(self._walk.runs[:, np.newaxis], bundles, 0.0)

    def _limits_at(self, bounds: list["_Bound"], bundles: Floats) -> Floats:
        """Return the least limits of bundles with these bounds, at least at the reserve prices."""
        heights = self._heights_at(bounds)
        limits: Floats = np.maximum(heights * (bundles @ self.weights), bundles @ self.reserve)
        return limits

    def _heights_at(self, bounds: list["_Bound"]) -> Floats:
        """Return the heights of these bounds."""
        heights: Floats = np.array([bound.height for bound in bounds])
        by_bids = [at for at, bound in enumerate(bounds) if bound.used is not None]
        used = np.array([bounds[at].used for at in by_bids]).reshape(-1, len(self.capacity))
        for good, weight in enumerate(self.weights.tolist()):
            left = self.capacity[good] * ENOUGH - used[:, good]
            with np.errstate(divide="ignore"):
                price = 1.0 / self._demand.levels(good, left)
            # At the reserve price bids ask for the most.
            price[price <= self.reserve[good]] = 0.0
            heights[by_bids] = np.maximum(heights[by_bids], price / weight)
        return heights


class _Bound(NamedTuple):
    """The height of the order that stops another one, or what is used where bids stop it."""

    height: float
    used: list[float] | None


class _Walk(NamedTuple):
    """The result of a look at every order, by its place among the ranked ones."""

    runs: Bools
    placeless: Bools
    before: list[tuple[float, ...]]
    """[orders + 1]: what the orders above use of each good."""
    lacking: Floats
    """[resources]: the height of the first order that lacks room in the good; 0 for none."""
