"""What the bids of a pool ask for together at each level, prepared so that changing one is cheap.

All that a pool's bids ask for grows with the level along straight lines (see `share.py`).
Each bend starts a new line; lines are kept in the order of their bends, so that the level of
a pool is found by halving, whatever one row in it changes. Slopes and offsets are sums that
rise and fall by bids many orders of magnitude apart: they are kept as pairs of numbers, of
which the second holds what the first was too short for.
"""

import math
import sys
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from merkatd.cluster.columns import Floats, Ints
from merkatd.market.share import ENOUGH, breakpoints

HIGHEST = sys.float_info.max
"""No bend is higher, as small as a bid may be."""

_BEFORE_ALL = -1.0
"""The place in the order of bends at which every row stands with its floor."""


class Bidder(NamedTuple):
    """One row of a pool."""

    bid: float
    floor: float
    cap: float

    @property
    def top(self) -> float:
        """The most that it ever asks for: who bids nothing never rises above its floor."""
        return self.cap if self.bid > 0 else self.floor

    @property
    def bends(self) -> tuple[float, float]:
        """The levels at which it leaves its floor and reaches its top."""
        if self.bid <= 0:
            return math.inf, math.inf
        return min(self.floor / self.bid, HIGHEST), min(self.cap / self.bid, HIGHEST)

    def gets(self, level: float) -> float:
        """What it gets at this level."""
        if math.isinf(level):
            return self.top
        return min(max(self.bid * level, self.floor), self.top)


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """The lines of many pools, one pool behind the other."""

    capacity: Floats
    """[pools]"""
    start: Ints
    """[pools + 1]: the first line of each pool; the first few are its rows with their floors,"""
    first_bend: Ints
    """[pools]: and this is the first that follows a bend."""
    at: Floats
    """[lines]: the level from which on a line holds."""
    slope: tuple[Floats, Floats]
    fixed: tuple[Floats, Floats]
    """[lines + 1] each: sums over all that comes before a line, and what they were short of."""
    present: dict[int, int] = field(default_factory=dict)
    """By pool, as far as anybody asked: the bend below its level."""

    @classmethod
    def of(cls, bid: Floats, floor: Floats, cap: Floats, pool: Ints, capacity: Floats) -> Self:
        """Prepare the rows of all pools; the arguments are those of `share`."""
        bend = breakpoints(bid, floor, cap)
        rises = np.flatnonzero(bid > 0)
        owner = np.concatenate([pool, pool[rises], pool[rises]])
        at = np.concatenate(
            [
                np.full(len(bid), _BEFORE_ALL),
                bend.leaves_floor[rises],
                bend.reaches_top[rises],
            ]
        )
        slope = np.concatenate([np.zeros(len(bid)), bid[rises], -bid[rises]])
        fixed = np.concatenate([floor, -floor[rises], bend.top[rises]])
        order = np.lexsort((at, owner))
        pools = len(capacity)
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

    def floors(self, pool: int) -> float:
        """What all floors of a pool come to."""
        high, low = self.fixed
        first, behind = int(self.start[pool]), int(self.first_bend[pool])
        return math.fsum((high[behind], -high[first], low[behind], -low[first]))

    def level(
        self,
        pool: int,
        capacity: float,
        without: Bidder | None = None,
        plus: Bidder | None = None,
    ) -> float:
        """The level at which so much is asked for, with one row left out and another put in.

        Infinite where everybody has all they can use, 0 where the floors alone come to as much.
        """
        first, last = self.start.item(pool), self.start.item(pool + 1)
        bend = self.first_bend.item(pool)
        lines = _Lines(self.slope, self.fixed, first, without or _NOBODY, plus or _NOBODY)
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
        """The bend below the pool's level as all bids are: with one of them changed it is near."""
        found = self.present.get(pool)
        if found is None:
            capacity = self.capacity.item(pool)
            first, last = self.start.item(pool), self.start.item(pool + 1)
            lines = _Lines(self.slope, self.fixed, first, _NOBODY, _NOBODY)
            bends = range(self.first_bend.item(pool), last)
            found = (
                bends.start
                - 1
                + bisect_left(
                    bends, capacity, key=lambda bend: lines.asked(bend + 1, self.at.item(bend))
                )
            )
            self.present[pool] = found
        return found

    def _around(
        self, lines: "_Lines", near: int, ends: tuple[int, int], capacity: float
    ) -> tuple[int, int]:
        """Two bends with the level between them, found in growing steps from one that is near."""
        below, above = ends
        step = 1
        while below < near < above:
            if lines.asked(near + 1, self.at.item(near)) < capacity:
                below, near = near, near + step
            else:
                above, near = near, near - step
            step *= 2
        return below, above


_NOBODY = Bidder(0.0, 0.0, 0.0)


class _Lines:
    """The lines of one pool, with one row left out and another put in.

    Each looks up two sums, here and at the pool's start, and rounds once.
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
        """What is asked for at a level, `behind` being the line after the one that holds there."""
        slope, fixed = self._line(behind, level)
        # Where all have reached their tops, infinity is a level too.
        return fixed + slope * level if slope > 0 and level > 0 else fixed

    def between(self, behind: int, low: float, high: float, capacity: float) -> float:
        """The level between two bends of the pool; the row put in has its own between them."""
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
        """Slope and offset of the line that holds from this level on."""
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
    """[values + 1]: sums of all before, from zero; and of what each addition rounded away."""
    sums = np.zeros(len(values) + 1)
    np.cumsum(values, out=sums[1:])
    before, after = sums[:-1], sums[1:]
    added = after - before
    lost = (before - (after - added)) + (values - added)
    short = np.zeros_like(sums)
    np.cumsum(lost, out=short[1:])
    return sums, short
