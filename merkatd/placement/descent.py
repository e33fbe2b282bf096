"""The tabu search itself: the best move each time, also when it makes things worse.

A VM stays away from the host it left for some iterations, so the search does not fall back
at once into what it climbed out of. It ends when nothing has improved for `n_iter` moves.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from merkatd.cluster import Ints
from merkatd.placement.search import Move, Search


class Neighbourhood(Protocol):
    """What moves there are, and what is made small by them."""

    def total(self) -> float:
        """The objective now."""

    def best(self) -> Move | None:
        """The best move that the limits allow, None where they allow none."""


class Singles(Protocol):
    """Moves of one VM each."""

    def best_single(self) -> Move | None:
        """The best one that the limits allow, None where they allow none."""


@dataclass(frozen=True, slots=True, eq=False)
class Descent:
    """The best that was found."""

    place: Ints
    least: float


def descend(search: Search, hood: Neighbourhood, n_iter: int, good_enough: float = 0.0) -> Descent:
    """Search from where the board is, and leave it at the best placement found."""
    best = search.board.place.copy()
    least = hood.total()
    stale = 0
    while stale < n_iter and least > good_enough:
        move = hood.best()
        if move is None:
            break
        search.make(move.changes)
        total = hood.total()
        stale += 1
        if total < least:
            best, least, stale = search.board.place.copy(), total, 0
    moved = np.flatnonzero(search.board.place != best)
    search.make(tuple((int(vm), int(best[vm])) for vm in moved))
    return Descent(best, least)


def climb_down(search: Search, hood: Singles, least_gain: float) -> None:
    """Make single moves as long as each gains: whatever is begun of them does no harm."""
    while (move := hood.best_single()) is not None:
        if move.gain <= 0 or move.gain < least_gain * move.extra:
            return
        search.make(move.changes)


def trim(search: Search, least_gain: float) -> None:
    """Send home every VM that may move whose migration gains nothing, or less than `least_gain`."""
    useless = True
    while useless:
        useless = False
        away = search.away()
        away = away[search.movable[away]]
        losses = sorted((search.loss_without(vm), vm) for vm in away.tolist())
        for _, vm in losses:
            loss = search.loss_without(vm)
            if loss > 0 and loss >= least_gain:
                continue
            search.make(((vm, int(search.home[vm])),))
            useless = True
