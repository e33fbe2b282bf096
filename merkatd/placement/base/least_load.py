"""Loads, and the start of new and evacuated VMs on the feasible host with the least load.

OpenNebula's priorities decide which VM is placed first, and its ranks decide between hosts of
equal load. Without them the lowest id comes first.
"""

import numpy as np

from merkatd.cluster import Floats, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.market.market_view import MarketView, market_view
from merkatd.placement.base.board import Board, where_floors_fit
from merkatd.placement.base.compiled import compiled
from merkatd.placement.base.gangs import place_gangs
from merkatd.placement.base.hard_constraints import HardConstraints
from merkatd.placement.base.host_shares import terms_of_vms
from merkatd.placement.base.placement_problem import PlacementProblem, must_leave


@compiled
def loads(rows: Ints, start: Ints, count: Ints, capacity: Floats, bid: Floats) -> Floats:
    """Return [hosts]: the largest of bids / capacity over the resources."""
    load = np.zeros(len(count))
    for host in range(len(count)):
        load[host] = load_of(rows, start[host], count[host], capacity[host], bid)
    return load


@compiled
def load_of(rows: Ints, start: int, count: int, capacity: Floats, bid: Floats) -> float:
    """Return one host's load; infinite if it has bids but no capacity."""
    load = 0.0
    for resource in range(capacity.shape[0]):
        total = 0.0
        for i in range(count):
            total += bid[rows[start + i], resource]
        if capacity[resource] > 0.0:
            load = max(load, total / capacity[resource])
        elif total > 0.0:
            load = np.inf
    return load


def place_new(view: MarketView, board: Board, rules: HardConstraints) -> Ints:
    """Put every pending VM that fits on a host on the board, by priority and id.

    VMs of limit orders are placed before, all of an order together. Return the other pending VMs
    that fit on no host.
    """
    pending = np.flatnonzero((view.place == NO_HOST) & (rules.order == NO_ROW))
    if len(pending) == 0 or len(view.hosts) == 0:
        return pending
    load = load_by_host(view, board)
    left = []
    for vm in pending[np.argsort(-rules.priority[pending], kind="stable")].tolist():
        host = least_loaded(vm, view, board, rules, load)
        if host == NO_HOST:
            left.append(vm)
            continue
        board.move(vm, host)
        update_load(host, view, board, load)
    return np.array(sorted(left), dtype=np.int64)


def least_loaded(
    vm: int, view: MarketView, board: Board, rules: HardConstraints, load: Floats
) -> int:
    """Return the feasible host with the least load, of equals by rank; NO_HOST if none."""
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
        return NO_HOST
    return rules.preferred(vm, hosts[load[hosts] == load[hosts].min()])


def load_by_host(view: MarketView, board: Board) -> Floats:
    """Return [hosts]: the largest of bids / capacity over the resources."""
    load: Floats = loads(board.rows, board.start, board.count, board.capacity, view.bid)
    return load


def update_load(host: int, view: MarketView, board: Board, load: Floats) -> None:
    """Update a host's load after a VM came or left."""
    load[host] = load_of(
        board.rows, board.start[host], board.count[host], board.capacity[host], view.bid
    )


def start_market(snapshot: Snapshot, market: int) -> PlacementProblem:
    """Return the market's problem, with its new VMs on the least loaded hosts."""
    view = market_view(snapshot, market)
    rules = HardConstraints(snapshot, view)
    board = Board(view, view.place)
    place_gangs(view, board, rules)
    place_new(view, board, rules)
    started = board.place.copy()
    new = (view.place == NO_HOST) & (started != NO_HOST)
    first = view.first(started != NO_HOST)
    return PlacementProblem(
        snapshot=snapshot,
        view=view,
        rules=rules,
        board=board,
        started=started,
        first=first,
        stakes=terms_of_vms(view, first.allocation),
        movable=(view.movable & ~rules.stays) | new,
    )


def evacuate_to_least_load(problem: PlacementProblem, board: Board, most: int) -> None:
    """Move VMs that must leave, by id and at most `most`, to where a new VM would start."""
    leaving = np.flatnonzero(must_leave(problem) & (board.place == problem.view.place))
    if len(leaving) == 0:
        return
    load = load_by_host(problem.view, board)
    for vm in leaving.tolist():
        if most <= 0:
            return
        host = least_loaded(vm, problem.view, board, problem.rules, load)
        if host != NO_HOST:
            source = int(board.place[vm])
            board.move(vm, host)
            for touched in (source, host):
                update_load(touched, problem.view, board, load)
            most -= 1
