"""A market as the strategy `utility` sees it: applications, places, and the powers to divide.

The least needs of a job in the coming cycle, its memory and its least speed, count as the floors
of its VMs. So all that the base knows of floors holds for them.
"""

from dataclasses import dataclass, replace

import numpy as np

from merkatd.cluster import RESTING, Bools, Floats, Ints, Snapshot, VmState
from merkatd.cluster.columns import NO_HOST, NO_ROW, is_one_of
from merkatd.market.market_view import MarketView, market_view
from merkatd.market.share import Share
from merkatd.placement.base.board import Board
from merkatd.placement.base.hard_constraints import HardConstraints
from merkatd.placement.base.host_shares import terms_of_vms
from merkatd.placement.base.placement_problem import PlacementProblem, are_held
from merkatd.placement.utility.cycle_demands import CycleDemands, read_demands
from merkatd.placement.utility.powers.job_levels import Demands

CPU, MEMORY = "cpu", "memory"


@dataclass(frozen=True, slots=True, eq=False)
class UtilityMarket:
    """The problem of a market with the demands of its applications."""

    problem: PlacementProblem
    cpu: int
    """The column of CPU."""
    floor: Floats
    """[vms, resources]: the floors that the snapshot states."""
    demands: CycleDemands
    table: Demands
    plain: Bools
    """[vms]: whether the VM has no utility. See Note [VMs without a utility]."""
    members: Ints
    """The VMs of services, those of a service together."""
    resumes: Bools
    """[vms]: whether the VM rests on its host, and is to continue."""
    can_move: Bools
    """[vms]: whether the VM may migrate for a gain."""
    can_stop: Bools
    """[vms]: whether the VM may be saved so that others get its room."""
    saved: Ints
    """Ids of the VMs that wait, saved away from hosts."""

    @property
    def view(self) -> MarketView:
        """Return the hosts and VMs."""
        return self.problem.view

    def application(self, vm: int) -> int:
        """Return the row of the VM's utility: jobs, and then services; -1 for a plain VM."""
        job, service = int(self.table.job[vm]), int(self.table.service[vm])
        return job if job != NO_ROW else (service + self.jobs if service != NO_ROW else NO_ROW)

    @property
    def jobs(self) -> int:
        """Return the number of jobs."""
        return len(self.demands.jobs.number)

    def spare(self, place: Ints, plain_part: float) -> Floats:
        """Return [hosts]: the power that plain VMs leave for jobs and services."""
        reserved = self.plain_power(plain_part)
        there = np.flatnonzero(self.plain & (place != NO_HOST))
        taken = np.bincount(place[there], reserved[there], len(self.view.hosts))
        spare: Floats = np.maximum(self.view.capacity[:, self.cpu] - taken, 0.0)
        return spare

    def plain_power(self, plain_part: float) -> Floats:
        """Return [vms]: the power that plain VMs get before all others."""
        size = self.view.size[:, self.cpu]
        return np.where(self.plain, np.maximum(plain_part * size, self.floor[:, self.cpu]), 0.0)


def read_market(
    snapshot: Snapshot,
    market: int,
    *,
    stopped: Ints,
    cycle_s: float,
    hold_s: float,
    late_last: bool,
) -> UtilityMarket:
    """Return the market in this row. `stopped` are the ids of VMs that the strategy has saved."""
    view = market_view(snapshot, market)
    cpu = snapshot.resources.index(CPU) if CPU in snapshot.resources else 0
    vms = snapshot.vms
    away = (vms.state == VmState.ABSENT) & (vms.market == market) & vms.placeable
    saved = np.flatnonzero(away & (is_one_of(vms.id, stopped) | vms.saved))
    state = vms.state[view.vms]
    resumes = is_one_of(state, RESTING) & vms.placeable[view.vms]
    size = np.where(resumes[:, np.newaxis], vms.cap[view.vms], view.size)
    view = replace(view, size=size, bid=size, cap=size)
    demands = read_demands(snapshot, view, saved, cycle_s, cpu)
    floor = view.floor
    view = replace(view, floor=_needed_floors(snapshot, view, demands, cpu))
    rests = is_one_of(state, RESTING) & ~resumes
    table = _table(view, demands, rests, cpu, late_last=late_last)
    problem = _problem(snapshot, view)
    plain = (table.job == NO_ROW) & (table.service == NO_ROW)
    held = are_held(snapshot, hold_s)[view.vms]
    runs = state == VmState.RUNNING
    served = np.flatnonzero(table.service != NO_ROW)
    return UtilityMarket(
        problem=problem,
        cpu=cpu,
        floor=floor,
        demands=demands,
        table=table,
        plain=plain,
        members=served[np.argsort(table.service[served], kind="stable")],
        resumes=resumes,
        can_move=problem.movable & runs & ~held & ~plain,
        can_stop=problem.movable & runs & (table.job != NO_ROW) & ~vms.stop_fails[view.vms],
        saved=vms.id[saved],
    )


def _needed_floors(snapshot: Snapshot, view: MarketView, demands: CycleDemands, cpu: int) -> Floats:
    """Return [vms, resources]: the floors, raised to the least needs of jobs as far as sizes go."""
    floor, own = view.floor.copy(), np.flatnonzero(demands.job != NO_ROW)
    rows = demands.job[own]
    needs = {cpu: demands.jobs.least_speed}
    if MEMORY in snapshot.resources:
        needs[snapshot.resources.index(MEMORY)] = demands.jobs.memory_mib
    for column, least in needs.items():
        wanted = np.maximum(floor[own, column], least[rows])
        floor[own, column] = np.minimum(wanted, view.size[own, column])
    return floor


def _table(
    view: MarketView, demands: CycleDemands, rests: Bools, cpu: int, *, late_last: bool
) -> Demands:
    jobs, services = demands.jobs, demands.services
    job = np.where(rests, NO_ROW, demands.job)
    service = np.where(rests, NO_ROW, demands.service)
    size, low = view.size[:, cpu], view.floor[:, cpu]
    top = size.copy()
    own = np.flatnonzero(job != NO_ROW)
    top[own] = np.minimum(size[own], jobs.greatest_speed[job[own]])
    late = (jobs.greatest_utility < 0) & late_last
    if len(own):
        own = own[np.lexsort((own, jobs.greatest_utility[job[own]], late[job[own]]))]
    has = (job != NO_ROW) | (service != NO_ROW)
    return Demands(
        left=jobs.left,
        reach=jobs.goal_in_s,
        span=jobs.span_s,
        best=jobs.best_s,
        late=late,
        base=services.requests_work,
        work=services.request_work,
        goal=services.goal_s,
        job=job,
        service=service,
        low=np.where(has, low, 0.0),
        room=np.where(has, np.maximum(top - low, 0.0), 0.0),
        order=own,
    )


def _problem(snapshot: Snapshot, view: MarketView) -> PlacementProblem:
    """Return the problem with all VMs at their present places."""
    rules, nothing = HardConstraints(snapshot, view), np.zeros_like(view.size)
    return PlacementProblem(
        snapshot=snapshot,
        view=view,
        rules=rules,
        board=Board(view, view.place),
        started=view.place,
        first=Share(nothing, np.zeros((1, nothing.shape[1]))),
        stakes=terms_of_vms(view, nothing),
        movable=view.movable & ~rules.stays,
    )
