"""The data of charts, as JSON."""

from functools import partial

from merkatd.web.answers import Answer, data
from merkatd.web.drawing import hosts_of, prices_of
from merkatd.web.pages.seen import present
from merkatd.web.routes import Here, route

PERIODS = 120
"""That a chart of prices shows."""


@route("GET", "/data/hosts")
async def hosts_data(here: Here) -> Answer:
    """The hosts and how they are shared: for tenants, what is theirs of it."""
    now = await present(here)
    drained = frozenset((await here.ask("status"))["drained_hosts"])
    work = partial(hosts_of, now, drained, None if here.admin else here.uid)
    found = await here.house.world.executor.run(work)
    return data({"period": now.snapshot.period, "hosts": found})


@route("GET", "/data/prices")
async def prices_data(here: Here) -> Answer:
    """What things cost in the newest periods: everybody may know."""
    rows = await here.call("merkat.price.history", PERIODS)
    return data(prices_of(rows, here.house.world.goods.resources))
