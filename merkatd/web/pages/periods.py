"""Periods: what things cost over time, and what was decided in each period."""

from functools import partial
from math import isfinite

import sqlalchemy as sa

from merkatd.api.xmlrpc.words import Code, Refusal
from merkatd.database.scheduler import period_store, price_store
from merkatd.database.scheduler.period_store import Period
from merkatd.web.answers import Answer
from merkatd.web.charts import A_UNIT, PER_UNIT, prices_of
from merkatd.web.markup import Markup, Part, h
from merkatd.web.pages import seen
from merkatd.web.pages.frame import framed, panel
from merkatd.web.pages.over_time import charts_box
from merkatd.web.pages.parts import NONE, credits_, facts, link, moment, steps_table, table
from merkatd.web.pages.shares import moment_at, shares_table
from merkatd.web.pages.steps import steps
from merkatd.web.routes import Here, route

_STEPS = 500


@route("GET", "/prices")
async def prices_(here: Here) -> Answer:
    """What things cost in the newest periods."""
    rows = await seen.prices(here)
    resources = here.house.world.goods.resources
    supplied = any("supply" in row for row in rows)
    heads = ("Period", "Began", "Market", *(A_UNIT[name] for name in resources))
    return await framed(
        here,
        "Prices",
        h("h1", "Prices"),
        panel("Over time", charts_box(prices_of(rows, resources))),
        panel(
            "Credits a period",
            table(
                "Prices by period, the newest first",
                (*heads, "Supply") if supplied else heads,
                [
                    (
                        link("periods", row["period"], None),
                        moment(row["at_s"]),
                        row["market"],
                        *(_price(row.get(name), name) for name in resources),
                        *([row.get("supply")] if supplied else ()),
                    )
                    for row in reversed(rows)
                ],
                numbers=(0, *range(3, 3 + len(resources))),
            ),
        ),
    )


@route("GET", "/periods/{}")
async def period(here: Here) -> Answer:
    """One period: its prices, and its decisions."""
    found, cost = await here.stored(("period", here.id), partial(_read, number=here.id))
    if found is None or here.id > here.period:
        raise Refusal(Code.NO_EXISTS, f"There was no period {here.id}.", here.id)
    moment_ = await moment_at(here)
    decided = await steps(here, _STEPS, period=here.id)
    return await framed(
        here,
        f"Period {here.id}",
        h("h1", f"Period {here.id}"),
        _around(here),
        panel("Prices", facts(_facts(here, found, cost))),
        None if moment_ is None else panel("Who got what", await shares_table(here, moment_)),
        panel("Decisions", steps_table(decided, seen.host_ids(here))),
    )


def _read(connection: sa.Connection, number: int) -> tuple[Period | None, price_store.Prices]:
    return period_store.get(connection, number), price_store.load_prices(connection, number)


def _around(here: Here) -> Markup:
    """The ways to the periods beside it, as far as there are any."""
    before = h("a", "The one before", href=f"/periods/{here.id - 1}") if here.id > 1 else None
    after = h("a", "The next", href=f"/periods/{here.id + 1}") if here.id < here.period else None
    return h("p", before, " · " if before and after else None, after)


def _facts(here: Here, found: Period, cost: price_store.Prices) -> list[tuple[str, Part]]:
    rows: list[tuple[str, Part]] = [("Began", moment(found.started_s))]
    for market, by_resource in cost.items():
        named = f" in market {market}" if len(cost) > 1 else ""
        rows += [
            (f"{A_UNIT[name]}{named}", _price(by_resource.get(name), name))
            for name in here.house.world.goods.resources
        ]
    if found.failure and here.admin:
        rows.append(("It failed", found.failure))
    return rows


def _price(price: float | None, name: str) -> Part:
    if price is None or not isfinite(price):
        return NONE
    return credits_(price * PER_UNIT.get(name, 1.0))
