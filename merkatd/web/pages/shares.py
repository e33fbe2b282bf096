"""Who got what in a period that is over."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import sqlalchemy as sa

from merkatd.database.scheduler import period_store, price_store
from merkatd.scheduler.context import World
from merkatd.web.charts import NAMES
from merkatd.web.markup import Markup, Part
from merkatd.web.pages.parts import amount, credits_, table, tenant
from merkatd.web.past import Moment, moment_before
from merkatd.web.routes import Here


async def moment_at(here: Here) -> Moment | None:
    """The period that the address names, as it is kept; None where it is kept no more."""
    kept = next((one for one in here.moments if one.period == here.id), None)
    if kept is not None:
        return kept
    world = here.house.world
    read = partial(_read, world=world, number=here.id)
    found: Moment | None = await here.stored(("shares", here.id), read, None)
    return found


def _read(connection: sa.Connection, world: World, number: int) -> Moment | None:
    period = period_store.get(connection, number)
    arrays = None if period is None else price_store.load_allocations(connection, number)
    if period is None or arrays is None:
        return None
    if arrays["allocation"].shape[1] != len(world.goods.resources):
        return None
    return moment_before(period, arrays, world.markets)


async def shares_table(here: Here, moment: Moment) -> Markup:
    """A row a tenant: all of them for administrators, oneself for others."""
    names = here.now.owner_names
    resources = here.house.world.goods.resources
    owners = np.unique(moment.owner[moment.bid.sum(axis=1) > 0]).tolist()
    rows: list[Sequence[Part]] = []
    for owner in owners if here.admin else [one for one in owners if one == here.uid]:
        mine = moment.owner == owner
        cost = float(moment.cost[mine].sum())
        given = moment.given[mine].sum(axis=0)
        got = [amount(name, float(one)) for name, one in zip(resources, given, strict=True)]
        rows.append(
            (
                tenant(owner, names),
                int(mine.sum()),
                credits_(float(moment.bid[mine].sum())),
                *got,
                credits_(None if np.isnan(cost) else cost),
            )
        )
    heads = ("Tenant", "VMs", "Bid", *(f"Got of {NAMES[name]}" for name in resources), "Paid")
    numbers = range(1, len(heads))
    return table(
        "Who got what", heads, rows, numbers=list(numbers), nothing="Nobody bid for anything."
    )
