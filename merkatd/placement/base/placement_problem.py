"""One placement to be improved: view, constraints, board; which VMs may move, must leave or stay.

Only a migration that was seen to end holds its VM. A step that was refused, given up or never
sent holds nothing: the next period may decide it anew.
"""

from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Bools, HostState, Ints, Snapshot
from merkatd.cluster.columns import NOWHERE
from merkatd.market.market_view import MarketView
from merkatd.market.share import Share
from merkatd.placement.base.board import Board
from merkatd.placement.base.hard_constraints import HardConstraints
from merkatd.placement.base.host_shares import Stakes


@dataclass(frozen=True, slots=True, eq=False)
class PlacementProblem:
    """What a strategy plays with: it moves VMs on the board and returns the placement it wants."""

    snapshot: Snapshot
    view: MarketView
    rules: HardConstraints
    board: Board
    started: Ints
    """[vms]: where everybody is before anybody is migrated."""
    first: Share
    """Eq. 1 with the whole market as one host."""
    stakes: Stakes
    movable: Bools
    """[vms]: may be given another host, by migration or because it is new."""

    def moved(self, place: Ints) -> Bools:
        """[vms]: runs already, and is not where it was."""
        moved: Bools = (self.view.place != NOWHERE) & (place != self.view.place)
        return moved

    def migrations(self, place: Ints) -> int:
        """How many VMs that run already are not where they were."""
        return int(np.count_nonzero(self.moved(place)))

    def fresh_board(self, place: Ints | None = None) -> Board:
        """A board of its own, with the VMs where they started or where `place` puts them."""
        return Board(self.view, self.started if place is None else place)

    def vm_id(self, vm: int) -> int:
        """OpenNebula's id of the VM."""
        return int(self.snapshot.vms.id[self.view.vms[vm]])

    def host_id(self, host: int) -> int:
        """OpenNebula's id of the host."""
        return int(self.snapshot.hosts.id[self.view.hosts[host]])


def must_leave(game: PlacementProblem) -> Bools:
    """[vms]: runs where nothing may run any more, or where it was told to leave, and may move."""
    state = game.snapshot.hosts.state[game.view.hosts]
    drained = np.isin(game.view.place, np.flatnonzero(state == HostState.DRAINED))
    runs = game.view.place != NOWHERE
    leaving: Bools = (drained | game.rules.leaving) & game.movable & runs
    return leaving


def held(snapshot: Snapshot, hold_s: float) -> Bools:
    """Return [vms] of the snapshot: whether a VM was moved less than `hold_s` seconds ago.

    A migration that a clock dated further ahead holds nothing.
    """
    recently: Bools = np.abs(snapshot.now_s - snapshot.vms.moved_at_s) < hold_s
    return recently
