"""The search of `utility`: starts on idle power, and then three nested loops.

# Note [The search of utility]

First each VM that waits starts where power is idle and its floors fit, the lowest utility first:
this costs the others nothing. If all run at full speed then, nothing else is to be done.

Then the loops of the paper (section 3.2): the outer one visits hosts, those with the most satisfied
jobs first. The middle one takes VMs off the host, one more each time, the most satisfied first. The
inner one puts VMs that wait there, the least satisfied first. A VM taken off moves to a host with
idle power, if there is one, or else is saved. Each such placement is judged (Note [The judgment of
a placement]); the best one stays if it raises the lowest utility of all that it affects by
`least_gain`.

A place that is made free is used `exchange_s` later: the VM there must have left. And a VM that
waits gets the next place that becomes free in any case. So exchanges are judged at the time when
the first running job ends at its speed, or when the VM that comes would end: in one short cycle
each has little to lose, and no exchange would ever be worth it. Meanwhile the job that goes must
lose much less than the one that comes would. So identical jobs never take turns.

Example: a host with room for one VM runs a job with ten hours left and much time to its goal. A job
of one hour waits; its goal is two hours away. In a cycle of a minute it loses 0.01. Until the place
is free it loses 5, so the first job gives way for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Bools, Ints
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.placement.utility.placement_trial import (
    Judgment,
    PlacementTrial,
    gain_of,
    harms_none,
)

_TRIED = 4
"""The most VMs that are tried on a host one after the other."""
_VAIN = 48
"""The search ends after so many hosts in turn without a gain."""
_EFFORT, _MOST_JUDGED = 900_000, 1_000
"""The search ends after so many placements times VMs, and after so many placements."""
_VAIN_BRINGS = 24
"""No more VMs are brought to idle hosts after so many in turn without a gain."""
_ROUNDS = 3
_LOSS_RATIO = 1.5
"""The utility that a job would lose by waiting, at least by this factor above the loss of the job
that gives way for it."""
_ENOUGH = 0.5
"""The part of the power that a job can use from which it starts on idle power."""


@dataclass(frozen=True, slots=True)
class SearchTerms:
    """The settings of a search."""

    cycle_s: float
    exchange_s: float
    least_gain: float
    most_moves: int
    late_last: bool


def start_on_idle(trial: PlacementTrial, cycle_s: float) -> None:
    """Start each VM that waits where power is idle, the least satisfied first.

    That is the one with the lowest utility if it started in the next cycle instead.
    """
    table = trial.table
    later = (table.reach - cycle_s - table.best) / table.span
    utility = np.concatenate([later, np.full(len(table.base), -np.inf)])
    for vm in trial.waiting(utility):
        host = idle_host(trial, vm, trial.table.service[vm] != NO_ROW)
        if host != NO_HOST:
            trial.move(vm, host)


def idle_host(trial: PlacementTrial, vm: int, anywhere: bool = False) -> int:
    """Return the host with idle power for the VM, NO_HOST if none has enough.

    It is the one with the least that suffices, or else with the most. A VM of a service may start
    `anywhere`, on the host with the fewest VMs of the service and then the most idle power.
    """
    hosts, top = trial.hosts_for(vm), trial.top(vm)
    if not len(hosts):
        return NO_HOST
    idle = trial.idle[hosts]
    if anywhere:
        own = trial.place[trial.table.service == trial.table.service[vm]]
        beside = np.bincount(own[own != NO_HOST], minlength=len(trial.idle))[hosts]
        return int(hosts[np.lexsort((hosts, -idle, beside))[0]])
    enough = idle >= top * (1 - 1e-9)
    if enough.any():
        return int(hosts[np.where(enough, idle, np.inf).argmin()])
    best = int(idle.argmax())
    if idle[best] > 0 and idle[best] >= max(_ENOUGH * top, trial.table.low[vm]):
        return int(hosts[best])
    return NO_HOST


class PlacementSearch:
    """The three nested loops. See Note [The search of utility]."""

    def __init__(self, trial: PlacementTrial, terms: SearchTerms) -> None:
        self.trial, self.terms = trial, terms
        self.least = max(terms.least_gain, 1e-9)
        self.now: Judgment = trial.judged(terms.cycle_s)
        market = trial.market
        self.new: Bools = (market.view.place == NO_HOST) & ~market.plain
        self.goes: Bools = market.can_move | self.new
        self._vain_brings = 0
        self._origin: Ints = trial.place.copy()
        self._ends: Bools = market.can_stop | (self.new & (trial.table.job != NO_ROW))

    def run(self) -> None:
        """Improve the placement."""
        for _round in range(_ROUNDS):
            vain, gained = 0, False
            for host in self._hosts():
                if vain >= _VAIN or self.tired or self._all_satisfied():
                    break
                better = self._improve(host)
                vain, gained = 0 if better else vain + 1, gained or better
            if not gained:
                return

    @property
    def tired(self) -> bool:
        """Return whether so many placements were tried that the decision must end."""
        most = min(_EFFORT // max(len(self.trial.place), 1), _MOST_JUDGED)
        return self.trial.judgments >= most

    def _all_satisfied(self) -> bool:
        """Return whether all VMs have a host, and jobs full speed."""
        trial, own = self.trial, self.trial.table.order
        if (self.new & (trial.place == NO_HOST)).any():
            return False
        top = trial.table.low[own] + trial.table.room[own]
        return bool((self.now.power[own] >= top * (1 - 1e-9)).all())

    def _hosts(self) -> list[int]:
        """Return the hosts: those with idle power, and then those with the most satisfied jobs."""
        trial, best = self.trial, np.full(len(self.trial.idle), -np.inf)
        own = trial.table.order[trial.place[trial.table.order] != NO_HOST]
        rows = trial.table.job[own]
        value = np.where(trial.table.late[rows], np.inf, self.now.utility[rows])
        np.maximum.at(best, trial.place[own], value)
        best[trial.idle > 0] = np.inf
        hosts: list[int] = np.lexsort((np.arange(len(best)), -best)).tolist()
        return hosts

    def _improve(self, host: int) -> bool:
        """Try other VMs on the host; return whether that raised a utility."""
        added = self._add(host)
        brought = self._bring(host)
        return self._exchange(host) or added or brought

    def _add(self, host: int) -> bool:
        """Try to start VMs that wait on the host, beside those that are there."""
        trial, changed = self.trial, False
        waiting = trial.waiting(self.now.utility)
        for _try in range(_TRIED):
            vm = trial.first_fitting(waiting, host)
            if vm == NO_ROW:
                break
            waiting = waiting[waiting != vm]
            trial.move(vm, host)
            after = trial.judged(self.terms.cycle_s)
            changed |= self._keep(after, [(vm, NO_HOST)], harmless=True)
        return changed

    def _keep(self, after: Judgment, undo: list[tuple[int, int]], *, harmless: bool) -> bool:
        """Keep a change that gains enough, or that harms none if that is enough; or undo it."""
        before, late = self.now.utility, self.trial.late
        gains = gain_of(before, after.utility, late, self.least) >= self.least
        if gains or (harmless and harms_none(before, after.utility, self.least)):
            self.now = after
            return True
        for vm, place in undo:
            self.trial.move(vm, place)
        return False

    def _bring(self, host: int) -> bool:
        """Try to bring VMs that lack power on their hosts here."""
        trial, changed = self.trial, False
        if trial.idle[host] <= 0 or self._vain_brings >= _VAIN_BRINGS:
            return False
        own = np.flatnonzero(self.goes & (trial.place != NO_HOST) & (trial.place != host))
        lack = trial.table.low[own] + trial.table.room[own] - self.now.power[own]
        own = own[lack > 1e-6 * (1.0 + trial.table.room[own])]
        rows = trial.applications(own)
        order = np.lexsort((own, self.now.utility[rows], trial.late[rows]))
        for vm in own[order][:_TRIED].tolist():
            if self.may_move(vm) and trial.fits(vm, host):
                undo = [(vm, int(trial.place[vm]))]
                trial.move(vm, host)
                after = trial.judged(self.terms.cycle_s)
                kept = self._keep(after, undo, harmless=bool(self.new[vm]))
                self._vain_brings = 0 if kept else self._vain_brings + 1
                changed |= kept
        return changed

    def may_move(self, vm: int) -> bool:
        """Return whether the limits allow to move this VM."""
        if not self.goes[vm] or self.new[vm]:
            return bool(self.goes[vm])
        place, before = self.trial.place, self.trial.market.view.place
        moved = (place != before) & (place != NO_HOST) & (before != NO_HOST)
        return bool(moved[vm]) or int(moved.sum()) < self.terms.most_moves

    def _exchange(self, host: int) -> bool:
        """Take VMs off the host, one more each time, and keep the best exchange for others."""
        trial, waiting = self.trial, self.trial.waiting(self.now.utility)
        if not len(waiting):
            return False
        origin, best, most = trial.place.copy(), None, self.least
        self._origin = origin
        for vm in self._most_satisfied(host):
            if not self._gives_way(vm, int(waiting[0])):
                break
            trial.move(vm, idle_host(trial, vm) if self.may_move(vm) else NO_HOST)
            if trial.place[vm] == host or (trial.place[vm] == NO_HOST and not self._ends[vm]):
                trial.move(vm, host)
                continue
            kept = trial.place.copy()
            gain = self._gain_with(host, waiting)
            if gain >= most:
                best, most = trial.place.copy(), gain * (1 + 1e-9)
            self._restore(kept)
        self._restore(origin if best is None else best)
        if best is None:
            return False
        trial.starts[(origin == NO_HOST) & (best != NO_HOST)] = self.terms.exchange_s
        self.now = trial.judged(self.terms.cycle_s)
        return True

    def _gain_with(self, host: int, waiting: Ints) -> float:
        """Put VMs that wait on the host, as many as fit; return what the exchange gains."""
        trial, came = self.trial, list[int]()
        for _try in range(_TRIED):
            vm = trial.first_fitting(waiting, host)
            if vm == NO_ROW:
                break
            trial.move(vm, host)
            came.append(vm)
            waiting = waiting[waiting != vm]
        horizon = self._horizon(came)
        if not came or not self._loses_less(came, horizon):
            return -np.inf
        before = trial.later(self.now.power, horizon)
        trial.starts[came] = self.terms.exchange_s
        after = trial.judged(horizon)
        trial.starts[came] = 0.0
        return gain_of(before.utility, after.utility, trial.late, self.least)

    def first_end(self) -> float:
        """Return the time until the first job ends, at least a cycle."""
        trial, own = self.trial, self.trial.table.order
        speed = np.bincount(trial.table.job[own], self.now.power[own], len(trial.table.left))
        runs = speed > 0
        first = (trial.table.left[runs] / speed[runs]).min() if runs.any() else np.inf
        return max(self.terms.cycle_s, float(first))

    def _jobs_of(self, vms: list[int]) -> Ints:
        """Return the jobs of these VMs."""
        rows = self.trial.table.job[vms]
        jobs: Ints = rows[rows != NO_ROW]
        return jobs

    def _horizon(self, came: list[int]) -> float:
        """Return the time after which an exchange is judged."""
        jobs = self._jobs_of(came)
        ends = float(self.trial.table.best[jobs].min()) if len(jobs) else 0.0
        return max(self.terms.cycle_s, min(self.first_end(), ends))

    def _loses_less(self, came: list[int], horizon: float) -> bool:
        """Return whether those that go lose much less than those that come would by waiting."""
        trial, table = self.trial, self.trial.table
        gone = np.flatnonzero((self._origin != NO_HOST) & (trial.place == NO_HOST))
        comes, goes = self._jobs_of(came), self._jobs_of(gone.tolist())
        goes = goes[~table.late[goes]]
        if not len(comes) or not len(goes):
            return True
        if self.terms.late_last:
            return False
        waits = self.first_end() / float(table.span[comes].max())
        return waits > _LOSS_RATIO * horizon / float(table.span[goes].min())

    def _most_satisfied(self, host: int) -> list[int]:
        """Return the VMs of the host that may leave it, late ones and then the most satisfied."""
        trial = self.trial
        there = np.flatnonzero((trial.place == host) & (self.goes | self._ends))
        rows = trial.applications(there)
        order = np.lexsort((there, -self.now.utility[rows], ~trial.late[rows]))
        vms: list[int] = there[order].tolist()
        return vms

    def _gives_way(self, vm: int, other: int) -> bool:
        """Return whether the VM may give way: it is late, or more satisfied by the least gain.

        Hypothetical utilities are about equal until it is too late. So this compares the greatest
        ones: of the VM if it goes on, of the other one if it starts in the next cycle.
        """
        trial, table = self.trial, self.trial.table
        mine, its = trial.applications(np.array([vm, other])).tolist()
        if trial.late[mine] != trial.late[its]:
            return bool(trial.late[mine])
        best, least = self.now.utility[mine], self.now.utility[its]
        if mine < len(table.left):
            best = max(best, (table.reach[mine] - table.best[mine]) / table.span[mine])
        if its < len(table.left):
            later = table.reach[its] - self.terms.cycle_s - table.best[its]
            least = max(least, later / table.span[its])
        return bool(best >= least + self.least)

    def make(self, moves: Iterable[tuple[int, int]]) -> None:
        """Move these VMs to these hosts, all at once."""
        for vm, host in moves:
            self.trial.move(vm, host)

    def _restore(self, place: Ints) -> None:
        """Move all VMs to these places."""
        for vm in np.flatnonzero(self.trial.place != place).tolist():
            self.trial.move(vm, int(place[vm]))
