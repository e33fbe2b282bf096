"""The values of EMBEDDED that describe services: waves, wrong and extreme values."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.embedded.machines.guest_behaviour import DAY_S, PIECE_S, ArrivalWave
from merkatd.embedded.model.settings import EmbeddedSettings, HostSize
from tests.embedded.guests import few_events, is_conserved, rates, seen, service, small, start
from tests.embedded.support import Bench
from tests.lengths import shorten

HOUR_S = 3600.0


def test_a_daily_wave_has_its_peak_at_its_hour() -> None:
    """From 2 to 10 with the peak at 14:00: the mean of a day is 6, in pieces of ten minutes."""
    bench = small(2)
    (vm_id,) = start(bench, service("2:10:14", 0.01))
    at_hour = {}
    for hour in range(1, 25):
        bench.advance(hour * HOUR_S - bench.clock.seconds())
        at_hour[hour % 24] = seen(bench, vm_id)["arrivals_per_s"]
    assert at_hour[14] == pytest.approx(10, abs=0.01)
    assert at_hour[2] == pytest.approx(2, abs=0.01)
    assert at_hour[8] == pytest.approx(6, abs=0.1)
    before = seen(bench, vm_id)["arrived"]
    bench.advance(DAY_S)
    values = seen(bench, vm_id)
    assert values["arrived"] - before == pytest.approx(6 * DAY_S)
    assert is_conserved(values)


@given(
    st.floats(0, 1e6),
    st.floats(0, 1e6),
    st.floats(0, 23.99),
    st.floats(0, 3e9),
)
def test_a_wave_stays_between_its_ends(a: float, b: float, hour: float, at_s: float) -> None:
    """Its rate is constant in a piece, and the next piece begins later, but soon."""
    wave = ArrivalWave(min(a, b), max(a, b), hour)
    assert wave.least - 1e-6 <= wave.rate(at_s) <= wave.greatest + 1e-6
    change_s = wave.next_change_s(at_s)
    assert change_s > at_s
    if wave.varies:
        assert change_s - at_s <= PIECE_S
        assert wave.rate(math.floor(at_s / PIECE_S) * PIECE_S) == wave.rate(at_s)


WRONG = [
    ("", "0.1"),
    ("10", ""),
    ("ten", "0.1"),
    ("-1", "0.1"),
    ("nan", "0.1"),
    ("10", "nan"),
    ("10", "inf"),
    ("1e308", "0.1"),
    ("10", "1e308"),
    ("10", "1e-308"),
    ("10", "0"),
    ("10", "-1"),
    ("1:2", "0.1"),
    ("2:1:0", "0.1"),
    ("1:2:24", "0.1"),
    ("1:2:-1", "0.1"),
    ("1:2:nan", "0.1"),
    ("1:2:3:4", "0.1"),
    (":" * 10_000, "0.1"),
    ("9" * 10_000, "0.1"),
]


@pytest.mark.parametrize(("arrivals", "work"), WRONG)
def test_wrong_values_count_as_missing(arrivals: str, work: str) -> None:
    """The guest is an ordinary busy one, and there is no service to read."""
    bench = small(1)
    (vm_id,) = start(bench, service(arrivals, work))
    assert rates(bench, [vm_id], 1000) == pytest.approx([1.0])
    message = f"VM {vm_id} has no service: EMBEDDED must have valid ARRIVALS and REQUEST_WORK"
    refused = bench.refused("embedded.guest.service", vm_id)
    assert refused == (2048, f"[embedded.guest.service] {message}")


@given(
    st.sampled_from(["0", "1e6", "1e-300", "0:1e6:23.99", "1e-9:1e-8:0"]),
    st.sampled_from(["1e-6", "1e6", "0.1"]),
    st.sampled_from(["0", "1e-300", "1", "1e308", "-1"]),
    st.sampled_from(["0", "1e308", "64"]),
    st.sampled_from([None, 1000, 200_000]),
)
@settings(max_examples=shorten(200, 80), deadline=None)
def test_extreme_values_cost_few_events(
    arrivals: str, work: str, demand: str, memory: str, quota: int | None
) -> None:
    """A day of such a guest needs few events for each of its pieces."""
    bench = Bench(1, EmbeddedSettings(monitor_interval_s=0), HostSize(100, 8192))
    text = service(arrivals, work, 2, f', DEMAND="{demand}"')
    (vm_id,) = start(bench, text.replace("MEMORY_USE=64", f"MEMORY_USE={memory}"))
    if quota is not None:
        bench.cloud.guests.set_limits(vm_id, global_quota=quota, memory_mib=100)
    with few_events(bench, 144 * 4):
        bench.advance(DAY_S)
    values = seen(bench, vm_id)
    assert is_conserved(values)
    assert all(math.isfinite(value) for value in values.values())
