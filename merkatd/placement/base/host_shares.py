"""Shares on one host and their distance from the first allocations, for trying out one change.

Strategies call this thousands of times a second, always for a single host, so it is compiled.
The results equal those of `market/share.py` to the bit: the sums run over the same rows in the
same order, and the level comes from the same bracket. Only the search for the bracket differs.
"""

from typing import NamedTuple

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.market.market_view import MarketView
from merkatd.market.share import ENOUGH, breakpoints
from merkatd.placement.base.compiled import compiled

SUM_OF_SHORTFALLS = 0
LARGEST_ERROR = 1
LARGEST_LACK = 2
"""The largest error, where more than the first allocation is no error."""

_GUESSES = 6


class VmTerms(NamedTuple):
    """The numbers of each VM that shares depend on: [vms, resources], except `weight`: [vms]."""

    bid: Floats
    floor: Floats
    top: Floats
    leaves: Floats
    reaches: Floats
    first: Floats
    weight: Floats


def terms_of_vms(view: MarketView, first: Floats) -> VmTerms:
    """Return the columns of a market's VMs, with the level of each bend computed once."""
    bend = breakpoints(view.bid.ravel(), view.floor.ravel(), view.cap.ravel())
    shape = view.bid.shape
    return VmTerms(
        bid=np.ascontiguousarray(view.bid),
        floor=np.ascontiguousarray(view.floor),
        top=bend.top.reshape(shape),
        leaves=bend.leaves_floor.reshape(shape),
        reaches=bend.reaches_top.reshape(shape),
        first=np.ascontiguousarray(first),
        weight=view.bid.sum(axis=1),
    )


@compiled
def host_shares(
    rows: Ints, count: int, resource: int, capacity: float, terms: VmTerms, out: Floats
) -> float:
    """Compute Eq. 1 for one resource of one host: write the shares to `out`, return the level."""
    floors = 0.0
    tops = 0.0
    for i in range(count):
        floors += terms.floor[rows[i], resource]
        tops += terms.top[rows[i], resource]
    if tops <= capacity * ENOUGH:
        for i in range(count):
            out[i] = terms.top[rows[i], resource]
        return np.inf
    if floors >= capacity:
        scale = capacity / floors if floors > capacity else 1.0
        for i in range(count):
            out[i] = terms.floor[rows[i], resource] * scale
        return 0.0
    low, high = _bracket(rows, count, resource, capacity, terms)
    level = _on_line(rows, count, resource, capacity, terms, low, high)
    for i in range(count):
        row = rows[i]
        given = max(terms.bid[row, resource] * level, terms.floor[row, resource])
        out[i] = min(given, terms.top[row, resource])
    return level


@compiled
def _asked(rows: Ints, count: int, resource: int, terms: VmTerms, level: float) -> float:
    """Return the total demand of all VMs at this level."""
    total = 0.0
    for i in range(count):
        row = rows[i]
        given = max(terms.bid[row, resource] * level, terms.floor[row, resource])
        total += min(given, terms.top[row, resource])
    return total


@compiled
def _on_line(
    rows: Ints,
    count: int,
    resource: int,
    capacity: float,
    terms: VmTerms,
    low: float,
    high: float,
) -> float:
    """Return the level at which the straight line inside the bracket meets the capacity."""
    fixed = 0.0
    slope = 0.0
    for i in range(count):
        row = rows[i]
        if terms.reaches[row, resource] <= low:
            fixed += terms.top[row, resource]
        elif terms.leaves[row, resource] >= high:
            fixed += terms.floor[row, resource]
        else:
            slope += terms.bid[row, resource]
    level = (capacity - fixed) / slope if slope > 0.0 else high
    return min(max(level, low), high)


@compiled
def _bracket(
    rows: Ints, count: int, resource: int, capacity: float, terms: VmTerms
) -> tuple[float, float]:
    """Return the last bend where demand is below the capacity, and the next bend.

    Guess the level as if the present bracket were straight, then narrow the bracket to the bends
    next to the guess. Demand never falls while the level rises, so every way of narrowing ends at
    the same two bends.
    """
    low = 0.0
    high = 0.0
    for i in range(count):
        high = max(high, terms.reaches[rows[i], resource])
    for _ in range(_GUESSES):
        guess = _on_line(rows, count, resource, capacity, terms, low, high)
        under, over = _neighbours(rows, count, resource, terms, guess, low, high)
        if under == low and over == high:
            return low, high
        if under > low:
            if _asked(rows, count, resource, terms, under) < capacity:
                low = under
            else:
                high = under
                continue
        if over < high:
            if _asked(rows, count, resource, terms, over) < capacity:
                low = over
            else:
                high = over
    return _bracket_by_halving(rows, count, resource, capacity, terms, low, high)


@compiled
def _neighbours(
    rows: Ints,
    count: int,
    resource: int,
    terms: VmTerms,
    guess: float,
    low: float,
    high: float,
) -> tuple[float, float]:
    """Return the bends on both sides of the guess, or the ends of the bracket."""
    under = low
    over = high
    for i in range(count):
        row = rows[i]
        if terms.bid[row, resource] > 0.0:
            for bend in (terms.leaves[row, resource], terms.reaches[row, resource]):
                if under < bend <= guess and bend < high:
                    under = bend
                elif guess < bend < over and bend > low:
                    over = bend
    return under, over


@compiled
def _bracket_by_halving(
    rows: Ints,
    count: int,
    resource: int,
    capacity: float,
    terms: VmTerms,
    low: float,
    high: float,
) -> tuple[float, float]:
    """Return the same bracket by halving, for a host with too many VMs for guessing."""
    inside = np.empty(2 * count + 2)
    inside[0] = low
    size = 1
    for i in range(count):
        row = rows[i]
        if terms.bid[row, resource] > 0.0:
            for bend in (terms.leaves[row, resource], terms.reaches[row, resource]):
                if low < bend < high:
                    inside[size] = bend
                    size += 1
    inside[size] = high
    ordered = np.sort(inside[: size + 1])
    below = 0
    above = size
    while above - below > 1:
        middle = (below + above) // 2
        if _asked(rows, count, resource, terms, ordered[middle]) < capacity:
            below = middle
        else:
            above = middle
    return ordered[below], ordered[above]


@compiled
def host_score(
    rows: Ints, count: int, capacity: Floats, terms: VmTerms, objective: int, work: Floats
) -> float:
    """Return the distance of the host's shares from the first allocations, by the objective.

    `capacity` is [resources]; `work` is scratch space of [2, rows or more].
    """
    given = work[0]
    worst = work[1]
    for i in range(count):
        worst[i] = 0.0
    for resource in range(capacity.shape[0]):
        host_shares(rows, count, resource, capacity[resource], terms, given)
        for i in range(count):
            first = terms.first[rows[i], resource]
            if first > 0.0:
                lack = first - given[i]
                if objective == LARGEST_ERROR:
                    lack = abs(lack)
                worst[i] = max(worst[i], lack / first)
    total = 0.0
    for i in range(count):
        if objective == SUM_OF_SHORTFALLS:
            total += terms.weight[rows[i]] * worst[i]
        else:
            total = max(total, worst[i])
    return total
