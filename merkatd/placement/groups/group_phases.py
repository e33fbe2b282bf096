"""Phase 1, VMs to groups by price; phase 3, groups to hosts with the fewest migrations.

A group stands for a host that is not chosen yet, but for its kind: hosts of one kind are
alike in capacity and in who may be there, so that a group of that kind can be on any of
them. A group's price is a part of its capacity, so that a host twice as large gets VMs
worth twice as much; the paper has hosts of one size.
"""

import heapq
from collections.abc import Callable
from operator import le

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import NOWHERE


def group_by_price(
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
    # Numbers of Python's own: ten thousand small arrays would take most of the time.
    rates, floors, sizes = rate.tolist(), floor.tolist(), capacity[:, 0].tolist()
    price, free = [0.0] * len(sizes), capacity.tolist()
    for vm in np.flatnonzero(fixed != NOWHERE).tolist():
        row = int(fixed[vm])
        price[row] += _price(rates[vm], sizes[row])
        _use(free[row], floors[vm])
    cheapest = [(price[row], row) for row in range(len(sizes)) if sizes[row] > 0]
    heapq.heapify(cheapest)
    for vm in by_falling_rate(rate, fixed).tolist():
        taken = _take(cheapest, free, floors[vm], allowed(vm, group))
        if taken is None:
            continue
        paid, row = taken
        group[vm] = row
        _use(free[row], floors[vm])
        heapq.heappush(cheapest, (paid + _price(rates[vm], sizes[row]), row))
    return group


def by_falling_rate(rate: Floats, fixed: Ints) -> Ints:
    """The VMs that have a choice; the first one first where rates are equal."""
    order: Ints = np.argsort(-rate, kind="stable")
    free: Ints = order[fixed[order] == NOWHERE]
    return free


def _price(rate: float, capacity: float) -> float:
    return rate / capacity if capacity > 0 else np.inf


def _use(free: list[float], floor: list[float]) -> None:
    for at, amount in enumerate(floor):
        free[at] -= amount


def _fits(floor: list[float], free: list[float]) -> bool:
    return all(map(le, floor, free))


def _take(
    cheapest: list[tuple[float, int]],
    free: list[list[float]],
    floor: list[float],
    allowed: Bools | None,
) -> tuple[float, int] | None:
    """The cheapest group that can take the floors, taken out of the heap."""
    passed = []
    found = None
    while cheapest:
        one = heapq.heappop(cheapest)
        row = one[1]
        if (allowed is None or allowed[row]) and _fits(floor, free[row]):
            found = one
            break
        passed.append(one)
    for one in passed:
        heapq.heappush(cheapest, one)
    return found


def vms_staying(place: Ints, group: Ints, hosts: Ints, groups: Ints) -> Ints:
    """[hosts, groups]: how many VMs of each host stay there if it gets that group."""
    # VMs are on hosts of other kinds, and in their groups, too. NOWHERE is the last entry.
    width = max(int(one.max(initial=-1)) for one in (hosts, groups, place, group)) + 2
    row, column = np.full(width, NOWHERE), np.full(width, NOWHERE)
    row[hosts], column[groups] = np.arange(len(hosts)), np.arange(len(groups))
    here, there = row[place], column[group]
    both = (here != NOWHERE) & (there != NOWHERE)
    cells = here[both] * len(groups) + there[both]
    counted = np.bincount(cells, minlength=len(hosts) * len(groups))
    return counted.reshape(len(hosts), len(groups))


def assign_to_hosts(place: Ints, group: Ints, kind: Ints) -> Ints:
    """[groups]: the host of each, such that as few VMs as possible have to move.

    `place` is where VMs are, `group` their groups; a group stands for a host of its `kind`.
    """
    # A quarter of the time that a daemon takes to start, and few have groups.
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415

    host = np.arange(len(kind))
    for one in np.unique(kind).tolist():
        members = np.flatnonzero(kind == one)
        if len(members) > 1:
            kept = vms_staying(place, group, members, members)
            rows, columns = linear_sum_assignment(kept, maximize=True)
            host[members[columns]] = members[rows]
    return host
