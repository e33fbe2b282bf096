"""Paid claims: floors as far as bids pay for them, and memory in use beyond that for a time."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from twisted.logger import Logger

from merkatd.cluster import ACTIVE, RESTING, Bools, Floats, Snapshot, VmState
from merkatd.cluster.columns import NO_HOST, NO_MARKET, NO_ROW, is_one_of
from merkatd.cluster.hosts import kept_from
from merkatd.cluster.left_out import without_places
from merkatd.market.claim_prices import Claims
from merkatd.market.floors import bought, paid_floors
from merkatd.market.market_view import MarketView, market_view
from merkatd.market.price import PriceRule, price
from merkatd.placement.market.orders.orders_as_bids import OrdersAsBids, orders_as_bids
from merkatd.scheduler.charging.charge import PayerFunds
from merkatd.scheduler.charging.used_cpu import CPU, is_charged_by_use
from merkatd.scheduler.clearing.clearing_columns import with_last_clearing
from merkatd.scheduler.clearing.unstocked_orders import never_starting
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation import memory_in_use
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.observation.snapshot_builder import MEMORY, needed_memory
from merkatd.scheduler.observation.under_way import reserved_again
from merkatd.scheduler.terms.affordability import Afforded, afford_bids, reserve_prices
from merkatd.scheduler.terms.bids_under_way import with_bids_under_way
from merkatd.scheduler.terms.ordered_vms import as_bids, takes_orders
from merkatd.scheduler.terms.too_large import on_large_hosts
from merkatd.scheduler.terms.waiting_claims import claims_of_waiting_vms

_log = Logger()

_ROUNDING = 1e-9


def affordable_cloud(context: PeriodContext, seen: Observed, purse: PayerFunds) -> Afforded:
    """Return the cloud in which no VM bids or claims more than its payer can pay.

    A VM in transition keeps its earlier bid all the same; its payer's shortfall becomes a debt.
    """
    seen = _with_last_clearing(on_large_hosts(seen), purse.last)
    afforded = afford_bids(context, _with_bids_under_way(seen, purse.last), purse)
    had = _with_bids_under_way(afforded.seen, purse.last)
    return replace(afforded, seen=with_paid_floors(context, had, purse))


def _with_last_clearing(observed: Observed, last: Mapping[str, Any] | None) -> Observed:
    snapshot, rest = with_last_clearing(observed.snapshot, last)
    return replace(observed, snapshot=snapshot, room=rest.room, weights_age_s=rest.weights_age_s)


def _with_bids_under_way(observed: Observed, last: Mapping[str, Any] | None) -> Observed:
    return replace(observed, snapshot=with_bids_under_way(observed.snapshot, last))


def with_paid_floors(context: PeriodContext, observed: Observed, purse: PayerFunds) -> Observed:
    """Return the cloud with floors that bids pay for. See Note [Claims that settle].

    Memory in use beyond that is left to a VM for a time (`memory_in_use.py`), or permanently in
    markets in which every VM pays the price for everything it has. VMs that OpenNebula pins keep
    their full size, because OpenNebula reserves it itself. A market that charges for use sells no
    floors.
    """
    vms = observed.snapshot.vms
    needed = np.zeros_like(vms.floor)
    needed[:, MEMORY] = needed_memory(
        observed.observation, observed.use, context.markets, vms.market
    )
    failed = (vms.state == VmState.ABSENT)[:, np.newaxis]
    # A claim of a failed VM, valid or not, must not raise the price that limits other claims.
    least_room = np.where(failed, np.minimum(vms.floor, needed), vms.floor)
    snapshot = _with_room(observed, observed.snapshot, least_room)
    least = reserve_prices(context, snapshot)
    claimed, fixed = _claimed(context, observed), _fixed(observed)
    unclaimed = np.where(claimed[:, np.newaxis], np.minimum(vms.floor, needed), vms.floor)
    unclaimed[:, MEMORY] = np.maximum(unclaimed[:, MEMORY], fixed)
    asked = present_prices(
        context, snapshot, _orders_without_claims(context, observed, snapshot, unclaimed)
    )
    paid = paid_floors(vms.floor, vms.bid, asked, least)
    held = np.maximum(paid, np.minimum(needed, vms.floor))
    floor = np.where(claimed[:, np.newaxis], held, vms.floor)
    bound = np.array([*(market.bids_bound for market in context.markets), False])[vms.market]
    basis = memory_in_use.UseBasis(
        needed=needed[:, MEMORY],
        measured=~np.isnan(observed.in_force.used_mib),
        paid=paid[:, MEMORY],
        bought=bought(vms.bid, asked, least)[:, MEMORY],
        sold=claimed & bound,
        scarce=asked[:, MEMORY] > least[:, MEMORY] * (1 + 1e-9),
        interval_s=context.rhythm.interval_s,
        most_part=np.array([*(market.floor_part for market in context.markets), 0.0])[vms.market],
    )
    floor, uses = memory_in_use.floors_in_use(snapshot, floor, basis, purse.last)
    floor[:, MEMORY] = np.maximum(floor[:, MEMORY], fixed)
    claims = _claims(vms.floor, np.where(claimed[:, np.newaxis], needed, vms.floor), floor, uses)
    waiting = replace(snapshot, vms=replace(vms, floor=floor))
    kinds = np.array([market.bids_bound for market in context.markets])
    snapshot = claims_of_waiting_vms(waiting, claims.kept, kinds)
    kept = _with_room(observed, snapshot, snapshot.vms.floor)
    return replace(observed, snapshot=kept, in_use=uses, claims=claims)


def _with_room(observed: Observed, snapshot: Snapshot, floor: Floats) -> Snapshot:
    """Return the cloud whose hosts reserve these floors of VMs that leave them, or failed there."""
    capacity, hosts = reserved_again(observed.observation, snapshot, floor), snapshot.hosts
    if capacity is hosts.capacity:
        return snapshot
    full_capacity = hosts.capacity + hosts.reserved if hosts.reserved.shape[1] else hosts.capacity
    reserved = kept_from(full_capacity, capacity)
    return replace(snapshot, hosts=replace(hosts, capacity=capacity, reserved=reserved))


def _claims(
    asked: Floats, needed: Floats, floor: Floats, uses: memory_in_use.MemoryInUse
) -> Claims:
    """Return the VMs' claims, and the amounts they have regardless of bids, for quotes."""
    asked, kept = asked.copy(), np.minimum(needed, asked)
    use, paid = np.nan_to_num(uses.use), uses.paid * (1 + _ROUNDING)
    asked[:, MEMORY] = np.maximum(asked[:, MEMORY], use)
    kept[:, MEMORY] = np.where(np.isnan(uses.use), kept[:, MEMORY], 0.0)
    # Memory in use beyond the paid part is left to the VM for a time.
    kept[:, MEMORY] = np.where(floor[:, MEMORY] > paid, floor[:, MEMORY], kept[:, MEMORY])
    return Claims(np.maximum(asked, kept), kept)


