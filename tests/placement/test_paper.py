"""Strategy `paper` is Algorithm 1: the same plan, to the bit, as one that recomputes it all."""

import numpy as np
import pytest

from merkatd.cluster import Deploy, Migrate
from merkatd.market.market_view import market_view
from merkatd.placement import strategy_named
from merkatd.placement.base.least_load import start_market
from merkatd.placement.tabu.paper import MarketSettings, algorithm_1
from tests.clouds import cloud, crowded, hosts_table, tangled, vms_table
from tests.placement.transcription import transcription

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("seed", range(150))
def test_same_plan_on_small_clouds_with_everything_in_the_way(seed: int) -> None:
    """Floors, roles, requirements, states, two markets, bids over twelve orders."""
    snapshot = tangled(seed)
    settings = MarketSettings(e_max=0.0, n_iter=8, m_max_least=4)
    for market in (0, 1):
        expected = transcription(snapshot, settings, market)
        assert algorithm_1(start_market(snapshot, market), settings).tolist() == expected.tolist()


@pytest.mark.parametrize(("hosts", "vms"), [(6, 60), (10, 120), (12, 200)])
def test_same_plan_on_clouds_up_to_200_vms(hosts: int, vms: int) -> None:
    """With new VMs, contention, and the default settings but for E_max."""
    settings = MarketSettings(e_max=0.0)
    for seed in range(6):
        snapshot = tangled(1000 + seed, hosts, vms) if seed % 2 else crowded(vms // 10, seed)
        expected = transcription(snapshot, settings)
        assert algorithm_1(start_market(snapshot, 0), settings).tolist() == expected.tolist()


def test_the_papers_example_spreads_itself() -> None:
    """Figure 3's VMs on one node: the two large ones end up with a node each."""
    snapshot = cloud(
        hosts_table(np.full((3, 1), 100.0)),
        vms_table(np.zeros(5), np.array([[12.0], [12], [12], [30], [30]]), np.full((5, 1), 100.0)),
    )
    decision = strategy_named("paper").decide(snapshot, RNG)
    assert decision.allocations[:, 0] == pytest.approx([100 / 3] * 3 + [100, 100], rel=0.2)
    assert len(decision.plan.of(Migrate)) <= 5


def test_a_balanced_cloud_is_left_alone() -> None:
    """e_worse starts at the present error: nothing is moved to make things worse."""
    snapshot = cloud(
        hosts_table(np.full((2, 1), 100.0)),
        vms_table(np.array([0, 1]), np.ones((2, 1)), np.full((2, 1), 200.0)),
    )
    assert len(strategy_named("paper").decide(snapshot, RNG).plan) == 0


def test_m_max_is_an_at_most() -> None:
    """Exactly M_max migrations are allowed, not one less."""
    snapshot = crowded(20, seed=3)
    settings = MarketSettings(m_max_part=0.0, m_max_least=3, e_max=0.0)
    place = algorithm_1(start_market(snapshot, 0), settings)
    assert np.count_nonzero(place != market_view(snapshot, 0).place) <= 3


def test_new_vms_go_to_the_least_load_and_do_not_count_as_migrations() -> None:
    """Ties go to the lowest id, and each new VM sees the ones before it."""
    snapshot = cloud(
        hosts_table(np.full((3, 1), 100.0)),
        vms_table(np.array([0, -1, -1, -1]), np.full((4, 1), 2.0), np.full((4, 1), 20.0)),
    )
    decision = strategy_named("paper").decide(snapshot, RNG)
    assert [(step.vm, step.host) for step in decision.plan.of(Deploy)] == [(1, 1), (2, 2), (3, 0)]
