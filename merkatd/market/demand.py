"""Demand: the total demand of a pool at each level, prepared so that changing one bid is cheap.

The demand of a pool grows with the level along straight lines (see `share.py`). Each bend starts a
new line. The lines are sorted by their bends, so the level of a pool is found by halving, also with
one row changed. Slopes and offsets are sums of bids that differ by many orders of magnitude. So
each sum is a pair of numbers: the second number stores the rounding error of the first.
"""

import math
import sys
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from merkatd.cluster.columns import Floats, Ints
from merkatd.market.share import ENOUGH, ascending, breakpoints, narrow

HIGHEST = sys.float_info.max
"""Upper bound of all bends, also for tiny bids."""

_BEFORE_ALL = -1.0
"""Position before all bends, at which every row has its floor."""


class Bidder(NamedTuple):
    """One row of a pool."""

    bid: float
    floor: float
    cap: float

    @property
    def top(self) -> float:
        """Return its largest demand: the cap, or the floor if it bids nothing."""
        return self.cap if self.bid > 0 else self.floor

    @property
    def bends(self) -> tuple[float, float]:
        """Return the levels at which it leaves its floor and reaches its top."""
        if self.bid <= 0:
            return math.inf, math.inf
        return min(self.floor / self.bid, HIGHEST), min(self.cap / self.bid, HIGHEST)

    def gets(self, level: float) -> float:
        """Return its share at this level."""
        if math.isinf(level):
            return self.top
        return min(max(self.bid * level, self.floor), self.top)


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """The lines of many pools, pool after pool."""

    capacity: Floats
    """[pools]"""
    start: Ints
    """[pools + 1]: the first line of each pool; its first lines are rows at their floors."""
    first_bend: Ints
    """[pools]: the first line of each pool that follows a bend."""
    at: Floats
    """[lines]: the level at which a line begins."""
    slope: tuple[Floats, Floats]
    fixed: tuple[Floats, Floats]
    """[lines + 1] each, as `slope`: sums over earlier lines, and their rounding errors."""
    present: dict[int, int] = field(default_factory=dict)
    """Cache by pool: the bend below its level."""
    lines: dict[int, tuple[Floats, Floats, Floats]] = field(default_factory=dict)
    """Cache by pool: the slopes, the offsets and the demand at each bend."""

    @classmethod
    def of(cls, bid: Floats, floor: Floats, cap: Floats, pool: Ints, capacity: Floats) -> Self:
        """Return the prepared rows of all pools; the arguments are those of `share`."""
        bend = breakpoints(bid, floor, cap)
        rises = np.flatnonzero(bid > 0)
        owner = np.concatenate([pool, pool[rises], pool[rises]])
        bends = np.concatenate([bend.leaves_floor[rises], bend.reaches_top[rises]])
        at = np.concatenate([np.full(len(bid), _BEFORE_ALL), bends])
        slope = np.concatenate([np.zeros(len(bid)), bid[rises], -bid[rises]])
        fixed = np.concatenate([floor, -floor[rises], bend.top[rises]])
        # The floors come first in each pool, so only the bends are sorted as numbers.
        order = np.concatenate([np.arange(len(bid)), len(bid) + ascending(bends)])
        pools = len(capacity)
        order = order[np.argsort(narrow(owner, pools)[order], kind="stable")]
        start = np.zeros(pools + 1, dtype=np.int64)
        np.cumsum(np.bincount(owner, minlength=pools), out=start[1:])
        return cls(
            capacity=capacity,
            start=start,
            first_bend=start[:-1] + np.bincount(pool, minlength=pools),
            at=at[order],
            slope=running_bidders(slope[order]),
            fixed=running_bidders(fixed[order]),
        )

    @classmethod
    def of_goods(cls, bid: Floats, floor: Floats, cap: Floats, capacity: Floats) -> Self:
        """Return the prepared rows of a pool per good; the first three are [rows, goods].

        The result is that of `of`, but each good is sorted alone, which takes half the time.
        """
        rows, bends = len(bid), 2 * np.count_nonzero(bid > 0, axis=0)
        start = np.append(0, np.cumsum(rows + bends))
        first_bend = start[:-1] + rows
        at, slope, fixed = (np.empty(start[-1]) for _ in range(3))
        for good, (first, last) in enumerate(zip(first_bend, start[1:], strict=True)):
            own_bid, own_floor = bid[:, good], floor[:, good]
            bend, rises = breakpoints(own_bid, own_floor, cap[:, good]), np.flatnonzero(own_bid > 0)
            rising, behind = own_bid[rises], slice(first, last)
            changes = np.concatenate([bend.leaves_floor[rises], bend.reaches_top[rises]])
            order = ascending(changes)
            at[start[good] : first], at[behind] = _BEFORE_ALL, changes[order]
            slope[start[good] : first] = 0.0
            slope[behind] = np.concatenate([rising, -rising])[order]
            fixed[start[good] : first] = own_floor
            fixed[behind] = np.concatenate([-own_floor[rises], bend.top[rises]])[order]
        slopes, offsets = running_bidders(slope), running_bidders(fixed)
        return cls(capacity, start, first_bend, at, slopes, offsets)

    def floors(self, pool: int) -> float:
        """Return the sum of a pool's floors."""
        high, low = self.fixed
        first, behind = int(self.start[pool]), int(self.first_bend[pool])
        return math.fsum((high[behind], -high[first], low[behind], -low[first]))

    def asked(self, pool: int, levels: Floats) -> Floats:
        """Return what a pool's rows ask for at each of these levels."""
        bend, last = self.first_bend.item(pool), self.start.item(pool + 1)
        behind = bend + np.searchsorted(self.at[bend:last], levels, side="right")
        slope, fixed = self._lines_before(pool, behind)
        # At an infinite level all rows have their tops.
        rising = np.multiply(slope, levels, out=np.zeros_like(fixed), where=behind < last)
        asked: Floats = fixed + rising
        return asked

    def levels(self, pool: int, capacities: Floats) -> Floats:
        """Return the level for each of these capacities, as `level` does for one."""
        bend, last = self.first_bend.item(pool), self.start.item(pool + 1)
        at = self.at[bend:last]
        if pool not in self.lines:
            slope, fixed = self._lines_before(pool, slice(bend, last + 1))
            asked = np.maximum.accumulate(fixed[1:] + slope[1:] * at)
            self.lines[pool] = slope, fixed, asked
        slope, fixed, asked = self.lines[pool]
        below = np.searchsorted(asked, capacities, side="left")
        low, high = np.zeros(len(below)), np.full(len(below), np.inf)
        low[below > 0] = at[below[below > 0] - 1]
        high[below < len(at)] = at[below[below < len(at)]]
        rest = capacities - fixed[below]
        found = np.divide(rest, slope[below], out=low.copy(), where=slope[below] > 0)
        levels = np.where(fixed[0] >= capacities, 0.0, np.clip(found, low, high))
        return np.where(fixed[-1] <= capacities * ENOUGH, np.inf, levels)

    def _lines_before(self, pool: int, behind: Ints | slice) -> tuple[Floats, Floats]:
        """Return the slopes and offsets of the lines before these of a pool."""
        first = self.start.item(pool)
        slope, fixed = (
            (high[behind] - high[first]) + (low[behind] - low[first])
            for high, low in (self.slope, self.fixed)
        )
        return slope, fixed

    def level(
        self,
        pool: int,
        capacity: float,
        without: Bidder | None = None,
        plus: Bidder | None = None,
    ) -> float:
        """Return the level at which demand equals the capacity, with one row replaced.

        Return infinity if every row has all it can use, 0 if the floors alone reach the capacity.
        """
        first, last = self.start.item(pool), self.start.item(pool + 1)
        bend = self.first_bend.item(pool)
        lines = _Lines(self.slope, self.fixed, first, without or _NO_BIDDER, plus or _NO_BIDDER)
        if lines.asked(last, math.inf) <= capacity * ENOUGH:
            return math.inf
        if lines.asked(bend, _BEFORE_ALL) >= capacity:
            return 0.0
        below, above = self._around(lines, self._present(pool), (bend - 1, last), capacity)
        while above - below > 1:
            middle = (below + above) // 2
            if lines.asked(middle + 1, self.at.item(middle)) < capacity:
                below = middle
            else:
                above = middle
        low = self.at.item(below) if below >= bend else 0.0
        high = self.at.item(above) if above < last else math.inf
        return lines.between(below + 1, low, high, capacity)

    def _present(self, pool: int) -> int:
        """Return the bend below the pool's present level; a single changed bid moves it little."""
        present_bend = self.present.get(pool)
        if present_bend is None:
            capacity = self.capacity.item(pool)
            first, last = self.start.item(pool), self.start.item(pool + 1)
            lines = _Lines(self.slope, self.fixed, first, _NO_BIDDER, _NO_BIDDER)
            bends = range(self.first_bend.item(pool), last)
            present_bend = (
                bends.start
                - 1
                + bisect_left(
                    bends, capacity, key=lambda bend: lines.asked(bend + 1, self.at.item(bend))
                )
            )
            self.present[pool] = present_bend
        return present_bend

    def _around(
        self, lines: "_Lines", near: int, ends: tuple[int, int], capacity: float
    ) -> tuple[int, int]:
        """Return two bends with the level between them, found in growing steps from `near`."""
        below, above = ends
        step = 1
        while below < near < above:
            if lines.asked(near + 1, self.at.item(near)) < capacity:
                below, near = near, near + step
            else:
                above, near = near, near - step
            step *= 2
        return below, above


