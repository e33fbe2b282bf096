"""Clearing of a market's limit orders, before its strategy places and moves VMs.

# Note [Orders and places]

An order runs if the market has room for it (`market/limit_orders.py`), and if hosts have room for
each of its VMs at full size. Orders are looked at from the highest to the lowest:

- VMs on a host stay there, if orders above have not taken its room.
- VMs that wait get hosts on which all of them fit now. If there are none, they get hosts on which
  they will fit once others have left: VMs of orders below, which are suspended in this period, or
  VMs that bid, which are migrated. The waiting VMs start in a later period. As few of the orders
  below leave as possible, from the lowest, so that others need not move.
- If the VMs fit on no hosts at all, the order counts as absent: it raises no price and displaces
  nobody. An order that the market has no room for counts as absent, too, if its VMs would fit on no
  hosts without the other orders. Otherwise a tenant could raise the costs of others for free.

A displaced VM that is being saved keeps what it had, and pays what it paid before: a VM that bid
until its order was stated has no more than its bid bought. One that migrates or boots, can't be
stopped or waits until another VM has been migrated pays the market price, at most its part of the
limit. And if it does not migrate, it gets no more than this part buys as a bid. Otherwise an order
with a limit near 0 would keep its full size for nothing. A VM that can't be stopped counts as one
that bids for the prices of other orders, too. While a VM of a displaced order migrates, none of its
VMs is stopped (`order_stops.py`). VMs on drained hosts take no room that others could use: they go
on until they can be migrated.
VMs that bid and wait count against orders as far as they would pay, if they would get hosts now. A
bid that fits nowhere raises no price, and one that an order leaves no room raises no price either.

The strategy then sees the VMs of running orders with their full size as floor and without bids, and
no VM of a waiting order. So bids divide the rest of each host by Eq. 1.

Example: two hosts with 100 units, and three orders of two VMs with 40 units each. Order 1 runs on
host 0 for 6 credits, order 2 on host 1 for 2. Order 3 offers 4, and its VMs fit beside no other
order's. There is no room for order 2 at the height of order 3: its VMs are suspended, and those of
order 3 start on host 1 in the next period. It pays 2 credits, which order 2 would pay.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, TypeVar

import numpy as np

from merkatd.cluster import (
    Bools,
    Decision,
    Floats,
    HostState,
    Plan,
    Resume,
    Snapshot,
    Stop,
    VmState,
)
from merkatd.cluster.columns import NO_HOST, NO_MARKET, NO_ROW, is_one_of
from merkatd.cluster.left_out import without_places, without_starting_orders
from merkatd.cluster.orders import (
    GoodsOffers,
    OrderOutcome,
    OrderTerms,
    held_amounts,
    joined,
    joined_offers,
    sizes_until_left,
    with_order_terms,
)
from merkatd.cluster.plan import Step
from merkatd.market.explanation import hosts_after
from merkatd.market.limit_orders import Clearing, OrderBook
from merkatd.market.market_view import market_view
from merkatd.market.price import price
from merkatd.placement.base.narrowed_hosts import narrowed_to
from merkatd.placement.contract import Pricing, Strategy
from merkatd.placement.market.orders.local_clearing import ClearedMarket, cleared_market
from merkatd.placement.market.orders.order_reasons import (
    split_orders,
    takers,
    unmoved_vms,
    waiting_in_rest,
    why_waiting,
)
from merkatd.placement.market.orders.order_stops import (
    are_saved_now,
    awaited_migrations,
    most_until_left,
    paid_until_left,
    parts_of,
    stopped_after,
)
from merkatd.placement.market.orders.room_by_moves import leaving_room

Value = TypeVar("Value")
FIRST = 1e12
"""The priority of VMs in orders over all others; tenants' priorities are far below."""
_MOST_ROUNDS = 8
"""The most decisions because of orders whose VMs did not all get hosts."""


@dataclass(frozen=True, slots=True, eq=False)
class ClearedOrders:
    """The limit orders of a cloud, or of one market, in a period."""

    terms: OrderTerms | None
    outcomes: Mapping[int, OrderOutcome]
    steps: tuple[Step, ...]
    reasons: Mapping[int, str]
    lacking: Floats
    """[markets, resources], or [resources]: the least prices because of orders without room."""
    offers: GoodsOffers | None
    allowed: Mapping[int, Bools]
    """By snapshot row of a VM: [hosts] that the strategy may use for it, if these are not all."""


def clearing_orders(strategy: Strategy[Any]) -> Strategy[Any]:
    """Return the strategy that also clears the limit orders of a snapshot that has any."""

    def decide(
        snapshot: Snapshot, settings: Any, memory: Mapping[str, Any], random: np.random.Generator
    ) -> Decision:
        def decide_once(seen: Snapshot) -> Decision:
            return strategy(seen, settings, memory, random)

        if not (snapshot.vms.order != NO_ROW).any():
            return decide_once(snapshot)
        return decide_with_orders(snapshot, settings.pricing, decide_once)

    return decide


