"""The game of one market: its board with the new VMs placed, ready to be improved."""

from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Bools, Ints, Snapshot
from merkatd.market.share import Share
from merkatd.market.view import NOWHERE, MarketView, view_of
from merkatd.placement.board import Board
from merkatd.placement.onehost import Stakes, stakes_of
from merkatd.placement.rules import Rules
from merkatd.placement.start import place_new


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """What a strategy plays with: it moves VMs on the board and returns the placement it wants."""

    snapshot: Snapshot
    view: MarketView
    rules: Rules
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


def start(snapshot: Snapshot, market: int) -> Game:
    """The market with its new VMs placed where there is least load."""
    view = view_of(snapshot, market)
    rules = Rules(snapshot, view)
    board = Board(view, view.place)
    place_new(view, board, rules)
    started = board.place.copy()
    new = (view.place == NOWHERE) & (started != NOWHERE)
    first = view.first(started != NOWHERE)
    return Game(
        snapshot=snapshot,
        view=view,
        rules=rules,
        board=board,
        started=started,
        first=first,
        stakes=stakes_of(view, first.allocation),
        movable=(view.movable & ~rules.stays) | new,
    )
