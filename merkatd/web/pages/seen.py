"""What pages see of the present: all of it for administrators, one's own for others."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from merkatd.api.questions.present import Present
from merkatd.api.recorded import KINDS
from merkatd.api.xmlrpc.words import Code, Refusal
from merkatd.market.view import NOWHERE
from merkatd.web.drawing import own_rows
from merkatd.web.routes import Here

Row = dict[str, Any]

_LOOKED_THROUGH = 1_000
"""Of the newest steps, for those that are somebody's."""


async def present(here: Here) -> Present:
    """The latest period. Raises NotNowError."""
    return (await here.house.preparing.prepared()).now


async def vms(here: Here) -> list[Row]:
    """The VMs that the visitor may see in lists."""
    rows: list[Row] = await here.ask("vms")
    return rows if here.admin else [row for row in rows if row["owner"] == here.uid]


async def steps(
    here: Here, limit: int, kinds: AbstractSet[str] = frozenset(KINDS), **wanted: Any
) -> list[Row]:
    """The newest steps, of the visitor's own VMs unless it sees all."""
    if here.admin:
        found = await here.ask("steps", limit=limit, **wanted)
        return [row for row in found if row["kind"] in kinds]
    now = await present(here)
    own = set(now.snapshot.vms.id[own_rows(now, here.uid)].tolist())
    rows = await here.ask("steps", limit=_LOOKED_THROUGH, **wanted)
    return [row for row in rows if row["vm"] in own and row["kind"] in kinds][:limit]


async def host_ids(here: Here) -> Mapping[str, int]:
    """The hosts' ids by their names: those alone that have a page for the visitor."""
    table = (await present(here)).snapshot.hosts
    ids = dict(zip(table.name, table.id.tolist(), strict=True))
    if here.admin:
        return ids
    allowed = {table.name[row] for row in await own_hosts(here)}
    return {name: id_ for name, id_ in ids.items() if name in allowed}


async def own_hosts(here: Here) -> set[int]:
    """The rows of hosts with VMs of the visitor's."""
    now = await present(here)
    found = np.unique(now.host[own_rows(now, here.uid)])
    return set(found[found != NOWHERE].tolist())


async def host_row(here: Here) -> tuple[Present, int]:
    """The host that the address names, if the visitor may see it. Raises Refusal."""
    now = await present(here)
    found = np.flatnonzero(now.snapshot.hosts.id == here.id)
    row = int(found[0]) if len(found) else NOWHERE
    if row == NOWHERE or not (here.admin or row in await own_hosts(here)):
        raise Refusal(Code.NO_EXISTS, f"Error getting host [{here.id}].", here.id)
    return now, row
