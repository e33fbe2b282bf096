"""Random small systems, and their best placements by trying all."""

from dataclasses import dataclass
from itertools import product

import numpy as np

from merkatd.cluster import Floats, Ints, Snapshot
from merkatd.cluster.applications import Jobs, Services, Stages
from merkatd.cluster.columns import NO_HOST
from merkatd.placement.utility.placement_trial import PlacementTrial
from merkatd.placement.utility.utility_market import UtilityMarket, read_market
from tests.clouds import cloud, hosts_table, vms_table

HOSTS, JOBS = 3, 5
CYCLE_S, NOW_S = 600.0, 50_000.0
NEAR = 1e-3
"""Utilities that differ by less are equal."""


def small_system(seed: int) -> Snapshot:
    """Return three hosts with five jobs and a service of one VM; some VMs wait."""
    random = np.random.default_rng(seed)
    capacity = np.stack([random.choice([200.0, 400.0], HOSTS), np.full(HOSTS, 8_000.0)], axis=1)
    speed = random.choice([100.0, 200.0, 300.0], JOBS)
    takes_s = random.uniform(600, 10_000, JOBS)
    span_s = takes_s * random.uniform(1.3, 5, JOBS)
    done = random.uniform(0, 0.8, JOBS) * (random.random(JOBS) < 0.7)
    waited_s = random.uniform(0, 0.6, JOBS) * (span_s - takes_s)
    start_s = NOW_S - done * takes_s - waited_s
    memory = np.append(random.choice([2_000.0, 3_000.0, 4_000.0], JOBS), 1_000.0)
    size = np.stack([np.append(speed, 300.0), memory], axis=1)
    place = _places(random, memory)
    rows = np.arange(JOBS)
    return cloud(
        hosts_table(capacity),
        vms_table(
            place,
            np.zeros_like(size),
            size,
            floor=size * [0.0, 1.0],
            application=np.arange(JOBS + 1),
        ),
        now_s=NOW_S,
        jobs=Jobs(
            application=rows,
            submitted_s=start_s,
            started_s=np.where(done > 0, start_s, np.nan),
            goal_s=start_s + span_s,
            work_done=done * takes_s * speed,
        ),
        stages=Stages(
            job=rows,
            work=takes_s * speed,
            least_speed=np.zeros(JOBS),
            greatest_speed=speed,
            memory_mib=np.zeros(JOBS),
        ),
        services=Services(
            application=np.array([JOBS]),
            response_goal_s=np.array([random.uniform(0.02, 0.5)]),
            arrivals_per_s=np.array([random.uniform(5, 80)]),
            work_per_request=np.array([1.5]),
        ),
    )


def _places(random: np.random.Generator, memory: Floats) -> Ints:
    """Return hosts at random, as far as the memory goes; about a third of the VMs wait."""
    free, place = np.full(HOSTS, 8_000.0), np.full(len(memory), NO_HOST)
    for vm in range(len(memory)):
        host = int(random.integers(0, HOSTS))
        if random.random() < 0.65 and free[host] >= memory[vm]:
            place[vm] = host
            free[host] -= memory[vm]
    return place


@dataclass(frozen=True, slots=True, eq=False)
class AllPlaces:
    """All placements of a system that fit, in which its service keeps a host."""

    changes: Ints
    """[placements]"""
    utilities: Floats
    """[placements, applications]: ascending."""

    @property
    def lowest(self) -> float:
        """Return the highest lowest utility."""
        return float(self.utilities[:, 0].max())

    def fewest_changes(self, utilities: Floats) -> int:
        """Return the fewest changes for utilities that are at least as high, the lowest first."""
        as_good = np.ones(len(self.changes), dtype=bool)
        equal = as_good.copy()
        for column, wanted in enumerate(utilities.tolist()):
            value = self.utilities[:, column]
            as_good &= ~equal | (value >= wanted - NEAR)
            equal &= np.abs(value - wanted) <= NEAR
        return int(self.changes[as_good].min())


def all_places(snapshot: Snapshot) -> AllPlaces:
    """Return all placements; a VM of a job that runs may be saved."""
    market = market_of(snapshot)
    now, memory = market.view.place, market.view.floor[:, 1]
    changes, utilities = list[int](), list[Floats]()
    for chosen in product(range(NO_HOST, HOSTS), repeat=len(now)):
        place = np.array(chosen)
        there = place != NO_HOST
        taken = np.bincount(place[there], memory[there], HOSTS)
        if not there[JOBS] or (taken > market.view.capacity[:, 1]).any():
            continue
        changes.append(changes_of(now, place))
        utilities.append(utilities_of(market, place))
    return AllPlaces(np.array(changes), np.array(utilities))


def changes_of(now: Ints, place: Ints) -> int:
    """Return the number of VMs that leave their hosts; starts are no changes."""
    return int(((place != now) & (now != NO_HOST)).sum())


def market_of(snapshot: Snapshot) -> UtilityMarket:
    """Return the market of a small system."""
    return read_market(
        snapshot,
        0,
        stopped=np.zeros(0, dtype=np.int64),
        cycle_s=CYCLE_S,
        hold_s=0.0,
        late_last=False,
    )


def utilities_of(market: UtilityMarket, place: Ints) -> Floats:
    """Return the utilities of a placement at the end of the cycle, ascending."""
    trial = PlacementTrial(market, place, market.spare(place, 1.0))
    return np.sort(trial.judged(CYCLE_S).utility)
