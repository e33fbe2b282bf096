"""The order of the wanted moves in which no host is too full at any time.

# Note [The order of moves]

While a VM migrates, its memory occupies both hosts. So an arriving VM needs room before the VMs
that leave have gone. A move that fits beside all VMs still there waits for nothing. A move that
needs the place of another VM waits until that VM has left. Moves that wait for each other in a
ring are left out. New VMs of limit orders come first, as those of an order must start together;
then VMs on overfull hosts.

Example: two hosts of 100 MiB. VM 0 (floor 60) is on host 0, VM 1 (floor 60) on host 1; each floor
leaves 40. VM 1 goes to a third, empty host and VM 0 to host 1. VM 1 moves at once, and VM 0 waits
for VM 1. Without the third host VMs 0 and 1 can't swap: 60 + 60 > 100, so both moves are left out.
Used for every plan (`plan_halves.py`) and for the error that a plan reaches (`tabu.py`).
"""

from dataclasses import dataclass, replace

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.market.market_view import MarketView
from merkatd.placement.base.board import Board, floors_fit, on_overfull, with_vm
from merkatd.placement.base.gangs import starting_gangs
from merkatd.placement.base.hard_constraints import HardConstraints
from merkatd.placement.base.least_load import load_by_host, update_load


@dataclass(frozen=True, slots=True, eq=False)
class OrderedMoves:
    """Feasible moves, in order."""

    place: Ints
    """[vms]: the host of each VM in the end."""
    moves: tuple[int, ...]
    """The VMs that move or start, in a feasible order."""
    after: dict[int, tuple[int, ...]]
    """By VM: the VMs that must leave before it can arrive."""
    stuck: tuple[int, ...]
    """The VMs whose moves are left out."""


def order_moves(view: MarketView, rules: HardConstraints, wanted: Ints) -> OrderedMoves:
    """Return the moves from the present places to the wanted ones, in a feasible order."""
    origin = Board(view, view.place)
    now = Board(view, view.place)
    arrived: dict[int, list[int]] = {}
    left: dict[int, list[int]] = {}
    after: dict[int, tuple[int, ...]] = {}
    moves: list[int] = []
    moving = np.flatnonzero((wanted != view.place) & (wanted != NO_HOST))
    turn = np.where(starting_gangs(view, rules), 0, np.where(on_overfull(view), 1, 2))
    waiting = moving[np.argsort(turn[moving], kind="stable")].tolist()
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
    """Return the moves with a place for each new VM that fits beside all other VMs meanwhile.

    These are the VMs on a host now and the VMs that move to it, so no move is delayed.
    """
    waiting = np.flatnonzero((orderly.place == NO_HOST) & (rules.order == NO_ROW))
    if not len(waiting):
        return orderly
    free = _free_meanwhile(view, orderly.place)
    waiting = waiting[[bool((free >= view.floor[vm]).all(axis=1).any()) for vm in waiting.tolist()]]
    if not len(waiting):
        return orderly
    board = Board(view, orderly.place)
    load = load_by_host(view, board)
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
        update_load(host, view, board, load)
        free[host] -= view.floor[vm]
        more.append(vm)
    stuck = tuple(vm for vm in orderly.stuck if vm not in set(more))
    return replace(orderly, place=board.place, moves=(*orderly.moves, *more), stuck=stuck)


def _free_meanwhile(view: MarketView, place: Ints) -> Floats:
    """Return [hosts, resources]: the capacity less the floors of present and arriving VMs."""
    free = view.capacity.copy()
    for at, here in ((view.place, view.place != NO_HOST), (place, place != view.place)):
        there = here & (at != NO_HOST)
        np.subtract.at(free, at[there], view.floor[there])
    return free


def _fits_now(view: MarketView, rules: HardConstraints, vm: int, host: int, board: Board) -> bool:
    """Return whether the VM fits on the host beside all present and arriving VMs."""
    beside = np.flatnonzero((view.place == host) | (board.place == host))
    return _fits(view, rules, vm, host, beside, _meanwhile(view, rules, vm, host, board.place))


def _meanwhile(view: MarketView, rules: HardConstraints, vm: int, host: int, place: Ints) -> Ints:
    """Return the placement before any VM has left the host, if the VM's role depends on it."""
    return np.where(view.place == host, host, place) if rules.bound[vm] else place


def _fits(
    view: MarketView, rules: HardConstraints, vm: int, host: int, there: Ints, place: Ints
) -> bool:
    """Return whether the VM may join the VMs `there` on the host, and all floors fit."""
    if not rules.allowed(vm, place)[host]:
        return False
    group = np.empty(len(there) + 1, dtype=np.int64)
    size = with_vm(there, 0, len(there), vm, group)
    return bool(floors_fit(group, size, view.capacity[host], view.floor))
