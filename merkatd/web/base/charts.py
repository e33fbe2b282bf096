"""Charts of the last periods: prices, VMs, hosts, tenants, platforms."""

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from merkatd.base.hourly_prices import HOURLY_UNITS, SMALL_UNITS, hourly_price, hourly_unit
from merkatd.cluster import Bools
from merkatd.service.market.balance_history import BalanceChanges
from merkatd.service.market.prices import PastPriceRow
from merkatd.web.base.period_memory import PeriodRecord

PER_UNIT = SMALL_UNITS
"""The units in a displayed unit: in a core, in a GiB."""
UNITS = {"cpu": "cores", "memory": "GiB", "network": "Mbit/s", "disk": "MiB/s"}
A_UNIT = {name: f"A {hourly_unit(name)}" for name in HOURLY_UNITS}
NAMES = {"cpu": "CPU", "memory": "Memory", "network": "Network", "disk": "Disk"}
Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class ChartLine:
    """A line of a chart: a value for each period, None if it is unknown."""

    name: str
    values: Values
    dashed: bool = False
    """Whether the line is the reference for another line."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines with a common axis."""

    title: str
    unit: str
    lines: Sequence[ChartLine]


@dataclass(frozen=True, slots=True)
class Charts:
    """Charts of the same periods, the oldest period first."""

    period: Sequence[int]
    at_s: Sequence[float]
    charts: Sequence[Chart]

    @property
    def known(self) -> list[Chart]:
        """Return the charts that have a known value, with only their lines that have one."""
        charts = [
            Chart(chart.title, chart.unit, [line for line in chart.lines if any_known(line.values)])
            for chart in self.charts
        ]
        return [chart for chart in charts if chart.lines]

    @property
    def data(self) -> dict[str, Any]:
        """Return the data that the page's script reads."""
        return {
            "period": list(self.period),
            "at_s": list(self.at_s),
            "charts": [
                {
                    "title": chart.title,
                    "unit": chart.unit,
                    "lines": [asdict(line) for line in chart.lines],
                }
                for chart in self.known
            ],
        }


def any_known(values: Values) -> bool:
    """Return whether any value is known."""
    return any(value is not None for value in values)


def plain(value: float, scale: float = 1.0) -> float | None:
    """Return a value for JSON in its displayed unit, with five digits; None unless it is finite."""
    return float(f"{value / scale:.5g}") if math.isfinite(value) else None


def prices_of(
    rows: Iterable[PastPriceRow],
    resources: Sequence[str],
    chosen: AbstractSet[str],
    interval_s: float,
) -> Charts:
    """Return charts of the prices of the chosen markets, of a core-hour and of a GiB-hour.

    The charts name their market if there are several.
    """
    at_s: dict[int, float] = {}
    prices: dict[str, dict[int, Mapping[str, float | None]]] = {}
    for row in rows:
        at_s[row.period] = row.at_s
        prices.setdefault(row.market, {})[row.period] = row.prices
    periods = sorted(at_s)
    return Charts(
        periods,
        [at_s[period] for period in periods],
        [
            Chart(
                f"{A_UNIT[name]}, {market}" if len(prices) > 1 else A_UNIT[name],
                "credits",
                [
                    ChartLine(
                        "price",
                        [_price(known.get(period, {}), name, interval_s) for period in periods],
                    )
                ],
            )
            for market, known in prices.items()
            if market in chosen
            for name in resources
        ],
    )


def _price(prices: Mapping[str, float | None], resource: str, interval_s: float) -> float | None:
    price = hourly_price(prices.get(resource), resource, interval_s)
    return None if price is None else plain(price)


_SPARSE = 2.0
"""The periods for each one shown, from which the shown ones count as not consecutive."""
CREDITS = "credits a period"
NO_ONES = -2
"""An id that no application has."""


def of_vm(moments: Sequence[PeriodRecord], vm: int, owner: int, resources: Sequence[str]) -> Charts:
    """Return charts of the VM's allocation, use, bid and costs while it had this owner."""
    rows = [(moment, moment.row(vm)) for moment in moments]
    there = [
        (moment, at) for moment, at in rows if at is not None and int(moment.owner[at]) == owner
    ]

    def column(name: str, place: int) -> Values:
        scale = PER_UNIT.get(resources[place], 1.0)
        return [plain(getattr(moment, name)[at, place], scale) for moment, at in there]

    charts = [
        Chart(
            NAMES[resource],
            UNITS[resource],
            [
                ChartLine("gets", column("given", place)),
                ChartLine("uses", _before(there, column("used", place))),
            ],
        )
        for place, resource in enumerate(resources)
    ]
    bids = [plain(moment.bid[at].sum()) for moment, at in there]
    pays = [plain(moment.cost[at]) for moment, at in there]
    charts.append(
        Chart("Money", CREDITS, [ChartLine("pays", pays), ChartLine("bids", bids, dashed=True)])
    )
    return _over([moment for moment, _ in there], charts)


