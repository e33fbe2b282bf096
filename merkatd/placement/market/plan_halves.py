"""Halves of plans: a partly executed plan leaves no market worse off than now.

# Note [Halves of plans]

A plan may be executed only in part: a migration waits until another VM has left its place, a step
waits for memory, or OpenNebula refuses a step. Example: VMs 1 and 2 swap places. VM 1 fits beside
VM 2 and moves first. If VM 2 then stays, both are crowded for the hold time of VM 1.

So the daemon starts migrations in waves. A wave holds migrations that do no harm each alone, in any
combination. After these come migrations that cost less than the gain so far. The daemon does not
start a migration that is in no wave; the next period decides again. If OpenNebula makes the
migrations itself, it gets only those that gain alone (`Remaining.wave`).

Harm is what VMs lack of the first allocation: the sum of bid times shortfall, or the largest error
if the strategy minimises errors. More than the first allocation is no harm. The plans of `groups`
have another measure: their halves may do as much harm as the whole plan, but not more. VMs that
must leave their hosts move at any cost. Used by `settlement.py` for the plan, and during execution.

# Note [Orders don't wait for gains]

A strategy may give a new VM, or a VM of a drained host, a place that another VM leaves for a gain.
If that gain is left out here as harmful, or is part of a ring, the place stays taken. The next
period would find the same plan, and the VM would wait for ever. So the VM then goes to a host with
room for it while all other VMs stay. Gains that need that room are left out.

Example: the search puts new VM 5 on host 0, where VM 0 does not fit beside it, and sends VM 0 to
host 1. The migration alone would do harm, so VM 0 stays, and VM 5 starts on host 1.

VMs of a limit order must start in the same period. If one of them would wait for a migration, all
new VMs of limit orders go where they find room while all other VMs stay.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from merkatd.cluster import Bools, HostState, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST
from merkatd.market.market_view import MarketView
from merkatd.placement.base.board import Board, on_overfull
from merkatd.placement.base.gangs import starting_gangs
from merkatd.placement.base.host_shares import SUM_OF_SHORTFALLS, VmTerms, host_score
from merkatd.placement.base.least_load import evacuate_to_least_load
from merkatd.placement.base.move_order import OrderedMoves, order_moves, with_waiting
from merkatd.placement.base.placement_problem import PlacementProblem
from merkatd.placement.market.overfull_hosts import relieve_board

_ROUNDING = 1e-9


class Remaining:
    """Migrations of a market that may still start, compared with the present placement."""

    def __init__(
        self,
        view: MarketView,
        terms: VmTerms,
        harm: int,
        before: Ints,
        moves: Mapping[int, int],
        whole: Ints,
    ) -> None:
        """Take the placements before all moves and after all, and the new host of each VM."""
        self._stakes, self._harm = terms, harm
        self._board = Board(view, before)
        self._moves = dict(moves)
        moved = np.flatnonzero((before != whole) & (before != NO_HOST) & (whole != NO_HOST))
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
        """By VM: the change counts of both hosts at the computation, and its result."""

    @property
    def left(self) -> tuple[int, ...]:
        """Return the VMs whose migrations are neither made nor dropped."""
        return tuple(self._moves)

    def wave(self, *, alone: bool = False) -> list[int]:
        """Return VMs whose migrations may start now, even if any of them fail.

        No two of them touch the same host. If they start `alone`, the rest of the plan is decided
        anew. Then an objective of errors admits only migrations that lower the larger score of
        their two hosts: another plan could take back a migration that only made room.
        """
        rises = sorted((*self._rise(vm), vm) for vm in self._moves)
        if self._harm != SUM_OF_SHORTFALLS:
            return self._apart(
                vm
                for worst, _, vm in rises
                if worst <= self._limit + self._tolerance and not (alone and self._is_idle(vm))
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
        """Record the migration of this VM as made."""
        host = self._moves.pop(vm)
        source = int(self._board.place[vm])
        self._board.move(vm, host)
        for touched in (source, host):
            self._scores[touched] = self._score(touched, self._board.on(touched))
            self._changes[touched] += 1

    def drop(self, vm: int) -> None:
        """Record that the migration of this VM is not made."""
        del self._moves[vm]

    def _hosts(self, vm: int) -> set[int]:
        return {int(self._board.place[vm]), self._moves.get(vm, NO_HOST)}

    def _apart(self, vms: Iterable[int]) -> list[int]:
        """Return these VMs without those that share a host with an earlier VM of the result."""
        busy: set[int] = set()
        chosen = []
        for vm in vms:
            if not busy & self._hosts(vm):
                busy |= self._hosts(vm)
                chosen.append(vm)
        return chosen

    def _is_idle(self, vm: int) -> bool:
        """Return whether the migration does not lower the larger score of its two hosts."""
        before = max(self._scores[host] for host in self._hosts(vm))
        return self._rise(vm)[0] >= before - self._tolerance

    def _rise(self, vm: int) -> tuple[float, float]:
        """Return the harm that the migration adds, and the larger score of its two hosts.

        For objectives of errors, the larger score comes first.
        """
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
        return float(host_score(there, len(there), capacity, self._stakes, self._harm, work))


def ordered(snapshot: Snapshot, view: MarketView) -> Bools:
    """Return [vms]: whether the VM must leave: a drained host, an overfull host, or by order."""
    drained = snapshot.hosts.state[view.hosts] == HostState.DRAINED
    runs = view.place != NO_HOST
    leaves = np.append(drained, False)[view.place] | snapshot.vms.leaves[view.vms]
    must_leave: Bools = (leaves | on_overfull(view)) & runs
    return must_leave


def without_harmful_halves(
    problem: PlacementProblem, wanted: Ints, harm: int, *, as_planned: bool = False
) -> OrderedMoves:
    """Return the wanted moves in order, without migrations that could leave a market worse off.

    Compare with the present placement; with `as_planned` also with the whole plan. VMs that must
    start or leave do so in any case: see Note [Orders don't wait for gains].
    """
    safe = _safe(problem, wanted)
    orderly = _harmless(problem, wanted, harm, safe, as_planned=as_planned)
    missed = (safe != problem.view.place) & (orderly.place == problem.view.place)
    orderly = order_moves(problem.view, problem.rules, safe) if missed.any() else orderly
    return with_waiting(problem.view, problem.rules, orderly)


def _safe(problem: PlacementProblem, wanted: Ints) -> Ints:
    """Return a placement that new VMs, and VMs that must leave, can reach while all others stay.

    VMs that must leave move only if their `wanted` host is another one.
    """
    view = problem.view
    leave = ordered(problem.snapshot, view) & (wanted != view.place) & (wanted != NO_HOST)
    if not leave.any():
        return problem.started
    board, most = problem.fresh_board(), int(leave.sum())
    alone = replace(problem, board=board, movable=leave)
    relieve_board(alone, most)
    evacuate_to_least_load(alone, board, most)
    return board.place


def _harmless(
    problem: PlacementProblem, wanted: Ints, harm: int, safe: Ints, *, as_planned: bool
) -> OrderedMoves:
    """Return the wanted moves without harmful ones; stuck VMs then move to their `safe` place."""
    planned = wanted if as_planned else None
    free = ~ordered(problem.snapshot, problem.view)
    gangs = starting_gangs(problem.view, problem.rules)
    while True:
        orderly = order_moves(problem.view, problem.rules, wanted)
        harmful = list(_migrations_in_no_wave(problem, harm, orderly, free, planned))
        if planned is not None and not harmful:
            # Waves compare each step with the remaining plan.
            harmful = list(_migrations_in_no_wave(problem, harm, orderly, free, orderly.place))
        instead = wanted.copy()
        instead[harmful] = problem.view.place[harmful]
        stuck = [vm for vm in orderly.stuck if safe[vm] != problem.view.place[vm]]
        instead[stuck] = safe[stuck]
        if any(gangs[vm] for vm, first in orderly.after.items() if first):
            instead[gangs] = safe[gangs]
        if np.array_equal(instead, wanted):
            return orderly
        wanted = instead


def _migrations_in_no_wave(
    problem: PlacementProblem, harm: int, orderly: OrderedMoves, free: Bools, planned: Ints | None
) -> tuple[int, ...]:
    """Return the VMs whose migrations are in no wave, if all migrations in waves are made."""
    waiting = {vm for vm, first in orderly.after.items() if first}
    first_moves = [vm for vm in orderly.moves if vm not in waiting]
    waved = {
        vm: int(orderly.place[vm])
        for vm in first_moves
        if free[vm] and problem.view.place[vm] != NO_HOST
    }
    if not waved:
        return ()
    before = problem.view.place.copy()
    at_once = [vm for vm in first_moves if vm not in waved]
    before[at_once] = orderly.place[at_once]
    whole = before if planned is None else planned
    remaining = Remaining(problem.view, problem.stakes, harm, before, waved, whole)
    while wave := remaining.wave():
        for vm in wave:
            remaining.made(vm)
    return remaining.left