_NO_BIDDER = Bidder(0.0, 0.0, 0.0)


class _Lines:
    """The lines of one pool, with one row removed and another added.

    Each lookup reads two sums, here and at the pool's start, and rounds once.
    """

    def __init__(
        self,
        slope: tuple[Floats, Floats],
        fixed: tuple[Floats, Floats],
        first: int,
        without: Bidder,
        plus: Bidder,
    ) -> None:
        self._slope = slope[0].item, slope[1].item, -slope[0].item(first), -slope[1].item(first)
        self._fixed = fixed[0].item, fixed[1].item, -fixed[0].item(first), -fixed[1].item(first)
        self._less = (without.bid, without.floor, without.top, *without.bends)
        self._more = (plus.bid, plus.floor, plus.top, *plus.bends)

    def asked(self, behind: int, level: float) -> float:
        """Return the demand at a level; `behind` is the line after the line of that level."""
        slope, fixed = self._line(behind, level)
        # If all rows have reached their tops, the level may be infinite.
        return fixed + slope * level if slope > 0 and level > 0 else fixed

    def between(self, behind: int, low: float, high: float, capacity: float) -> float:
        """Return the level between two bends of the pool; the added row may bend between them."""
        for own in self._more[3:]:
            if low < own < high:
                if self.asked(behind, own) < capacity:
                    low = own
                else:
                    high = own
        slope, fixed = self._line(behind, low)
        if slope <= 0:
            return low if math.isinf(high) else high
        return min(max((capacity - fixed) / slope, low), high)

    def _line(self, behind: int, level: float) -> tuple[float, float]:
        """Return slope and offset of the line that begins at this level."""
        less_slope = less_fixed = more_slope = more_fixed = 0.0
        bid, floor, top, leaves, reaches = self._less
        if level < leaves:
            less_fixed = -floor
        elif level >= reaches:
            less_fixed = -top
        else:
            less_slope = -bid
        bid, floor, top, leaves, reaches = self._more
        if level < leaves:
            more_fixed = floor
        elif level >= reaches:
            more_fixed = top
        else:
            more_slope = bid
        high, low, from_high, from_low = self._slope
        slope = math.fsum((high(behind), from_high, low(behind), from_low, less_slope, more_slope))
        high, low, from_high, from_low = self._fixed
        fixed = math.fsum((high(behind), from_high, low(behind), from_low, less_fixed, more_fixed))
        return slope, fixed


def running_bidders(values: Floats) -> tuple[Floats, Floats]:
    """Return [values + 1]: the running sums from zero, and the sums of their rounding errors."""
    sums = np.zeros(len(values) + 1)
    np.cumsum(values, out=sums[1:])
    before, after = sums[:-1], sums[1:]
    added = after - before
    lost = values - added
    np.subtract(after, added, out=added)
    np.subtract(before, added, out=added)
    np.add(added, lost, out=lost)
    short = np.zeros_like(sums)
    np.cumsum(lost, out=short[1:])
    return sums, short
