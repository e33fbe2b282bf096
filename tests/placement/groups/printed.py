"""Phase 3 as the paper prints it, for comparison with the exact assignment.

The paper moves on to the next best column and does not define what happens once a row has tried all
columns. Here such a row takes the first free column.
"""

import numpy as np

from merkatd.cluster import Ints

UNASSIGNED = -1


def assign_by_exchanges(migration: Ints) -> Ints:
    """Return [nodes]: the group of each node, by the paper's exchanges between two nodes."""
    count = len(migration)
    chosen = np.full(count, UNASSIGNED)
    order = [np.argsort(row, kind="stable").tolist() for row in migration]
    for start in range(count):
        node, rank, steps = start, 0, 0
        while steps < 4 * count * count:
            steps += 1
            group = order[node][min(rank, count - 1)]
            holders = np.flatnonzero(chosen == group)
            if len(holders) == 0:
                chosen[node] = group
                break
            other = int(holders[0])
            at = order[other].index(group)
            if rank + 1 >= count or at + 1 >= count:
                chosen[node] = next(g for g in order[node] if g not in set(chosen.tolist()))
                break
            keep = migration[node][group] + migration[other][order[other][at + 1]]
            give = migration[other][group] + migration[node][order[node][rank + 1]]
            if keep < give:
                chosen[node], chosen[other] = group, UNASSIGNED
                node, rank = other, at + 1
            else:
                rank += 1
        else:
            chosen[node] = next(g for g in order[node] if g not in set(chosen.tolist()))
    return chosen
