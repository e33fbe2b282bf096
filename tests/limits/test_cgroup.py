"""Weights of steps in words that control groups of both versions take."""

from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.limits import CGROUP, CGROUP_V1, from_cgroup, to_cgroup

SHARES = st.integers(CGROUP_V1.least, CGROUP_V1.greatest)
V2_GREATEST = 10_000


@settings(deadline=None)
@given(one=SHARES, other=SHARES)
def test_weights_keep_their_order_and_their_proportions(one: int, other: int) -> None:
    """As far as the smaller range allows: to one part of it."""
    low, high = sorted((one, other))
    assert to_cgroup(low) <= to_cgroup(high)
    assert abs(to_cgroup(high) * CGROUP_V1.greatest / V2_GREATEST - high) <= 2 * 26.3


@settings(deadline=None)
@given(shares=SHARES)
def test_both_versions_take_every_weight(shares: int) -> None:
    """Version 1 from 2 on, version 2 up to 10,000."""
    assert CGROUP_V1.least <= to_cgroup(shares) <= V2_GREATEST


@settings(deadline=None)
@given(weight=st.integers(CGROUP.least, CGROUP.greatest))
def test_there_and_back(weight: int) -> None:
    """A weight that was read is set again as it was."""
    assert to_cgroup(from_cgroup(weight)) == weight
