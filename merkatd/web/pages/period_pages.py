"""The pages of prices, periods and decisions."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from merkatd.base.hourly_prices import hourly_price
from merkatd.service.market.past_periods import PastPeriod, no_period
from merkatd.service.market.step_history import StepRow
from merkatd.web.base.charts import A_UNIT, NAMES
from merkatd.web.base.period_memory import PeriodRecord, moment_before
from merkatd.web.base.responses import PageResponse
from merkatd.web.base.routes import PageRequest, route
from merkatd.web.layout.history_panels import price_charts, range_links
from merkatd.web.layout.html import Markup, Part, element
from merkatd.web.layout.page_frame import page_in_frame, panel
from merkatd.web.layout.row_lists import RowFields, chosen_rows, page_of_rows
from merkatd.web.layout.widgets import (
    NONE,
    HeadLinks,
    amount,
    credits_text,
    facts,
    link,
    moment,
    steps_table,
    table,
    tenant,
)
from merkatd.web.pages import visible_rows
from merkatd.web.pages.visible_rows import steps

_SHOWN_STEPS = 200
STEP_FIELDS: RowFields[StepRow] = RowFields(
    text=lambda row: f"{row.name or ''} VM {row.vm} {row.source} {row.host} {row.reason}",
    orders={
        "Period": lambda row: row.period,
        "Step": lambda row: row.kind,
        "VM": lambda row: row.name,
        "Host": lambda row: row.host,
    },
    numbers=("Period",),
    filters={"step": lambda row: row.kind, "result": lambda row: row.state},
)


@route("GET", "/decisions")
async def decisions(request: PageRequest) -> PageResponse:
    """Return the page of the newest decisions."""
    decided = await steps(request, _SHOWN_STEPS)

    def shown(rows: Sequence[StepRow], links: HeadLinks) -> Part:
        return steps_table(rows, visible_rows.host_ids(request), links=links)

    rows = chosen_rows(request, decided, shown, STEP_FIELDS, "decision")
    return await page_in_frame(
        request,
        "Decisions",
        element("h1", "Decisions"),
        element("p", element("a", "Strategies and their settings", href="/strategies"))
        if request.admin
        else None,
        panel(f"The newest {len(decided)}", *rows),
    )


async def moment_at(request: PageRequest) -> PeriodRecord | None:
    """Return the record of the period in the address, None if it is no longer stored."""
    kept = next((moment for moment in request.moments if moment.period == request.id), None)
    if kept is not None:
        return kept

    async def in_turn(read: Callable[[], Awaitable[Any]]) -> Any:
        # The arrays of a period have a row for every VM of the cloud, not only the visitor's.
        turn = partial(request.house.long_reads.run, request.uid, read)
        return await request.read(("shares", request.id), turn, None)

    shares = await request.house.past.shares(request.caller, request.id, in_turn)
    return None if shares is None else moment_before(shares)


@dataclass(frozen=True, slots=True)
class TenantShares:
    """The sums of a tenant's VMs in a period."""

    owner: int
    vms: int
    bid: float
    given: Sequence[float]
    cost: float
    """NaN if it is not known for one of the VMs."""


def shares_of(moment: PeriodRecord, owner: int | None) -> list[TenantShares]:
    """Return the sums of this tenant, or of all tenants, with a bid. Pure."""
    chosen = moment.owner if owner is None else moment.owner[moment.owner == owner]
    rows = slice(None) if owner is None else moment.owner == owner
    owners, at = np.unique(chosen, return_inverse=True)
    if not len(owners):
        return []

    def summed(values: Any) -> Any:
        return np.bincount(at, values[rows], len(owners))

    bid = summed(moment.bid.sum(axis=1))
    given = np.array([summed(amounts) for amounts in moment.given.T]).T
    columns = owners, np.bincount(at, minlength=len(owners)), bid, given, summed(moment.cost)
    shares = zip(*(column.tolist() for column in columns), strict=True)
    return [TenantShares(*each) for each in shares if each[2] > 0]


