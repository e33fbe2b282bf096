"""The proportional share (Eq. 1) with floors and caps, solved exactly for many pools at once.

# Note [The exact share]

Equation 1 gives bid j of a pool with capacity C the amount

    alloc_j = b_j / (sum of b) * C

With floors and caps, a credit no longer buys C / (sum of b) units. It buys *level* units, the same
for all bids of the pool, such that the pool is just used up:

    alloc_j = clip(b_j * level, floor_j, cap_j)    with    sum of alloc = C

Total demand grows with the level along straight lines. They bend where a bid leaves its floor (at
floor / b) or reaches its cap (at cap / b). So the level lies between two neighbouring bends, which
are found by halving the sorted bends. Between them it takes one division.

Example: capacity 110, bids 10, 10 and 20, floors 0, 30 and 0, caps 100, 100 and 40. The bends are
at the levels 2 (the third bid reaches its cap), 3 (the second leaves its floor) and 10. Demand is
30 + 30 + 40 = 100 at level 3, and 240 at level 10. In between it is 20 x level + 40. So the level
is 3.5, and the shares are 35, 35 and 40. Used for all shares, prices and quotes.

Each sum runs over the rows in their order from zero. So code that recomputes one pool alone, in the
same order, gets the same bits.
"""

from itertools import count as count_up
from typing import NamedTuple

import numpy as np

from merkatd.cluster.columns import Bools, Floats, Ints

ENOUGH = 1 + 1e-11
"""Factor by which total tops may exceed the capacity and still be served in full.

If tops equal the capacity, sums in another order may round to either side, and the price would
differ."""


_NEAR = 3
"""The number of bends that are tried around the guessed one, before the halving."""


_OFTEN = 8
"""The part of all numbers from which equal ones are taken out before the others are sorted."""
_MANY = 256
"""The number of bends per pool from which a guess takes less time than the halving."""


class Share(NamedTuple):
    """The shares of all rows, and the levels of all pools."""

    allocation: Floats
    """[rows]: the share of each row."""
    level: Floats
    """[pools]: units per credit. Infinite if every bid has its cap; 0 if the floors use up the
    capacity or exceed it (then all floors are scaled down equally)."""


class Breakpoints(NamedTuple):
    """The levels at which each row leaves its floor and reaches its top."""

    top: Floats
    """The cap; the floor for a row that bids nothing, as it never rises."""
    leaves_floor: Floats
    reaches_top: Floats


def breakpoints(bid: Floats, floor: Floats, cap: Floats) -> Breakpoints:
    """Return the levels at which the rows' demand bends; finite for all bids."""
    bidding = bid > 0
    top = np.where(bidding, cap, floor)
    highest = np.finfo(np.float64).max
    with np.errstate(over="ignore"):
        leaves = np.divide(floor, bid, out=np.zeros_like(bid), where=bidding)
        reaches = np.divide(top, bid, out=np.zeros_like(bid), where=bidding)
    return Breakpoints(top, np.minimum(leaves, highest), np.minimum(reaches, highest))


def share(bid: Floats, floor: Floats, cap: Floats, pool: Ints, capacity: Floats) -> Share:
    """Return the share of each row of its pool, and the level of each pool.

    Rows have a bid, a floor, a cap (floor <= cap) and a pool; pools have a capacity. All numbers
    must be finite and not negative.
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
    """The two neighbouring bends of each pool around its level."""

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
    """Return the last bend where demand is below the capacity, and the next bend.

    At level 0 demand is below the capacity, at the last bend above it. This is known, not computed,
    so every contended pool has a bracket despite rounding.
    """
    pools = len(capacity)
    owner = np.concatenate([pool[rows], pool[rows]])
    at = np.concatenate([bend.leaves_floor[rows], bend.reaches_top[rows]])
    order = ascending(at)
    order = order[np.argsort(narrow(owner, pools)[order], kind="stable")]
    at = at[order]
    count = np.bincount(owner, minlength=pools)
    first = np.cumsum(count) - count
    below = first - 1
    above = np.where(contended, first + count - 1, first)
    last = at[np.minimum(above, len(at) - 1)]
    turns, guess = 0, below
    if len(at) > _MANY * pools:
        turns = _NEAR
        slopes = np.concatenate([bid[rows], -bid[rows]])[order]
        offsets = np.concatenate([-floor[rows], bend.top[rows]])[order]
        rest = capacity - np.bincount(pool, floor, pools)
        guess = below + _count_short(at, slopes, offsets, owner[order], first, rest)
    # Rounding may mislead the guess. The sums below decide, and never fall as the level grows.
    for turn in count_up():
        open_ = above - below > 1
        if not open_.any():
            break
        middle = (below + above) // 2
        if turn < turns:
            near = guess if turn == 0 else np.where(below >= guess, below + 1, above - 1)
            middle = np.clip(near, below + 1, above - 1)
        middle = np.where(open_, middle, 0)
        asked = np.bincount(pool, np.clip(bid * at[middle][pool], floor, bend.top), minlength=pools)
        short = (asked < capacity) & (at[middle] < last)
        below = np.where(open_ & short, middle, below)
        above = np.where(open_ & ~short, middle, above)
    low = np.where(below >= first, at[np.maximum(below, 0)], 0.0)
    return _LevelRange(low, at[np.minimum(above, len(at) - 1)])


def _count_short(
    at: Floats, slopes: Floats, offsets: Floats, owner: Ints, first: Ints, rest: Floats
) -> Ints:
    """Return [pools]: at how many bends demand is below the capacity, but for rounding.

    `slopes` and `offsets` are changes at the bends, and `rest` is what floors leave.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        slope, offset = (np.append(0.0, np.cumsum(changes)) for changes in (slopes, offsets))
        asked = offset[1:] - offset[first][owner] + (slope[1:] - slope[first][owner]) * at
        short = asked < rest[owner]
    return np.bincount(owner[short], minlength=len(first))


def _on_line(
    bid: Floats,
    floor: Floats,
    bend: Breakpoints,
    pool: Ints,
    capacity: Floats,
    bracket: _LevelRange,
) -> Floats:
    """Return the level at which the straight line inside the bracket meets the capacity."""
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


def ascending(values: Floats) -> Ints:
    """Return the rows of these numbers from the smallest, and equal ones in their order.

    The result is that of numpy's stable `argsort`, which takes twice as long as its other one.
    """
    least = values == values.min(initial=np.inf)
    first = np.flatnonzero(least)
    if len(first) > len(values) // _OFTEN:  # many bends are at 0
        rest = np.flatnonzero(~least)
        return np.concatenate([first, rest[ascending(values[rest])]])
    order = np.argsort(values)
    found = values[order]
    rises = found[1:] > found[:-1]
    if rises.all():
        return order
    among_equals = np.append(~rises, False)
    among_equals[1:] |= ~rises
    rows = np.flatnonzero(among_equals)
    rank = np.append(0, np.cumsum(rises))[rows] * len(values)
    order[rows] = np.sort(rank + order[rows]) - rank
    return order


def narrow(pool: Ints, pools: int) -> np.ndarray[tuple[int], np.dtype[np.integer]]:
    """Return the same numbers in fewer bytes: numpy sorts 16-bit integers by counting."""
    return pool.astype(np.uint16) if pools <= 1 << 16 else pool
