"""A placement that the search of `utility` tries: places, free room, powers and utilities."""

from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.placement.utility.powers.job_levels import Demands
from merkatd.placement.utility.powers.power_division import (
    judge_placement,
    utilities_of_jobs,
    utilities_of_services,
)
from merkatd.placement.utility.utility_market import UtilityMarket


@dataclass(frozen=True, slots=True, eq=False)
class Judgment:
    """The powers of a placement, and the utilities at a time that they lead to."""

    power: Floats
    """[vms]"""
    utility: Floats
    """Of jobs, and then of services."""


class PlacementTrial:
    """A placement that can be changed. Room and power on each host always agree with it."""

    def __init__(self, market: UtilityMarket, place: Ints, spare: Floats) -> None:
        self.market = market
        self.table: Demands = market.table
        self.place: Ints = place.copy()
        self.starts: Floats = np.zeros(len(place))
        """[vms]: the time until the VM uses its power."""
        self._spare = spare
        self.judgments = 0
        """The number of placements judged so far."""
        view, there = market.view, place != NO_HOST
        self.free: Floats = view.capacity.copy()
        """[hosts, resources]: the capacity above all floors."""
        np.subtract.at(self.free, place[there], view.floor[there])
        self._top: Floats = self.table.low + self.table.room
        self.idle: Floats = spare.copy()
        """[hosts]: the power that nothing on the host can use; negative if it can use more."""
        np.subtract.at(self.idle, place[there], self._top[there])
        self._most: Floats = market.demands.jobs.greatest_utility
        self.late: Bools = np.concatenate([self.table.late, np.zeros(len(self.table.base), bool)])
        """[applications]: whether it comes after all others."""

    def top(self, vm: int) -> float:
        """Return the most power that the VM can use."""
        return float(self._top[vm])

    def move(self, vm: int, host: int) -> None:
        """Move the VM from any place to any place, or off the hosts."""
        floor, before = self.market.view.floor[vm], int(self.place[vm])
        if before != NO_HOST:
            self.free[before] += floor
            self.idle[before] += self._top[vm]
        if host != NO_HOST:
            self.free[host] -= floor
            self.idle[host] -= self._top[vm]
        self.place[vm] = host

    def fits(self, vm: int, host: int) -> bool:
        """Return whether the host may take the VM, and its floors fit there."""
        roomy = self.roomy(np.array([vm]), host)
        return bool(roomy[0]) and bool(self.allowed(vm)[host])

    def roomy(self, vms: Ints, host: int) -> Bools:
        """Return [vms]: whether the floors of each alone fit on the host."""
        room = self.free[host] + 1e-9 * self.market.view.capacity[host]
        roomy: Bools = (self.market.view.floor[vms] <= room).all(axis=1)
        return roomy

    def hosts_for(self, vm: int) -> Ints:
        """Return the hosts that may take the VM, and where its floors fit."""
        slack = 1e-9 * self.market.view.capacity
        roomy = (self.free >= self.market.view.floor[vm] - slack).all(axis=1)
        return np.flatnonzero(roomy & self.allowed(vm)) if roomy.any() else np.flatnonzero(roomy)

    def allowed(self, vm: int) -> Bools:
        """Return [hosts]: where the VM may be beside the other VMs."""
        rules = self.market.problem.rules
        if not rules.bound[vm]:
            return rules.by_requirement(vm)
        return rules.allowed(vm, self.place)

    def judged(self, horizon_s: float) -> Judgment:
        """Return the powers and the utilities at the horizon."""
        self.judgments += 1
        power = np.zeros(len(self.place))
        utility = np.zeros(len(self.late))
        judge_placement(
            self.table,
            self._most,
            self.place,
            self.market.members,
            self._spare,
            self.starts,
            float(horizon_s),
            power,
            utility,
        )
        return Judgment(power, utility)

    def later(self, power: Floats, horizon_s: float) -> Judgment:
        """Return the utilities at the horizon with these powers, without a new division."""
        utility, jobs = np.zeros(len(self.late)), len(self.table.left)
        utilities_of_jobs(self.table, power, self.starts, float(horizon_s), utility[:jobs])
        utilities_of_services(self.table, power, utility[jobs:])
        return Judgment(power, utility)

    def waiting(self, utility: Floats) -> Ints:
        """Return the VMs of applications that have no host, the lowest utility first."""
        rows = np.flatnonzero((self.place == NO_HOST) & ~self.market.plain)
        own = self.applications(rows)
        ordered: Ints = rows[np.lexsort((rows, utility[own], self.late[own]))]
        return ordered

    def first_fitting(self, vms: Ints, host: int) -> int:
        """Return the first of the VMs that fits on the host; NO_ROW if none does."""
        for vm in vms[self.roomy(vms, host)].tolist():
            if self.allowed(vm)[host]:
                return int(vm)
        return NO_ROW

    def applications(self, vms: Ints) -> Ints:
        """Return the row of each VM's utility."""
        job, service = self.table.job[vms], self.table.service[vms]
        rows: Ints = np.where(job != NO_ROW, job, service + len(self.table.left))
        return rows


def gain_of(before: Floats, after: Floats, late: Bools, least: float) -> float:
    """Return by how much a change raises the lowest utility of all that it affects.

    Late applications count only if no other one is affected; -infinity stands for a change for the
    worse. Differences below a twentieth of the least gain are none.
    """
    near = max(least / 20.0, 1e-9)
    for kind in (False, True):
        changed = (np.abs(after - before) > near) & (late == kind)
        if changed.any():
            return float(after[changed].min() - before[changed].min())
    return 0.0


def harms_none(before: Floats, after: Floats, least: float) -> bool:
    """Return whether no utility falls, and some rise."""
    near = max(least / 20.0, 1e-9)
    return bool((after >= before - near).all() and (after > before + near).any())
