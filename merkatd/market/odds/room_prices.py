"""The prices of room: what one more order would have to pay for a part of a market, recorded.

# Note [The prices of room]

The announced price of a good is what its next unit costs. A large order pays more, since it
displaces bids and orders that pay more than the last one. So each record has, for each good, the
price of rooms of several sizes: what those that would be displaced by an order for so much of this
good alone pay for a unit of it; 0 if nothing would be. An order for several goods needs the
greatest height among them (Note [Bids and orders in one market] in `market/limit_orders.py`), and
pays at least the reserve prices:

    limit = max(largest price of its rooms / weight x (bundle . weights), bundle . reserve)

Sizes between two recorded ones are interpolated. Example: of 100 units, rooms of 25 and 37.5 cost 1
and 1.5 a unit. An order for 30 units pays 1.2 a unit: a limit of 36.
"""

from dataclasses import dataclass

import numpy as np

from merkatd.cluster.columns import Floats
from merkatd.market.limit_orders import OrderBook

PARTS = np.array(
    [2.0**-power for power in range(10, 3, -1)]
    + [0.125, 0.1875, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0]
)
"""The recorded sizes of room, as parts of a market's capacity."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class RoomPrices:
    """The prices of room in a market at some moments of the past."""

    capacity: Floats
    """[moments, goods]"""
    weight: Floats
    """[moments, goods]: the prices that made the goods comparable, above 0."""
    reserve: Floats
    """[moments, goods]: the reserve prices."""
    price: Floats
    """[moments, goods, PARTS]: credits per unit and period; infinite if no limit was enough."""

    def needed(self, bundle: Floats) -> Floats:
        """Return [moments]: the least limits with which an order for a bundle would have run."""
        heights = np.zeros(len(self.capacity))
        for good, units in enumerate(bundle.tolist()):
            if units > 0:
                price = _at(self.price[:, good], units, self.capacity[:, good])
                heights = np.maximum(heights, price / self.weight[:, good])
        limits: Floats = np.maximum(heights * (self.weight @ bundle), self.reserve @ bundle)
        return limits


def rooms_now(book: OrderBook) -> RoomPrices:
    """Return the prices of room in a market now: one moment."""
    goods = len(book.capacity)
    there = np.flatnonzero(book.capacity > 0)
    bundles = np.zeros((len(there), len(PARTS), goods))
    for row, good in enumerate(there.tolist()):
        bundles[row, :, good] = PARTS * book.capacity[good]
    heights = book.heights_that_run(bundles.reshape(-1, goods)).reshape(len(there), len(PARTS))
    price = np.full((goods, len(PARTS)), np.inf)
    price[there] = heights * book.weights[there, np.newaxis]
    # More room displaces at least the same orders; rounding may say otherwise.
    price = np.maximum.accumulate(price, axis=1)
    return RoomPrices(
        *(of[np.newaxis] for of in (book.capacity, book.weights, book.reserve, price))
    )


def _at(price: Floats, units: float, capacity: Floats) -> Floats:
    """Return [moments]: the price of a room of this size."""
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(capacity > 0, units / capacity, np.inf)
        above = np.searchsorted(PARTS, part * (1.0 - _ROUNDING))
        fits = above < len(PARTS)
        above = np.minimum(above, len(PARTS) - 1)
        below = np.maximum(above - 1, 0)
        rows = np.arange(len(price))
        low, high = price[rows, below], price[rows, above]
        size = np.where(above > below, PARTS[above] - PARTS[below], 1.0)
        share = np.clip((part - PARTS[below]) / size, 0.0, 1.0)
        between = np.where(np.isinf(high) & (share > 0), np.inf, low + (high - low) * share)
    prices: Floats = np.where(fits, np.where(high == low, low, between), np.inf)
    return prices
