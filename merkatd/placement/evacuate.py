"""Emptying drained hosts: what runs there goes first, to where it does least harm.

A drained host is to be worked on, so this comes before any gain. It keeps to the limits on
migrations: a large host is empty after some periods. VMs that may not move stay. A VM that
somebody wants to be elsewhere than it is goes with them.
"""

import numpy as np

from merkatd.placement.search import Search
from merkatd.placement.shortfall import try_single


def evacuate(search: Search) -> None:
    """Move VMs off hosts that take none or that they must leave, by id, within the limits."""
    drained = np.flatnonzero(~search.game.view.open)
    leaving = np.isin(search.board.place, drained) | search.game.rules.leaving
    leaving &= search.movable
    for vm in np.flatnonzero(leaving).tolist():
        if search.may_move(np.array([vm]))[0]:
            move = try_single(search, vm)
            if move is not None:
                search.make(move.changes)
