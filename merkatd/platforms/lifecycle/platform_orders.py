"""Limit orders of patient platforms: all their VMs run at full size, or none.

# Note [A platform's order]

A patient platform makes its VMs at once, and they bid nothing. When all exist, they are in the
platform's limit order: the most credits per period that the platform pays for all of them. From
then on the scheduler starts them, saves them while others pay more, and starts them again. So a
platform that keeps others out pays for it, in each period and whatever it states.

- *The limit* follows the policy (`merkatd/policies/patience.py`): it rises as the deadline comes
  near, and is at least the reserve price if its credits pay that for all the work. While the order
  waits, the review computes it in each period. While it runs, the platform's controller does, and
  it never falls below the limit with which it started.
- *The least run* is the rest of the work, as far as its credits pay for it. That long the limit
  counts `running_factor` times, since saving and starting the VMs again takes time; and that much
  is reserved.
- *The VMs* are those of the platform's fleet. While its tenant suspends the platform, and while it
  ends, only VMs that still run are in the order. All others stay as they are, pending or saved,
  with their memory and disks.

For example, a platform in a large market has 600 credits, 100 minutes of work, and two hours until
its deadline. It states 1.25 credits per period of a minute. At a cost of 1 it runs, and another
order displaces it only with more than 2.5. Once it has no time to spare, it states half of its
credits over the periods of its work, so that they pay twice this limit until the end.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
import sqlalchemy as sa

from merkatd.cluster import ACTIVE, Floats, Snapshot
from merkatd.cluster.columns import NO_ROW, rows_of
from merkatd.cluster.orders import LEAST_LIMIT, LimitOrder
from merkatd.database.fleets.fleet_store import PlatformMember
from merkatd.database.fleets.platform_store import PlatformRow
from merkatd.database.scheduler import limit_order_store
from merkatd.fleets.fleet import MOST_REFUSALS
from merkatd.market.market_view import market_view
from merkatd.platforms.lifecycle.controller_failures import is_lasting
from merkatd.platforms.lifecycle.fleet_plan import PlatformFleetView
from merkatd.platforms.rules.lifecycle_events import ENDS, UP_OR_COMING, OrderInput, PlatformState
from merkatd.platforms.rules.start_conditions import TEMPER, MarketOffer, Terms, limit_of
from merkatd.platforms.rules.stated_limits import (
    order_facts,
    ordered_members,
    restated,
)
from merkatd.protocol.platform_messages import UNBUYABLE_PRICE, Amounts, BookOrder, OrderStatus
from merkatd.scheduler.base.settings import MarketRules


def order_input(
    order: LimitOrder | None,
    sizes: Mapping[str, int],
    members: Sequence[PlatformMember],
    terms: Terms,
) -> OrderInput:
    """Return the facts about a platform's order, given its present members."""
    there = [member for member in members if member.vm is not None and not member.leaving]
    return order_facts(order, terms, complete=len(there) >= sum(sizes.values()))


def keep_order(
    connection: sa.Connection,
    platform: PlatformRow,
    order: LimitOrder | None,
    members: Sequence[PlatformMember],
    sight: PlatformFleetView,
    terms: Terms,
    offer: MarketOffer,
    at_s: float,
) -> LimitOrder | None:
    """Store a patient platform's limit order as its state demands, and return it."""
    state = PlatformState(platform.state)
    if state not in UP_OR_COMING:
        return keep_running_vms(connection, state, order, members, sight)
    limit = LEAST_LIMIT if is_lasting(platform, at_s) else limit_of(terms, offer)
    if order is None:
        order = limit_order_store.add(
            connection,
            owner=platform.owner,
            vms=(),
            limit=max(limit, LEAST_LIMIT),
            least_run_s=0.0,
            factor=TEMPER.running_factor,
            stated_s=at_s,
            platform=platform.id,
        )
    order = limit_order_store.set_vms(
        connection, order, _members_in(order, platform, members, sight, terms, limit)
    )
    is_up = bool(_running(members, sight))
    changed = restated(order, state, limit, terms, offer, is_up=is_up)
    if changed != order:
        limit_order_store.change(connection, changed)
    return changed


