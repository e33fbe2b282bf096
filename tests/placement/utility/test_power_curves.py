"""Power and utility are each other's inverse, and say what a queue and a clock say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.placement.utility.powers.power_curves import LEAST_UTILITY, job_curves, service_curves
from merkatd.policies.service_queue import response_s
from tests.placement.utility.made_curves import made_curves


@given(st.integers(0, 2**32 - 1), st.floats(-3, 1))
def test_the_utility_of_the_power_for_a_utility(seed: int, utility: float) -> None:
    """It is that utility, or the greatest one."""
    curves = made_curves(np.random.default_rng(seed), 6, 3)
    wanted = np.minimum(utility, curves.most_utility)
    served = curves.most_utility > LEAST_UTILITY
    reached = curves.utility(curves.power(utility))
    assert reached[served] == pytest.approx(wanted[served], rel=1e-6, abs=1e-6)


@given(st.integers(0, 2**32 - 1), st.floats(-3, 0.99))
def test_the_slope_is_that_of_the_power(seed: int, utility: float) -> None:
    """A little more utility needs so much more power."""
    curves = made_curves(np.random.default_rng(seed), 6, 3)
    step = 1e-7
    grows = curves.most_utility > utility + step
    grown = (curves.power(utility + step) - curves.power(utility)) / step
    assert curves.slope(utility)[grows] == pytest.approx(grown[grows], rel=1e-3)
    assert (curves.slope(utility)[curves.most_utility <= utility] == 0).all()


def test_a_service_answers_as_the_queue_of_the_embedded_cloud() -> None:
    """50 requests a second of 2 percent-seconds with 200 percent of a core: 20 ms."""
    curves = service_curves(np.array([50.0]), np.array([2.0]), np.array([0.1]), np.array([400.0]))
    (utility,) = curves.utility(np.array([200.0])).tolist()
    time_s = (1 - utility) * 0.1
    assert time_s == pytest.approx(response_s(50.0, 0.0, 200.0 / 2.0))
    assert time_s == pytest.approx(0.02)


def test_a_service_without_enough_power_has_the_least_utility() -> None:
    """Requests that take 100 need more than 100."""
    curves = service_curves(np.array([50.0]), np.array([2.0]), np.array([0.1]), np.array([100.0]))
    assert curves.most_utility.tolist() == [LEAST_UTILITY]
    assert curves.utility(np.array([100.0])).tolist() == [LEAST_UTILITY]


def test_a_job_at_full_speed_has_its_greatest_utility() -> None:
    """2,000 left with at most 400, a goal in 16 s and a span of 16 s: (16 - 5) / 16."""
    values = (np.array([value]) for value in (2000.0, 5.0, 16.0, 16.0))
    curves = job_curves(*values)
    assert curves.most_utility.tolist() == [0.6875]
    assert curves.power(1.0).tolist() == [400.0]
    assert curves.utility(np.array([1000.0])).tolist() == [0.6875]
