"""In which order the wanted moves can be made, so that no host is ever too full on the way.

A VM that comes needs room before those that leave have gone: while it migrates, its memory
stands on both hosts. So a move that fits beside all who are still there waits for nothing;
one that needs a place another VM gives up comes after it; moves that wait for each other in
a ring can't be made at all, and are left out. VMs leave overfull hosts before all others move.
"""

from dataclasses import dataclass, replace

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import NOWHERE
from merkatd.market.market_view import MarketView
from merkatd.placement.base.board import Board, floors_fit, on_overfull, with_vm
from merkatd.placement.base.hard_constraints import HardConstraints
from merkatd.placement.base.least_load import loads_of, reload


@dataclass(frozen=True, slots=True, eq=False)
class OrderedMoves:
    """Moves that can be made, one after the other."""

    place: Ints
    """[vms]: where everybody is in the end."""
    moves: tuple[int, ...]
    """The VMs that move or start, in an order that works."""
    after: dict[int, tuple[int, ...]]
    """By VM: the VMs that must have left before it can come."""
    stuck: tuple[int, ...]
    """The VMs whose move had to be left out."""


def order_moves(view: MarketView, rules: HardConstraints, wanted: Ints) -> OrderedMoves:
    """Sort the moves from where the VMs are to where they are wanted."""
    origin = Board(view, view.place)
    now = Board(view, view.place)
    arrived: dict[int, list[int]] = {}
    left: dict[int, list[int]] = {}
    after: dict[int, tuple[int, ...]] = {}
    moves: list[int] = []
    moving = np.flatnonzero((wanted != view.place) & (wanted != NOWHERE))
    waiting = moving[np.argsort(~on_overfull(view)[moving], kind="stable")].tolist()
    while waiting:
        still = []
        for vm in waiting:
            host = int(wanted[vm])
            if not _fits(view, rules, vm, host, now.on(host), now.place):
                still.append(vm)
                continue
            beside = np.union1d(origin.on(host), np.array(arrived.get(host, []), dtype=np.int64))
            place = _meanwhile(view, rules, vm, host, now.place)
            if not _fits(view, rules, vm, host, beside, place):
                after[vm] = tuple(left.get(host, ()))
            now.move(vm, host)
            arrived.setdefault(host, []).append(vm)
            left.setdefault(int(view.place[vm]), []).append(vm)
            moves.append(vm)
        if len(still) == len(waiting):
            break
        waiting = still
    return OrderedMoves(now.place, tuple(moves), after, tuple(waiting))


def with_waiting(view: MarketView, rules: HardConstraints, orderly: OrderedMoves) -> OrderedMoves:
    """Return the same with a place for each new VM that fits beside all who are there meanwhile.

    Those are the VMs that are on a host now and the VMs that come to it, so no move is delayed.
    """
    waiting = np.flatnonzero(orderly.place == NOWHERE)
    if not len(waiting):
        return orderly
    free = _free_meanwhile(view, orderly.place)
    waiting = waiting[[bool((free >= view.floor[vm]).all(axis=1).any()) for vm in waiting.tolist()]]
    if not len(waiting):
        return orderly
    board = Board(view, orderly.place)
    load = loads_of(view, board)
    more: list[int] = []
    for vm in waiting[np.argsort(-rules.priority[waiting], kind="stable")].tolist():
        may = rules.allowed(vm, board.place) & (free >= view.floor[vm]).all(axis=1)
        hosts = np.array(
            [
                host
                for host in np.flatnonzero(may).tolist()
                if _fits_now(view, rules, vm, host, board)
            ],
            dtype=np.int64,
        )
        if not len(hosts):
            continue
        host = rules.preferred(vm, hosts[load[hosts] == load[hosts].min()])
        board.move(vm, host)
        reload(host, view, board, load)
        free[host] -= view.floor[vm]
        more.append(vm)
    stuck = tuple(vm for vm in orderly.stuck if vm not in set(more))
    return replace(orderly, place=board.place, moves=(*orderly.moves, *more), stuck=stuck)


def _free_meanwhile(view: MarketView, place: Ints) -> Floats:
    """Return [hosts, resources]: what floors leave, of VMs that are there now or will be."""
    free = view.capacity.copy()
    for at, here in ((view.place, view.place != NOWHERE), (place, place != view.place)):
        there = here & (at != NOWHERE)
        np.subtract.at(free, at[there], view.floor[there])
    return free


def _fits_now(view: MarketView, rules: HardConstraints, vm: int, host: int, board: Board) -> bool:
    """Whether the VM may come to the host beside all who are there now or come there."""
    beside = np.flatnonzero((view.place == host) | (board.place == host))
    return _fits(view, rules, vm, host, beside, _meanwhile(view, rules, vm, host, board.place))


def _meanwhile(view: MarketView, rules: HardConstraints, vm: int, host: int, place: Ints) -> Ints:
    """Return the placement in which no VM has left the host yet, where that counts for the VM."""
    return np.where(view.place == host, host, place) if rules.bound[vm] else place


def _fits(
    view: MarketView, rules: HardConstraints, vm: int, host: int, there: Ints, place: Ints
) -> bool:
    """Whether the VM may come to the host while these are there, and their floors fit."""
    if not rules.allowed(vm, place)[host]:
        return False
    group = np.empty(len(there) + 1, dtype=np.int64)
    size = with_vm(there, 0, len(there), vm, group)
    return bool(floors_fit(group, size, view.capacity[host], view.floor))
