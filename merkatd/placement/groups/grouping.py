"""Phase 1: VMs by falling spending rate, each to the group with the lowest price.

A group stands for a host that is not chosen yet, but for its kind: hosts of one kind are
alike in capacity and in who may be there, so that a group of that kind can be on any of
them. A group's price is a part of its capacity, so that a host twice as large gets VMs
worth twice as much; the paper has hosts of one size.
"""

import heapq
from collections.abc import Callable

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.market.view import NOWHERE


def grouped(
    rate: Floats,
    floor: Floats,
    capacity: Floats,
    fixed: Ints,
    allowed: Callable[[int, Ints], Bools | None],
) -> Ints:
    """[vms]: the group of each VM, NOWHERE for those that no group can take.

    `capacity` is [groups, resources], the first of them what rates are paid for; `fixed` gives
    the group of VMs that have no choice, NOWHERE for all others; `allowed` says which groups
    may take a VM when the others are where its second argument says, None for all.
    """
    group = fixed.copy()
    price, free = np.zeros(len(capacity)), capacity.copy()
    for vm in np.flatnonzero(fixed != NOWHERE).tolist():
        price[fixed[vm]] += _price(rate[vm], capacity[fixed[vm], 0])
        free[fixed[vm]] -= floor[vm]
    cheapest = [(float(price[row]), row) for row in range(len(capacity)) if capacity[row, 0] > 0]
    heapq.heapify(cheapest)
    for vm in by_falling_rate(rate, fixed).tolist():
        taken = _take(cheapest, free, floor[vm], allowed(vm, group))
        if taken is None:
            continue
        paid, row = taken
        group[vm] = row
        free[row] -= floor[vm]
        heapq.heappush(cheapest, (paid + _price(rate[vm], capacity[row, 0]), row))
    return group


def by_falling_rate(rate: Floats, fixed: Ints) -> Ints:
    """The VMs that have a choice; the first one first where rates are equal."""
    order: Ints = np.argsort(-rate, kind="stable")
    free: Ints = order[fixed[order] == NOWHERE]
    return free


def _price(rate: float, capacity: float) -> float:
    return float(rate / capacity) if capacity > 0 else np.inf


def _take(
    cheapest: list[tuple[float, int]], free: Floats, floor: Floats, allowed: Bools | None
) -> tuple[float, int] | None:
    """The cheapest group that can take the floors, taken out of the heap."""
    passed = []
    found = None
    while cheapest:
        one = heapq.heappop(cheapest)
        row = one[1]
        if (allowed is None or allowed[row]) and (floor <= free[row]).all():
            found = one
            break
        passed.append(one)
    for one in passed:
        heapq.heappush(cheapest, one)
    return found
