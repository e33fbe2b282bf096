"""Phases of the group scheduler: VMs to groups by price, and groups to hosts.

Phase 1 assigns VMs to groups. Phase 3 assigns groups to hosts with the fewest migrations. Until
then a group has only the kind of its host. Hosts of one kind have the same capacity and may take
the same VMs, so a group of that kind can be on any of them. A group's price is its rates divided by
its capacity, so a host twice as large gets VMs of twice the rates; the paper has hosts of one size.
"""

import heapq
from collections.abc import Callable
from operator import le

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import NO_ROW
from merkatd.placement.groups.exact_assignment import best_columns


def group_by_price(
    rate: Floats,
    floor: Floats,
    capacity: Floats,
    fixed: Ints,
    allowed: Callable[[int, Ints], Bools | None],
) -> Ints:
    """Return [vms]: the group of each VM, NO_ROW for VMs that no group can take.

    `capacity` is [groups, resources]; rates pay for the first resource. `fixed` gives the group of
    VMs that have no choice, NO_ROW for all others. `allowed` returns the groups that may take a VM
    while the other VMs are in the groups of its second argument; None for all groups.
    """
    group = fixed.copy()
    # Python numbers: ten thousand small arrays would take most of the time.
    rates, floors, sizes = rate.tolist(), floor.tolist(), capacity[:, 0].tolist()
    price, free = [0.0] * len(sizes), capacity.tolist()
    for vm in np.flatnonzero(fixed != NO_ROW).tolist():
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
    """Return the VMs without a fixed group, by falling rate; equal rates keep their order."""
    order: Ints = np.argsort(-rate, kind="stable")
    free: Ints = order[fixed[order] == NO_ROW]
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
    """Remove the cheapest group that can take the floors from the heap, and return it."""
    passed = []
    cheapest_fit = None
    while cheapest:
        candidate = heapq.heappop(cheapest)
        row = candidate[1]
        if (allowed is None or allowed[row]) and _fits(floor, free[row]):
            cheapest_fit = candidate
            break
        passed.append(candidate)
    for candidate in passed:
        heapq.heappush(cheapest, candidate)
    return cheapest_fit


def vms_staying(place: Ints, group: Ints, hosts: Ints, groups: Ints) -> Ints:
    """Return [hosts, groups]: the number of the host's VMs that stay if it gets that group."""
    # VMs are also on hosts and in groups of other kinds. NO_ROW is the last entry.
    width = max(int(column.max(initial=-1)) for column in (hosts, groups, place, group)) + 2
    row, column = np.full(width, NO_ROW), np.full(width, NO_ROW)
    row[hosts], column[groups] = np.arange(len(hosts)), np.arange(len(groups))
    here, there = row[place], column[group]
    both = (here != NO_ROW) & (there != NO_ROW)
    cells = here[both] * len(groups) + there[both]
    counted = np.bincount(cells, minlength=len(hosts) * len(groups))
    return counted.reshape(len(hosts), len(groups))


def assign_to_hosts(place: Ints, group: Ints, kind: Ints) -> Ints:
    """Return [groups]: the host of each group, so that as few VMs as possible must move.

    `place` has the VMs' hosts, `group` their groups, `kind` the kind of each group's host.
    """
    host = np.arange(len(kind))
    for number in np.unique(kind).tolist():
        members = np.flatnonzero(kind == number)
        if len(members) > 1:
            kept = vms_staying(place, group, members, members)
            host[members[best_columns(kept.astype(float))]] = members
    return host
