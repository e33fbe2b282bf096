"""Owed amounts: the costs of VMs, computed from the stored columns of a decision; pure.

The same arithmetic gives the highest possible charge, which the decision reserves, and the real
charge once each VM's running time is known.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import is_one_of
from merkatd.limits.cpu_limits import UNITS_PER_CORE
from merkatd.market.price import charges as charges_of
from merkatd.scheduler.base.settings import ALL_GOODS, RESOURCES, MarketRules
from merkatd.scheduler.charging import held_memory
from merkatd.scheduler.charging.charged_span import MAX_OWED, whole
from merkatd.scheduler.charging.used_cpu import CPU, units
from merkatd.scheduler.clearing.cleared_room import ClearedRoom
from merkatd.scheduler.observation.snapshot_builder import MEMORY

Arrays = Mapping[str, Any]


def chargeable(arrays: Arrays, markets: Sequence[MarketRules]) -> Bools:
    """[vms]: whether the VM ran at the decision, or was placed by it, in a known market."""
    there = arrays["runs"] | arrays["placed"] if "placed" in arrays else arrays["runs"]
    charged: Bools = there & in_a_market(arrays, markets)
    return charged


def in_a_market(arrays: Arrays, markets: Sequence[MarketRules]) -> Bools:
    """[vms]: whether the VM is in a known market."""
    known = arrays["market"] < min(len(markets), len(arrays["price"]))
    inside: Bools = (arrays["market"] >= 0) & known
    return inside


def owed_by_vm(
    arrays: Arrays, running: Ints, elapsed: float, markets: Sequence[MarketRules]
) -> tuple[Ints, Ints]:
    """Return the rows of these VMs that can be charged, and the amount that each owes.

    The amounts are micro-credits, [rows, resources], for `elapsed` periods of running.
    """
    rows = np.flatnonzero(chargeable(arrays, markets) & is_one_of(arrays["vm"], running))
    return rows, owed_for(arrays, rows, np.full((len(rows), 1), elapsed), markets)


def owed_for(arrays: Arrays, rows: Ints, periods: Floats, markets: Sequence[MarketRules]) -> Ints:
    """[rows, resources]: micro-credits owed for these numbers of running periods, by resource.

    CPU is 0 in markets that charge for use, because the use is not known here.
    """
    return whole(costs(arrays, rows, markets) * periods)


def sold(arrays: Arrays) -> tuple[str, ...]:
    """Return the goods of a period's columns, in their order."""
    if "goods" not in arrays:
        return RESOURCES
    return tuple(ALL_GOODS[at] for at in arrays["goods"].tolist())


def costs(arrays: Arrays, rows: Ints, markets: Sequence[MarketRules]) -> Floats:
    """[rows, resources]: credits that each VM owes for one whole period of running.

    A VM in a limit order owes its part of what the order cost when it was decided, and the reserve
    price of memory that it holds beyond its size. Otherwise a guest without a balloon could hold
    all of its memory for the cost of a MiB (MERKAT_MAX_MEMORY).
    """
    owed = _costs(
        arrays, rows, markets, arrays["bid"][rows], held_memory.amounts_given(arrays)[rows]
    )
    owed = _with_order_costs(owed, arrays, rows)
    if "order_cost" not in arrays or "holding_mib" not in arrays:
        return owed
    beyond_mib = held_memory.beyond_share(arrays)[rows]
    beyond_mib[np.isnan(arrays["order_cost"][rows]).all(axis=1)] = 0.0
    terms = arrays if "by_use" in arrays else terms_of(markets, sold(arrays))
    owed[:, MEMORY] += beyond_mib * terms["reserve"][arrays["market"][rows], MEMORY]
    return owed


def _with_order_costs(owed: Floats, arrays: Arrays, rows: Ints) -> Floats:
    """Return costs, [rows, resources], in which VMs of limit orders owe their orders' costs."""
    if "order_cost" not in arrays:
        return owed
    of_order = arrays["order_cost"][rows]
    return np.where(np.isnan(of_order), owed, of_order)


def finite_prices(arrays: Arrays, markets: Sequence[MarketRules]) -> Floats:
    """[markets, resources]: the price of one more unit.

    If floors took all of a good, its price is infinite. A unit then costs the average that all VMs
    of the market pay for one.
    """
    prices: Floats = arrays["price"].copy()
    rows = np.flatnonzero(chargeable(arrays, markets))
    owed, had = costs(arrays, rows, markets), held_memory.amounts_given(arrays)[rows]
    for at, good in np.argwhere(~np.isfinite(prices)).tolist():
        market = arrays["market"][rows] == at
        units = float(had[market, good].sum())
        prices[at, good] = float(owed[market, good].sum()) / units if units > 0 else 0.0
    return prices


def start_prices(
    arrays: Arrays, markets: Sequence[MarketRules], before: Mapping[str, Mapping[str, float]]
) -> Floats:
    """[markets, resources]: the price of a unit that a guest has before it gets limits.

    It is at most the price of the previous period (`before`, by market and resource). An owner that
    starts a VM knows that price, while the present price can be raised for a moment.
    """
    prices = finite_prices(arrays, markets)
    for row, market in enumerate(markets[: len(prices)]):
        earlier = before.get(market.name, {})
        prices[row] = np.minimum(prices[row], [earlier.get(good, np.inf) for good in sold(arrays)])
    return prices