def decide_with_orders(
    snapshot: Snapshot, pricing: Pricing, strategy: Callable[[Snapshot], Decision]
) -> Decision:
    """Return the decision of a strategy that sees the limit orders' VMs with their terms.

    VMs that can't leave a host for which their order does not pay are priced where they are.
    Orders whose VMs did not all get hosts count as absent, and so do resting ones that would take
    room from others: all waiting ones if others would after that. Otherwise a tenant with many such
    orders would use up the decisions. Then all is decided again. In the last decision no order
    starts, so that no VM is displaced for an order that does not come.
    """
    late, kept, has_takers = dict[int, str](), dict[int, str](), False
    for turn in range(_MOST_ROUNDS + 1):
        if turn == _MOST_ROUNDS:
            snapshot, others = without_starting_orders(snapshot)
            late |= others
        cleared = clear_orders(snapshot, pricing)
        taking = takers(snapshot, cleared.terms, cleared.steps)
        if taking and turn < _MOST_ROUNDS:
            late |= waiting_in_rest(snapshot) if has_takers else taking
            has_takers = True
            snapshot = without_places(snapshot, late.keys())
            continue
        seen = with_order_terms(snapshot, cleared.terms)
        counted = narrowed_to(seen, cleared.allowed, "the hosts whose bids its limit order pays")
        decision = strategy(_with_destinations(counted, cleared))
        split = split_orders(seen, decision.plan)
        unmoved = unmoved_vms(seen, cleared.allowed, Plan((*cleared.steps, *decision.plan)))
        if not split and not unmoved:
            break
        late |= split
        kept |= unmoved
        snapshot = without_places(snapshot, late.keys() | kept.keys())
    decision = _with_orders(seen, pricing, decision, cleared)
    # The order of a VM that was kept where it is may wait in the end, for a reason of its own.
    return replace(decision, reasons={**kept, **decision.reasons, **late})


def _with_destinations(seen: Snapshot, cleared: ClearedOrders) -> Snapshot:
    """Return the cloud in which VMs that make room go where they take no room of orders."""
    terms = cleared.terms
    if terms is None:
        return seen
    hosts, pairs = np.arange(len(seen.hosts)), zip(terms.leaving, terms.going, strict=True)
    to = {int(vm): hosts == host for vm, host in pairs}
    open_to = leaving_room(seen, terms, cleared.steps)
    return narrowed_to(open_to, to, "the host that leaves room for limit orders")


def clear_orders(snapshot: Snapshot, pricing: Pricing) -> ClearedOrders:
    """Return which orders run, and what that means for their VMs."""
    parts = {row: _clear_market(snapshot, row, pricing) for row in _markets_with_orders(snapshot)}
    lacking = np.zeros((len(snapshot.markets), len(snapshot.resources)))
    for row, part in parts.items():
        lacking[row] = part.lacking
    return ClearedOrders(
        terms=joined([part.terms for part in parts.values() if part.terms is not None]),
        outcomes=_merged(part.outcomes for part in parts.values()),
        steps=tuple(step for part in parts.values() for step in part.steps),
        reasons=_merged(part.reasons for part in parts.values()),
        lacking=lacking,
        offers=joined_offers([part.offers for part in parts.values() if part.offers is not None]),
        allowed=_merged(part.allowed for part in parts.values()),
    )


def _merged(parts: Iterable[Mapping[int, Value]]) -> dict[int, Value]:
    merged: dict[int, Value] = {}
    for part in parts:
        merged.update(part)
    return merged


def _with_orders(
    seen: Snapshot, pricing: Pricing, decision: Decision, cleared: ClearedOrders
) -> Decision:
    """Return a strategy's decision with the results of limit orders."""
    return replace(
        decision,
        plan=Plan.ordered([*cleared.steps, *decision.plan]),
        prices=np.maximum(_prices(seen, decision, cleared, pricing), cleared.lacking),
        reasons={**decision.reasons, **cleared.reasons},
        orders=cleared.outcomes,
        order_terms=cleared.terms,
        goods_offers=cleared.offers,
    )


def _prices(seen: Snapshot, decision: Decision, cleared: ClearedOrders, pricing: Pricing) -> Floats:
    """Return the prices of a strategy's decision as if displaced VMs had left already.

    VMs of orders on drained hosts take no part of the capacity that bids divide, either.
    """
    prices = decision.prices.copy()
    host = hosts_after(seen, Plan((*cleared.steps, *decision.plan)))
    leaves = [seen.vm_row(step.vm) for step in cleared.steps if isinstance(step, Stop)]
    if cleared.terms is not None:
        drained = np.append(seen.hosts.state == HostState.DRAINED, False)[seen.vms.host]
        rows = cleared.terms.rows
        outside = rows[cleared.terms.lingers | drained[rows]]
        host[outside] = NO_HOST
        leaves += outside.tolist()
    for market in np.unique(seen.vms.market[leaves]).tolist():
        view = market_view(seen, market)
        local = np.full(len(seen.hosts) + 1, NO_ROW)
        local[view.hosts] = np.arange(len(view.hosts))
        level = view.price_level(pricing.rule, local[host[view.vms]])
        prices[market] = price(level, pricing.reserve_prices(seen.resources))
    return prices


