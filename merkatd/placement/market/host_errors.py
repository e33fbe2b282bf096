"""Allocation errors (Eq. 2) on a host: of all its VMs, or of a VM on trial."""

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.placement.base.board import floors_fit, with_vm
from merkatd.placement.base.compiled import compiled
from merkatd.placement.base.host_shares import VmTerms, host_shares


@compiled
def errors_on(
    rows: Ints, count: int, capacity: Floats, terms: VmTerms, given: Floats, out: Floats
) -> None:
    """Write Eq. 2 for each VM of one host, the largest over the resources, to `out` by VM."""
    for i in range(count):
        out[rows[i]] = 0.0
    for resource in range(capacity.shape[0]):
        host_shares(rows, count, resource, capacity[resource], terms, given)
        for i in range(count):
            row = rows[i]
            first = terms.first[row, resource]
            if first > 0.0:
                out[row] = max(out[row], abs(first - given[i]) / first)


@compiled
def error_on(
    vm: int,
    host: int,
    enough: float,
    rows: Ints,
    start: Ints,
    count: Ints,
    capacity: Floats,
    terms: VmTerms,
    group: Ints,
    given: Floats,
) -> float:
    """Return the VM's own error if it were on the host; infinite if the floors would not fit.

    Skip the other resources once the error of one is `enough` or more.
    """
    size = with_vm(rows, start[host], count[host], vm, group)
    if not floors_fit(group, size, capacity[host], terms.floor):
        return np.inf
    at = 0
    while group[at] != vm:
        at += 1
    worst = 0.0
    for resource in range(capacity.shape[1]):
        first = terms.first[vm, resource]
        if first > 0.0 and worst < enough:
            host_shares(group, size, resource, capacity[host, resource], terms, given)
            worst = max(worst, abs(first - given[at]) / first)
    return worst


@compiled
def least_error(
    vm: int,
    allowed: Bools,
    rows: Ints,
    start: Ints,
    count: Ints,
    capacity: Floats,
    terms: VmTerms,
) -> int:
    """Return the allowed host with the VM's least own error, the first of equals; -1 if none."""
    most = count.max() + 1
    group = np.empty(most, dtype=np.int64)
    given = np.empty(most)
    best = -1
    least = np.inf
    for host in range(len(allowed)):
        if allowed[host]:
            error = error_on(vm, host, least, rows, start, count, capacity, terms, group, given)
            if error < least:
                best, least = host, error
    return best


@compiled
def error_by_host(
    vm: int,
    allowed: Bools,
    rows: Ints,
    start: Ints,
    count: Ints,
    capacity: Floats,
    terms: VmTerms,
) -> Floats:
    """Return [hosts]: the VM's own error there; infinite where it may not be or does not fit."""
    errors_there = np.full(len(allowed), np.inf)
    most = count.max() + 1
    group = np.empty(most, dtype=np.int64)
    given = np.empty(most)
    for host in range(len(allowed)):
        if allowed[host]:
            errors_there[host] = error_on(
                vm, host, np.inf, rows, start, count, capacity, terms, group, given
            )
    return errors_there