def of_host(
    moments: Sequence[PeriodRecord], host: int, owner: int | None, resources: Sequence[str]
) -> Charts:
    """Return charts of a host's capacity, and of its allocations to an owner or to all VMs."""
    rows = [(moment, moment.host_row(host)) for moment in moments]
    there = [(moment, at) for moment, at in rows if at is not None]
    known = [moment for moment, _ in there]
    here = [
        (moment.host == host) & (True if owner is None else moment.owner == owner)
        for moment in known
    ]
    charts = []
    for place, resource in enumerate(resources):
        scale = PER_UNIT.get(resource, 1.0)
        capacity = [plain(moment.whole[at, place], scale) for moment, at in there]
        given = ChartLine("given" if owner is None else "yours", _given(known, here, place, scale))
        charts.append(
            Chart(
                NAMES[resource], UNITS[resource], [given, ChartLine("has", capacity, dashed=True)]
            )
        )
    charts.append(Chart("Money", CREDITS, [ChartLine("its VMs pay", _cost(known, here))]))
    return _over(known, charts)


def of_tenant(
    moments: Sequence[PeriodRecord],
    owner: int,
    changes: BalanceChanges,
    resources: Sequence[str],
) -> Charts:
    """Return charts of a tenant's balance, bids, costs and allocations."""
    held = ChartLine("left", _balances([moment.at_s for moment in moments], changes))
    mine = [moment.owner == owner for moment in moments]
    return _over(moments, [*_together(moments, mine, resources), Chart("Credits", "left", [held])])


def of_platform(
    moments: Sequence[PeriodRecord],
    platform: int,
    application: int | None,
    resources: Sequence[str],
) -> Charts:
    """Return charts of a platform's progress, and of its VMs' bids, costs and allocations."""
    goals = [
        next((goal for goal in moment.goals if goal.platform == platform), None)
        for moment in moments
    ]
    theirs = NO_ONES if application is None else application
    began = (
        goal is not None or (moment.application == theirs).any()
        for moment, goal in zip(moments, goals, strict=True)
    )
    first = next((at for at, there in enumerate(began) if there), len(goals))
    known = moments[first:]
    pairs = list(zip(known, goals[first:], strict=True))
    done = [None if goal is None else _percent(goal.done) for _, goal in pairs]
    passed = [
        None if goal is None else _percent(goal.passed(moment.at_s)) for moment, goal in pairs
    ]
    charts = [
        Chart(
            "Its work",
            "percent",
            [ChartLine("done", done), ChartLine("of its time", passed, dashed=True)],
        )
    ]
    if application is not None:
        charts += _together(
            known, [moment.application == application for moment in known], resources
        )
    return _over(known, charts)


def _together(
    moments: Sequence[PeriodRecord], rows: Sequence[Bools], resources: Sequence[str]
) -> list[Chart]:
    """Return charts of the summed bids, costs and allocations of the VMs in these rows."""
    bids = [plain(moment.bid[some].sum()) for moment, some in zip(moments, rows, strict=True)]
    money = [ChartLine("pays", _cost(moments, rows)), ChartLine("bids", bids, dashed=True)]
    return [
        Chart("Money", CREDITS, money),
        *(
            Chart(
                NAMES[resource],
                UNITS[resource],
                [ChartLine("gets", _given(moments, rows, place, PER_UNIT.get(resource, 1.0)))],
            )
            for place, resource in enumerate(resources)
        ),
    ]


def _given(
    moments: Sequence[PeriodRecord], rows: Sequence[Bools], place: int, scale: float
) -> Values:
    return [
        plain(moment.given[some, place].sum(), scale)
        for moment, some in zip(moments, rows, strict=True)
    ]


def _cost(moments: Sequence[PeriodRecord], rows: Sequence[Bools]) -> Values:
    return [plain(moment.cost[some].sum()) for moment, some in zip(moments, rows, strict=True)]


def _balances(at_s: Sequence[float], changes: BalanceChanges) -> Values:
    """Return the balance at these times: the present balance minus all later changes."""
    times = np.array([movement.at_s for movement in changes.movements])
    order = np.argsort(times)
    after = np.cumsum(np.array([movement.credits for movement in changes.movements])[order][::-1])[
        ::-1
    ]
    later = np.append(after, 0.0)[np.searchsorted(times[order], at_s, side="right")]
    return [plain(changes.credits - float(change)) for change in later]


def _before(there: Sequence[tuple[PeriodRecord, int]], values: Values) -> Values:
    """Return values moved to the period before: each period measures the use in the one before.

    The last value is None, because it is not measured yet. Periods that are not consecutive, as in
    the charts of a month, keep their values.
    """
    periods = [moment.period for moment, _ in there]
    if periods and periods[-1] - periods[0] > _SPARSE * len(periods):
        return values
    value_of_period = {period - 1: value for period, value in zip(periods, values, strict=True)}
    return [value_of_period.get(period) for period in periods]


def _percent(part: float | None) -> float | None:
    return None if part is None else plain(min(max(part, 0.0), 1.0), 0.01)


def _over(moments: Sequence[PeriodRecord], charts: Sequence[Chart]) -> Charts:
    return Charts(
        [moment.period for moment in moments], [moment.at_s for moment in moments], charts
    )
