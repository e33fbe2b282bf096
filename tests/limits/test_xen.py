"""Limits in the terms of Xen's credit scheduler."""

from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Limit
from merkatd.limits import NO_CAP, XEN, Credit, credit


def limit(vcpu_us: int | None, global_us: int | None, shares: int = 1024) -> Limit:
    """Return a limit of VM 1 with quotas of 100,000 us."""
    return Limit(
        period=1,
        vm=1,
        reason="",
        vcpu_quota_us=vcpu_us,
        global_quota_us=global_us,
        quota_period_us=100_000,
        shares=shares,
    )


def test_a_cap_is_in_percent_of_a_core() -> None:
    """25,000 us for each of two virtual CPUs are a cap of 50, and 20,000 us in all one of 20."""
    assert credit(limit(25_000, None), 2).cap == 50
    assert credit(limit(None, 20_000), 2).cap == 20


def test_a_cap_is_rounded_to_the_nearest() -> None:
    """A share of 50 among three virtual CPUs is a cap of 50, although its quotas give 49.998."""
    assert credit(limit(16_666, None), 3).cap == 50


def test_no_quota_is_no_cap() -> None:
    """Without a quota the cap is 0, which means no cap in Xen."""
    assert credit(limit(None, None), 2).cap == NO_CAP


def test_the_tighter_of_two_quotas_is_the_cap() -> None:
    """If both quotas are set, the smaller one applies."""
    assert credit(limit(50_000, 30_000), 2).cap == 30


def test_the_range_of_weights_is_xens() -> None:
    """The least share becomes weight 1, and the greatest 65,535."""
    assert credit(limit(1_000, None, shares=2), 1) == Credit(XEN.least, 1)
    assert credit(limit(1_000, None, shares=262_144), 1).weight == XEN.greatest


@settings(deadline=None)
@given(
    st.integers(1_000, 100_000),
    st.integers(1, 128),
    st.booleans(),
    st.integers(2, 262_144),
)
def test_caps_are_always_valid_and_never_unlimited(
    quota_us: int,
    vcpus: int,
    pinned: bool,
    shares: int,
) -> None:
    """A VM with a quota gets a cap of 1 to 100 per virtual CPU, within half a percent."""
    result = credit(
        limit(None if pinned else quota_us, quota_us if pinned else None, shares), vcpus
    )
    units = quota_us / 1_000 * (1 if pinned else vcpus)
    assert 1 <= result.cap <= 100 * vcpus
    assert abs(result.cap - units) <= 0.5
    assert 1 <= result.weight <= 65_535
