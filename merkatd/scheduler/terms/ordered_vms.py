"""VMs in limit orders: their bids are parts of their order's limit.

A pending VM of a platform that runs its VMs in a limit order waits until it is in that order: the
order has all VMs of the platform, or none.

An order takes part in a market with those of its VMs that run or wait there. So the funds of its
payer lower its limit as they lower bids (`affordability.py`), and a charge is at most the limit.
VMs that are saved without a host have their parts of the limit, too: otherwise an order could pay
more for its other VMs while some of them are being saved, and displace the order that displaced it.
VMs of an order that wait take part only once none of its VMs is saved or being saved: after a
displacement some VMs are saved sooner than others, and would start without them.
"""

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import chain

import numpy as np

from merkatd.cluster import Decision, Floats, Orders, Resume, Snapshot, VmState
from merkatd.cluster.columns import NO_MARKET, NO_ROW, Bools, Ints, is_one_of, rows_of
from merkatd.cluster.orders import OrderOutcome, StatedOrders
from merkatd.market.price import PriceRule
from merkatd.placement.market.orders.orders_as_bids import OrdersAsBids
from merkatd.scheduler.base.settings import MarketRules

# Note [VMs of orders that start]
#
# While OpenNebula copies the disks of a VM, or its guest boots, the VM counts as powered off
# (`held_memory.py`): it bids nothing. A VM of a limit order takes part nevertheless, with its full
# size, and pays its part of the order's cost. Otherwise another order would start in its room, and
# would be stopped as soon as the guest computes. And the order's least run would begin again.

STARTING = frozenset(
    {
        "PROLOG", "PROLOG_RESUME", "PROLOG_UNDEPLOY", "CLEANUP_RESUBMIT", "BOOT", "BOOT_UNKNOWN",
        "BOOT_POWEROFF", "BOOT_SUSPENDED", "BOOT_STOPPED", "BOOT_UNDEPLOY", "PENDING",
    }
)  # fmt: skip
"""OpenNebula's words for a VM on its way to compute on a host; `PENDING` if OpenNebula still has
to deploy it."""
SAVED = "STOPPED"
"""OpenNebula's word for a VM that is saved without a host."""
_SAVING = frozenset({"SAVE_STOP", "EPILOG_STOP"})
"""OpenNebula's words for a VM that is being saved."""


def takes_orders(market: MarketRules) -> bool:
    """Return whether a market has limit orders: its bids clear, and nothing is charged by use."""
    return market.pricing.rule is PriceRule.CLEARING and market.sells_shares


def with_stated_orders(
    snapshot: Snapshot,
    words: Sequence[str],
    stated: StatedOrders,
    markets: Sequence[MarketRules],
    grouped: Collection[int] = (),
    unstopped: Collection[int] = (),
) -> Snapshot:
    """Return the cloud with its limit orders.

    `words` are OpenNebula's names of the states of all VMs. `grouped` VMs bid for their group and
    are in none. `unstopped` are VMs that OpenNebula did not stop lately.
    """
    if stated.unordered:
        snapshot = _without_waiting(snapshot, stated.unordered)
    if stated.saved:
        saved = _are_saved(snapshot, words, stated.saved - stated.unordered)
        snapshot = replace(snapshot, vms=replace(snapshot.vms, saved=saved))
    if not stated.orders:
        return snapshot
    vms = snapshot.vms
    order = np.full(len(vms), NO_ROW)
    off = vms.state == VmState.POWERED_OFF
    starts = off & np.array([word in STARTING for word in words], dtype=bool)
    saved = vms.saved & (vms.state == VmState.ABSENT)
    bid, floor, placeable = vms.bid.copy(), vms.floor.copy(), vms.placeable.copy()
    member, row = _members(snapshot, stated, markets, grouped)
    away = saved | np.array([word in _SAVING for word in words], dtype=bool)
    incomplete = np.bincount(row[away[member]], minlength=len(stated.orders)) > 0
    waits = incomplete[row] & vms.waiting[member]
    placeable[member[waits]] = False
    active = (vms.bidding & placeable)[member] | starts[member]
    with_size = np.bincount(row[active & vms.cap[member].any(axis=1)], minlength=len(stated.orders))
    is_active = np.bincount(row[active], minlength=len(stated.orders))
    takes_part = ((with_size > 0) | (is_active == 0))[row]
    order[member[takes_part]] = row[takes_part]
    active &= takes_part
    floor[member[active]] = 0.0  # such a VM has its full size or nothing, whatever it claims
    limit = np.array([each.limit_at(snapshot.now_s) for each in stated.orders])
    part = _parts(vms.cap[member], row, active, (saved[member] | waits) & takes_part)
    bid[member[active]] = part[active] * limit[row[active], np.newaxis]
    return replace(
        snapshot,
        vms=replace(
            vms,
            placeable=placeable,
            order=order,
            bid=bid,
            floor=floor,
            starts=starts & (order != NO_ROW),
            stop_fails=is_one_of(vms.id, unstopped) & (order != NO_ROW),
        ),
        orders=Orders(
            id=np.array([order.id for order in stated.orders], dtype=np.int64),
            funded_s=np.array([order.rest_s(snapshot.now_s) for order in stated.orders]),
            runs=np.array([order.runs for order in stated.orders], dtype=bool),
            displaced_s=np.array([order.displaced_s(snapshot.now_s) for order in stated.orders]),
        ),
        markets=replace(snapshot.markets, announced=_announced(snapshot, stated.prices)),
    )


