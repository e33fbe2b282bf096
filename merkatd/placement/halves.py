"""Halves of plans: migrations that must wait for others do not spoil what is done without them.

# Note [Halves of plans]

A migration that needs the place of another VM waits until that VM has gone. A migration takes
longer than a period, so only the first half of such a plan is sent now, and the next period
decides anew. Example: VMs 1 and 2 are to change places. VM 1 fits beside VM 2 and goes first;
until VM 2 has gone too, both are crowded. If that is worse than before, neither VM is moved.

Most plans have no migration that waits: they cost nothing here. Used by `play.py`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from merkatd.cluster import Ints
from merkatd.market.view import NOWHERE
from merkatd.placement.evacuate import must_leave
from merkatd.placement.game import Game
from merkatd.placement.onehost import LARGEST_ERROR, score
from merkatd.placement.order import Orderly, in_order

_ROUNDING = 1e-9


def without_harmful_halves(game: Game, wanted: Ints, objective: int) -> Orderly:
    """Return the wanted moves in order, without those of which the first half would do harm."""
    wanted = wanted.copy()
    orderly = in_order(game.view, game.rules, wanted)
    if not any(orderly.after.values()) and not orderly.stuck:
        return orderly
    ordered = must_leave(game)
    while True:
        chosen = _to_leave_out(game, orderly, wanted, objective)
        chosen = chosen[(wanted[chosen] != game.started[chosen]) & ~ordered[chosen]]
        if not len(chosen):
            return orderly
        wanted[chosen] = game.started[chosen]
        orderly = in_order(game.view, game.rules, wanted)


class _Hosts(NamedTuple):
    """Hosts that are not the same before and after the first half, with their scores."""

    row: Ints
    before: Mapping[int, float]
    after: Mapping[int, float]


def _to_leave_out(game: Game, orderly: Orderly, wanted: Ints, objective: int) -> Ints:
    """Return the VMs that should stay where they are; none where the first half does no harm."""
    later = np.array([vm for vm, first in orderly.after.items() if first], dtype=np.int64)
    waits = np.concatenate([later, np.array(orderly.stuck, dtype=np.int64)])
    half = orderly.place.copy()
    half[waits] = game.started[waits]
    before = np.where(must_leave(game), half, game.started)
    hosts = _compared(game, before, half, objective)
    part = _parts(game.started, wanted)
    harmful = _harmful(game, before, hosts, part, objective)
    inside = np.isin(part[np.maximum(game.started, 0)], list(harmful)) & (wanted != game.started)
    chain = np.zeros(len(wanted), dtype=bool)
    chain[waits] = True
    for vm in later.tolist():
        chain[list(orderly.after[vm])] = True
    ordered = must_leave(game)
    first = inside & chain & ~ordered
    return np.flatnonzero(first if first.any() else inside)


def _compared(game: Game, before: Ints, half: Ints, objective: int) -> _Hosts:
    moved = before != half
    touched = np.union1d(before[moved], half[moved])
    touched = touched[touched != NOWHERE]
    return _Hosts(
        touched,
        _scores(game, before, touched, objective),
        _scores(game, half, touched, objective),
    )


def _harmful(game: Game, before: Ints, hosts: _Hosts, part: Ints, objective: int) -> set[int]:
    """Return the parts of the plan whose first half does harm, if the whole first half does."""
    rows = hosts.row.tolist()
    if objective == LARGEST_ERROR:
        everywhere = np.arange(len(game.view.hosts))
        most = max(_scores(game, before, everywhere, objective).values(), default=0.0)
        return {int(part[row]) for row in rows if hosts.after[row] > most + _ROUNDING}
    rise: dict[int, float] = {}
    for row in rows:
        change = hosts.after[row] - hosts.before[row]
        rise[int(part[row])] = rise.get(int(part[row]), 0.0) + change
    tolerated = _ROUNDING * (1.0 + sum(hosts.before.values()))
    if sum(rise.values()) <= tolerated:
        return set()
    return {one for one, change in rise.items() if change > 0.0}


def _scores(game: Game, place: Ints, hosts: Ints, objective: int) -> dict[int, float]:
    """Return the score of each of these hosts, by row."""
    rows = np.flatnonzero(np.isin(place, hosts))
    rows = rows[np.argsort(place[rows], kind="stable")]
    first = np.searchsorted(place[rows], hosts)
    last = np.searchsorted(place[rows], hosts, side="right")
    found = {}
    for host, start, end in zip(hosts.tolist(), first.tolist(), last.tolist(), strict=True):
        there = rows[start:end]
        work = np.empty((2, len(there) + 1))
        capacity = game.board.capacity[host]
        found[host] = float(score(there, len(there), capacity, game.stakes, objective, work))
    return found


def _parts(started: Ints, wanted: Ints) -> Ints:
    """Return [hosts]: a number that hosts share where moves connect them."""
    part = np.arange(int(max(started.max(initial=0), wanted.max(initial=0))) + 1)

    def root(host: int) -> int:
        while part[host] != host:
            host = int(part[host])
        return host

    moved = (started != wanted) & (started != NOWHERE) & (wanted != NOWHERE)
    for source, host in zip(started[moved].tolist(), wanted[moved].tolist(), strict=True):
        part[root(host)] = root(source)
    return np.array([root(host) for host in part.tolist()], dtype=np.int64)
