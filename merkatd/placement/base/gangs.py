"""Places for gangs: all VMs of a limit order get hosts at their full size, or none of them does.

The largest VM is placed first, on the host with the least room that suffices. So the hosts with
most room stay free for other large VMs.
"""

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.market.market_view import MarketView
from merkatd.placement.base.board import Board, where_floors_fit
from merkatd.placement.base.hard_constraints import HardConstraints

_NEARLY = 1.0 - 1e-9
"""The part of a floor that must fit where a VM is already: sums of floors have rounding errors."""


class GangBoard:
    """A board on which gangs take places."""

    def __init__(self, view: MarketView, board: Board, rules: HardConstraints) -> None:
        self._view = view
        self._board = board
        self._rules = rules
        there = board.place != NO_HOST
        self._free: Floats = view.capacity.copy()
        np.subtract.at(self._free, board.place[there], view.floor[there])
        self._typical = np.maximum(view.capacity.max(axis=0, initial=0.0), 1.0)

    def take(self, vms: Ints) -> bool:
        """Place all these VMs, which are on no host yet; if one fits nowhere, place none."""
        size = (self._view.floor[vms] / self._typical).max(axis=1)
        placed: list[int] = []
        for vm in vms[np.argsort(-size, kind="stable")].tolist():
            host = self._fullest_that_fits(vm)
            if host == NO_HOST:
                self.leave(placed)
                return False
            self._put(vm, host)
            placed.append(vm)
        return True

    def keep(self, vms: Ints, hosts: Ints) -> bool:
        """Place these VMs on these hosts, where they are now; if one no longer fits, place none."""
        placed: list[int] = []
        for vm, host in zip(vms.tolist(), hosts.tolist(), strict=True):
            if (self._free[host] < self._view.floor[vm] * _NEARLY).any():
                self.leave(placed)
                return False
            self._put(vm, host)
            placed.append(vm)
        return True

    def hosts(self, vms: Ints) -> Ints:
        """Return the hosts of these VMs."""
        hosts: Ints = self._board.place[vms]
        return hosts

    def leave(self, vms: list[int]) -> None:
        """Take these VMs off the board."""
        for vm in vms:
            self._free[self._board.place[vm]] += self._view.floor[vm]
            self._board.move(vm, NO_HOST)

    def _put(self, vm: int, host: int) -> None:
        self._board.move(vm, host)
        self._free[host] -= self._view.floor[vm]

    def _fullest_that_fits(self, vm: int) -> int:
        board = self._board
        fitting = where_floors_fit(
            vm,
            self._rules.allowed(vm, board.place),
            board.rows,
            board.start,
            board.count,
            board.capacity,
            self._view.floor,
        )
        hosts = np.flatnonzero(fitting)
        if not len(hosts):
            return NO_HOST
        room = (self._free[hosts] / self._typical).max(axis=1)
        return self._rules.preferred(vm, hosts[room == room.min()])


def place_gangs(view: MarketView, board: Board, rules: HardConstraints) -> None:
    """Place the pending VMs of each limit order whose VMs all fit, by priority."""
    pending = np.flatnonzero((view.place == NO_HOST) & (rules.order != NO_ROW))
    if not len(pending):
        return
    gangs = GangBoard(view, board, rules)
    by_order = pending[np.argsort(-rules.priority[pending], kind="stable")]
    starts = np.flatnonzero(np.diff(rules.order[by_order])) + 1
    for vms in np.split(by_order, starts):
        gangs.take(vms)
