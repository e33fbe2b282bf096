"""Exchanges that save a goal: a job with time to its goal gives way to one without.

# Note [Goals that an exchange saves]

Hypothetical utilities share power as if each job could run. Where places are short and not power,
they tell too little: with many jobs that wait, all are low, and no exchange seems to gain. So with
`late_last` an exchange of jobs has another reason: it saves a goal.

A job that waits is *critical* if it can still reach its goal in a place that another job leaves,
but perhaps no more if it waits: for the next decision, or for the end of the first job that runs. A
job that is late anyway gives way, or else the one with the longest rest of those that still reach
their goals after the critical one has ended: places of the others become free soon. So each
exchange saves a goal, and none is lost for it. No two jobs take turns: the one that gives way has
more time left than the other one needs.

Example: a job needs 600 s, and its goal is 900 s away. The next decision is 600 s away, and then it
is too late for an exchange that takes 160 s. A job with five hours to spare leaves its place.
"""

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.placement.utility.placement_search import PlacementSearch

_MARGIN = 2.0
"""The cycles that a job which gives way has to spare after it."""
_VAIN = 16
"""No more critical jobs are tried after so many in turn without a place."""
_FULL = 0.99
"""The part of its greatest speed at which a critical job must run."""


def save_goals(search: PlacementSearch) -> None:
    """Let critical jobs take places. See Note [Goals that an exchange saves]."""
    critical = _critical(search)
    if not len(critical):
        return
    victims, spare_s = _victims(search)
    vain = 0
    for vm in critical.tolist():
        if vain >= _VAIN or search.tired:
            return
        needs_s = float(search.trial.table.best[search.trial.table.job[vm]])
        enough_s = needs_s + search.terms.exchange_s + _MARGIN * search.terms.cycle_s
        able = victims[(spare_s >= enough_s) & (search.trial.place[victims] != NO_HOST)]
        vain = 0 if _exchange(search, vm, able) else vain + 1


def _critical(search: PlacementSearch) -> Ints:
    """Return the VMs of critical jobs, the shortest first: they need the places least."""
    trial, table, terms = search.trial, search.trial.table, search.terms
    own = table.order[trial.place[table.order] == NO_HOST]
    jobs = table.job[own]
    slack_s = table.reach[jobs] - table.best[jobs]
    most_s = search.first_end() + terms.exchange_s
    own = own[~table.late[jobs] & (slack_s >= terms.exchange_s) & (slack_s < most_s)]
    ordered: Ints = own[np.lexsort((own, table.best[table.job[own]]))]
    return ordered


def _victims(search: PlacementSearch) -> tuple[Ints, Floats]:
    """Return the VMs that may be saved in their order, and the time that each job has to spare."""
    trial, table = search.trial, search.trial.table
    own = np.flatnonzero(trial.market.can_stop & (trial.place != NO_HOST))
    jobs = table.job[own]
    own, jobs = own[jobs != NO_ROW], jobs[jobs != NO_ROW]
    spare_s = np.where(table.late[jobs], np.inf, table.reach[jobs] - table.best[jobs])
    stays = table.best[jobs] > search.terms.cycle_s
    own, spare_s = own[stays], spare_s[stays]
    order = np.lexsort((own, -table.best[table.job[own]], ~np.isinf(spare_s)))
    return own[order], spare_s[order]


def _exchange(search: PlacementSearch, vm: int, victims: Ints) -> bool:
    """Put the VM in the place of the first of these VMs that make room for it on one host."""
    trial, host = search.trial, NO_HOST
    left = list[tuple[int, int]]()
    for victim in _useful(search, vm, victims).tolist():
        host = int(trial.place[victim])
        left.append((victim, host))
        trial.move(victim, NO_HOST)
        if trial.fits(vm, host):
            break
    else:
        search.make(left)
        return False
    trial.move(vm, host)
    for victim, place in left[-2::-1]:
        if place != host or trial.fits(victim, host):
            trial.move(victim, place)
    trial.starts[vm] = search.terms.exchange_s
    after = trial.judged(search.terms.cycle_s)
    if after.power[vm] >= _FULL * trial.top(vm):
        search.now = after
        return True
    trial.starts[vm] = 0.0
    search.make([(vm, NO_HOST), *left])
    return False


def _useful(search: PlacementSearch, vm: int, victims: Ints) -> Ints:
    """Return the first of these VMs whose place alone suffices, else all of hosts that suffice."""
    trial = search.trial
    hosts, floor = trial.place[victims], trial.market.view.floor
    room = trial.free + 1e-9 * trial.market.view.capacity
    may = trial.allowed(vm)[hosts]
    alone = (floor[vm] <= room[hosts] + floor[victims]).all(axis=1) & may
    if alone.any():
        return victims[alone.argmax() :][:1]
    np.add.at(room, hosts, floor[victims])
    several: Ints = victims[(floor[vm] <= room[hosts]).all(axis=1) & may]
    return several