def _without_waiting(snapshot: Snapshot, vms: AbstractSet[int]) -> Snapshot:
    """Return the cloud in which these VMs, as far as they are pending, get no host."""
    placeable = snapshot.vms.placeable & ~is_one_of(snapshot.vms.id, vms)
    return replace(snapshot, vms=replace(snapshot.vms, placeable=placeable))


def _are_saved(snapshot: Snapshot, words: Sequence[str], saved: AbstractSet[int]) -> Bools:
    """[vms]: whether the scheduler has saved the VM, and it has not been resumed since."""
    is_off = np.array([word == SAVED for word in words], dtype=bool)
    return is_off & is_one_of(snapshot.vms.id, saved)


def resumptions(snapshot: Snapshot, proposed: Collection[int]) -> list[Resume]:
    """Return a step for each VM that was saved for an order in which it is no longer.

    VMs with a `proposed` step are left out.
    """
    vms = snapshot.vms
    wanted = vms.saved & (vms.order == NO_ROW) & (vms.state == VmState.ABSENT)
    return [
        Resume(period=snapshot.period, vm=vm, reason="it is in no limit order any more")
        for vm in vms.id[wanted & ~is_one_of(vms.id, proposed)].tolist()
    ]


def as_bids(snapshot: Snapshot, running: OrdersAsBids | None = None) -> Snapshot:
    """Return the cloud in which VMs of orders count in other VMs' prices.

    Those of the orders that would run bid on their hosts, whatever limit was stated. If these
    orders are not known, VMs with hosts bid at most the announced price of their size. VMs that
    wait pay nothing.
    """
    vms = snapshot.vms
    ordered = vms.order != NO_ROW
    announced = snapshot.markets.announced
    if not ordered.any() or (running is None and not announced.shape[1]):
        return snapshot
    bid, host = vms.bid.copy(), vms.host.copy()
    rows = np.flatnonzero(ordered & (vms.market != NO_MARKET))
    if announced.shape[1]:
        bid[rows] = np.fmin(bid[rows], announced[vms.market[rows]] * vms.cap[rows])
    state, placeable = vms.state.copy(), vms.placeable & ~ordered
    if running is not None:
        bid[running.rows], host[running.rows] = running.bid, running.host
        state[running.rows] = int(VmState.RUNNING)
    return replace(snapshot, vms=replace(vms, bid=bid, host=host, state=state, placeable=placeable))


def funded_periods(snapshot: Snapshot, interval_s: float, most: float) -> Floats:
    """Return [vms]: how many times the longest charge a payer must have the VM's bid.

    That is 1, or more for a VM whose order has a longer least run before it.
    """
    times = np.ones(len(snapshot.vms))
    ordered = np.flatnonzero(snapshot.vms.order != NO_ROW)
    periods = snapshot.orders.funded_s[snapshot.vms.order[ordered]] / interval_s
    times[ordered] = np.maximum(periods / most, 1.0)
    return times