def keep_running_vms(
    connection: sa.Connection,
    state: PlatformState,
    order: LimitOrder | None,
    members: Sequence[PlatformMember],
    sight: PlatformFleetView,
) -> LimitOrder | None:
    """Keep only VMs that run in the order of a platform that does not go on, and return it.

    They pay until they are down. The order is deleted with the platform.
    """
    if order is None:
        return None
    if state in ENDS:
        limit_order_store.withdraw(connection, [order.id])
        return None
    return limit_order_store.set_vms(connection, order, _running(members, sight))


def capacities(snapshot: Snapshot, markets: Sequence[MarketRules]) -> dict[str, Amounts]:
    """Return the total capacity of each market's hosts, by resource."""
    return {
        market.name: dict(
            zip(snapshot.resources, market_view(snapshot, row).total.tolist(), strict=True)
        )
        for row, market in enumerate(markets)
    }


def reserve_of(market: MarketRules, names: Sequence[str]) -> Amounts:
    """Return the reserve prices of a market by resource."""
    prices = market.pricing.reserve_prices(tuple(names)).tolist()
    return dict(zip(names, prices, strict=True))


def order_status(order: LimitOrder | None) -> OrderStatus | None:
    """Return a platform's order for its controller; None if no VM is in it."""
    if order is None or not order.vms:
        return None
    return OrderStatus(limit=order.limit, runs=order.runs, cost=order.cost, why=order.why)


def books_of(
    snapshot: Snapshot,
    prices: Mapping[str, Mapping[str, float]],
    orders: Sequence[LimitOrder],
) -> dict[str, tuple[BookOrder, ...]]:
    """Return the limit orders of each market, from the highest, without names."""
    books: dict[str, list[BookOrder]] = {name: [] for name in snapshot.markets.name}
    for order in orders:
        rows = rows_of(snapshot.vms.id, np.array(order.vms, dtype=np.int64))
        rows = rows[rows != NO_ROW]
        found = np.unique(snapshot.vms.market[rows]).tolist()
        if len(found) != 1 or found[0] < 0:
            continue
        name, bundle = snapshot.markets.name[found[0]], snapshot.vms.cap[rows].sum(axis=0)
        books[name].append(
            BookOrder(
                height=_height(order.limit_at(snapshot.now_s), bundle, snapshot, prices[name]),
                bundle=dict(zip(snapshot.resources, bundle.tolist(), strict=True)),
                runs=order.runs,
            )
        )
    return {name: tuple(sorted(book, key=_by_height)) for name, book in books.items()}


def _members_in(
    order: LimitOrder,
    platform: PlatformRow,
    members: Sequence[PlatformMember],
    sight: PlatformFleetView,
    terms: Terms,
    limit: float,
) -> AbstractSet[int]:
    """Return the VMs that are in the order now, even if OpenNebula refuses to create others."""
    facts = order_input(order, platform.sizes, members, terms)
    refused = any(sight.refused_to(member).times >= MOST_REFUSALS for member in members)
    vms = {member.vm for member in members if member.vm is not None and not member.leaving}
    return ordered_members(vms, _running(members, sight), limit, complete=facts.complete or refused)


def _running(members: Sequence[PlatformMember], sight: PlatformFleetView) -> set[int]:
    return {
        member.vm
        for member in members
        if member.vm is not None and sight.state_of(member) in {None, *ACTIVE}
    }


def _height(limit: float, bundle: Floats, snapshot: Snapshot, prices: Amounts) -> float:
    cost = sum(
        prices.get(name, 0.0) * units
        for name, units in zip(snapshot.resources, bundle.tolist(), strict=True)
        if units > 0
    )
    return min(limit / cost, UNBUYABLE_PRICE) if cost > 0 else UNBUYABLE_PRICE


def _by_height(order: BookOrder) -> tuple[float, bool]:
    return -order.height, not order.runs
