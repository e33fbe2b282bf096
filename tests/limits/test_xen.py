"""Xen's credit scheduler gets the same decision in its own words."""

from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Limit
from merkatd.limits import NO_CAP, XEN, Credit, credit


def limit(vcpu_us: int | None, global_us: int | None, shares: int = 1024) -> Limit:
    """A limit of VM 1 on quotas of 100,000 us."""
    return Limit(
        period=1,
        vm=1,
        reason="",
        vcpu_quota_us=vcpu_us,
        global_quota_us=global_us,
        quota_period_us=100_000,
        shares=shares,
    )


def test_cap_is_in_percent_of_a_core() -> None:
    """25,000 us for each of two virtual CPUs are a cap of 50, 20,000 us for the whole of 20."""
    assert credit(limit(25_000, None), 2).cap == 50
    assert credit(limit(None, 20_000), 2).cap == 20


def test_cap_is_rounded_to_the_nearest() -> None:
    """A share of 50 among three virtual CPUs is a cap of 50, though its quotas are 49.998."""
    assert credit(limit(16_666, None), 3).cap == 50


def test_no_quota_is_no_cap() -> None:
    """Without a quota the cap is 0, which is Xen's word for none."""
    assert credit(limit(None, None), 2).cap == NO_CAP


def test_both_quotas_bind() -> None:
    """Where both are set, the tighter one is the cap."""
    assert credit(limit(50_000, 30_000), 2).cap == 30


def test_weights_at_the_ends() -> None:
    """The least share is weight 1, the greatest 65,535."""
    assert credit(limit(1_000, None, shares=2), 1) == Credit(XEN.least, 1)
    assert credit(limit(1_000, None, shares=262_144), 1).weight == XEN.greatest


@settings(deadline=None)
@given(
    st.integers(1_000, 100_000),
    st.integers(1, 128),
    st.booleans(),
    st.integers(2, 262_144),
)
def test_never_free_by_rounding_and_never_refused(
    quota_us: int,
    vcpus: int,
    pinned: bool,
    shares: int,
) -> None:
    """A VM with a quota has a cap from 1 to 100 for each virtual CPU, within half a percent."""
    result = credit(
        limit(None if pinned else quota_us, quota_us if pinned else None, shares), vcpus
    )
    units = quota_us / 1_000 * (1 if pinned else vcpus)
    assert 1 <= result.cap <= 100 * vcpus
    assert abs(result.cap - units) <= 0.5
    assert 1 <= result.weight <= 65_535
