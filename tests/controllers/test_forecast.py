"""Forecasts of prices, and what they are worth beside the naive one."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.forecast import best, error, naive, score, smoothed

prices = st.lists(st.floats(0.0, 1e6), min_size=1, max_size=40)


def settling(seed: int) -> list[float]:
    """Prices that follow a demand which comes and goes, as bids halve their way toward it."""
    rng = np.random.default_rng(seed)
    price, found = 1.0, []
    demand = 1.0
    for row in range(200):
        if row % 20 == 0:
            demand = float(rng.uniform(0.5, 8.0))
        price += 0.2 * (demand - price) + float(rng.normal(0.0, 0.01))
        found.append(price)
    return found


def noisy(seed: int) -> list[float]:
    """Prices that are as likely above as below one value."""
    return [1.0 + float(one) for one in np.random.default_rng(seed).uniform(-0.3, 0.3, 200)]


@given(prices, st.integers(1, 20))
def test_a_forecast_is_a_price(known: list[float], ahead: int) -> None:
    """Finite and never negative, however far ahead."""
    for forecast in (naive, smoothed, best):
        assert 0.0 <= forecast(known, ahead) < inf


@given(st.floats(0.0, 1e6), st.integers(1, 40), st.integers(1, 20))
def test_a_price_that_stands_still_is_forecast(price: float, count: int, ahead: int) -> None:
    """To the last bits of a float."""
    assert smoothed([price] * count, ahead) == pytest.approx(price, abs=1e-9)
    assert best([price] * count, ahead) == pytest.approx(price, abs=1e-9)


def test_a_rise_is_carried_on_but_not_for_ever() -> None:
    """Its trend runs out."""
    rising = [float(row) for row in range(30)]
    near, far, farther = (smoothed(rising, ahead) for ahead in (1, 20, 40))
    assert rising[-1] < near < far
    assert farther - far < 0.1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ahead", [3, 5])
def test_it_beats_the_naive_one_where_prices_settle(seed: int, ahead: int) -> None:
    """By a tenth at least some periods ahead, which is what a resumption waits for."""
    assert score(smoothed, settling(seed), ahead) < 0.9
    assert score(best, settling(seed), ahead) < 0.9


@pytest.mark.parametrize("seed", range(5))
def test_it_beats_the_naive_one_on_noise(seed: int) -> None:
    """Which takes every swing for the truth."""
    assert score(smoothed, noisy(seed), 1) < 0.95


def test_on_a_price_that_jumps_about_the_choice_is_no_worse_than_either() -> None:
    """A walk at random can't be forecast: the naive one is hard to beat there."""
    rng = np.random.default_rng(1)
    walk = [50.0 + float(one) for one in np.cumsum(rng.normal(0.0, 1.0, 300))]
    assert error(best, walk, 1) <= 1.05 * min(error(naive, walk, 1), error(smoothed, walk, 1))


def test_scores_without_errors() -> None:
    """Where the naive one is never wrong nothing can be better."""
    assert score(smoothed, [2.0] * 20, 1) == 1.0
    assert score(lambda _known, _ahead: 3.0, [2.0] * 20, 1) == inf
    assert error(naive, [1.0], 1) == inf
    with pytest.raises(ValueError, match="at least one"):
        best([], 1)
