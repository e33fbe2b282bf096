"""Wishes of strategies for platforms: their numbers of VMs.

A strategy that states allocations itself also knows how many VMs a service needs. It can't create
any: a VM has a template, an owner and a key. So it wishes a number, and the platform manager brings
the platform to this number from the next period on, as if a controller had asked for it.
"""

from collections.abc import Sequence

import sqlalchemy as sa

from merkatd.cluster import Scale
from merkatd.database.fleets import platform_store
from merkatd.database.fleets.platform_store import PlatformAction, PlatformRow
from merkatd.platforms.lifecycle.platform_template import NO_CONTROLLER, PlatformTemplate
from merkatd.platforms.lifecycle.template_reader import market_of, parsed
from merkatd.platforms.lifecycle.transitions import record_size
from merkatd.platforms.rules.lifecycle_events import UP_OR_COMING, PlatformState
from merkatd.scheduler.base.settings import MarketRules

STRATEGY = "strategy"
_LONGEST = 2_000


def scale_platforms(
    connection: sa.Connection,
    markets: Sequence[MarketRules],
    wishes: Sequence[Scale],
    period: int,
    at_s: float,
) -> list[str]:
    """Give platforms the wished numbers of VMs; return for each wish why not, "" if it has it.

    A repeated call changes nothing.
    """
    by_account = {row.account: row for row in platform_store.living(connection)}
    return [
        _scaled(connection, by_account.get(wish.application), markets, wish, period, at_s)
        for wish in wishes
    ]


def _scaled(
    connection: sa.Connection,
    known: PlatformRow | None,
    markets: Sequence[MarketRules],
    wish: Scale,
    period: int,
    at_s: float,
) -> str:
    row = None if known is None else platform_store.locked(connection, known.id)
    if row is None:
        return "it is no platform that exists"
    template = parsed(row.template)
    why = _obstacle(row, template, markets, wish)
    if why:
        return why
    (cluster,) = template.clusters
    count = min(max(wish.replicas, cluster.least), cluster.most)
    key = f"scale/{period}"
    repeated = platform_store.find_action(connection, row.id, key) is not None
    if row.sizes.get(cluster.name) != count and not repeated:
        doing = PlatformAction(
            platform=row.id,
            at_s=at_s,
            who=STRATEGY,
            what="size",
            text=f"{count} VMs in {cluster.name}: {wish.reason}"[:_LONGEST],
            action=key,
        )
        record_size(connection, row, {cluster.name: count}, doing)
    if count == wish.replicas:
        return ""
    return f"cluster {cluster.name} may have {cluster.least} to {cluster.most} VMs; it has {count}"


def _obstacle(
    row: PlatformRow, template: PlatformTemplate, markets: Sequence[MarketRules], wish: Scale
) -> str:
    """Return why a strategy can't scale the platform; "" if it can."""
    if PlatformState(row.state) not in UP_OR_COMING:
        return f"platform {row.id} is {row.state}"
    if market_of(template, markets).name != wish.market:
        return f"platform {row.id} is in another market"
    if template.controller != NO_CONTROLLER:
        return f"the controller of platform {row.id} decides how many VMs it has"
    if len(template.clusters) != 1:
        return f"platform {row.id} has {len(template.clusters)} clusters instead of one"
    return ""
