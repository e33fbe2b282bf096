"""Credits, durations, times and prices have one format in the whole project."""

import math
import re
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.base.hourly_prices import hourly_price, price_text
from merkatd.base.quantities import credits_text, duration_text, exact_credits_text, time_text
from merkatd.web.layout import widgets

_SIZES = {"d": 86_400.0, "h": 3_600.0, "min": 60.0, "s": 1.0}


@given(st.floats(0, 3e8))
def test_a_duration_reads_as_its_value(seconds: float) -> None:
    """Its one or two parts are within a tenth of it, and no smaller unit is full."""
    parts = re.findall(r"([\d.e+-]+) (d|h|min|s)", duration_text(seconds))
    assert 1 <= len(parts) <= 2
    read = sum(float(number) * _SIZES[unit] for number, unit in parts)
    assert read == pytest.approx(seconds, rel=0.1, abs=1e-3)
    if len(parts) == 2:
        assert float(parts[1][0]) * _SIZES[parts[1][1]] < _SIZES[parts[0][1]]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "0.25 s"),
        (14, "14 s"),
        (59.96, "1 min"),
        (125, "2 min 5 s"),
        (3_600, "1 h"),
        (7_500, "2 h 5 min"),
        (36_060, "10 h"),
        (90_000, "1 d 1 h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    """Below ten of the largest unit, the next one is there, too."""
    assert duration_text(seconds) == text


@given(st.floats(-1e15, 1e15))
def test_credits_have_four_digits_and_no_exponent(amount: float) -> None:
    """From 1,000 on they are whole; less than a tenth of a micro-credit is 0."""
    text = credits_text(amount)
    assert re.fullmatch(r"-?[\d,]+(\.\d+)?", text), text
    read = float(text.replace(",", ""))
    assert read == pytest.approx(amount, rel=6e-4, abs=1e-7)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (1e-9, "0"),
        (1.234e-5, "0.00001234"),
        (2.5, "2.5"),
        (999.96, "1,000"),
        (-3e6, "-3,000,000"),
    ],
)
def test_credits_on_the_web_page_are_those_of_the_commands(amount: float, text: str) -> None:
    """A missing amount is a dash there."""
    assert credits_text(amount) == widgets.credits_text(amount) == text
    assert widgets.credits_text(None) == "\N{EN DASH}"


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let local time be that of Berlin."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
def test_times_have_a_date_and_a_zone() -> None:
    """In commands it is the zone of the shell, also in summer, and on the web page UTC."""
    assert time_text(1_767_225_600) == "2026-01-01 01:00:00 CET"
    assert time_text(1_782_864_000) == "2026-07-01 02:00:00 CEST"
    assert ">2026-01-01 00:00:00 UTC<" in str(widgets.moment(1_767_225_600))


@given(st.floats(1e-9, 1e6), st.sampled_from([10.0, 20.0, 60.0, 3600.0]))
def test_an_hourly_price_is_what_an_hour_costs(price: float, interval_s: float) -> None:
    """A core has a hundred percent, and a GiB 1,024 MiB, in each period of the hour."""
    periods = 3600 / interval_s
    assert hourly_price(price, "cpu", interval_s) == pytest.approx(price * 100 * periods)
    assert hourly_price(price, "memory", interval_s) == pytest.approx(price * 1024 * periods)
    assert hourly_price(price, "network", interval_s) == pytest.approx(price * periods)


def test_prices_say_their_unit() -> None:
    """A missing price is reported, too."""
    assert price_text(0.0001, "cpu", 60.0) == "0.6 credits per core-hour"
    assert price_text(0.001, "memory", 3600.0) == "1.024 credits per GiB-hour"
    assert price_text(None, "cpu", 60.0) == "no price clears the market"
    assert price_text(math.inf, "cpu", 60.0) == "no price clears the market"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.5, "0.5"), (4e12, "4,000,000,000,000"), (1234.000001, "1,234.000001")],
)
def test_exact_credits_are_read_back(value: float, text: str) -> None:
    """Each micro-credit counts, without an exponent."""
    assert exact_credits_text(value) == text
    assert float(text.replace(",", "")) == value
