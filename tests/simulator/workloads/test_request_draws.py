"""Drawn requests have the distributions that the papers state."""

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from merkatd.cluster import Floats, VmKind
from simulator.workloads.random_streams import StreamPurpose, stream_of
from simulator.workloads.request_draws import (
    SERVICE_RATIOS,
    MixedWorkload,
    arrivals_within,
    draw_requests,
    normal_arrivals,
    normal_times,
    poisson_arrivals,
    power_law_times,
)
from simulator.workloads.vm_requests import DAY_S, RequestsError, VmRequests, joined, until
from simulator.workloads.vm_types import PAPER_III, PAPER_IV, PAPER_IV_HOST, VM_TYPES, sizes_of
from tests.simulator.kernel.small_centers import requests

LEAST = 0.001
"""The least probability with which the right distribution gives what was drawn. Seeds are fixed."""


def _evenly(drawn: Floats, exponent: float, low: float, high: float) -> Floats:
    """Return the value of the distribution function at each lifetime."""
    power = 1.0 - exponent
    parts: Floats = (
        np.log(drawn / low) / log(high / low)
        if power == 0
        else (drawn**power - low**power) / (high**power - low**power)
    )
    return parts


def test_lifetimes_have_the_truncated_power_law() -> None:
    """Values of the distribution function are even, says the Kolmogorov-Smirnov test."""
    low, high = 60.0, 86_400.0
    for exponent in (0.5, 1.0, 2.0, 3.0):
        drawn = power_law_times(5_000, exponent, low, high, np.random.default_rng(1))
        assert stats.kstest(_evenly(drawn, exponent, low, high), stats.uniform.cdf).pvalue > LEAST
        assert low <= drawn.min()
        assert drawn.max() <= high


def test_poisson_arrivals() -> None:
    """Gaps are exponential, and counts in equal parts vary as much as their mean."""
    arrivals = poisson_arrivals(0.05, 200_000.0, np.random.default_rng(2))
    assert stats.kstest(np.diff(arrivals), stats.expon(scale=20.0).cdf).pvalue > LEAST
    counts = np.histogram(arrivals, 400, (0.0, 200_000.0))[0]
    assert counts.var() / counts.mean() == pytest.approx(1.0, abs=0.25)
    assert (np.diff(arrivals) >= 0).all()


def test_normal_arrivals() -> None:
    """Gaps are normal, and never negative."""
    random = np.random.default_rng(3)
    arrivals = normal_arrivals(4_000, 60.0, 10.0, random)
    gaps = np.diff(np.concatenate([[0.0], arrivals]))
    assert stats.kstest(gaps, stats.norm(60.0, 10.0).cdf).pvalue > LEAST
    wide = normal_times(4_000, 10.0, 20.0, random)
    cut = stats.truncnorm(-0.5, np.inf, loc=10.0, scale=20.0)
    assert wide.min() > 0
    assert stats.kstest(wide, cut.cdf).pvalue > LEAST


@pytest.mark.parametrize("ratio", SERVICE_RATIOS)
def test_a_mixed_workload(ratio: float) -> None:
    """Services are there all the time and swing; jobs arrive, demand all, and end."""
    drawn = draw_requests(MixedWorkload(count=5_500, services_per_job=ratio), 4)
    batch = drawn.is_batch
    services = 5_500 - int(batch.sum())
    assert services / int(batch.sum()) == pytest.approx(ratio, rel=1e-3)
    assert (drawn.arrival_s[~batch] == 0.0).all()
    assert np.isinf(drawn.lifetime_s[~batch]).all()
    assert (drawn.level[~batch] == 0.5).all()
    assert stats.kstest(drawn.swing[~batch], stats.uniform.cdf).pvalue > LEAST
    assert stats.kstest(drawn.phase[~batch], stats.uniform.cdf).pvalue > LEAST
    assert stats.kstest(drawn.arrival_s[batch] / DAY_S, stats.uniform.cdf).pvalue > LEAST
    assert (drawn.level[batch] == 1.0).all()
    assert (drawn.swing[batch] == 0.0).all()
    assert drawn.lifetime_s[batch].min() >= 660.0
    assert drawn.lifetime_s[batch].max() <= DAY_S
    sizes, counts = np.unique(drawn.size, axis=0, return_counts=True)
    assert sorted(sizes.tolist()) == sorted(sizes_of(PAPER_IV).tolist())
    assert stats.chisquare(counts).pvalue > LEAST
    assert (sizes_of(PAPER_IV)[drawn.names["type"]] == drawn.size).all()
    assert np.isnan(drawn.dirty_mib_s).all()


