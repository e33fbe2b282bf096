"""Periods: what things cost over time, and what was decided in each period."""

from typing import Any

from merkatd.api.xmlrpc.words import Code, Refusal
from merkatd.web.answers import Answer
from merkatd.web.charts import A_UNIT, PER_UNIT
from merkatd.web.markup import h
from merkatd.web.pages import seen
from merkatd.web.pages.frame import framed, panel
from merkatd.web.pages.over_time import charts_box
from merkatd.web.pages.parts import NONE, credits_, facts, link, moment, steps_table, table
from merkatd.web.pages.shares import moment_at, shares_table
from merkatd.web.routes import Here, route

_PERIODS = 120
_LOOKED_THROUGH = 1_000
_STEPS = 500


@route("GET", "/prices")
async def prices(here: Here) -> Answer:
    """What things cost in the newest periods."""
    rows = await here.call("merkat.price.history", _PERIODS)
    resources = here.house.world.goods.resources
    heads = ("Period", "Began", "Market", *(A_UNIT[name] for name in resources), "Supply")
    return await framed(
        here,
        "Prices",
        h("h1", "Prices"),
        panel("Chart", charts_box("/data/prices")),
        panel(
            "Credits a period",
            table(
                "Prices by period, the newest first",
                heads,
                [
                    (
                        link("periods", row["period"], None),
                        moment(row["at_s"]),
                        row["market"],
                        *(_price(row, name) for name in resources),
                        row.get("supply") or "",
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
    found = await here.call("merkat.price.history", _LOOKED_THROUGH)
    rows = [row for row in found if row["period"] == here.id]
    steps = await seen.steps(here, _STEPS, first_period=here.id, last_period=here.id)
    if not rows and not steps:
        raise Refusal(Code.NO_EXISTS, f"There was no period {here.id}.", here.id)
    moment_ = await moment_at(here)
    resources = here.house.world.goods.resources
    began = [("Began", moment(row["at_s"])) for row in rows[:1]]
    cost = [
        (f"{A_UNIT[name]} in market {row['market']}", _price(row, name))
        for row in rows
        for name in resources
    ]
    return await framed(
        here,
        f"Period {here.id}",
        h("h1", f"Period {here.id}"),
        h(
            "p",
            h("a", "The one before", href=f"/periods/{max(here.id - 1, 1)}"),
            " · ",
            h("a", "The next", href=f"/periods/{here.id + 1}"),
        ),
        panel("Prices", facts([*began, *cost])),
        None if moment_ is None else panel("Who got what", await shares_table(here, moment_)),
        panel("Decisions", steps_table(steps, await seen.host_ids(here))),
    )


def _price(row: dict[str, Any], name: str) -> str:
    price = row.get(name)
    return NONE if price is None else credits_(price * PER_UNIT.get(name, 1.0))
