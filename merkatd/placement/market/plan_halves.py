"""Halves of plans: what is begun of a plan leaves no market worse than it is now.

# Note [Halves of plans]

Not all of a plan is done. A migration that needs the place of another VM waits until that VM has
gone, a step waits for memory, OpenNebula refuses one. Example: VMs 1 and 2 are to change places.
VM 1 fits beside VM 2 and goes first; if VM 2 then stays, both are crowded for as long as VM 1 is
held. So migrations are begun in waves. A wave holds migrations of which each alone takes nothing
from what is made small, in any combination; after them such as cost less than what was gained so
far. What is in no wave is not begun, and the next period decides anew.

Harm is what VMs lack of the first allocation: the sum of bid times shortfall, or the largest error
where that is made small; but to have more than that is no harm. The plans of `groups` have another
measure: their halves may do as much harm as the whole, and no more. VMs that must leave their hosts
do so whatever it costs. Used by `settlement.py` for the plan, and while it is carried out.

# Note [Orders don't wait for gains]

A strategy may give a new VM, or a VM of a drained host, a place that another VM is to leave for
gain. If that gain is left out here as harmful, or is part of a ring, the place stays taken. The
next period would find the same plan, and the VM would wait for ever. So such a VM then goes where
it finds room while all others stay; where gains take that room, the gains are left out. Example:
the search puts new VM 5 on host 0, beside which VM 0 does not fit, and sends VM 0 to host 1. The
migration alone would do harm, so VM 0 stays, and VM 5 starts on host 1.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from merkatd.cluster import Bools, HostState, Ints, Snapshot
from merkatd.cluster.columns import NOWHERE
from merkatd.market.market_view import MarketView
from merkatd.placement.base.board import Board, on_overfull
from merkatd.placement.base.host_shares import SUM_OF_SHORTFALLS, Stakes, score
from merkatd.placement.base.least_load import send_away
from merkatd.placement.base.move_order import OrderedMoves, order_moves, with_waiting
from merkatd.placement.base.placement_problem import PlacementProblem
from merkatd.placement.market.overfull_hosts import relieve_board

_ROUNDING = 1e-9


class Remaining:
    """Migrations of a market that may still be begun, judged against what is now."""

    def __init__(
        self,
        view: MarketView,
        stakes: Stakes,
        harm: int,
        before: Ints,
        moves: Mapping[int, int],
        whole: Ints,
    ) -> None:
        """`before` has none of the moves, `whole` all that is wanted; `moves` are hosts by VM."""
        self._stakes, self._harm = stakes, harm
        self._board = Board(view, before)
        self._moves = dict(moves)
        moved = np.flatnonzero((before != whole) & (before != NOWHERE) & (whole != NOWHERE))
        ends = [*moves.values(), *before[list(moves)], *before[moved], *whole[moved]]
        touched = sorted({int(host) for host in ends})
        if harm != SUM_OF_SHORTFALLS:
            touched = list(range(len(view.hosts)))
        self._scores = {host: self._score(host, self._board.on(host)) for host in touched}
        now = end = list(self._scores.values())
        if whole is not before:
            after = Board(view, whole)
            end = [self._score(host, after.on(host)) for host in touched]
        largest = harm != SUM_OF_SHORTFALLS
        self._limit = (
            max(max(now, default=0.0), max(end, default=0.0))
            if largest
            else max(sum(now), sum(end))
        )
        self._tolerance = _ROUNDING * (1.0 + abs(self._limit))
        self._changes = dict.fromkeys(touched, 0)
        self._rises: dict[int, tuple[tuple[int, int], tuple[float, float]]] = {}
        """By VM: after how many changes of both hosts it was found, and what it was."""

    @property
    def left(self) -> tuple[int, ...]:
        """The VMs whose migrations are neither made nor dropped."""
        return tuple(self._moves)

    def wave(self) -> list[int]:
        """Return VMs whose migrations may be begun now, whichever of them come to nothing.

        No two of them touch one host.
        """
        rises = sorted((*self._rise(vm), vm) for vm in self._moves)
        if self._harm != SUM_OF_SHORTFALLS:
            return self._apart(
                vm for worst, _, vm in rises if worst <= self._limit + self._tolerance
            )
        gains = self._apart(vm for rise, _, vm in rises if rise <= self._tolerance)
        if gains:
            return gains
        room = self._limit + self._tolerance - sum(self._scores.values())
        chosen: list[int] = []
        for rise, _, vm in rises:
            if rise <= room and len(self._apart([*chosen, vm])) > len(chosen):
                chosen.append(vm)
                room -= rise
        return chosen

    def made(self, vm: int) -> None:
        """Count the migration of this VM as made."""
        host = self._moves.pop(vm)
        source = int(self._board.place[vm])
        self._board.move(vm, host)
        for one in (source, host):
            self._scores[one] = self._score(one, self._board.on(one))
            self._changes[one] += 1

    def drop(self, vm: int) -> None:
        """Count the migration of this VM as one that is not made."""
        del self._moves[vm]

    def _hosts(self, vm: int) -> set[int]:
        return {int(self._board.place[vm]), self._moves.get(vm, NOWHERE)}

    def _apart(self, vms: Iterable[int]) -> list[int]:
        """Return the first of these VMs, none of which shares a host with one before it."""
        busy: set[int] = set()
        chosen = []
        for vm in vms:
            if not busy & self._hosts(vm):
                busy |= self._hosts(vm)
                chosen.append(vm)
        return chosen

    def _rise(self, vm: int) -> tuple[float, float]:
        """Return what the migration adds (the larger score of both hosts where errors count)."""
        source, host = int(self._board.place[vm]), self._moves[vm]
        changes = (self._changes[source], self._changes[host])
        if vm not in self._rises or self._rises[vm][0] != changes:
            there = self._board.on(source)
            behind = self._score(source, there[there != vm])
            staying = self._board.on(host)
            ahead = self._score(host, np.insert(staying, np.searchsorted(staying, vm), vm))
            rise = behind + ahead - self._scores[source] - self._scores[host]
            worst = max(behind, ahead)
            both = (worst, rise) if self._harm != SUM_OF_SHORTFALLS else (rise, worst)
            self._rises[vm] = (changes, both)
        return self._rises[vm][1]

    def _score(self, host: int, there: Ints) -> float:
        work = np.empty((2, len(there) + 1))
        capacity = self._board.capacity[host]
        return float(score(there, len(there), capacity, self._stakes, self._harm, work))


def ordered(snapshot: Snapshot, view: MarketView) -> Bools:
    """Return [vms]: runs where it must not stay: on a drained or overfull host, or by order."""
    drained = snapshot.hosts.state[view.hosts] == HostState.DRAINED
    runs = view.place != NOWHERE
    leaves = np.append(drained, False)[view.place] | snapshot.vms.leaves[view.vms]
    found: Bools = (leaves | on_overfull(view)) & runs
    return found


def without_harmful_halves(
    game: PlacementProblem, wanted: Ints, harm: int, *, as_planned: bool = False
) -> OrderedMoves:
    """Return the wanted moves in order, without migrations that could leave a market worse off.

    Than it is now; where a strategy has another measure, than it is now or would be `as_planned`.
    VMs that must start or leave do so in any case: see Note [Orders don't wait for gains].
    """
    safe = _safe(game, wanted)
    found = _harmless(game, wanted, harm, safe, as_planned=as_planned)
    missed = (safe != game.view.place) & (found.place == game.view.place)
    found = order_moves(game.view, game.rules, safe) if missed.any() else found
    return with_waiting(game.view, game.rules, found)


def _safe(game: PlacementProblem, wanted: Ints) -> Ints:
    """Return a placement that new VMs, and VMs that must leave, reach while all others stay.

    Of the VMs that must leave only those are moved that are `wanted` elsewhere.
    """
    view = game.view
    leave = ordered(game.snapshot, view) & (wanted != view.place) & (wanted != NOWHERE)
    if not leave.any():
        return game.started
    board, most = game.fresh_board(), int(leave.sum())
    alone = replace(game, board=board, movable=leave)
    relieve_board(alone, most)
    send_away(alone, board, most)
    return board.place


def _harmless(
    game: PlacementProblem, wanted: Ints, harm: int, safe: Ints, *, as_planned: bool
) -> OrderedMoves:
    """Return the wanted moves without harmful ones; what is stuck then goes where it is `safe`."""
    wanted = wanted.copy()
    planned = wanted.copy() if as_planned else None
    free = ~ordered(game.snapshot, game.view)
    while True:
        orderly = order_moves(game.view, game.rules, wanted)
        harmful = list(_harmful(game, harm, orderly, free, planned))
        if planned is not None and not harmful:
            # Waves judge each step by the plan that is left.
            harmful = list(_harmful(game, harm, orderly, free, orderly.place))
        stuck = [vm for vm in orderly.stuck if safe[vm] not in (game.view.place[vm], wanted[vm])]
        if not harmful and not stuck:
            return orderly
        wanted[harmful] = game.view.place[harmful]
        wanted[stuck] = safe[stuck]


def _harmful(
    game: PlacementProblem, harm: int, orderly: OrderedMoves, free: Bools, planned: Ints | None
) -> tuple[int, ...]:
    """Return the VMs whose migrations are in no wave, if all in the waves are made."""
    late = {vm for vm, first in orderly.after.items() if first}
    begun = [vm for vm in orderly.moves if vm not in late]
    judged = {
        vm: int(orderly.place[vm]) for vm in begun if free[vm] and game.view.place[vm] != NOWHERE
    }
    if not judged:
        return ()
    before = game.view.place.copy()
    at_once = [vm for vm in begun if vm not in judged]
    before[at_once] = orderly.place[at_once]
    whole = before if planned is None else planned
    remaining = Remaining(game.view, game.stakes, harm, before, judged, whole)
    while wave := remaining.wave():
        for vm in wave:
            remaining.made(vm)
    return remaining.left
