"""Who must leave its host goes first: off drained hosts, and where somebody asked for it (RESCHED).

A drained host is to be worked on, so this comes before any gain. It keeps to the limits on
migrations: a large host is empty after some periods. VMs that may not move stay.
"""

import numpy as np

from merkatd.cluster import Bools, HostState
from merkatd.market.view import NOWHERE
from merkatd.placement.board import Board
from merkatd.placement.game import Game
from merkatd.placement.search import Search
from merkatd.placement.shortfall import try_single
from merkatd.placement.start import least_loaded, loads_of, reload


def must_leave(game: Game) -> Bools:
    """[vms]: runs where nothing may run any more, or where it was told to leave, and may move."""
    state = game.snapshot.hosts.state[game.view.hosts]
    drained = np.isin(game.view.place, np.flatnonzero(state == HostState.DRAINED))
    runs = game.view.place != NOWHERE
    leaving: Bools = (drained | game.rules.leaving) & game.movable & runs
    return leaving


def evacuate(search: Search) -> None:
    """Move them, by id and within the limits, to where they do least harm."""
    game = search.game
    leaving = must_leave(game) & (search.board.place == game.view.place) & search.movable
    for vm in np.flatnonzero(leaving).tolist():
        if search.may_move(np.array([vm]))[0]:
            move = try_single(search, vm)
            if move is not None:
                search.make(move.changes)


def send_away(game: Game, board: Board, most: int) -> None:
    """Move them, by id and at most so many, to where a new VM would start."""
    leaving = np.flatnonzero(must_leave(game) & (board.place == game.view.place))
    if len(leaving) == 0:
        return
    load = loads_of(game.view, board)
    for vm in leaving.tolist():
        if most <= 0:
            return
        host = least_loaded(vm, game.view, board, game.rules, load)
        if host != NOWHERE:
            source = int(board.place[vm])
            board.move(vm, host)
            for touched in (source, host):
                reload(touched, game.view, board, load)
            most -= 1