def _fixed(observed: Observed) -> Floats:
    """[vms]: MiB of a running guest whose balloon does not work; else 0.

    No limit can take this memory from it, so a host needs room for all of it.
    """
    vms = observed.snapshot.vms
    held = np.minimum(vms.held[:, MEMORY], vms.cap[:, MEMORY])
    runs = is_one_of(vms.state, ACTIVE) & (vms.market != NO_MARKET)
    return np.where(runs & ~observed.in_force.balloon, np.nan_to_num(held), 0.0)


def _claimed(context: PeriodContext, observed: Observed) -> Bools:
    """[vms]: whether a bid must pay for the floor, except for the memory that the VM needs."""
    vms = observed.snapshot.vms
    pinned = is_one_of(vms.id, observed.observation.pin_policy)
    sold: Bools = (
        (vms.market != NO_MARKET) & ~pinned & ~is_charged_by_use(context.markets, vms.market)
    )
    return sold


def _orders_without_claims(
    context: PeriodContext, observed: Observed, snapshot: Snapshot, unclaimed: Floats
) -> OrdersAsBids | None:
    """Return the orders that would run without claims; None if there are no orders, or no claims.

    `unclaimed`, [vms, resources], are the floors without claims.
    """
    vms = snapshot.vms
    ordered = vms.order != NO_ROW
    claims = (vms.floor > unclaimed * (1 + _ROUNDING)).any(axis=1)
    if not ordered.any() or not (claims & ~ordered).any():
        return None
    without = replace(snapshot, vms=replace(vms, floor=np.minimum(unclaimed, vms.cap)))
    rules = observed.observation.constraints
    if rules is not None and rules.stock is not None:
        without = without_places(without, never_starting(without, rules.stock()).keys())
    pricings = [market.pricing if takes_orders(market) else None for market in context.markets]
    try:
        return orders_as_bids(without, pricings)
    except Exception:  # noqa: BLE001 - an error in one market must not end the period of all
        _log.failure("The limit orders beside claims are unknown: the announced prices count")
        return None


