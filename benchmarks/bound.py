"""How much shortfall any plan of so many migrations could take away at the very most.

A host's shortfall with VMs added is never less than without them. So no plan can leave a
host better off than taking away its most harmful VMs and bringing none, and the best a plan
of M migrations can do is the best way to spread M removals over the hosts. Every set of up
to `MOST` VMs of a host is tried; with more of them gone a host is counted as having no
shortfall at all, which no plan can beat.
"""

import numpy as np

from merkatd.cluster import Floats, Ints, Snapshot
from merkatd.placement.base.compiled import compiled
from merkatd.placement.base.host_shares import SUM_OF_SHORTFALLS, Stakes, score
from merkatd.placement.base.least_load import start

MOST = 5


def greatest_relief(snapshot: Snapshot, migrations: int) -> float:
    """The part of the first market's shortfall that so many migrations can't exceed."""
    game = start(snapshot, 0)
    best = np.zeros(migrations + 1)
    total = 0.0
    for host in range(len(game.view.hosts)):
        rows = game.board.on(host).copy()
        relief, here = _relief(rows, game.view.capacity[host], game.stakes)
        total += here
        if here > 0:
            spread = best.copy()
            for taken in range(1, min(MOST + 2, migrations + 1)):
                np.maximum(spread[taken:], best[:-taken] + relief[taken], out=spread[taken:])
            best = spread
    return float(best[-1] / total) if total > 0 else 0.0


@compiled
def _relief(rows: Ints, capacity: Floats, stakes: Stakes) -> tuple[Floats, float]:
    """By how many VMs are taken away: the most that helps; and the shortfall as it is."""
    count = len(rows)
    work = np.empty((2, count + 1))
    left = np.empty(count + 1, dtype=np.int64)
    here = score(rows, count, capacity, stakes, SUM_OF_SHORTFALLS, work)
    relief = np.zeros(MOST + 2)
    relief[MOST + 1] = here
    chosen = np.zeros(MOST, dtype=np.int64)
    for taken in range(1, MOST + 1):
        if here == 0.0 or taken > count:
            relief[taken] = here if taken > count else 0.0
            continue
        for i in range(taken):
            chosen[i] = i
        while True:
            size = 0
            at = 0
            for i in range(count):
                if at < taken and chosen[at] == i:
                    at += 1
                else:
                    left[size] = rows[i]
                    size += 1
            then = score(left, size, capacity, stakes, SUM_OF_SHORTFALLS, work)
            relief[taken] = max(relief[taken], here - then)
            i = taken - 1
            while i >= 0 and chosen[i] == count - taken + i:
                i -= 1
            if i < 0:
                break
            chosen[i] += 1
            for j in range(i + 1, taken):
                chosen[j] = chosen[j - 1] + 1
    return relief, here
