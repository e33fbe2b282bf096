"""Charts as values: lines over the same periods; as JSON for the script, and as rows of a table."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

PER_UNIT = {"cpu": 100.0, "memory": 1024.0}
"""How many units people count as one: a core, a GiB."""
UNITS = {"cpu": "cores", "memory": "GiB", "network": "Mbit/s", "disk": "MiB/s"}
A_UNIT = {"cpu": "A core", "memory": "A GiB", "network": "A Mbit/s", "disk": "A MiB/s"}
NAMES = {"cpu": "CPU", "memory": "Memory", "network": "Network", "disk": "Disk"}
Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart: a value a period, None where there is none."""

    name: str
    values: Values
    dashed: bool = False
    """Whether it is what another line is measured against."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines with one axis."""

    title: str
    unit: str
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Charts:
    """What is drawn over the same periods, the oldest first."""

    period: Sequence[int]
    at_s: Sequence[float]
    charts: Sequence[Chart]

    @property
    def known(self) -> list[Chart]:
        """Those of which anything is known, with the lines of which anything is."""
        found = [
            Chart(one.title, one.unit, [line for line in one.lines if any_known(line.values)])
            for one in self.charts
        ]
        return [one for one in found if one.lines]

    @property
    def data(self) -> dict[str, Any]:
        """As the script reads it."""
        return {
            "period": list(self.period),
            "at_s": list(self.at_s),
            "charts": [
                {
                    "title": one.title,
                    "unit": one.unit,
                    "lines": [asdict(line) for line in one.lines],
                }
                for one in self.known
            ],
        }


def any_known(values: Values) -> bool:
    """Whether there is a value."""
    return any(value is not None for value in values)


def plain(value: float, scale: float = 1.0) -> float | None:
    """A value as JSON has it, in the unit people count in: no NaN, no infinity, few digits."""
    return float(f"{value / scale:.5g}") if math.isfinite(value) else None


def prices_of(rows: Iterable[Mapping[str, Any]], resources: Sequence[str]) -> Charts:
    """The prices of each market, of a core and a GiB."""
    at_s: dict[int, float] = {}
    found: dict[str, dict[int, Mapping[str, Any]]] = {}
    for row in rows:
        at_s[row["period"]] = row["at_s"]
        found.setdefault(row["market"], {})[row["period"]] = row
    periods = sorted(at_s)
    return Charts(
        periods,
        [at_s[period] for period in periods],
        [
            Chart(
                f"{A_UNIT[name]}, {market}" if len(found) > 1 else A_UNIT[name],
                "credits a period",
                [Line("price", [_price(known.get(period, {}), name) for period in periods])],
            )
            for market, known in found.items()
            for name in resources
        ],
    )


def _price(row: Mapping[str, Any], resource: str) -> float | None:
    price = row.get(resource)
    return None if price is None else plain(price * PER_UNIT.get(resource, 1.0))