def present_prices(
    context: PeriodContext, snapshot: Snapshot, running: OrdersAsBids | None = None
) -> Floats:
    """[vms, resources]: the price of a unit at this period's bids if no VM claims anything.

    `running` are the limit orders that would run then (Note [Claims beside orders] in
    `orders_as_bids.py`).

    It is the price of the market as one host, or of the VM's own host if that is higher. Waiting
    VMs may get nothing for their bids, so these count only for the claims of waiting VMs. A waiting
    VM has no host yet: `waiting_claims.py` judges its claim by the hosts it may use.
    """
    prices = reserve_prices(context, snapshot)
    snapshot = as_bids(snapshot, running)
    for row in range(len(snapshot.markets)):
        view = market_view(snapshot, row)
        if not len(view.hosts) or not len(view.vms):
            continue
        waits = view.place == NO_HOST
        there = _prices(view)
        prices[view.vms[~waits]] = np.maximum(prices[view.vms], there)[~waits]
        if waits.any():
            largest = int(np.argmax(view.capacity[:, CPU]))
            in_market = np.where(waits, largest, view.place)
            asked = price(view.price_level(PriceRule.PAPER, in_market), view.reserve)
            prices[view.vms[waits]] = np.maximum(prices[view.vms], asked)[waits]
        _raise_at_rest(snapshot, row, view, prices)
    return prices


def _raise_at_rest(snapshot: Snapshot, market: int, view: MarketView, prices: Floats) -> None:
    """Raise the prices, [vms, resources], for VMs without a guest: other bids leave them out.

    With its own bid beside the others a VM would buy bid / (price + bid / capacity).
    """
    vms = snapshot.vms
    rests = is_one_of(vms.state, RESTING) | (vms.state == VmState.ABSENT)
    rows = np.flatnonzero(rests & (vms.market == market))
    rows = rows[is_one_of(vms.host[rows], view.hosts)]
    if not len(rows):
        return
    of_market = price(view.price_level(PriceRule.PAPER, view.place), view.reserve)
    hosts = price(view.host_levels(view.place), view.reserve)
    at = np.searchsorted(view.hosts, vms.host[rows])
    capacity, bid = view.capacity[at], vms.bid[rows]
    own = np.divide(bid, capacity, out=np.zeros_like(bid), where=capacity > 0)
    prices[rows] = np.maximum(prices[rows], np.maximum(of_market, hosts[at]) + own)


def _prices(view: MarketView) -> Floats:
    """[vms of the view, resources]: the price of the market, or of the VM's host if higher."""
    market = price(view.price_level(PriceRule.PAPER, view.place), view.reserve)
    hosts = price(view.host_levels(view.place), view.reserve)
    there: Floats = np.maximum(market, hosts[np.maximum(view.place, 0)])
    return np.where((view.place != NO_HOST)[:, np.newaxis], there, market)
