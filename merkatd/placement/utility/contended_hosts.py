"""Moves between hosts that relieve contended ones: single VMs, and two that change places.

The three nested loops (`placement_search.py`) choose the VMs that run. This module chooses their
hosts: on some hosts VMs lack power, while others have some left, or have VMs that need less. Of all
moves that it tries the best one is made, as long as one gains enough. VMs that start in this plan
move without a limit.
"""

import numpy as np

from merkatd.cluster import Ints
from merkatd.cluster.columns import NO_HOST
from merkatd.placement.utility.placement_search import PlacementSearch
from merkatd.placement.utility.placement_trial import Judgment, gain_of, harms_none

_TRIALS = 160
"""The most placements that are tried in a decision."""
_VMS, _HOSTS = 16, 4
"""The most VMs that are tried, and hosts for each."""
_MOST_RUNNING = 2
"""The most running VMs in a move."""

Move = tuple[tuple[int, int], ...]
"""VMs and the hosts to which they go."""


def relieve_contended(search: PlacementSearch) -> None:
    """Make the best move as long as one gains enough, of running VMs only if no other does."""
    left, running = _TRIALS, 0
    while left > 0 and running <= _MOST_RUNNING and not search.tired:
        moves = [
            move
            for move in _moves(search, _contending(search))
            if sum(not search.new[vm] for vm, _host in move) == running
        ]
        best: Move = ()
        most, judged = search.least, search.now
        for move in moves[:left]:
            after = _judged_after(search, move)
            gain = -np.inf if after is None else _gain(search, move, after)
            if after is not None and gain >= most:
                best, most, judged = move, gain * (1 + 1e-9), after
        left -= len(moves)
        if best:
            search.make(best)
            search.now = judged
        running = 0 if best else running + 1


def drop_useless_moves(search: PlacementSearch) -> None:
    """Take back each move of a running VM whose loss is less than the least gain.

    If the room on its host is gone, a VM that starts in this plan gives way: both change places.
    """
    trial, before = search.trial, search.trial.market.view.place
    moved = (before != NO_HOST) & (trial.place != NO_HOST) & (trial.place != before)
    for vm in np.flatnonzero(moved).tolist():
        home, now = int(before[vm]), int(trial.place[vm])
        new = np.flatnonzero((trial.place == home) & search.new).tolist()
        for move in (((vm, home),), *(((vm, home), (other, now)) for other in new)):
            after = _judged_after(search, move)
            if after is None:
                continue
            loss = gain_of(after.utility, search.now.utility, trial.late, search.least)
            if loss < search.least:
                search.make(move)
                search.now = after
                break


def _contending(search: PlacementSearch) -> Ints:
    """Return VMs of hosts on which some VM lacks power, the least satisfied first."""
    trial, market = search.trial, search.trial.market
    there = np.flatnonzero((trial.place != NO_HOST) & ~market.plain)
    top = trial.table.low[there] + trial.table.room[there]
    lacks = search.now.power[there] < top * (1 - 1e-6)
    contended = np.zeros(len(trial.idle), dtype=bool)
    contended[trial.place[there[lacks]]] = True
    own = there[contended[trial.place[there]] & search.goes[there]]
    rows = trial.applications(own)
    return own[np.lexsort((own, search.now.utility[rows], trial.late[rows]))][:_VMS]


def _moves(search: PlacementSearch, vms: Ints) -> list[Move]:
    """Return the moves to try: of each of these VMs alone, and with one that takes its place."""
    trial, moves = search.trial, list[Move]()
    others = np.flatnonzero((trial.place != NO_HOST) & search.goes & ~trial.market.plain)
    for vm in vms.tolist():
        if not search.may_move(vm):
            continue
        hosts = trial.hosts_for(vm)
        hosts = hosts[hosts != trial.place[vm]]
        best = hosts[np.lexsort((hosts, -trial.idle[hosts]))][:_HOSTS]
        moves += [((vm, host),) for host in best.tolist()]
    for vm in vms.tolist():
        away = others[
            (trial.place[others] != trial.place[vm])
            & (trial.idle[trial.place[others]] > trial.idle[trial.place[vm]])
        ]
        rows = away[np.lexsort((away, -trial.idle[trial.place[away]]))][:_HOSTS].tolist()
        moves += [
            ((vm, int(trial.place[other])), (other, int(trial.place[vm])))
            for other in rows
            if search.may_move(vm) and search.may_move(other)
        ]
    return moves


def _judged_after(search: PlacementSearch, move: Move) -> Judgment | None:
    """Return the judgment of the placement after the move; None if it does not fit."""
    trial = search.trial
    before = tuple((vm, int(trial.place[vm])) for vm, _host in move)
    for vm, _host in move:
        trial.move(vm, NO_HOST)
    fits = True
    for vm, host in move:
        fits = fits and trial.fits(vm, host)
        trial.move(vm, host)
    after = trial.judged(search.terms.cycle_s) if fits else None
    for vm, host in before:
        trial.move(vm, host)
    return after


def _gain(search: PlacementSearch, move: Move, after: Judgment) -> float:
    """Return what the move gains; the least gain if it harms none and moves no running VM."""
    before, late = search.now.utility, search.trial.late
    gain = gain_of(before, after.utility, late, search.least)
    new = all(search.new[vm] for vm, _host in move)
    if new and gain < search.least and harms_none(before, after.utility, search.least):
        return search.least
    return gain
