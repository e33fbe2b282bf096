"""Prices after a step in demand, with several applications that bid by Algorithm 2."""

import numpy as np
import pytest

from merkatd.policies import vertical
from merkatd.policies.vertical import Performance, SpendingLimit, VmPosition
from simulator.experiments import plain_vertical
from simulator.experiments.price_stability import (
    HELD,
    OURS,
    PAPER,
    POLICIES,
    STEP_PERIOD,
    StabilityRun,
    run_clouds,
    settled_after,
)


@pytest.mark.parametrize("number", range(12))
def test_prices_settle(number: int) -> None:
    """On random clouds the price settles within fifteen periods, at a higher level."""
    (run,) = run_clouds([np.random.default_rng((29, number))], POLICIES[OURS])
    prices = run.prices
    after = settled_after(prices[STEP_PERIOD:])
    assert after <= 15
    held = prices[STEP_PERIOD + after : STEP_PERIOD + after + HELD]
    assert np.median(held) > np.median(prices[:STEP_PERIOD])


def test_clouds_of_one_run_do_not_affect_each_other() -> None:
    """Each cloud has the same prices alone and beside others."""

    def source(number: int) -> np.random.Generator:
        return np.random.default_rng((29, number))

    together = run_clouds([source(number) for number in range(5)], POLICIES[OURS])
    for number, run in enumerate(together):
        assert run_clouds([source(number)], POLICIES[OURS]) == [run]


def test_settled_after_counts_the_periods_of_change() -> None:
    """A price has settled when it stays within 10 %; one that never does has not settled."""
    assert settled_after([1.0] * 40) == 0
    assert settled_after([4.0, 2.0, 1.5] + [1.0] * 40) == 3
    assert settled_after([1.0, 2.0] * 40) == 80


def test_the_policy_in_use_settles_sooner_than_the_papers_at_no_higher_cost() -> None:
    """On the same clouds its applications are not too slow more often either."""

    def runs(policy: str) -> list[StabilityRun]:
        return run_clouds(
            [np.random.default_rng((29, number)) for number in range(8)], POLICIES[policy]
        )

    ours, papers = runs(OURS), runs(PAPER)

    def mean(values: list[float]) -> float:
        return sum(values) / len(values)

    def mean_settling(of: list[StabilityRun]) -> float:
        return mean([float(settled_after(run.prices[STEP_PERIOD:])) for run in of])

    assert mean_settling(ours) < mean_settling(papers)
    assert mean([run.paid for run in ours]) <= mean([run.paid for run in papers])
    assert mean([run.slow for run in ours]) <= mean([run.slow for run in papers])


def test_a_first_step_never_bids_more_than_the_papers_form() -> None:
    """In 1,000 random states with short credits, no resource gets more than it needs."""
    rng = np.random.default_rng(3)
    fewer = 0
    for _ in range(1_000):
        bid, least, most = rng.uniform(0.1, 20.0, 2), np.full(2, 0.05), np.ones(2)
        standing = VmPosition(
            bid=tuple(bid.tolist()),
            allocation=tuple(np.minimum(rng.uniform(0.0, 1.2, 2), 1.0).tolist()),
            least=tuple(least.tolist()),
            most=tuple(most.tolist()),
            keeping=tuple(rng.uniform(0.1, 20.0, 2).tolist()),
        )
        value = float(rng.uniform(0.1, 3.0))
        performance = Performance(value=value, reference=1.0, low=0.75, high=0.95)
        means = SpendingLimit(bid_min=0.01, bid_max=float(rng.uniform(bid.sum(), 3 * bid.sum())))
        mine = vertical.adapt(standing, performance, means).bid
        papers = plain_vertical.adapt(standing, performance, means).bid
        assert sum(mine) <= sum(papers) * (1 + 1e-9)
        fewer += sum(mine) < sum(papers) * (1 - 1e-9)
    assert fewer > 0


def test_the_papers_form_halves_only_a_change_of_similar_size() -> None:
    """Other changes are made in full; the policy in use halves both."""
    slow = Performance(value=1.2, reference=1.0, low=0.75, high=0.95)
    standing = VmPosition(bid=(4.0,), allocation=(0.5,), least=(0.1,), most=(1.0,), keeping=(9.0,))
    means = SpendingLimit(bid_min=0.01, bid_max=100.0)
    for last, expected in ((-4.0, 6.0), (-3.8, 6.0), (-1.0, 8.0), (4.0, 8.0)):
        trace = vertical.BidTrace(change=last, run=1, market=9.0)
        assert plain_vertical.adapt(standing, slow, means, (trace,)).bid == (expected,)
