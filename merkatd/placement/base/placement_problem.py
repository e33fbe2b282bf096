"""The placement problem: view, constraints and board; VMs that may move, must leave or stay.

The hold time of a VM starts when the daemon observes the end of its migration. A step that was
refused, given up or never sent starts no hold time: the next period may decide it again.
"""

from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Bools, HostState, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_ROW, is_one_of
from merkatd.market.market_view import MarketView
from merkatd.market.share import Share
from merkatd.placement.base.board import Board, where_floors_fit
from merkatd.placement.base.hard_constraints import HardConstraints
from merkatd.placement.base.host_shares import VmTerms


@dataclass(frozen=True, slots=True, eq=False)
class PlacementProblem:
    """A strategy's input: the strategy moves VMs on the board and returns the wanted placement."""

    snapshot: Snapshot
    view: MarketView
    rules: HardConstraints
    board: Board
    started: Ints
    """[vms]: the host of each VM before any migration, new VMs included."""
    first: Share
    """Eq. 1 with the whole market as one host."""
    stakes: VmTerms
    movable: Bools
    """[vms]: whether the VM may get another host, by migration or because it is new."""

    def moved(self, place: Ints) -> Bools:
        """Return [vms]: whether a running VM has another host in `place`."""
        moved: Bools = (self.view.place != NO_HOST) & (place != self.view.place)
        return moved

    def migrations(self, place: Ints) -> int:
        """Return the number of running VMs with another host in `place`."""
        return int(np.count_nonzero(self.moved(place)))

    def fresh_board(self, place: Ints | None = None) -> Board:
        """Return a new board with the VMs as in `place`, or as in `started`."""
        return Board(self.view, self.started if place is None else place)

    def lift_new_vms(self) -> list[int]:
        """Take all new VMs off the board, and return them in order of priority.

        VMs of limit orders stay on their hosts, and VMs without a host stay without one.
        """
        new = (self.view.place == NO_HOST) & (self.board.place != NO_HOST)
        rows = np.flatnonzero(new & (self.rules.order == NO_ROW))
        rows = rows[np.lexsort((rows, -self.rules.priority[rows]))]
        vms: list[int] = rows.tolist()
        for vm in vms:
            self.board.move(vm, NO_HOST)
        return vms

    def hosts_for(self, vm: int) -> Ints:
        """Return the hosts that the VM may use, and that have room for its floor."""
        board = self.board
        allowed = self.rules.allowed(vm, board.place)
        floor = self.view.floor
        return np.flatnonzero(
            where_floors_fit(
                vm, allowed, board.rows, board.start, board.count, board.capacity, floor
            )
        )

    def vm_id(self, vm: int) -> int:
        """Return OpenNebula's id of the VM."""
        return int(self.snapshot.vms.id[self.view.vms[vm]])

    def host_id(self, host: int) -> int:
        """Return OpenNebula's id of the host."""
        return int(self.snapshot.hosts.id[self.view.hosts[host]])


def must_leave(problem: PlacementProblem) -> Bools:
    """Return [vms]: movable VMs on a drained host or with an order to leave their host."""
    state = problem.snapshot.hosts.state[problem.view.hosts]
    drained = is_one_of(problem.view.place, np.flatnonzero(state == HostState.DRAINED))
    runs = problem.view.place != NO_HOST
    leaving: Bools = (drained | problem.rules.leaving) & problem.movable & runs
    return leaving


def are_held(snapshot: Snapshot, hold_s: float) -> Bools:
    """Return [vms] of the snapshot: whether a VM was moved less than `hold_s` seconds ago.

    A migration that a wrong clock dated further into the future counts as old.
    """
    recently: Bools = np.abs(snapshot.now_s - snapshot.vms.moved_at_s) < hold_s
    return recently