def shares_table(
    request: PageRequest, resources: Sequence[str], shares: Sequence[TenantShares]
) -> Markup:
    """Return a table of allocations by tenant."""
    names = request.now.owner_names
    heads = ("Tenant", "VMs", "Bid", *(NAMES[name] for name in resources), "Paid")
    return table(
        "Allocations by tenant",
        heads,
        [
            (
                tenant(each.owner, names),
                each.vms,
                credits_text(each.bid),
                *map(amount, resources, each.given),
                credits_text(None if np.isnan(each.cost) else each.cost),
            )
            for each in shares
        ],
        numbers=list(range(1, len(heads))),
        nothing="There were no bids.",
    )


async def _allocations(request: PageRequest, moment: PeriodRecord) -> Markup:
    """Return the panel of allocations: of all tenants for administrators, else of the visitor."""
    world = request.house.world
    owner = None if request.admin else request.uid
    shares = await world.executor.run(partial(shares_of, moment, owner))
    shown = partial(shares_table, request, world.goods.resources)
    return panel("Allocations", *page_of_rows(request, shares, shown))


_STEPS = 500


@route("GET", "/prices")
async def prices_(request: PageRequest) -> PageResponse:
    """Return the page of prices in the newest periods."""
    rows = await visible_rows.prices(request)
    resources = request.house.world.goods.resources
    interval_s = request.house.world.rhythm.interval_s
    supplied = any(row.supply is not None for row in rows)
    heads = ("Period", "Start", "Market", *(A_UNIT[name] for name in resources))
    return await page_in_frame(
        request,
        "Prices",
        element("h1", "Prices"),
        panel("Over time", *price_charts(request, rows, resources), more=range_links(request)),
        panel(
            "Credits",
            table(
                "Prices by period, the newest first",
                (*heads, "Supply") if supplied else heads,
                [
                    (
                        link("periods", row.period, None),
                        moment(row.at_s),
                        row.market,
                        *(_price(row.prices.get(name), name, interval_s) for name in resources),
                        *([row.supply] if supplied else ()),
                    )
                    for row in reversed(rows)
                ],
                numbers=(0, *range(3, 3 + len(resources))),
                nothing="There are no prices yet: the first period that ends announces them.",
            ),
        ),
    )


@route("GET", "/periods/{}")
async def period(request: PageRequest) -> PageResponse:
    """Return the page of a period: its prices, allocations and decisions."""
    past = await request.house.past.period(
        request.caller, request.id, partial(request.read, ("period", request.id))
    )
    if request.id > request.period:
        raise no_period(request.id)
    moment_ = await moment_at(request)
    decided = await steps(request, _STEPS, period=request.id)
    return await page_in_frame(
        request,
        f"Period {request.id}",
        element("h1", f"Period {request.id}"),
        _neighbour_links(request),
        panel("Prices", facts(_facts(request, past))),
        None if moment_ is None else await _allocations(request, moment_),
        panel("Decisions", _steps_of_period(request, decided)),
    )


def _steps_of_period(request: PageRequest, decided: Sequence[StepRow]) -> Markup:
    nothing = "The period placed, moved and limited no VM that you may see."
    return steps_table(decided, visible_rows.host_ids(request), nothing=nothing)


def _neighbour_links(request: PageRequest) -> Markup:
    """Return links to the previous and the next period."""
    before = (
        element("a", "Previous period", href=f"/periods/{request.id - 1}")
        if request.id > 1
        else None
    )
    after = (
        element("a", "Next period", href=f"/periods/{request.id + 1}")
        if request.id < request.period
        else None
    )
    return element("p", before, " · " if before and after else None, after)


def _facts(request: PageRequest, past: PastPeriod) -> list[tuple[str, Part]]:
    rows: list[tuple[str, Part]] = [("Start", moment(past.at_s))]
    interval_s = request.house.world.rhythm.interval_s
    for market, by_resource in past.prices.items():
        named = f" in market {market}" if len(past.prices) > 1 else ""
        rows += [
            (f"{A_UNIT[name]}{named}", _price(by_resource.get(name), name, interval_s))
            for name in request.house.world.goods.resources
        ]
    if past.failure:
        rows.append(("Failure", past.failure))
    return rows


def _price(price: float | None, name: str, interval_s: float) -> Part:
    hourly = hourly_price(price, name, interval_s)
    return NONE if hourly is None else credits_text(hourly)
