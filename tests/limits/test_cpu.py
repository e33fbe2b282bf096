"""Quotas and weights: hard, exact, and never zero."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.limits import CGROUP_V1, LEAST_QUOTA_US, CpuSettings, EnforcedLimits, quotas, weights
from merkatd.limits.cpu_limits import differs
from merkatd.market.share import share
from tests.clouds import cloud, hosts_table, vms_table
from tests.lengths import EXAMPLES

PERIOD_US = 100_000


def quota(units: float, vcpus: int, *, pinned: bool = False) -> tuple[int, int]:
    """Return the two quotas of one VM."""
    result = quotas(np.array([units]), np.array([vcpus]), np.array([pinned]), PERIOD_US)
    return int(result.vcpu_us[0]), int(result.global_us[0])


def test_a_share_becomes_a_quota_for_each_virtual_cpu() -> None:
    """A share of 50 on two virtual CPUs is 25,000 us each, and 10 is 5,000 us each.

    All threads of the VM together get 5 % more, or at least 2 % of a core more.
    """
    assert quota(50.0, 2) == (25_000, 52_500)
    assert quota(10.0, 2) == (5_000, 12_000)


def test_a_pinned_vm_has_one_quota() -> None:
    """With pinned virtual CPUs, shares of 50 and 120 are quotas of 50,000 and 120,000 us."""
    assert quota(50.0, 2, pinned=True) == (-1, 50_000)
    assert quota(120.0, 2, pinned=True) == (-1, 120_000)


def test_a_vm_at_its_full_size_is_not_slowed() -> None:
    """It gets all of each virtual CPU, even if its share is larger."""
    assert quota(200.0, 2) == (100_000, 210_000)
    assert quota(1e12, 2) == (100_000, 210_000)
    assert quota(1e12, 2, pinned=True) == (-1, 200_000)


def test_a_share_of_zero_gets_the_least_quota() -> None:
    """Hosts accept no quota below 1,000 us, so a share of zero is raised to it."""
    assert quota(0.0, 1) == (LEAST_QUOTA_US, 3_000)
    assert quota(0.0, 4) == (LEAST_QUOTA_US, 3_000)
    assert quota(0.0, 4, pinned=True) == (-1, LEAST_QUOTA_US)


def test_many_virtual_cpus_gain_nothing() -> None:
    """Each gets at least 1,000 us; together they get the VM's share and its helpers'."""
    assert quota(0.0, 256) == (LEAST_QUOTA_US, 3_000)
    assert quota(2.5, 256) == (LEAST_QUOTA_US, 4_500)
    assert quota(100.0, 256) == (LEAST_QUOTA_US, 105_000)


def test_an_unknown_number_of_virtual_cpus_counts_as_one() -> None:
    """A VM without a known number of virtual CPUs has a quota for one."""
    assert quota(30.0, 0) == (30_000, 32_000)


def test_quotas_scale_with_the_quota_period() -> None:
    """A quota is a fraction of its period."""
    result = quotas(np.array([50.0]), np.array([1]), np.array([False]), 20_000)
    assert result.vcpu_us.tolist() == [10_000]
    assert result.units(np.array([1]), 20_000).tolist() == [50.0]


@settings(max_examples=EXAMPLES)
@given(
    st.lists(
        st.tuples(st.floats(0, 1e12), st.integers(1, 64), st.booleans()), min_size=1, max_size=30
    ),
    st.floats(0, 1e5),
)
def test_quotas_of_a_host_respect_its_capacity(
    vms: list[tuple[float, int, bool]], capacity: float
) -> None:
    """Their sum exceeds the capacity by at most 1 % and the least quotas of helpers.

    Only VMs with many virtual CPUs or a small share are raised; all others get exactly their share.
    """
    bid = np.array([vm[0] for vm in vms])
    vcpus = np.array([vm[1] for vm in vms])
    pinned = np.array([vm[2] for vm in vms])
    nothing = np.zeros(len(vms))
    cap = 100.0 * vcpus
    pool = np.zeros(len(vms), dtype=np.int64)
    given_units = share(bid, nothing, cap, pool, np.array([capacity])).allocation
    result = quotas(given_units, vcpus, pinned, PERIOD_US)
    units = result.units(vcpus, PERIOD_US)
    lifted = units > given_units + 1e-6
    lowest = np.maximum(given_units, 1.0)
    beyond = np.where(pinned, 0.0, np.maximum(lowest / 20, 2.0)) + lowest - given_units
    assert (units <= given_units + beyond + 1e-6).all()
    assert units.sum() <= capacity * (1 + 1e-9) + 1e-6 + beyond[lifted].sum()


@settings(max_examples=EXAMPLES)
@given(st.floats(0, 6400), st.integers(1, 64), st.booleans())
def test_a_quota_equals_the_share(units: float, vcpus: int, pinned: bool) -> None:
    """Rounding removes less than a microsecond per quota, and the whole VM always has one."""
    result = quotas(np.array([units]), np.array([vcpus]), np.array([pinned]), PERIOD_US)
    assert (result.vcpu_us[0] > 0) != pinned
    if not pinned:
        together = int(result.vcpu_us[0]) * vcpus
        quota_us = max(units, 1.0) * 1_000
        assert result.global_us[0] <= max(quota_us * 1.05, quota_us + 2_000) + 1e-6
        assert together < result.global_us[0] or units < vcpus
    if units >= vcpus or pinned:
        expected = min(max(units, 1.0), 100.0 * vcpus)
        assert abs(result.units(np.array([vcpus]), PERIOD_US)[0] - expected) <= vcpus * 0.001 + 1e-9


@pytest.mark.parametrize(("off_us", "due"), [(1_000, False), (1_001, True)])
def test_a_quota_at_the_edge_of_its_band_is_kept(off_us: int, due: bool) -> None:
    """A band of one unit is 1,000 us of a period of 100,000 us."""
    vcpus = np.array([1])
    wanted = quotas(np.array([50.0]), vcpus, np.array([True]), PERIOD_US)
    snapshot = cloud(hosts_table(np.ones((1, 2))), vms_table([0], [[1.0, 1.0]], [[100.0, 1.0]]))
    known = replace(EnforcedLimits.nothing(snapshot), global_quota_us=wanted.global_us + off_us)
    bands = CpuSettings(band_units=1.0, band_part=0.0)
    assert differs(wanted, np.array([100]), vcpus, known, bands).quota.tolist() == [due]


def test_weights_follow_bids() -> None:
    """Bids of 1 and 3 divide a host 1:3, and each host has a scale of its own."""
    weight = weights(np.array([1.0, 3.0, 7.0]), np.array([0, 0, 1]), 2)
    assert abs(weight[1] / weight[0] - 3.0) < 1e-4
    assert weight[2] == CGROUP_V1.greatest


def test_vms_without_bids_get_the_least_weight() -> None:
    """VMs on no host get it too, and no VMs get no weights."""
    assert weights(np.zeros(2), np.zeros(2, dtype=np.int64), 1).tolist() == [2, 2]
    assert weights(np.array([0.0, 5.0, 5.0]), np.array([0, 0, -1]), 1).tolist() == [2, 262_144, 2]
    assert weights(np.zeros(0), np.zeros(0, dtype=np.int64), 0).tolist() == []


@settings(max_examples=EXAMPLES)
@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=20))
def test_weights_stay_in_range_and_in_proportion(bids: list[float]) -> None:
    """Weights are 2 to 262,144, in the order of the bids, exact to half a step."""
    bid = np.array(bids)
    weight = weights(bid, np.zeros(len(bid), dtype=np.int64), 1)
    assert weight.min() >= 2
    assert weight.max() <= 262_144
    if bid.max() > 0:
        exact = bid / bid.max() * 262_144
        assert (np.abs(weight - np.maximum(exact, 2)) <= 0.5).all()


@settings(max_examples=EXAMPLES)
@given(
    st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20),
    st.floats(1e-6, 1e6),
)
def test_scaling_all_bids_keeps_the_weights(bids: list[float], factor: float) -> None:
    """Only proportions count, up to one step of rounding."""
    host = np.zeros(len(bids), dtype=np.int64)
    unscaled = weights(np.array(bids), host, 1)
    other = weights(np.array(bids) * factor, host, 1)
    assert (np.abs(unscaled - other) <= 1).all()
