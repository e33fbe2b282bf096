"""Weights of steps in values that control groups of both versions accept."""

from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.limits import CGROUP, CGROUP_V1, from_cgroup, to_cgroup

SHARES = st.integers(CGROUP_V1.least, CGROUP_V1.greatest)
V2_GREATEST = 10_000


@settings(deadline=None)
@given(first=SHARES, second=SHARES)
def test_weights_keep_their_order_and_proportions(first: int, second: int) -> None:
    """Proportions are exact to one step of the smaller range."""
    low, high = sorted((first, second))
    assert to_cgroup(low) <= to_cgroup(high)
    assert abs(to_cgroup(high) * CGROUP_V1.greatest / V2_GREATEST - high) <= 2 * 26.3


@settings(deadline=None)
@given(shares=SHARES)
def test_both_versions_accept_every_weight(shares: int) -> None:
    """Weights stay between 2, the least of version 1, and 10,000, the most of version 2."""
    assert CGROUP_V1.least <= to_cgroup(shares) <= V2_GREATEST


@settings(deadline=None)
@given(weight=st.integers(CGROUP.least, CGROUP.greatest))
def test_weights_survive_conversion_in_both_directions(weight: int) -> None:
    """A weight that was read is set again unchanged."""
    assert to_cgroup(from_cgroup(weight)) == weight


def test_the_greatest_and_the_least_weight_stay_the_greatest_and_the_least() -> None:
    """The kernel refuses a weight above 10,000."""
    assert to_cgroup(CGROUP_V1.greatest) == V2_GREATEST
    assert to_cgroup(CGROUP_V1.least) == CGROUP_V1.least
