"""The data of charts, as JSON."""

from functools import partial

from merkatd.web.answers import Answer, data
from merkatd.web.drawing import hosts_of
from merkatd.web.pages import seen
from merkatd.web.pages.over_time import (
    host_charts,
    platform_charts,
    prices_charts,
    tenant_charts,
    vm_charts,
)
from merkatd.web.routes import Here, route


@route("GET", "/data/hosts")
async def hosts_data(here: Here) -> Answer:
    """The hosts and how they are shared: for tenants, what is theirs of it."""
    now = await seen.present(here)
    drained = frozenset((await here.ask("status"))["drained_hosts"])
    work = partial(hosts_of, now, drained, None if here.admin else here.uid)
    found = await here.house.world.executor.run(work)
    return data({"period": now.snapshot.period, "hosts": found})


@route("GET", "/data/prices")
async def prices_data(here: Here) -> Answer:
    """What things cost in the newest periods: everybody may know."""
    return data((await prices_charts(here)).data)


@route("GET", "/data/vms/{}")
async def vm_data(here: Here) -> Answer:
    """What a VM got, used, bid and paid."""
    found = await here.call("merkat.vm.explain", here.id)  # whose it is, is looked at there
    return data(vm_charts(here, found).data)


@route("GET", "/data/hosts/{}")
async def host_data(here: Here) -> Answer:
    """What was given of a host."""
    await seen.host_row(here)
    return data(host_charts(here).data)


@route("GET", "/data/tenants/{}")
async def tenant_data(here: Here) -> Answer:
    """What a tenant held, bid, paid and got."""
    await here.call("merkat.tenant.info", here.id)
    return data((await tenant_charts(here)).data)


@route("GET", "/data/platforms/{}")
async def platform_data(here: Here) -> Answer:
    """How far a platform was, and what it cost."""
    row = await here.call("merkat.platform.info", here.id)
    return data(platform_charts(here, row).data)
