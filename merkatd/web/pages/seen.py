"""What pages see of the present: all of it for administrators, one's own for others."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import sqlalchemy as sa

from merkatd.api.questions.now import explanation
from merkatd.api.questions.present import Present
from merkatd.api.xmlrpc.platform_calls import own_platform
from merkatd.api.xmlrpc.rights import USE, need_vm, no_vm
from merkatd.api.xmlrpc.words import Code, Refusal
from merkatd.cluster import Bools
from merkatd.cluster.columns import NOWHERE
from merkatd.platforms import platform_views
from merkatd.platforms.tenant_orders import found
from merkatd.web.drawing import own_rows
from merkatd.web.routes import Here

Row = dict[str, Any]

PRICED = 120
"""Periods whose prices are shown."""


def vms(here: Here, which: Bools | None = None) -> list[int]:
    """The rows of those of these VMs, or of all, that the visitor may see in lists."""
    owner = here.now.snapshot.vms.owner
    wanted = np.ones(len(owner), bool) if which is None else which
    return _places(wanted if here.admin else wanted & (owner == here.uid))


def _places(which: Bools) -> list[int]:
    found: list[int] = np.flatnonzero(which).tolist()
    return found


async def prices(here: Here) -> list[Row]:
    """The prices of the newest periods; of one that is under way the database has some too."""
    rows: list[Row] = await here.call("merkat.price.history", PRICED, default=[])
    return [row for row in rows if row["period"] <= here.period]


def host_ids(here: Here) -> Mapping[str, int]:
    """The hosts' ids by their names: those alone that have a page for the visitor."""
    table = here.now.snapshot.hosts
    ids = dict(zip(table.name, table.id.tolist(), strict=True))
    if here.admin:
        return ids
    allowed = {table.name[row] for row in own_hosts(here)}
    return {name: id_ for name, id_ in ids.items() if name in allowed}


def own_hosts(here: Here) -> set[int]:
    """The rows of hosts with VMs of the visitor's."""
    now = here.now
    found = np.unique(now.host[own_rows(now, here.uid)])
    return set(found[found != NOWHERE].tolist())


def host_row(here: Here) -> tuple[Present, int]:
    """The host that the address names, if the visitor may see it. Raises Refusal."""
    now = here.now
    row = next(iter(_places(now.snapshot.hosts.id == here.id)), NOWHERE)
    if row == NOWHERE or not (here.admin or row in own_hosts(here)):
        raise Refusal(Code.NO_EXISTS, f"Error getting host [{here.id}].", here.id)
    return now, row


async def explained(here: Here) -> Row:
    """Why the VM that the address names gets what it gets. Raises Refusal."""
    vms = here.now.snapshot.vms
    row = next(iter(_places(vms.id == here.id)), None)
    if row is None:
        raise no_vm(here.id)
    identity, session = here.caller.identity, here.caller.session
    await need_vm(identity, here.house.logins, session, here.id, int(vms.owner[row]), USE)
    world, now = here.house.world, here.now
    found: Row = await here.read(("explained", here.id), lambda: explanation(world, now, row))
    return found


async def platform(here: Here) -> Row:
    """The platform that the address names, at the prices of the page. Raises Refusal."""
    house = here.house
    await here.read(("platform of", here.id), lambda: own_platform(house, here.caller, here.id))
    world, latest = house.world, None if here.prepared is None else here.prepared.latest

    def work(connection: sa.Connection) -> Row:
        return platform_views.shown(connection, found(connection, here.id), world, latest)

    async def read() -> Row:
        return await house.long_reads.run(here.uid, lambda: world.database.read(work))

    row: Row = await here.read(("platform", here.id), read)
    return row
