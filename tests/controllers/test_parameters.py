"""Numbers of a tenant are used within their bounds, whatever a stored template contains."""

from math import inf, isfinite, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.monitors.monitor import Monitor
from merkatd.base.parameter_bounds import NUMBERS, number, problems
from merkatd.policies.deadline import least_part
from merkatd.protocol.platform_messages import ClusterTerms
from merkatd.protocol.platform_messages import MonitorTerms as Chosen
from tests.bus.rig import assignment

ANYTHING: Any = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)


@pytest.mark.parametrize("every_s", [0, -1, nan, -inf, 1e-9, 10**400, "", "0", None, [], True])
def test_a_monitor_never_spins(every_s: Any) -> None:
    """Stored templates, and callers without one, may contain any value."""
    terms = ClusterTerms(
        name="workers",
        least=1,
        most=1,
        floor={},
        ceiling={},
        monitor=Chosen(kind="steps", parameters={"every_s": every_s}),
    )
    monitor = Monitor(assignment(), terms, hand=None)  # type: ignore[arg-type]
    assert 1.0 <= monitor.every_s <= 86_400.0


@given(st.sampled_from(sorted(NUMBERS)), ANYTHING)
def test_a_number_is_always_within_its_bounds(name: str, value: Any) -> None:
    """An accepted number is used unchanged."""
    parameter, known = number({name: value}, name), NUMBERS[name]
    assert isfinite(parameter)
    assert known.least <= parameter <= known.most
    if not [*problems({name: value})]:
        assert parameter == value


@pytest.mark.parametrize("part", ["x", None, nan, 7, -3, {}])
def test_the_least_part_is_between_zero_and_one(part: Any) -> None:
    """The daemon reads it in each period."""
    part_asked = least_part("full_performance", {"least_part": part})
    assert part_asked is not None
    assert 0.0 <= part_asked <= 1.0
