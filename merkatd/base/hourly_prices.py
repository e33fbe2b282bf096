"""Prices for people: credits per core-hour and per GiB-hour.

The market computes with prices of small units for a period: a percent of a core, a MiB, a Mbit/s, a
MiB/s. These depend on the length of a period, so people see prices of large units for an hour.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from merkatd.base.quantities import credits_text

_HOUR_S = 3_600.0
SMALL_UNITS: Final[Mapping[str, float]] = MappingProxyType({"cpu": 100.0, "memory": 1024.0})
"""The number of small units in a large one: percent in a core, MiB in a GiB."""
HOURLY_UNITS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cpu": "core-hour",
        "memory": "GiB-hour",
        "network": "Mbit/s-hour",
        "disk": "MiB/s-hour",
    }
)
"""What a price for people is for, by resource."""


def hourly_price(price: float | None, resource: str, interval_s: float) -> float | None:
    """Return the price of a large unit for an hour; None if no price clears the market."""
    if price is None or not math.isfinite(price) or not interval_s > 0:
        return None
    return price * SMALL_UNITS.get(resource, 1.0) * _HOUR_S / interval_s


def hourly_unit(resource: str) -> str:
    """Return the large unit of a resource for an hour, for example core-hour."""
    return HOURLY_UNITS.get(resource, f"{resource}-hour")


def price_text(price: float | None, resource: str, interval_s: float) -> str:
    """Return a price for people, for example `0.18 credits per core-hour`."""
    hourly = hourly_price(price, resource, interval_s)
    if hourly is None:
        return "no price clears the market"
    return f"{credits_text(hourly)} credits per {hourly_unit(resource)}"
