"""Requests over a sliding window, and percentiles from histograms."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.measurements import PERCENTILES
from controllers.monitors.traffic.request_window import (
    LONGEST_S,
    RequestWindow,
    ResponseTimes,
    Traffic,
)

SECONDS = st.floats(0.001, LONGEST_S)


def times_of(*seconds: float) -> ResponseTimes:
    """Return a histogram of these times."""
    times = ResponseTimes()
    for value in seconds:
        times.add(value)
    return times


@given(st.lists(SECONDS, min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99, 1.0]))
def test_percentiles_are_exact_to_half_a_percent(seconds: list[float], part: float) -> None:
    """They equal the sorted times at the nearest rank."""
    exact = sorted(seconds)[math.ceil(part * len(seconds) - 1e-9) - 1]
    assert times_of(*seconds).percentile_s(part) == pytest.approx(exact, rel=0.0051)
    assert times_of(*seconds).mean_s == pytest.approx(math.fsum(seconds) / len(seconds))


@given(st.lists(SECONDS, max_size=50), st.lists(SECONDS, max_size=50))
def test_histograms_add_up(some: list[float], more: list[float]) -> None:
    """VMs and looks can be merged in any order."""
    merged, other = times_of(*some), times_of(*more)
    merged.merge(other)
    together = times_of(*some, *more)
    assert (merged.counts, merged.count) == (together.counts, together.count)
    assert merged.sum_s == pytest.approx(together.sum_s)


def test_a_histogram_has_bounded_memory() -> None:
    """Its classes are few, whatever the times."""
    times = ResponseTimes()
    for number in range(200_000):
        times.add(number * LONGEST_S / 200_000)
    for number in range(200_000):
        times.add(number / 1000)
    assert len(times.counts) <= 2_100


def test_times_below_a_millisecond_are_zero() -> None:
    """Nginx rounds them so."""
    assert times_of(0.0, 0.0).percentile_s(0.99) == 0.0
    assert math.isnan(ResponseTimes().mean_s)
    assert math.isnan(ResponseTimes().percentile_s(0.5))


def test_the_window_slides() -> None:
    """Looks that ended before it no longer count, and rates are over the time that was seen."""
    window = RequestWindow(60.0)
    assert window.values() == {}
    for at_s, count in ((20.0, 100.0), (40.0, 200.0), (60.0, 600.0), (80.0, 0.0)):
        times = times_of(count / 100.0) if count else ResponseTimes()
        traffic = Traffic(arrived=count, answered=count / 2, failed=1.0, times=times)
        window.add(1, at_s, 20.0, traffic)
        window.keep([1], at_s)
    values = window.values()
    assert values["arrivals_per_s"] == pytest.approx(800.0 / 60.0)
    assert values["throughput_per_s"] == pytest.approx(400.0 / 60.0)
    assert values["failures_per_s"] == pytest.approx(3.0 / 60.0)
    assert values["response_s"] == pytest.approx(4.0)
    assert values["response_p50_s"] == pytest.approx(2.0, rel=0.005)
    assert values.keys() >= PERCENTILES.keys()


def test_vms_add_up() -> None:
    """Each VM's rate is over its own time; a VM that left no longer counts."""
    window = RequestWindow(60.0)
    window.add(1, 20.0, 20.0, Traffic(arrived=200.0, times=times_of(1.0)))
    window.add(2, 20.0, 5.0, Traffic(arrived=100.0, times=times_of(3.0)))
    window.keep([1, 2], 20.0)
    assert window.values()["arrivals_per_s"] == pytest.approx(30.0)
    assert window.values()["response_s"] == pytest.approx(2.0)
    window.keep([2], 20.0)
    assert window.values()["arrivals_per_s"] == pytest.approx(20.0)


def test_averages_of_a_proxy_are_not_averaged_again() -> None:
    """The newest covers the older ones, and gives no percentiles."""
    window = RequestWindow(60.0)
    for at_s, average_s in ((20.0, 1.0), (40.0, 3.0)):
        averages = times_of(average_s)
        window.add(1, at_s, 20.0, Traffic(arrived=20.0, averages=averages))
    window.add(1, 60.0, 20.0, Traffic(arrived=0.0))
    values = window.values()
    assert values["response_s"] == 3.0
    assert not values.keys() & PERCENTILES.keys()
