"""Trial moves: the effect of single changes on host scores, compiled for thousands of trials.

A host's score (`host_score`) is the distance of its shares from the first allocations. A trial adds
a VM to a host, removes one, or both, and scores the host again. The board is unchanged.
"""

from typing import NamedTuple

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.placement.base.board import floors_fit, with_vm, without_vm
from merkatd.placement.base.compiled import compiled
from merkatd.placement.base.host_shares import VmTerms, host_score, host_shares

EXACT_TRIALS = 6
"""Number of hosts that are tried exactly for a VM, after estimates for all hosts."""


class TrialTable(NamedTuple):
    """The board as compiled code sees it."""

    rows: Ints
    start: Ints
    counts: Ints
    capacity: Floats


class Estimates(NamedTuple):
    """Rough conditions for a VM on each host: [hosts, resources], except `load`: [hosts]."""

    spare: Floats
    """Capacity that no VM there can use."""
    level: Floats
    """Units per credit; infinite if all VMs have their caps."""
    harm: Floats
    """Shortfall, in credits, per unit taken from the VMs there."""
    floors: Floats
    bids: Floats
    load: Floats
    """[hosts]"""


@compiled
def update_hosts(
    hosts: Ints,
    table: TrialTable,
    terms: VmTerms,
    objective: int,
    scores: Floats,
    without: Floats,
    estimates: Estimates,
) -> None:
    """Update, for these hosts, the score, the score without each VM, and the estimates."""
    longest = table.counts.max() + 1
    work = np.empty((2, longest))
    group = np.empty(longest, dtype=np.int64)
    for host in hosts:
        start, count = table.start[host], table.counts[host]
        vms = table.rows[start : start + count]
        _estimate(host, vms, count, table.capacity[host], terms, work[0], estimates)
        scores[host] = host_score(vms, count, table.capacity[host], terms, objective, work)
        for i in range(count):
            if scores[host] == 0.0:
                without[vms[i]] = 0.0
            else:
                size = without_vm(table.rows, start, count, vms[i], group)
                without[vms[i]] = host_score(
                    group, size, table.capacity[host], terms, objective, work
                )


@compiled
def _estimate(
    host: int,
    there: Ints,
    count: int,
    capacity: Floats,
    terms: VmTerms,
    given: Floats,
    estimates: Estimates,
) -> None:
    load = 0.0
    for resource in range(capacity.shape[0]):
        level = host_shares(there, count, resource, capacity[resource], terms, given)
        used = 0.0
        floors = 0.0
        bids = 0.0
        harm = 0.0
        for i in range(count):
            row = there[i]
            bid = terms.bid[row, resource]
            used += given[i]
            floors += terms.floor[row, resource]
            bids += bid
            if terms.first[row, resource] > 0.0:
                harm += bid * terms.weight[row] / terms.first[row, resource]
        estimates.spare[host, resource] = max(capacity[resource] - used, 0.0)
        estimates.level[host, resource] = level
        estimates.floors[host, resource] = floors
        estimates.bids[host, resource] = bids
        estimates.harm[host, resource] = harm / bids if bids > 0.0 else 0.0
        if capacity[resource] > 0.0:
            load = max(load, bids / capacity[resource])
        elif bids > 0.0:
            load = np.inf
    estimates.load[host] = load


@compiled
def _guess(vm: int, host: int, terms: VmTerms, estimates: Estimates) -> float:
    """Return a rough shortfall, in credits, of the VM on the host plus what it causes there."""
    lack = 0.0
    harm = 0.0
    for resource in range(terms.bid.shape[1]):
        spare = estimates.spare[host, resource]
        level = estimates.level[host, resource]
        given = spare
        if level < np.inf:
            given = max(spare, terms.bid[vm, resource] * level)
        given = max(min(given, terms.top[vm, resource]), terms.floor[vm, resource])
        first = terms.first[vm, resource]
        if first > 0.0:
            lack = max(lack, (first - given) / first)
        harm += max(given - spare, 0.0) * estimates.harm[host, resource]
    return float(terms.weight[vm] * lack + harm)


