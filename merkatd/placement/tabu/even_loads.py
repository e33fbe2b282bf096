"""Even loads: the most even loads of a market that single moves can reach.

Load is the largest of bids / capacity over the resources. A hill climb takes the most loaded host
and moves the VM for which the larger load of the two hosts gets least. It ends when no move makes
it less. The climb ignores shares, and all constraints except movable VMs and open hosts.
"""

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.market.market_view import MarketView
from merkatd.placement.base.board import Board
from merkatd.placement.base.compiled import compiled
from merkatd.placement.market.search_state import Move, Search
from merkatd.placement.tabu.shortfall_moves import try_single


def level_loads(view: MarketView, place: Ints, movable: Bools, moves: int) -> tuple[Ints, float]:
    """Return [vms]: the host of each VM after at most `moves` moves, and the largest load then."""
    place = place.copy()
    if len(view.hosts) == 0:
        return place, 0.0
    board = Board(view, place)
    bids = host_bids(view, place)
    load = host_loads(bids, view.capacity)
    arrived = np.empty(moves, dtype=np.int64)
    largest = _climb(
        place,
        board.rows,
        board.start,
        board.count,
        bids,
        view.bid,
        view.capacity,
        load,
        movable,
        view.open,
        arrived,
    )
    return place, float(largest)


def host_bids(view: MarketView, place: Ints) -> Floats:
    """Return [hosts, resources]: the sum of the bids on each host."""
    placed = place >= 0
    return np.stack(
        [np.bincount(place[placed], column[placed], len(view.hosts)) for column in view.bid.T],
        axis=1,
    )


def host_loads(bids: Floats, capacity: Floats) -> Floats:
    """Return [hosts]: the largest of bids / capacity over the resources."""
    load = np.divide(bids, capacity, out=np.zeros_like(bids), where=capacity > 0)
    load[(capacity <= 0) & (bids > 0)] = np.inf
    largest: Floats = load.max(axis=1, initial=0.0)
    return largest


@compiled
def _climb(
    place: Ints,
    rows: Ints,
    start: Ints,
    count: Ints,
    bids: Floats,
    bid: Floats,
    capacity: Floats,
    load: Floats,
    movable: Bools,
    takes: Bools,
    arrived: Ints,
) -> float:
    for made in range(len(arrived)):
        source = np.argmax(load)
        least = load[source]
        best_vm = -1
        best_host = -1
        for i in range(count[source] + made):
            vm = rows[start[source] + i] if i < count[source] else arrived[i - count[source]]
            if place[vm] != source or not movable[vm]:
                continue
            behind = _load_with(bids[source], bid[vm], -1.0, capacity[source])
            if behind >= least:
                continue
            for host in range(len(load)):
                if host == source or load[host] >= least or not takes[host]:
                    continue
                ahead = max(behind, _load_with(bids[host], bid[vm], 1.0, capacity[host]))
                if ahead < least:
                    least = ahead
                    best_vm = vm
                    best_host = host
        if best_vm < 0:
            break
        for resource in range(bids.shape[1]):
            bids[source, resource] -= bid[best_vm, resource]
            bids[best_host, resource] += bid[best_vm, resource]
        load[source] = _load_with(bids[source], bid[best_vm], 0.0, capacity[source])
        load[best_host] = _load_with(bids[best_host], bid[best_vm], 0.0, capacity[best_host])
        place[best_vm] = best_host
        arrived[made] = best_vm
    return float(load.max())


@compiled
def _load_with(bids: Floats, bid: Floats, times: float, capacity: Floats) -> float:
    """Return a host's load with this bid added (1), removed (-1) or unchanged (0)."""
    load = 0.0
    for resource in range(capacity.shape[0]):
        then = bids[resource] + times * bid[resource]
        if capacity[resource] > 0.0:
            load = max(load, then / capacity[resource])
        elif then > 0.0:
            load = np.inf
    return load


def relieve_overloads(search: Search) -> None:
    """Lower the loads to the search's limit with single moves, the most loaded host first.

    Of the moves that bring a host below the limit at once, make the one that gains most. If there
    is none, make the move that lowers the host's load most.
    """
    hopeless: set[int] = set()
    while search.migrations < search.limits.m_max:
        load = search.estimates.load.copy()
        load[list(hopeless)] = 0.0
        host = int(np.argmax(load))
        if load[host] <= search.most_load:
            return
        move = _relieving(search, host)
        if move is None:
            hopeless.add(host)
        else:
            search.make(move.changes)


def _relieving(search: Search, host: int) -> Move | None:
    there = search.board.on(host)
    tried = [try_single(search, vm) for vm in there[search.may_move(there)].tolist()]
    moves = [move for move in tried if move is not None]
    if not moves:
        return None
    bid = search.game.view.bid
    bids = search.estimates.bids[host]
    capacity = search.board.capacity[host]
    behind = [float(_load_with(bids, bid[move.changes[0][0]], -1.0, capacity)) for move in moves]
    enough = [move for move, load in zip(moves, behind, strict=True) if load <= search.most_load]
    if enough:
        return max(enough, key=lambda move: move.gain)
    lowest = int(np.argmin(behind))
    return moves[lowest] if behind[lowest] < search.estimates.load[host] else None
