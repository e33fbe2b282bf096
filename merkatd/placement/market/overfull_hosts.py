"""Relief of overfull hosts: hosts whose VMs' floors exceed the capacity.

Guests there can't get their floors, at any bid. So VMs leave such a host before any other move: as
few as possible, within the limits on migrations. A hold time does not keep a VM there.
"""

from collections.abc import Callable

import numpy as np

from merkatd.cluster import Bools
from merkatd.cluster.columns import NO_HOST
from merkatd.market.market_view import MarketView
from merkatd.placement.base.board import Board, excess, where_floors_fit
from merkatd.placement.base.least_load import load_by_host
from merkatd.placement.base.placement_problem import PlacementProblem
from merkatd.placement.market.search_state import Search


def relieve_first(search: Search) -> None:
    """Relieve overfull hosts within the limits of a search; the search then keeps these VMs."""
    game, relieved = search.game, []
    while search.migrations < search.limits.m_max:
        full = np.append(search.touched >= search.limits.per_host, True)
        may = game.movable & ~full[search.board.place]
        move = _best_move(game, search.board, may, search.hosts_for)
        if move is None:
            break
        search.make((move,))
        relieved.append(move[0])
    if relieved:
        search.movable = search.movable.copy()
        search.movable[relieved] = False


def relieve_board(problem: PlacementProblem, most: int) -> Bools:
    """Relieve overfull hosts on the problem's board with at most `most` migrations.

    Return [vms]: whether the VM may still be moved.
    """
    board, movable = problem.board, problem.movable

    def hosts_for(vm: int) -> Bools:
        return problem.rules.allowed(vm, board.place)

    for _ in range(most):
        move = _best_move(problem, board, movable, hosts_for)
        if move is None:
            break
        board.move(*move)
        movable = movable.copy()
        movable[move[0]] = False
    return movable


def _best_move(
    problem: PlacementProblem, board: Board, may: Bools, hosts_for: Callable[[int], Bools]
) -> tuple[int, int] | None:
    """Return a VM of an overfull host and its new host; None if no single move relieves a host.

    Take the VM with the least sufficient floors; if none suffices, the VM that relieves most.
    """
    view = problem.view
    over = excess(view, board.place)
    rows = np.flatnonzero(over.any(axis=1))
    if not len(rows):
        return None
    part = (over[rows] / np.maximum(view.capacity[rows], 1.0)).max(axis=1)
    for host in rows[np.argsort(-part, kind="stable")].tolist():
        there = board.on(host)
        missing = over[host]
        relief = np.minimum(view.floor[there], missing)[:, missing > 0] / missing[missing > 0]
        useful = may[there] & (relief > 0).any(axis=1)
        left = (1.0 - relief).sum(axis=1)
        size = (view.floor[there] / np.maximum(view.capacity[host], 1.0)).sum(axis=1)
        order = np.lexsort((there, size, left))
        for at in order[useful[order]].tolist():
            vm = int(there[at])
            to = _least_loaded_that_fits(view, board, vm, hosts_for(vm))
            if to != NO_HOST:
                return vm, to
    return None


def _least_loaded_that_fits(view: MarketView, board: Board, vm: int, allowed: Bools) -> int:
    fitting = where_floors_fit(
        vm, allowed, board.rows, board.start, board.count, board.capacity, view.floor
    )
    hosts = np.flatnonzero(fitting & (np.arange(len(fitting)) != board.place[vm]))
    if not len(hosts):
        return NO_HOST
    return int(hosts[np.argmin(load_by_host(view, board)[hosts])])