def test_lifetimes_are_drawn_apart_from_arrivals() -> None:
    """Each from the stream of its purpose."""
    drawn = draw_requests(MixedWorkload(count=200, services_per_job=0.0), 4)
    lifetimes = power_law_times(200, 2.0, 60.0, DAY_S, stream_of(4, StreamPurpose.LIFETIMES))
    order = np.argsort(drawn.arrival_s, kind="stable")
    assert (drawn.lifetime_s == np.minimum(lifetimes + 600.0, DAY_S)[order]).all()
    arrivals = arrivals_within(200, DAY_S, stream_of(4, StreamPurpose.ARRIVALS))
    assert (drawn.arrival_s == arrivals).all()


def test_type_tables() -> None:
    """The tables have the printed ratios of CPU to memory, and each type fits on the host."""
    for types in VM_TYPES.values():
        ratio = {each.name: each.cpu / each.memory_mib for each in types}
        by_category: dict[str, list[float]] = {}
        for each in types:
            by_category.setdefault(each.category, []).append(ratio[each.name])
        assert min(by_category["compute"]) > max(by_category["general"])
        assert min(by_category["general"]) > max(by_category["memory"])
    assert (sizes_of(PAPER_IV) <= PAPER_IV_HOST).all()
    assert PAPER_III[0].cpu == 1500.0
    assert PAPER_IV[3].memory_mib == 30.5 * 1024


@given(
    first=st.lists(st.integers(0, 5)).map(sorted), second=st.lists(st.integers(0, 5)).map(sorted)
)
def test_joined_requests_keep_all_in_order(first: list[int], second: list[int]) -> None:
    """Each request of both is there once, in order of arrival."""
    parts = [
        requests(arrivals, 1.0 + part, [1.0, 1.0], owner=np.full(len(arrivals), part))
        for part, arrivals in enumerate((first, second))
    ]
    both = joined(*parts)
    assert both.arrival_s.tolist() == sorted([*first, *second])
    assert sorted(zip(both.arrival_s.tolist(), both.owner.tolist(), strict=True)) == sorted(
        [(at, 0) for at in first] + [(at, 1) for at in second]
    )
    assert (both.lifetime_s == 1.0 + both.owner).all()
    assert until(both, 3.0).arrival_s.tolist() == [at for at in both.arrival_s.tolist() if at < 3]


ONE = {"arrival_s": [0.0, 1.0], "lifetime_s": 5.0, "size": [1.0, 1.0]}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"arrival_s": [1.0, 0.0]}, r"arrival_s, row 1: must not be before the row above \(got 0"),
        ({"arrival_s": [0.0, np.inf]}, r"arrival_s, row 1: must be finite"),
        ({"lifetime_s": [1.0, 0.0]}, r"lifetime_s, row 1: must be greater than 0 \(got 0"),
        ({"lifetime_s": [np.nan, 1.0]}, r"lifetime_s, row 0: must be greater than 0 \(got nan"),
        ({"size": [[1.0, 1.0], [1.0, -1.0]]}, r"size, row 1: must be greater than 0 \(got -1"),
        ({"floor": np.full((2, 2), 2.0)}, r"floor, row 0: must not exceed the size \(got 2"),
        ({"swing": np.array([0.0, 1.5])}, r"swing, row 1: must be from -1 to 1 \(got 1.5"),
        ({"kind": np.array([0, 7])}, r"kind, row 1: must be one of \[0, 1\] \(got 7"),
        ({"dirty_mib_s": np.array([-1.0, 0.0])}, r"dirty_mib_s, row 0: must be at least 0"),
        ({"level": np.zeros(3)}, r"level: must have the shape \(2,\) \(got \(3,\)\)"),
        ({"resources": ("cpu",)}, r"size: must have the shape \(2, 1\) \(got \(2, 2\)\)"),
    ],
)
def test_wrong_requests_are_reported(wrong: dict[str, object], message: str) -> None:
    """With the column, the row, the value and what is accepted."""
    with pytest.raises(RequestsError, match=message):
        requests(**{**ONE, **wrong})


def test_wrong_workloads_are_reported() -> None:
    """The same for what is drawn."""
    with pytest.raises(RequestsError, match=r"count: must be at least 0 \(got -1\)"):
        MixedWorkload(count=-1)
    with pytest.raises(RequestsError, match=r"services_per_job: must be at least 0 \(got -1\)"):
        MixedWorkload(count=1, services_per_job=-1.0)
    with pytest.raises(RequestsError, match="types: must be at least one VM type"):
        MixedWorkload(count=1, types=())
    random = np.random.default_rng(0)
    with pytest.raises(RequestsError, match=r"most_s: must be greater than least_s, 5 \(got 5\)"):
        power_law_times(1, 2.0, 5.0, 5.0, random)
    with pytest.raises(RequestsError, match=r"per_s: must be greater than 0 \(got 0\)"):
        poisson_arrivals(0.0, 1.0, random)
    assert len(draw_requests(MixedWorkload(count=0), 0)) == 0
    only = draw_requests(MixedWorkload(count=9, services_per_job=0.0), 0)
    assert (only.kind == int(VmKind.BATCH)).all()
    assert isinstance(only, VmRequests)
