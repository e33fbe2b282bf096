"""Quantities are read with their units, and survive writing and reading."""

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.base.quantities import UNITS, Unit, key_of, unit_of


def unit(name: str) -> Unit:
    """Return the unit of a setting of this name."""
    unit = unit_of(name)
    assert unit is not None
    return unit


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("interval_s", "60s", 60.0),
        ("interval_s", "1.5m", 90.0),
        ("interval_s", "250ms", 0.25),
        ("interval_s", "2 h", 7200.0),
        ("interval_s", "1d", 86_400.0),
        ("quota_us", "100ms", 100_000),
        ("quota_us", "1s", 1_000_000),
        ("memory_mib", "2GiB", 2048),
        ("memory_mib", "512KiB", 0.5),
        ("memory_mib", "1TiB", 1_048_576),
        ("balloon_mib_s", "170MiB/s", 170),
        ("m_max_part", "10%", 0.1),
        ("m_max_part", "2%", 0.02),
        ("m_max_part", "0.5%", 0.005),
    ],
)
def test_a_quantity_is_read_in_the_settings_own_unit(name: str, text: str, value: float) -> None:
    """The suffix of the setting's name is the unit."""
    assert float(unit(name).read(text)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [(60.0, "1m"), (90.0, "90s"), (0.25, "250ms"), (7200.0, "2h"), (0.0, "0s"), (1e-7, "1e-7s")],
)
def test_a_duration_is_written_in_the_largest_fitting_unit(value: float, text: str) -> None:
    """It has no fraction if possible."""
    assert unit("interval_s").write(value) == text


@pytest.mark.parametrize(
    "text", ["", "60", "s", "60 seconds", "-1s", "6x", "1e9999s", "nans", "60s 1", "٣s", "1_0s"]
)
def test_an_invalid_duration_is_an_error_with_an_example(text: str) -> None:
    """The message names the accepted units."""
    with pytest.raises(ValueError, match=r"is not a duration; .*us, ms, s, m, h, d, .*\"60s\""):
        unit("interval_s").read(text)


def test_decimal_sizes_are_rejected() -> None:
    """Many readers would take GB for GiB."""
    with pytest.raises(ValueError, match="KiB, MiB, GiB, TiB"):
        unit("memory_mib").read("2GB")


@settings(deadline=None)
@given(st.sampled_from(UNITS), st.floats(0, 1e15, allow_subnormal=False) | st.integers(0, 2**53))
def test_written_quantities_are_read_unchanged(unit: Unit, value: float) -> None:
    """Writing and reading lose no bit."""
    read = unit.read(unit.write(value))
    assert (read if isinstance(value, int) else float(read)) == value


@settings(deadline=None)
@given(st.sampled_from(UNITS), st.text(max_size=20))
def test_garbage_is_a_value_error(unit: Unit, text: str) -> None:
    """Any text is a quantity or raises `ValueError`."""
    with suppress(ValueError):
        assert isinstance(unit.read(text), Fraction)


def test_a_key_has_no_suffix_except_for_fractions() -> None:
    """A fraction often exists beside a quantity of the same name."""
    names = ("interval_s", "margin_mib", "margin_part", "e_max", "quota_period_us")
    assert [key_of(name) for name in names] == [
        "interval",
        "margin",
        "margin_part",
        "e_max",
        "quota_period",
    ]
