"""What the strategies are measured against, written with the same means.

The hill climb is the product's own (`placement/even.py`), as a strategy of its own here:
same input, same output. The transcription is Algorithm 1 as printed, which computes all
errors again for every candidate; its ComputeErrors is compiled like everything else.
"""

import numpy as np

from merkatd.cluster import Decision, Floats, Ints, Snapshot
from merkatd.placement.base.board import where_floors_fit
from merkatd.placement.base.compiled import compiled
from merkatd.placement.base.host_shares import SUM_OF_SHORTFALLS, Stakes, divide
from merkatd.placement.base.least_load import start
from merkatd.placement.base.placement_problem import Game
from merkatd.placement.base.strategy import Pricing
from merkatd.placement.market.host_errors import errors_on
from merkatd.placement.market.settlement import play
from merkatd.placement.tabu.even_loads import climb
from merkatd.placement.tabu.paper import MarketSettings


def climbed(snapshot: Snapshot, moves: int) -> Decision:
    """A decision that lowers the largest load by at most so many single moves."""
    return play(
        snapshot,
        Pricing(),
        lambda game: climb(game.view, game.started, game.movable, moves)[0],
        SUM_OF_SHORTFALLS,
    )


def transcribed(snapshot: Snapshot, settings: MarketSettings) -> Ints:
    """[vms]: Algorithm 1, with ComputeErrors for every candidate, as it is printed."""
    game = start(snapshot, 0)
    place, best = game.board.place, game.board.place.copy()
    e = _compute_errors(game)
    e_worse = float(e.max(initial=0.0))
    tabu: dict[tuple[int, int], int] = {}
    n_iterations = iteration = 0
    while n_iterations < settings.n_iter and e_worse > settings.e_max:
        iteration += 1
        vm, host = _next_move(game, e, {k for k, end in tabu.items() if end >= iteration})
        if vm < 0:
            break
        tabu[vm, int(place[vm])] = iteration + settings.tenure
        game.board.move(vm, host)
        e = _compute_errors(game)
        if e_worse - e.max() > 0 and game.migrations(place) <= settings.m_max(len(place)):
            best, e_worse, n_iterations = place.copy(), float(e.max()), 0
        else:
            n_iterations += 1
    return best


def _next_move(game: Game, e: Floats, tabu: set[tuple[int, int]]) -> tuple[int, int]:
    board = game.board
    for vm in np.argsort(-np.where(game.movable, e, -1.0), kind="stable").tolist():
        source = int(board.place[vm])
        allowed = game.rules.allowed(vm, board.place).copy()
        allowed[[source, *(host for other, host in tabu if other == vm)]] = False
        fits = where_floors_fit(
            vm, allowed, board.rows, board.start, board.count, board.capacity, game.view.floor
        )
        best, least = -1, np.inf
        for host in np.flatnonzero(fits).tolist():
            board.move(vm, host)
            error = float(_compute_errors(game)[vm])
            if error < least:
                best, least = host, error
        board.move(vm, source)
        if best >= 0:
            return vm, best
    return -1, -1


def _compute_errors(game: Game) -> Floats:
    """Both allocations of every VM, from the whole market and from its host, and Eq. 2."""
    board = game.board
    out = np.zeros(len(board.place))
    placed = np.flatnonzero(board.place >= 0)
    stakes = game.stakes._replace(first=np.zeros_like(game.stakes.first))
    _both_allocations(
        placed, game.view.total, board.rows, board.start, board.count, board.capacity, stakes, out
    )
    return out


@compiled
def _both_allocations(
    placed: Ints,
    total: Floats,
    rows: Ints,
    start: Ints,
    count: Ints,
    capacity: Floats,
    stakes: Stakes,
    out: Floats,
) -> None:
    given = np.empty(max(count.max(), len(placed)) + 1)
    for resource in range(len(total)):
        divide(placed, len(placed), resource, total[resource], stakes, given)
        for i in range(len(placed)):
            stakes.first[placed[i], resource] = given[i]
    for host in range(len(count)):
        there = rows[start[host] : start[host] + count[host]]
        errors_on(there, count[host], capacity[host], stakes, given, out)