def _markets_with_orders(snapshot: Snapshot) -> list[int]:
    market = snapshot.vms.market[snapshot.vms.order != NO_ROW]
    rows: list[int] = np.flatnonzero(np.bincount(market[market != NO_MARKET])).tolist()
    return rows


def _clear_market(snapshot: Snapshot, market: int, pricing: Pricing) -> ClearedOrders:
    vms = snapshot.vms
    ordered = (vms.order != NO_ROW) & (vms.market == market)
    cleared = _results(snapshot, cleared_market(snapshot, market, pricing))
    # A saved VM without a host must be made pending before it can be placed again.
    again = vms.id[ordered & vms.saved & (vms.state == VmState.ABSENT)].tolist()
    resumed = (Resume(period=snapshot.period, vm=vm, reason=_RESUMED) for vm in again)
    return replace(cleared, steps=(*cleared.steps, *resumed))


def _results(snapshot: Snapshot, market: ClearedMarket) -> ClearedOrders:
    places, book, cleared, needed, allowed = market
    view, order = places.view, places.order
    vms = view.vms[places.members]
    runs, waiting = cleared.runs[order], view.place[places.members] == NO_HOST
    state = snapshot.vms.state[vms].copy()
    state[waiting & (~runs | places.later[order])] = VmState.ABSENT
    displaced = ~runs & ~waiting
    stuck = displaced & places.stuck[places.members]
    awaited = awaited_migrations(snapshot, vms[displaced], stuck[displaced])
    asked = (snapshot.vms.state[vms] == VmState.RUNNING) & ~stuck
    asked &= displaced & ~is_one_of(snapshot.vms.order[vms], awaited)
    priced = displaced & ~asked & (stuck | ~are_saved_now(snapshot, vms))
    lingers = priced & (stuck | (snapshot.vms.state[vms] != VmState.BUSY))
    leaves = displaced & ~lingers
    size = snapshot.vms.cap[vms]
    size[leaves] = sizes_until_left(snapshot, vms[leaves])
    left = np.where(leaves[:, np.newaxis], size, view.size[places.members])
    paid = np.where(cleared.runs, cleared.cost, paid_until_left(snapshot, places, book, left))
    rank = np.empty(len(places.orders))
    rank[np.argsort(-book.height, kind="stable")] = np.arange(len(places.orders), 0, -1)
    terms = OrderTerms(
        rows=vms,
        state=state,
        movable=snapshot.vms.movable[vms] & ~displaced,
        size=size,
        cost=parts_of(left * book.weights, paid, order),
        priority=FIRST + rank[order],
        coming=np.append(view.hosts, NO_HOST)[places.coming()],
        priced=priced,
        most=most_until_left(snapshot, places, book, stuck),
        lingers=lingers,
        stuck=stuck,
        least=held_amounts(snapshot, vms) * book.reserve,
        leaving=view.vms[np.array(places.leaving, dtype=np.int64)],
        going=view.hosts[places.going()],
    )
    waits = np.flatnonzero(~cleared.runs | places.later)
    lacked = np.zeros(len(cleared.runs))
    lacked[waits] = book.limits_that_run(book.orders.bundle[waits])
    lacked = np.maximum(lacked, needed)
    outbid = ~cleared.runs & ~cleared.placeless & (lacked < inf)
    why = why_waiting(snapshot, places, book, cleared, lacked, needed)
    columns = snapshot.orders.id[places.orders], cleared.runs, cleared.cost, outbid
    outcomes = {
        order: OrderOutcome(order, its_runs, cost, why.get(at, ""), its_outbid)
        for at, (order, its_runs, cost, its_outbid) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        )
    }
    rows = places.orders.tolist()
    of_vms = {at: its + stopped_after(awaited.get(rows[at])) for at, its in why.items()}
    waiting |= stuck
    ids = snapshot.vms.id[vms]

    def with_orders(marked: Bools) -> Iterable[tuple[int, int]]:
        return zip(ids[marked].tolist(), order[marked].tolist(), strict=True)

    return ClearedOrders(
        terms=terms,
        outcomes=outcomes,
        steps=tuple(
            Stop(period=snapshot.period, vm=vm, reason=why[at]) for vm, at in with_orders(asked)
        ),
        reasons={vm: of_vms[at] for vm, at in with_orders(waiting | displaced) if at in of_vms},
        lacking=cleared.lacking,
        offers=_offers(snapshot, view.market, book, cleared),
        allowed=allowed,
    )


def _offers(snapshot: Snapshot, market: int, book: OrderBook, cleared: Clearing) -> GoodsOffers:
    """Return the weights and offers of a market, among those of all markets."""
    weights = np.full((len(snapshot.markets), len(snapshot.resources)), np.nan)
    offers = weights.copy()
    weights[market], offers[market] = book.weights, cleared.offers
    return GoodsOffers(weights, offers)


_RESUMED = "its limit order starts it once the price allows it"
