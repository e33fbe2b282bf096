"""Where new VMs start: each on the feasible host with the least load (Algorithm 1, 6-8).

OpenNebula's priorities say who comes first, and its ranks which of several hosts without a
difference is taken; without them the lowest id comes first, and is taken.
"""

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.market.view import NOWHERE, MarketView
from merkatd.placement.board import Board, load_of, loads, where_floors_fit
from merkatd.placement.rules import Rules


def place_new(view: MarketView, board: Board, rules: Rules) -> Ints:
    """Put every pending VM on the board that fits somewhere, by priority and id.

    Returns those that don't.
    """
    pending = np.flatnonzero(view.place == NOWHERE)
    if len(pending) == 0 or len(view.hosts) == 0:
        return pending
    load = loads_of(view, board)
    left = []
    for vm in pending[np.argsort(-rules.priority[pending], kind="stable")].tolist():
        host = least_loaded(vm, view, board, rules, load)
        if host == NOWHERE:
            left.append(vm)
            continue
        board.move(vm, host)
        reload(host, view, board, load)
    return np.array(sorted(left), dtype=np.int64)


def least_loaded(vm: int, view: MarketView, board: Board, rules: Rules, load: Floats) -> int:
    """The feasible host with the least load, by rank where there are several; else NOWHERE."""
    fitting = where_floors_fit(
        vm,
        rules.allowed(vm, board.place),
        board.rows,
        board.start,
        board.count,
        board.capacity,
        view.floor,
    )
    hosts = np.flatnonzero(fitting)
    if len(hosts) == 0:
        return NOWHERE
    return rules.preferred(vm, hosts[load[hosts] == load[hosts].min()])


def loads_of(view: MarketView, board: Board) -> Floats:
    """[hosts]: the largest over the resources of bids / capacity."""
    found: Floats = loads(board.rows, board.start, board.count, board.capacity, view.bid)
    return found


def reload(host: int, view: MarketView, board: Board, load: Floats) -> None:
    """Put right a host's load after somebody came or went."""
    load[host] = load_of(
        board.rows, board.start[host], board.count[host], board.capacity[host], view.bid
    )
