"""Phase 3: groups to hosts with the fewest migrations, an assignment problem solved exactly."""

import numpy as np

from merkatd.cluster import Ints
from merkatd.market.view import NOWHERE


def stays(place: Ints, group: Ints, hosts: Ints, groups: Ints) -> Ints:
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


def mapped(place: Ints, group: Ints, kind: Ints) -> Ints:
    """[groups]: the host of each, such that as few VMs as possible have to move.

    `place` is where VMs are, `group` their groups; a group stands for a host of its `kind`.
    """
    # A quarter of the time that a daemon takes to start, and few have groups.
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415

    host = np.arange(len(kind))
    for one in np.unique(kind).tolist():
        members = np.flatnonzero(kind == one)
        if len(members) > 1:
            kept = stays(place, group, members, members)
            rows, columns = linear_sum_assignment(kept, maximize=True)
            host[members[columns]] = members[rows]
    return host