def vms_of_undecided(snapshot: Snapshot, decision: Decision) -> Bools:
    """[vms]: whether the VM's limit order is in a market whose strategy failed.

    Such an order goes on as it is, and its least run, too.
    """
    failed = [row for row, name in enumerate(snapshot.markets.name) if name in decision.failed]
    undecided: Bools = (snapshot.vms.order != NO_ROW) & is_one_of(snapshot.vms.market, failed)
    return undecided


def outcomes_of_all(snapshot: Snapshot, pending: Ints, decision: Decision) -> list[OrderOutcome]:
    """Return the outcomes of the stated orders, also of those that took part in no market.

    `pending` are the ids of all VMs that wait for a host in OpenNebula.
    """

    def orders_of(vms: Bools) -> list[int]:
        order = snapshot.vms.order[vms]
        ids: list[int] = snapshot.orders.id[order[order != NO_ROW]].tolist()
        return ids

    undecided = orders_of(vms_of_undecided(snapshot, decision))
    stated = np.setdiff1d(snapshot.orders.id, np.array(undecided, dtype=np.int64)).tolist()
    why = dict.fromkeys(orders_of(is_one_of(snapshot.vms.id, pending)), _MAY_NOT)
    why |= dict.fromkeys(orders_of(snapshot.vms.saved), _SAVED)
    return [
        decision.orders.get(order, OrderOutcome(order, False, None, why.get(order, _NO_PART)))
        for order in stated
    ]


_MAY_NOT = "its VMs may not start now; their messages say why"
_SAVED = "its VMs are saved; they wait for hosts from the next period on"
_NO_PART = (
    "none of its VMs runs or waits (resume VMs that are stopped), or they may have nothing"
    " (MERKAT_MAX_CPU), bid for a group, or are not all in one market with limit orders"
)


def _members(
    snapshot: Snapshot,
    stated: StatedOrders,
    markets: Sequence[MarketRules],
    grouped: Collection[int],
) -> tuple[Ints, Ints]:
    """Return the rows of all VMs of orders, each with the row of its order.

    Orders whose VMs are not all in one market with limit orders have none.
    """
    named = np.fromiter(chain.from_iterable(order.vms for order in stated.orders), dtype=np.int64)
    row = np.repeat(np.arange(len(stated.orders)), [len(order.vms) for order in stated.orders])
    member = rows_of(snapshot.vms.id, named)
    kept = (member != NO_ROW) & ~is_one_of(named, grouped)
    member, row = member[kept], row[kept]
    market = snapshot.vms.market[member]
    any_of = np.full(len(stated.orders), NO_MARKET)
    any_of[row] = market
    mixed = np.zeros(len(stated.orders), dtype=bool)
    mixed[row[market != any_of[row]]] = True
    allowed = np.array([takes_orders(rules) for rules in markets], dtype=bool)
    joins = ~mixed & (any_of != NO_MARKET)
    joins[joins] = allowed[any_of[joins]]
    return member[joins[row]], row[joins[row]]


def _parts(size: Floats, row: Ints, active: Bools, away: Bools) -> Floats:
    """Return [members, resources]: each VM's part of its order's limit, by its part of the bundle.

    The bundle of an order has its `active` VMs and those that are `away`.
    """
    counted = np.concatenate([np.flatnonzero(active), np.flatnonzero(away & ~active)])
    count = int(row.max(initial=-1)) + 1
    whole = np.zeros((count, size.shape[1]))
    np.add.at(whole, row[counted], size[counted])
    goods = np.maximum(np.count_nonzero(whole > 0, axis=1), 1)[:, np.newaxis]
    bundle = whole[row]
    parts: Floats = np.divide(size, bundle * goods[row], out=np.zeros_like(size), where=bundle > 0)
    return parts


def _announced(snapshot: Snapshot, prices: Mapping[str, Mapping[str, float]]) -> Floats:
    """Return [markets, resources]: the announced prices; NaN for none, or an infinite one."""
    rows = [
        [prices.get(market, {}).get(name, np.nan) for name in snapshot.resources]
        for market in snapshot.markets.name
    ]
    table = np.array(rows, dtype=np.float64).reshape(len(rows), len(snapshot.resources))
    return np.where(np.isfinite(table), table, np.nan)