@compiled
def likely_hosts(
    vm: int, allowed: Bools, table: TrialTable, terms: VmTerms, estimates: Estimates, out: Ints
) -> int:
    """Write the allowed hosts with the least guesses to `out`, best first; return their number."""
    most = len(out)
    guesses = np.empty(most)
    count = 0
    for host in range(len(allowed)):
        if not allowed[host]:
            continue
        fits = True
        for resource in range(table.capacity.shape[1]):
            floors = estimates.floors[host, resource] + terms.floor[vm, resource]
            fits = fits and floors <= table.capacity[host, resource]
        if not fits:
            continue
        guess = _guess(vm, host, terms, estimates)
        at = count
        while at > 0 and (
            guess < guesses[at - 1]
            or (guess == guesses[at - 1] and estimates.load[host] < estimates.load[out[at - 1]])
        ):
            at -= 1
        if at == most:
            continue
        count = min(count + 1, most)
        for i in range(count - 1, at, -1):
            guesses[i] = guesses[i - 1]
            out[i] = out[i - 1]
        guesses[at] = guess
        out[at] = host
    return count


@compiled
def best_host(
    vm: int,
    allowed: Bools,
    table: TrialTable,
    terms: VmTerms,
    objective: int,
    scores: Floats,
    estimates: Estimates,
) -> tuple[int, float]:
    """Return the host whose score rises least when the VM comes, and the rise; -1 for none."""
    likely = np.empty(EXACT_TRIALS, dtype=np.int64)
    count = likely_hosts(vm, allowed, table, terms, estimates, likely)
    most = table.counts.max() + 1
    work = np.empty((2, most))
    group = np.empty(most, dtype=np.int64)
    best = -1
    least = np.inf
    for i in range(count):
        host = likely[i]
        size = with_vm(table.rows, table.start[host], table.counts[host], vm, group)
        if not floors_fit(group, size, table.capacity[host], terms.floor):
            continue
        then = host_score(group, size, table.capacity[host], terms, objective, work)
        if then - scores[host] < least:
            least = then - scores[host]
            best = host
            if least <= 0.0:
                break
    return best, least


@compiled
def best_exchange(
    vm: int,
    source: int,
    hosts: Ints,
    partners: Bools,
    table: TrialTable,
    terms: VmTerms,
    objective: int,
    scores: Floats,
) -> tuple[int, float]:
    """Return the partner on these hosts whose swap with the VM gains most, and the gain.

    At least one of the two must fit beside the other, or neither could move first. Return -1 if
    no partner qualifies.
    """
    most = table.counts.max() + 2
    work = np.empty((2, most))
    group = np.empty(most, dtype=np.int64)
    swapped = np.empty(most, dtype=np.int64)
    best = -1
    greatest = -np.inf
    for host in hosts:
        start, count = table.start[host], table.counts[host]
        size = with_vm(table.rows, start, count, vm, group)
        comes_first = floors_fit(group, size, table.capacity[host], terms.floor)
        for i in range(count):
            other = table.rows[start + i]
            if not partners[other]:
                continue
            size = with_vm(table.rows, table.start[source], table.counts[source], other, group)
            goes_first = floors_fit(group, size, table.capacity[source], terms.floor)
            if not (comes_first or goes_first):
                continue
            size = without_vm(group, 0, size, vm, swapped)
            if not floors_fit(swapped, size, table.capacity[source], terms.floor):
                continue
            at_source = host_score(swapped, size, table.capacity[source], terms, objective, work)
            size = with_vm(table.rows, start, count, vm, group)
            size = without_vm(group, 0, size, other, swapped)
            if not floors_fit(swapped, size, table.capacity[host], terms.floor):
                continue
            at_host = host_score(swapped, size, table.capacity[host], terms, objective, work)
            gain = scores[source] + scores[host] - at_source - at_host
            if gain > greatest:
                greatest = gain
                best = other
    return best, greatest
