"""Strategy `paper` is Algorithm 1: its plan equals one that recomputes everything, to the bit."""

import numpy as np
import pytest

from merkatd.cluster import Deploy, Migrate
from merkatd.market.market_view import market_view
from merkatd.placement import strategy_named
from merkatd.placement.base.least_load import start_market
from merkatd.placement.tabu.paper import MarketSettings, algorithm_1
from tests.clouds import cloud, crowded, hosts_table, tangled, vms_table
from tests.lengths import SOAK, shorten
from tests.placement.transcription import transcription


@pytest.mark.parametrize("seed", range(shorten(150, 60)))
def test_small_clouds_with_all_constraints_get_the_same_plan(seed: int) -> None:
    """Floors, roles, requirements, states, two markets and extreme bids give the paper's plan."""
    snapshot = tangled(seed)
    settings = MarketSettings(e_max=0.0, n_iter=8, m_max_least=4)
    for market in (0, 1):
        expected = transcription(snapshot, settings, market)
        assert algorithm_1(start_market(snapshot, market), settings).tolist() == expected.tolist()


@pytest.mark.parametrize(("hosts", "vms"), [(6, 60), (10, 120), *[(12, 200)] * SOAK])
def test_clouds_up_to_200_vms_get_the_same_plan(hosts: int, vms: int) -> None:
    """New VMs, contention and default settings except for E_max give the paper's plan."""
    settings = MarketSettings(e_max=0.0)
    for seed in range(shorten(6, 3)):
        snapshot = tangled(1000 + seed, hosts, vms) if seed % 2 else crowded(vms // 10, seed)
        expected = transcription(snapshot, settings)
        assert algorithm_1(start_market(snapshot, 0), settings).tolist() == expected.tolist()


def test_the_papers_example_spreads_out() -> None:
    """With Figure 3's VMs on one node, the two large VMs end up on a node each."""
    snapshot = cloud(
        hosts_table(np.full((3, 1), 100.0)),
        vms_table(np.zeros(5), np.array([[12.0], [12], [12], [30], [30]]), np.full((5, 1), 100.0)),
    )
    decision = strategy_named("paper").decide(snapshot)
    assert decision.allocations[:, 0] == pytest.approx([100 / 3] * 3 + [100, 100], rel=0.2)
    assert len(decision.plan.of(Migrate)) <= 5


def test_a_balanced_cloud_is_left_unchanged() -> None:
    """`e_worse` starts at the present error, so no move makes the placement worse."""
    snapshot = cloud(
        hosts_table(np.full((2, 1), 100.0)),
        vms_table(np.array([0, 1]), np.ones((2, 1)), np.full((2, 1), 200.0)),
    )
    assert len(strategy_named("paper").decide(snapshot).plan) == 0


def test_m_max_migrations_are_the_maximum() -> None:
    """The algorithm makes at most M_max migrations."""
    snapshot = crowded(20, seed=3)
    settings = MarketSettings(m_max_part=0.0, m_max_least=3, e_max=0.0)
    place = algorithm_1(start_market(snapshot, 0), settings)
    assert np.count_nonzero(place != market_view(snapshot, 0).place) <= 3


def test_new_vms_go_to_the_least_load_and_do_not_count_as_migrations() -> None:
    """Ties go to the lowest id, and each new VM counts in the load for the next."""
    snapshot = cloud(
        hosts_table(np.full((3, 1), 100.0)),
        vms_table(np.array([0, -1, -1, -1]), np.full((4, 1), 2.0), np.full((4, 1), 20.0)),
    )
    decision = strategy_named("paper").decide(snapshot)
    assert [(step.vm, step.host) for step in decision.plan.of(Deploy)] == [(1, 1), (2, 2), (3, 0)]
