"""Prospects of VMs that wait for memory: whether a later period can free it.

# Note [Prospects]

A waiting VM will get its memory if balloons or leaving VMs can free it. Balloons shrink to the
least memory of their VMs. A migrating VM frees what it holds after it has left. A VM that the plan
takes away frees all that it holds, but it may itself wait for memory. So the computation repeats
until nothing changes. VMs that wait for each other in a ring have no prospects, unless balloons can
make room for one of them beside the other.

Example: VM 2 is to go to host 0 and waits for VM 4. VM 4 is to go from host 0 to host 1 and waits
for a balloon there. VM 4 has prospects, so VM 2 has them as well. Used by `balloon_steps.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from merkatd.cluster import Ints
from merkatd.cluster.columns import NO_HOST
from merkatd.limits.memory_targets import MemoryHoldings
from merkatd.limits.occupancy import Occupancy


class MissingMemory(NamedTuple):
    """The memory that a VM lacks on its new host, after the balloon steps of this period."""

    host: int
    """Row of the host."""
    amount_mib: int


@dataclass(frozen=True, slots=True)
class WaitingVms:
    """The VMs that wait in this period, by row."""

    missing: Mapping[int, MissingMemory]
    behind: Mapping[int, int]
    """By row of VMs that wait for another waiting VM: the row of the other VM."""


def rows_without_prospects(
    waits: WaitingVms,
    occupancy: Occupancy,
    stock: MemoryHoldings,
    freed: Mapping[int, int],
    left: Mapping[int, int],
) -> frozenset[int]:
    """Return the rows of VMs that wait for memory which no later period can free.

    By VM row: `freed` is what its balloon frees in this period. `left` is what the VM frees by
    leaving its host in this period, less what other VMs take of it.
    """
    later = np.where(stock.adjustable, np.maximum(stock.holds - stock.least, 0), 0)
    for row, amount in freed.items():
        later[row] = max(later[row] - amount, 0)
    for row, amount in left.items():
        later[row] = amount
    here = occupancy.now != NO_HOST
    balloons = np.bincount(occupancy.now[here], later[here], len(stock.free)).astype(np.int64)
    there = balloons + stock.leaving
    able = set[int]()
    while True:
        possible = {
            row
            for row, missing in waits.missing.items()
            if missing.amount_mib <= there[missing.host] + (later[row] if here[row] else 0)
        }
        possible |= {row for row, other in waits.behind.items() if other in able}
        if possible <= able:
            return frozenset(waits.missing.keys() - able)
        for row in possible - able:
            if here[row]:
                there[occupancy.now[row]] += stock.holds[row] - freed.get(row, 0) - later[row]
        able |= possible


def hosts_without_room(
    wanted: Mapping[int, int], occupancy: Occupancy, stock: MemoryHoldings
) -> Mapping[int, Ints]:
    """Return the hosts without room for each of these VMs, even if all balloons shrink.

    `wanted` is the VM's planned host, by row; the result includes it. Memory of VMs that are still
    migrating away from a host does not count as room.
    """
    least = np.where(stock.adjustable | occupancy.starting, stock.least, stock.holds)
    here = occupancy.now != NO_HOST
    kept = np.bincount(occupancy.now[here], least[here], len(stock.free))
    room = stock.free + np.bincount(occupancy.now[here], stock.holds[here], len(stock.free)) - kept
    lacking = {}
    for row, host in wanted.items():
        lacks = room < least[row]
        lacks[host] = True
        if here[row]:
            lacks[occupancy.now[row]] = False
        lacking[row] = np.flatnonzero(lacks)
    return lacking
