"""VMs that must wait for memory: which of them will have it in a later period, and which never.

# Note [Prospects]

A VM that waits will have its memory if balloons can give it, or VMs that leave. Balloons give down
to the least of their VMs. A VM on its way to another host gives what it holds once it has gone. A
VM that the plan takes away gives all that it holds, but it may itself wait for memory, so this is
asked again for as long as it changes something. Example: VM 2 is to go to host 0 and waits for VM
4, which is to go from host 0 to host 1 and waits for a balloon there. VM 4 has prospects, so VM 2
has them as well. VMs that wait for each other in a ring have none, unless balloons can make room
for one of them beside the other. Used by `balloon_steps.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from merkatd.cluster import Ints
from merkatd.cluster.columns import NOWHERE
from merkatd.limits.memory_targets import MemoryHoldings
from merkatd.limits.occupancy import Occupancy


class Missing(NamedTuple):
    """What a VM lacks where it is to go, after all that balloons give there in this period."""

    host: int
    """Row of the host."""
    amount_mib: int


@dataclass(frozen=True, slots=True)
class Waits:
    """Rows of VMs that wait in this period."""

    missing: Mapping[int, Missing]
    behind: Mapping[int, int]
    """VMs that wait for a VM that waits, and that one's row."""


def without_prospects(
    waits: Waits,
    scene: Occupancy,
    stock: MemoryHoldings,
    freed: Mapping[int, int],
    left: Mapping[int, int],
) -> frozenset[int]:
    """Return the rows of VMs that wait for memory which no later period frees.

    By row: `freed` is what a balloon gives in this period, `left` what a VM frees that leaves its
    host in this period, as far as no other VM takes it.
    """
    later = np.where(stock.adjustable, np.maximum(stock.holds - stock.least, 0), 0)
    for row, amount in freed.items():
        later[row] = max(later[row] - amount, 0)
    for row, amount in left.items():
        later[row] = amount
    here = scene.now != NOWHERE
    balloons = np.bincount(scene.now[here], later[here], len(stock.free)).astype(np.int64)
    there = balloons + stock.leaving
    able = set[int]()
    while True:
        found = {
            row
            for row, missing in waits.missing.items()
            if missing.amount_mib <= there[missing.host] + (later[row] if here[row] else 0)
        }
        found |= {row for row, other in waits.behind.items() if other in able}
        if found <= able:
            return frozenset(waits.missing.keys() - able)
        for row in found - able:
            if here[row]:
                there[scene.now[row]] += stock.holds[row] - freed.get(row, 0) - later[row]
        able |= found


def hosts_without_room(
    wanted: Mapping[int, int], scene: Occupancy, stock: MemoryHoldings
) -> Mapping[int, Ints]:
    """Return the hosts where each of these VMs finds no room, whatever balloons give.

    `wanted`, by row, is where a VM was to go: that host is one of them. A host has no room either
    while VMs that are on their way to others still hold it.
    """
    least = np.where(stock.adjustable | scene.starting, stock.least, stock.holds)
    here = scene.now != NOWHERE
    kept = np.bincount(scene.now[here], least[here], len(stock.free))
    room = stock.free + np.bincount(scene.now[here], stock.holds[here], len(stock.free)) - kept
    found = {}
    for row, host in wanted.items():
        lacks = room < least[row]
        lacks[host] = True
        if here[row]:
            lacks[scene.now[row]] = False
        found[row] = np.flatnonzero(lacks)
    return found
