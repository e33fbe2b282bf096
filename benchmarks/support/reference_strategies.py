"""What strategies are measured against.

The hill climb is the product's own (`placement/tabu/even_loads.py`), as a strategy of its own here:
same input, same output. The transcription is Algorithm 1 as printed, which computes all
errors again for every candidate; its ComputeErrors is compiled like everything else.

A host's shortfall with VMs added is never less than without them. So no plan can leave a
host better off than taking away its most harmful VMs and bringing none, and the best a plan
of M migrations can do is the best way to spread M removals over the hosts. Every set of up
to `MOST` VMs of a host is tried; with more of them gone a host is counted as having no
shortfall at all, which no plan can beat.
"""

import numpy as np

from merkatd.cluster import Decision, Floats, Ints, Snapshot
from merkatd.placement.base.board import where_floors_fit
from merkatd.placement.base.compiled import compiled
from merkatd.placement.base.host_shares import SUM_OF_SHORTFALLS, Stakes, divide, score
from merkatd.placement.base.least_load import start
from merkatd.placement.base.placement_problem import PlacementProblem
from merkatd.placement.base.strategy import Pricing
from merkatd.placement.market.host_errors import errors_on
from merkatd.placement.market.settlement import decide_markets
from merkatd.placement.tabu.even_loads import level_loads
from merkatd.placement.tabu.paper import MarketSettings


def climbed(snapshot: Snapshot, moves: int) -> Decision:
    """A decision that lowers the largest load by at most so many single moves."""
    return decide_markets(
        snapshot,
        Pricing(),
        lambda game: level_loads(game.view, game.started, game.movable, moves)[0],
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


def _next_move(game: PlacementProblem, e: Floats, tabu: set[tuple[int, int]]) -> tuple[int, int]:
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


def _compute_errors(game: PlacementProblem) -> Floats:
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