def resting(arrays: Arrays, markets: Sequence[MarketRules]) -> Ints:
    """Return the rows of VMs that were off or failed on a host at the decision."""
    if "rests" not in arrays:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(arrays["rests"] & in_a_market(arrays, markets))


def resting_costs(arrays: Arrays, rows: Ints, markets: Sequence[MarketRules]) -> Floats:
    """[rows, resources]: credits for one whole period off, in which each VM has its floor.

    A VM of a limit order that starts has its full size, and owes its part of the order's cost.
    """
    bid = np.zeros_like(arrays["bid"][rows])
    if "claims" in arrays:
        bid = np.where(arrays["claims"][rows, np.newaxis], arrays["bid"][rows], bid)
    owed = _costs(arrays, rows, markets, bid, held_memory.kept_at_rest(arrays)[rows])
    return _with_order_costs(owed, arrays, rows)


def _costs(
    arrays: Arrays, rows: Ints, markets: Sequence[MarketRules], bid: Floats, given: Floats
) -> Floats:
    """[rows, resources]: the cost of these bids for a period with these amounts."""
    market = arrays["market"][rows]
    owed = np.zeros((len(rows), arrays["price"].shape[1]))
    least = held_memory.floors(arrays)[rows]
    price = arrays["price"][market]
    terms = arrays if "by_use" in arrays else terms_of(markets, sold(arrays))
    price[terms["by_use"][market]] = 0.0
    for at, reserve in enumerate(terms["reserve"]):
        mine = market == at
        owed[mine] = charges_of(
            bid[mine],
            given[mine],
            price[mine],
            1.0,
            floors=least[mine],
            reserve=reserve,
        )
    return owed


def terms_of(markets: Sequence[MarketRules], resources: tuple[str, ...]) -> Arrays:
    """Return the terms of a period's charge, as columns by market.

    A period stores the terms of its decision, because its reservation covers those, even if the
    configuration changes before the charge.
    """
    reserve = [market.pricing.reserve_prices(resources) for market in markets]
    return {
        "by_use": np.array([market.by_use for market in markets], dtype=bool),
        "reserve": np.array(reserve, dtype=np.float64),
    }


def most_owed(
    arrays: Arrays, markets: Sequence[MarketRules], most_periods: float
) -> Mapping[int, int]:
    """Return, by account, the highest possible charge of this period in micro-credits.

    It assumes that every chargeable VM runs for the longest charged time, and uses all its virtual
    CPUs if use is charged. It assumes that every VM that is off or failed stays so for that time,
    and that limit orders for which room is cleared wait as long.
    """
    rows = np.flatnonzero(chargeable(arrays, markets))
    owed = costs(arrays, rows, markets)
    if "rate" in arrays:
        rate = arrays["rate"][rows]
        used = np.isfinite(rate)
        owed[used, CPU] = (rate * arrays["vcpus"][rows])[used]
    off = resting(arrays, markets)
    if len(off):
        rows = np.concatenate([rows, off])
        owed = np.concatenate([owed, resting_costs(arrays, off, markets)])
    room = ClearedRoom.stored(arrays, owed.shape[1])
    most = np.concatenate([owed * most_periods, room.most_owed(most_periods)])
    each = np.minimum(whole(most).sum(axis=1), MAX_OWED)
    accounts = [*arrays["account"][rows].tolist(), *room.account.tolist()]
    totals: dict[int, int] = {}
    for account, amount in zip(accounts, each.tolist(), strict=True):
        if account >= 0:
            totals[account] = min(totals.get(account, 0) + amount, MAX_OWED)
    return totals


def with_use(
    arrays: Mapping[str, Any],
    rows: Ints,
    owed: Ints,
    given: Floats,
    used: Floats,
    elapsed: Floats,
    rounded: Callable[[Floats], Ints],
) -> tuple[Ints, Floats]:
    """Return owed and given amounts with the used CPU, for VMs whose use is charged.

    `rounded` converts credits to whole micro-credits.
    """
    rate = arrays["rate"][rows]
    charged = np.isfinite(rate)
    owed, given = owed.copy(), given.copy()
    owed[charged, CPU] = rounded(rate[charged] * used[charged])
    given[charged, CPU] = units(used[charged], elapsed[charged])
    return owed, given


def idle(arrays: Mapping[str, Any], rows: Ints, periods: Floats) -> Ints:
    """[rows, resources]: the amount owed for the idle cores of a share, where use is charged.

    For these periods the VM kept its share from others and had no guest.
    """
    owed = np.zeros((len(rows), arrays["price"].shape[1]))
    cores = np.minimum(
        held_memory.amounts_given(arrays)[rows, CPU] / UNITS_PER_CORE, arrays["vcpus"][rows]
    )
    owed[:, CPU] = np.nan_to_num(arrays["rate"][rows]) * cores * np.maximum(periods, 0.0)
    return whole(owed)
