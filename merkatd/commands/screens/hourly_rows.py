"""Rows with prices for people: the daemon answers with prices of small units for a period."""

from collections.abc import Mapping
from typing import Any

from merkatd.base.hourly_prices import HOURLY_UNITS, hourly_price, hourly_unit
from merkatd.commands.ask_daemon import Ask
from merkatd.commands.terminal.output import rows_of


def interval_of(ask: Ask) -> float:
    """Return the length of a period in seconds."""
    return float(ask("status")["interval_s"])


def with_time_left(ask: Ask, answer: Any) -> list[Mapping[str, Any]]:
    """Return the rows with the time that their `lasts` periods take."""
    interval_s = interval_of(ask)
    return [
        {**row, "lasts_s": None if row["lasts"] is None else row["lasts"] * interval_s}
        for row in rows_of(answer)
    ]


def hourly_rows(answer: Any, interval_s: float) -> list[Mapping[str, Any]]:
    """Return present prices, with their trend, for an hour."""
    return [_now(row, interval_s) for row in rows_of(answer)]


def _now(row: Mapping[str, Any], interval_s: float) -> Mapping[str, Any]:
    resource = row["resource"]
    present = {
        name: hourly_price(row[name], resource, interval_s)
        for name in ("price", "before", "least", "most")
    }
    trend = [hourly_price(price, resource, interval_s) for price in row["trend"]]
    return {**row, **present, "unit": hourly_unit(resource), "trend": trend}


def past_hourly_rows(answer: Any, interval_s: float) -> list[Mapping[str, Any]]:
    """Return the prices of past periods for an hour; a period had the length that it has now."""
    return [
        {
            **row,
            **{
                resource: hourly_price(row[resource], resource, interval_s)
                for resource in HOURLY_UNITS
                if resource in row
            },
        }
        for row in rows_of(answer)
    ]


def with_hourly_prices(answer: Any) -> list[Mapping[str, Any]]:
    """Return the resources of an answer about a VM, with their prices for an hour."""
    return [
        {
            **row,
            "hourly_price": hourly_price(row["price"], row["resource"], answer["interval_s"]),
        }
        for row in rows_of(answer["resources"])
    ]
