"""Prices after a step in demand, where several applications bid by Algorithm 2."""

import numpy as np
import pytest

from simulator.experiments.settling import HELD, STEP_PERIOD, prices_of, settled_after


@pytest.mark.parametrize("number", range(12))
def test_prices_settle(number: int) -> None:
    """On random clouds: the price stays where it is within fifteen periods, and at a higher one."""
    prices = prices_of(np.random.default_rng((29, number)))
    after = settled_after(prices[STEP_PERIOD:])
    assert after <= 15
    held = prices[STEP_PERIOD + after : STEP_PERIOD + after + HELD]
    assert np.median(held) > np.median(prices[:STEP_PERIOD])


def test_what_settling_is() -> None:
    """From when on a price stays within a tenth of itself; one that never does has not settled."""
    assert settled_after([1.0] * 40) == 0
    assert settled_after([4.0, 2.0, 1.5] + [1.0] * 40) == 3
    assert settled_after([1.0, 2.0] * 40) == 80
