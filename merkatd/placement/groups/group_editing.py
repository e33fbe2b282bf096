"""Changes of the groups after a new or edited request, with few migrations.

# Note [Few migrations for an edit]

The paper regroups all VMs whenever a request comes, ends or is edited. New groups have little in
common with the old ones: a single changed rate can migrate half of all VMs. A tenant could cause
that in every period by editing a rate, for nothing.

So the scheduler regroups all VMs when VMs come or go, at most three times in half an hour.
Otherwise the groups stay, and new VMs join the cheapest group. While the dearest group is more than
5 % dearer than after a full regrouping, one of its VMs moves to where that helps most. If this does
not reach the goal, or needs as many migrations, the scheduler regroups all, within the same
limit. An edit moves no VM that was moved in the last ten minutes.

Example: groups of 55, 55 and 60, and one rate of the first group rises by 55. That group of 110
gives its other VM of 20 to the group of 55. This is one migration, and the dearest group costs 90,
the same as after a full regrouping.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.placement.base.placement_problem import PlacementProblem

HOLD_S = 600.0
"""Time for which an edit does not move a VM again."""
ANEW = 3
"""Largest number of full regroupings within `ANEW_S`."""
ANEW_S = 1800.0
"""Length of the window in which full regroupings are counted."""
NEAR = 0.05
"""Part by which the dearest group may cost more than after a full regrouping."""
_MOST = 64
"""Largest number of moves that are tried."""


@dataclass(frozen=True, slots=True, eq=False)
class EditedGroups:
    """The groups after an edit."""

    wanted: Ints
    """[vms]: the host of each VM."""
    anew_s: tuple[float, ...]
    """Times of the recent full regroupings."""
    settled: bool
    """Whether the groups are as good as after a full regrouping; else the next period retries."""


def edit_groups(
    problem: PlacementProblem, before: Ints, anew: Ints, anew_s: tuple[float, ...], *, others: bool
) -> EditedGroups:
    """Return the new groups; `before` has the present groups, `anew` those of a full regrouping.

    `others`: the set of VMs has changed.
    """
    now_s = problem.snapshot.now_s
    # A clock that was set back does not lengthen the wait.
    lately = tuple(moment_s for moment_s in anew_s if abs(now_s - moment_s) < ANEW_S)
    made_anew = EditedGroups(anew, (*lately, now_s), settled=True)
    may = len(lately) < ANEW
    if others and may:
        return made_anew
    goal = _dearest(problem, anew) * (1 + NEAR)
    wanted = _lowered(problem, _with_new(problem, before), goal)
    good = _dearest(problem, wanted) <= goal and _waiting(wanted) <= _waiting(anew)
    if may and (not good or _moves(problem, anew) <= _moves(problem, wanted)):
        return made_anew
    return EditedGroups(wanted, lately, settled=good)


def _dearest(problem: PlacementProblem, place: Ints) -> float:
    """Return the price of the dearest group."""
    return float(_prices(problem, place).max(initial=0.0))


def _prices(problem: PlacementProblem, place: Ints) -> Floats:
    """Return [hosts]: the rates of all VMs there, per unit of the host's capacity."""
    view, there = problem.view, place != NO_HOST
    rates = np.bincount(place[there], view.bid[there, 0], len(view.hosts))
    capacity = np.where(view.open, view.capacity[:, 0], 0.0)
    prices: Floats = np.divide(rates, capacity, out=np.zeros(len(rates)), where=capacity > 0)
    return prices


def _moves(problem: PlacementProblem, place: Ints) -> int:
    old = problem.view.place
    return int(((old != NO_HOST) & (place != old)).sum())


def _waiting(place: Ints) -> int:
    return int((place == NO_HOST).sum())


def _with_new(problem: PlacementProblem, place: Ints) -> Ints:
    """Return the places, with each VM that has none in the cheapest group that can take it."""
    wanted = place.copy()
    new = np.flatnonzero(place == NO_HOST)
    for vm in new[np.argsort(-problem.view.bid[new, 0], kind="stable")].tolist():
        hosts = np.flatnonzero(_takes(problem, vm, wanted))
        if len(hosts):
            wanted[vm] = hosts[np.argmin(_prices_with(problem, vm, wanted)[hosts])]
    return wanted


def _lowered(problem: PlacementProblem, place: Ints, goal: float) -> Ints:
    """Return the places after moves out of the dearest group, until it costs at most `goal`."""
    wanted, rests = place.copy(), _rests(problem)
    for _ in range(_MOST):
        prices = _prices(problem, wanted)
        if prices.max(initial=0.0) <= goal:  # also where no host is left
            break
        dearest = int(np.argmax(prices))
        best = _best_move(problem, wanted, prices, dearest, rests)
        if best is None:
            break
        wanted[best[0]] = best[1]
    return wanted


def _best_move(
    problem: PlacementProblem, place: Ints, prices: Floats, dearest: int, rests: Bools
) -> tuple[int, int] | None:
    """Return the VM that leaves the dearest group, and its host; None if no move helps."""
    best: tuple[float, int, int] = (float(prices[dearest]) * (1 - 1e-9), NO_ROW, NO_HOST)
    for vm in np.flatnonzero((place == dearest) & ~rests).tolist():
        takes = _takes(problem, vm, place)
        takes[dearest] = False
        hosts = np.flatnonzero(takes)
        if not len(hosts):
            continue
        there = _prices_with(problem, vm, place)[hosts]
        left = prices[dearest] - problem.view.bid[vm, 0] / problem.view.capacity[dearest, 0]
        at = int(np.argmin(there))
        best = min(best, (max(float(there[at]), float(left)), vm, int(hosts[at])))
    return None if best[1] == NO_ROW else best[1:]


def _rests(problem: PlacementProblem) -> Bools:
    """Return [vms]: whether the VM may not move, or moved a short time ago."""
    moved_s = problem.snapshot.vms.moved_at_s[problem.view.vms]
    lately = np.abs(problem.snapshot.now_s - moved_s) < HOLD_S
    rests: Bools = (problem.view.place != NO_HOST) & (~problem.movable | lately)
    return rests


def _prices_with(problem: PlacementProblem, vm: int, place: Ints) -> Floats:
    """Return [hosts]: the price of each group with this VM; infinite without capacity."""
    view = problem.view
    more = np.full(len(view.hosts), np.inf)
    np.divide(view.bid[vm, 0], view.capacity[:, 0], out=more, where=view.capacity[:, 0] > 0)
    prices: Floats = _prices(problem, place) + more
    return prices


def _takes(problem: PlacementProblem, vm: int, place: Ints) -> Bools:
    """Return [hosts]: whether the host may take the VM and its floor fits."""
    view = problem.view
    there = place != NO_HOST
    room = np.where(view.open[:, np.newaxis], view.capacity, -1.0)
    for column in range(room.shape[1]):
        room[:, column] -= np.bincount(place[there], view.floor[there, column], len(room))
    fits: Bools = problem.rules.allowed(vm, place) & (room >= view.floor[vm]).all(axis=1)
    return fits


def regrouping_times(before: Mapping[str, object]) -> tuple[float, ...]:
    """Return the times of the recent full regroupings, from the strategy's memory."""
    moments_s = before.get("anew_s", ())
    return (
        tuple(float(moment_s) for moment_s in moments_s)
        if isinstance(moments_s, list | tuple)
        else ()
    )
