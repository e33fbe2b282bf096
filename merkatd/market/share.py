"""The proportional share (Eq. 1) with floors and caps, solved exactly for many pools at once.

Equation 1 gives bid j of a pool with capacity C the amount

    alloc_j = b_j / (sum of b) * C

With a floor below and a cap above, what a unit of bid buys is no longer C / sum of b but
one *level*, the same for all bids of the pool, at which the pool is just used up:

    alloc_j = clip(b_j * level, floor_j, cap_j)    with    sum of alloc = C

What all bids ask for together grows with the level along straight lines, which bend where
a bid leaves its floor (at floor / b) or reaches its cap (at cap / b). So the level lies
between two neighbouring bends, found by halving the sorted bends, and on the line between
them it is one division. Each sum runs over the rows in their order from zero: whoever
recomputes one pool alone, in the same order, gets the same bits.
"""

from typing import NamedTuple

import numpy as np

from merkatd.cluster.columns import Bools, Floats, Ints

ENOUGH = 1 + 1e-11
"""Tops that exceed the capacity by no more than rounding have all that they ask for.

Where they come to just the capacity, sums in another order may say either, and the price would be
another one."""


class Share(NamedTuple):
    """Who gets how much."""

    allocation: Floats
    """[rows]"""
    level: Floats
    """[pools]: units for one credit. Infinite where every bid has its cap, 0 where the
    floors use up the capacity or more (then they are all scaled down alike)."""


class Breakpoints(NamedTuple):
    """Where each row leaves its floor and where it reaches its top, as levels."""

    top: Floats
    """The cap, or the floor of a row that bids nothing: such a row never rises."""
    leaves_floor: Floats
    reaches_top: Floats


def breakpoints(bid: Floats, floor: Floats, cap: Floats) -> Breakpoints:
    """The levels at which rows change their course; finite whatever the bids are."""
    bidding = bid > 0
    top = np.where(bidding, cap, floor)
    highest = np.finfo(np.float64).max
    with np.errstate(over="ignore"):
        leaves = np.divide(floor, bid, out=np.zeros_like(bid), where=bidding)
        reaches = np.divide(top, bid, out=np.zeros_like(bid), where=bidding)
    return Breakpoints(top, np.minimum(leaves, highest), np.minimum(reaches, highest))


def share(bid: Floats, floor: Floats, cap: Floats, pool: Ints, capacity: Floats) -> Share:
    """Divide each pool among the rows that belong to it.

    Rows have bid, floor <= cap and pool as columns; pools have a capacity. All finite and
    not negative.
    """
    bend = breakpoints(bid, floor, cap)
    pools = len(capacity)
    floors = np.bincount(pool, floor, pools)
    tops = np.bincount(pool, bend.top, pools)
    enough = tops <= capacity * ENOUGH
    contended = (floors < capacity) & ~enough
    level = np.where(enough, np.inf, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        if contended.any():
            rows = np.flatnonzero(contended[pool] & (bid > 0))
            bracket = _bracket(bid, floor, bend, pool, capacity, contended, rows)
            line = _on_line(bid, floor, bend, pool, capacity, bracket)
            level = np.where(contended, line, level)
        allocation = np.clip(bid * level[pool], floor, bend.top)
    allocation = np.where(np.isinf(level)[pool], bend.top, allocation)
    overfull = floors > capacity
    if overfull.any():
        scale = np.divide(capacity, floors, out=np.ones(pools), where=overfull)
        allocation = np.where(overfull[pool], floor * scale[pool], allocation)
    return Share(allocation, level)


class _LevelRange(NamedTuple):
    """Two neighbouring bends of each pool, between which its level lies."""

    low: Floats
    high: Floats


def _bracket(
    bid: Floats,
    floor: Floats,
    bend: Breakpoints,
    pool: Ints,
    capacity: Floats,
    contended: Bools,
    rows: Ints,
) -> _LevelRange:
    """The last bend at which less than the capacity is asked for, and the one behind it.

    At level 0 less than the capacity is asked for, at the level of the last bend more: that
    is known, not computed, so every contended pool has a bracket whatever rounding does.
    """
    pools = len(capacity)
    owner = np.concatenate([pool[rows], pool[rows]])
    at = np.concatenate([bend.leaves_floor[rows], bend.reaches_top[rows]])
    order = np.argsort(at, kind="stable")
    order = order[np.argsort(_narrow(owner, pools)[order], kind="stable")]
    at = at[order]
    count = np.bincount(owner, minlength=pools)
    first = np.cumsum(count) - count
    below = first - 1
    above = np.where(contended, first + count - 1, first)
    last = at[np.minimum(above, len(at) - 1)]
    while True:
        open_ = above - below > 1
        if not open_.any():
            break
        middle = np.where(open_, (below + above) // 2, 0)
        asked = np.bincount(pool, np.clip(bid * at[middle][pool], floor, bend.top), minlength=pools)
        short = (asked < capacity) & (at[middle] < last)
        below = np.where(open_ & short, middle, below)
        above = np.where(open_ & ~short, middle, above)
    low = np.where(below >= first, at[np.maximum(below, 0)], 0.0)
    return _LevelRange(low, at[np.minimum(above, len(at) - 1)])


def _on_line(
    bid: Floats,
    floor: Floats,
    bend: Breakpoints,
    pool: Ints,
    capacity: Floats,
    bracket: _LevelRange,
) -> Floats:
    """The level at which the straight piece inside the bracket meets the capacity."""
    low, high = bracket.low[pool], bracket.high[pool]
    at_top = bend.reaches_top <= low
    at_floor = bend.leaves_floor >= high
    fixed = np.where(at_top, bend.top, np.where(at_floor, floor, 0.0))
    rising = np.where(at_top | at_floor, 0.0, bid)
    pools = len(capacity)
    slope = np.bincount(pool, rising, pools)
    rest = capacity - np.bincount(pool, fixed, pools)
    level = np.divide(rest, slope, out=bracket.high.copy(), where=slope > 0)
    return np.clip(level, bracket.low, bracket.high)


def _narrow(pool: Ints, pools: int) -> np.ndarray[tuple[int], np.dtype[np.integer]]:
    """The same numbers in few bytes: numpy sorts 16-bit whole numbers by counting."""
    return pool.astype(np.uint16) if pools <= 1 << 16 else pool
