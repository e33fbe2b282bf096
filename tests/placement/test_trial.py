"""Trial moves: the computed effects on hosts equal those by the market's own functions."""

import numpy as np
import pytest

from merkatd.cluster import Ints
from merkatd.cluster.columns import NO_HOST
from merkatd.market.error import errors, shortfalls
from merkatd.placement.base.board import excess
from merkatd.placement.base.host_shares import SUM_OF_SHORTFALLS
from merkatd.placement.base.least_load import start_market
from merkatd.placement.base.placement_problem import PlacementProblem
from merkatd.placement.market.host_errors import error_on
from merkatd.placement.market.search_state import Search, SearchLimits
from merkatd.placement.market.trial_moves import best_exchange
from tests.clouds import cloud, hosts_table, vms_table

LIMITS = SearchLimits(m_max=100, per_host=100, tenure=5)


def search_problem(seed: int) -> Search:
    """Return four hosts, the last perhaps empty, and VMs whose floors fit on their hosts."""
    rng = np.random.default_rng(seed)
    vms = int(rng.integers(6, 16))
    cap = rng.uniform(20.0, 200.0, (vms, 2))
    place = rng.integers(0, 3 + seed % 2, vms)
    floor = cap * rng.choice([0.0, 0.3], (vms, 1))
    bid = rng.lognormal(0.0, 1.0, (vms, 2)) * rng.choice([0.0, 1.0], (vms, 1), p=[0.1, 0.9])
    most = np.stack([np.bincount(place, floor[:, at], 4) for at in range(2)], axis=1)
    capacity = np.maximum(rng.uniform(50.0, 400.0, (4, 2)), most * 1.1)
    snapshot = cloud(hosts_table(capacity), vms_table(place, bid, cap, floor=floor))
    game = start_market(snapshot, 0)
    return Search(game, game.board, np.ones(vms, dtype=bool), SUM_OF_SHORTFALLS, LIMITS)


def shortfall_on(problem: PlacementProblem, place: Ints, host: int) -> float:
    """Return the credits by which the VMs of one host are short."""
    lacks = problem.stakes.weight * shortfalls(
        problem.stakes.first, problem.view.on_hosts(place).allocation
    )
    return float(lacks[place == host].sum())


def fits(problem: PlacementProblem, place: Ints) -> bool:
    """Return whether the floors fit on every host."""
    return not excess(problem.view, place).any()


@pytest.mark.parametrize("seed", range(12))
def test_scores_and_spare_capacity_equal_the_markets(seed: int) -> None:
    """Scores with and without each VM are exact on scarce, sufficient and empty hosts."""
    search = search_problem(seed)
    game, place = search.game, search.board.place
    view, given = game.view, game.view.on_hosts(place).allocation
    for host in range(4):
        there = place == host
        assert search.scores[host] == pytest.approx(shortfall_on(game, place, host))
        left = view.capacity[host] - given[there].sum(axis=0)
        assert search.estimates.spare[host] == pytest.approx(np.maximum(left, 0.0), abs=1e-9)
        assert search.estimates.floors[host] == pytest.approx(view.floor[there].sum(axis=0))
        assert search.estimates.bids[host] == pytest.approx(view.bid[there].sum(axis=0))
        load = (view.bid[there].sum(axis=0) / view.capacity[host]).max()
        assert search.estimates.load[host] == pytest.approx(load)
    for vm, host in enumerate(place.tolist()):
        gone = place.copy()
        gone[vm] = NO_HOST
        assert search.without[vm] == pytest.approx(shortfall_on(game, gone, host), abs=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_best_exchange_finds_the_most_helpful_partner(seed: int) -> None:
    """The result equals brute force; one VM must fit while the other is still on its host."""
    search = search_problem(seed)
    game, place = search.game, search.board.place
    candidates, helpful = np.ones(len(place), dtype=bool), 0
    for vm, source in enumerate(place.tolist()):
        gains: dict[int, float] = {}
        for other, host in enumerate(place.tolist()):
            swapped, first, second = place.copy(), place.copy(), place.copy()
            swapped[vm], swapped[other] = host, source
            first[vm], second[other] = host, source
            may = fits(game, swapped) and (fits(game, first) or fits(game, second))
            if host != source and may:
                gains[other] = sum(
                    shortfall_on(game, place, at) - shortfall_on(game, swapped, at)
                    for at in (source, host)
                )
        hosts = np.flatnonzero(np.arange(4) != source)
        best, gain = best_exchange(
            vm,
            source,
            hosts,
            candidates,
            search.table,
            search.stakes,
            SUM_OF_SHORTFALLS,
            search.scores,
        )
        assert bool(best == NO_HOST) is (not gains)
        if gains:
            assert gain == pytest.approx(max(gains.values()))
            assert gains[int(best)] == pytest.approx(gain)
            helpful += 1
    assert helpful > 0


@pytest.mark.parametrize("seed", range(12))
def test_error_on_another_host_is_exact(seed: int) -> None:
    """The error covers both resources, and is infinite if the floor does not fit."""
    search = search_problem(seed)
    game, place, board = search.game, search.board.place, search.board
    group, given = np.empty(40, dtype=np.int64), np.empty(40)
    for vm, source in enumerate(place.tolist()):
        for host in range(4):
            if host == source:
                continue
            moved = place.copy()
            moved[vm] = host
            error = error_on(
                vm,
                host,
                np.inf,
                board.rows,
                board.start,
                board.count,
                board.capacity,
                game.stakes,
                group,
                given,
            )
            if fits(game, moved):
                own = errors(game.stakes.first, game.view.on_hosts(moved).allocation)[vm]
                assert error == pytest.approx(float(own.max()))
            else:
                assert error == np.inf
