"""Another request, or an edited one: the groups as they are, with few VMs moved.

# Note [Few migrations for an edit]

The paper groups all VMs anew whenever a request comes, ends or is edited. Groups that are made
from nothing have little in common with those before: one rate that changes can migrate half of all
VMs, and a tenant that edits a rate in each period would have that done in each period, for nothing.

So groups are made anew when VMs come or go, three times in half an hour at most. Otherwise they
stay, and new VMs come to the cheapest. While the dearest group is dearer by more than a twentieth
than it would be with all groups made anew, a VM of it goes where that helps most. Only where this
does not get as far, or moves as many, all is made anew, within the same bound. No VM is moved for
an edit that was moved in the last ten minutes. Example: groups of 55, 55 and 60, and one rate of
the first rises by 55. That group of 110 gives its other VM of 20 to a group of 55: one migration,
and the dearest costs 90, as it would with all made anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import NOWHERE
from merkatd.placement.base.placement_problem import PlacementProblem

HOLD_S = 600.0
"""So long no VM is moved again for the sake of an edit."""
ANEW = 3
"""So often groups are made anew"""
ANEW_S = 1800.0
"""in so long at most."""
NEAR = 0.05
"""A dearest group that is dearer by this part is as good."""
_MOST = 64
"""Moves that are tried."""


@dataclass(frozen=True, slots=True, eq=False)
class Edited:
    """What becomes of the groups."""

    wanted: Ints
    """[vms]: the host of each."""
    anew_s: tuple[float, ...]
    """When all groups were made anew lately."""
    settled: bool
    """Whether that is as good as groups made anew; else it is tried again in the next period."""


def edited(
    game: PlacementProblem, before: Ints, anew: Ints, anew_s: tuple[float, ...], *, others: bool
) -> Edited:
    """Return where VMs go; `before` has the groups so far, `anew` all of them made from nothing.

    `others`: other VMs than so far take part.
    """
    now_s = game.snapshot.now_s
    # A clock that was set back makes nobody wait for longer.
    lately = tuple(one for one in anew_s if abs(now_s - one) < ANEW_S)
    made_anew = Edited(anew, (*lately, now_s), settled=True)
    may = len(lately) < ANEW
    if others and may:
        return made_anew
    goal = _dearest(game, anew) * (1 + NEAR)
    wanted = _mended(game, _with_new(game, before), goal)
    good = _dearest(game, wanted) <= goal and _waiting(wanted) <= _waiting(anew)
    if may and (not good or _moves(game, anew) <= _moves(game, wanted)):
        return made_anew
    return Edited(wanted, lately, settled=good)


def _dearest(game: PlacementProblem, place: Ints) -> float:
    """Return the price of the dearest group."""
    return float(_prices(game, place).max(initial=0.0))


def _prices(game: PlacementProblem, place: Ints) -> Floats:
    """[hosts]: the rates of all VMs there, for each unit that the host has."""
    view, there = game.view, place != NOWHERE
    rates = np.bincount(place[there], view.bid[there, 0], len(view.hosts))
    capacity = np.where(view.open, view.capacity[:, 0], 0.0)
    found: Floats = np.divide(rates, capacity, out=np.zeros(len(rates)), where=capacity > 0)
    return found


def _moves(game: PlacementProblem, place: Ints) -> int:
    old = game.view.place
    return int(((old != NOWHERE) & (place != old)).sum())


def _waiting(place: Ints) -> int:
    return int((place == NOWHERE).sum())


def _with_new(game: PlacementProblem, place: Ints) -> Ints:
    """Return the places with each VM that has none in the cheapest group that can take it."""
    found = place.copy()
    new = np.flatnonzero(place == NOWHERE)
    for vm in new[np.argsort(-game.view.bid[new, 0], kind="stable")].tolist():
        hosts = np.flatnonzero(_takes(game, vm, found))
        if len(hosts):
            found[vm] = hosts[np.argmin(_prices_with(game, vm, found)[hosts])]
    return found


def _mended(game: PlacementProblem, place: Ints, goal: float) -> Ints:
    """Return the places after moves out of the dearest group, until it costs no more than that."""
    found, rests = place.copy(), _rests(game)
    for _ in range(_MOST):
        prices = _prices(game, found)
        if prices.max(initial=0.0) <= goal:  # also where no host is left
            break
        dearest = int(np.argmax(prices))
        best = _best_move(game, found, prices, dearest, rests)
        if best is None:
            break
        found[best[0]] = best[1]
    return found


def _best_move(
    game: PlacementProblem, place: Ints, prices: Floats, dearest: int, rests: Bools
) -> tuple[int, int] | None:
    """Return the VM that leaves the dearest group and its host, None where nothing helps."""
    best: tuple[float, int, int] = (float(prices[dearest]) * (1 - 1e-9), NOWHERE, NOWHERE)
    for vm in np.flatnonzero((place == dearest) & ~rests).tolist():
        takes = _takes(game, vm, place)
        takes[dearest] = False
        hosts = np.flatnonzero(takes)
        if not len(hosts):
            continue
        there = _prices_with(game, vm, place)[hosts]
        left = prices[dearest] - game.view.bid[vm, 0] / game.view.capacity[dearest, 0]
        at = int(np.argmin(there))
        best = min(best, (max(float(there[at]), float(left)), vm, int(hosts[at])))
    return None if best[1] == NOWHERE else best[1:]


def _rests(game: PlacementProblem) -> Bools:
    """[vms]: may not be moved, or was a short time ago."""
    moved_s = game.snapshot.vms.moved_at_s[game.view.vms]
    lately = np.abs(game.snapshot.now_s - moved_s) < HOLD_S
    found: Bools = (game.view.place != NOWHERE) & (~game.movable | lately)
    return found


def _prices_with(game: PlacementProblem, vm: int, place: Ints) -> Floats:
    """[hosts]: what each group would cost with this VM; infinite where the host has nothing."""
    view = game.view
    more = np.full(len(view.hosts), np.inf)
    np.divide(view.bid[vm, 0], view.capacity[:, 0], out=more, where=view.capacity[:, 0] > 0)
    found: Floats = _prices(game, place) + more
    return found


def _takes(game: PlacementProblem, vm: int, place: Ints) -> Bools:
    """[hosts]: the VM may be there, and its floor fits."""
    view = game.view
    there = place != NOWHERE
    room = np.where(view.open[:, np.newaxis], view.capacity, -1.0)
    for column in range(room.shape[1]):
        room[:, column] -= np.bincount(place[there], view.floor[there, column], len(room))
    found: Bools = game.rules.allowed(vm, place) & (room >= view.floor[vm]).all(axis=1)
    return found


def remembered(before: Mapping[str, object]) -> tuple[float, ...]:
    """Return when groups were made anew lately, as memory has it."""
    found = before.get("anew_s", ())
    return tuple(float(one) for one in found) if isinstance(found, list | tuple) else ()
