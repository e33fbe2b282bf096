"""Reference strategies for comparison: hill climb, Algorithm 1 as printed, and an upper bound.

The hill climb is Merkat's own (`placement/tabu/even_loads.py`), as a strategy with the same input
and output. The transcription is Algorithm 1 as printed, which computes all errors again for every
candidate; its ComputeErrors is compiled like the rest.

# Note [The greatest possible relief]
Adding VMs never lowers a host's shortfall. So for a host, no plan is better than removing its most
harmful VMs and adding none. The best plan of M migrations is therefore at most as good as the best
way to spread M removals over the hosts. Every set of up to `MOST` VMs of a host is tried; with more
VMs removed, a host counts as having no shortfall, which no plan can beat.

Example: two hosts have a shortfall of 10 credits each. On the first, the best removal takes away 6
credits, the best two take away 9; on the second, 4 and 10. With M = 2 the bound is the largest of
9 (both on the first), 6 + 4 (one each) and 10 (both on the second): 10 of 20 credits, or 0.5.
"""

import numpy as np

from merkatd.cluster import Decision, Floats, Ints, Snapshot
from merkatd.placement.base.board import where_floors_fit
from merkatd.placement.base.compiled import compiled
from merkatd.placement.base.host_shares import SUM_OF_SHORTFALLS, VmTerms, host_score, host_shares
from merkatd.placement.base.least_load import start_market
from merkatd.placement.base.placement_problem import PlacementProblem
from merkatd.placement.contract import Pricing
from merkatd.placement.market.host_errors import errors_on
from merkatd.placement.market.settlement import decide_markets
from merkatd.placement.tabu.even_loads import level_loads
from merkatd.placement.tabu.paper import MarketSettings


def climbed(snapshot: Snapshot, moves: int) -> Decision:
    """Return a decision that lowers the largest load with at most `moves` single moves."""
    return decide_markets(
        snapshot,
        Pricing(),
        lambda game: level_loads(game.view, game.started, game.movable, moves)[0],
        SUM_OF_SHORTFALLS,
    )


def transcribed(snapshot: Snapshot, settings: MarketSettings) -> Ints:
    """Return [vms]: the hosts by Algorithm 1 as printed, with ComputeErrors for each candidate."""
    game = start_market(snapshot, 0)
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


def _next_move(problem: PlacementProblem, e: Floats, tabu: set[tuple[int, int]]) -> tuple[int, int]:
    board = problem.board
    for vm in np.argsort(-np.where(problem.movable, e, -1.0), kind="stable").tolist():
        source = int(board.place[vm])
        allowed = problem.rules.allowed(vm, board.place).copy()
        allowed[[source, *(host for other, host in tabu if other == vm)]] = False
        fits = where_floors_fit(
            vm, allowed, board.rows, board.start, board.count, board.capacity, problem.view.floor
        )
        best, least = -1, np.inf
        for host in np.flatnonzero(fits).tolist():
            board.move(vm, host)
            error = float(_compute_errors(problem)[vm])
            if error < least:
                best, least = host, error
        board.move(vm, source)
        if best >= 0:
            return vm, best
    return -1, -1


def _compute_errors(problem: PlacementProblem) -> Floats:
    """Return Eq. 2 of every VM, from its allocations in the whole market and on its host."""
    board = problem.board
    out = np.zeros(len(board.place))
    placed = np.flatnonzero(board.place >= 0)
    stakes = problem.stakes._replace(first=np.zeros_like(problem.stakes.first))
    _both_allocations(
        placed,
        problem.view.total,
        board.rows,
        board.start,
        board.count,
        board.capacity,
        stakes,
        out,
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
    terms: VmTerms,
    out: Floats,
) -> None:
    given = np.empty(max(count.max(), len(placed)) + 1)
    for resource in range(len(total)):
        host_shares(placed, len(placed), resource, total[resource], terms, given)
        for i in range(len(placed)):
            terms.first[placed[i], resource] = given[i]
    for host in range(len(count)):
        there = rows[start[host] : start[host] + count[host]]
        errors_on(there, count[host], capacity[host], terms, given, out)


MOST = 5


def greatest_relief(snapshot: Snapshot, migrations: int) -> float:
    """Return an upper bound of the part of the shortfall that `migrations` moves can take away."""
    game = start_market(snapshot, 0)
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
def _relief(rows: Ints, capacity: Floats, terms: VmTerms) -> tuple[Floats, float]:
    """Return the greatest relief by number of removed VMs, and the present shortfall."""
    count = len(rows)
    work = np.empty((2, count + 1))
    left = np.empty(count + 1, dtype=np.int64)
    here = host_score(rows, count, capacity, terms, SUM_OF_SHORTFALLS, work)
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
            then = host_score(left, size, capacity, terms, SUM_OF_SHORTFALLS, work)
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
