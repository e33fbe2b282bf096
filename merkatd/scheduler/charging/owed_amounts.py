"""What VMs owe for a period, worked out from the columns that its decision kept. Pure.

The same arithmetic says what the coming charge can come to at most, which the decision
reserves, and what it comes to once it is known for how long each VM ran.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.currency import MICRO
from merkatd.limits.cpu_limits import UNITS_PER_CORE
from merkatd.market.price import charges as charges_of
from merkatd.scheduler.base.settings import ALL_GOODS, RESOURCES, MarketRules
from merkatd.scheduler.charging import held_memory
from merkatd.scheduler.charging.used_cpu import CPU, units

MAX_OWED = 2**61
"""Micro-credits that a VM can owe for a resource: two of them still fit a whole number."""

Arrays = Mapping[str, Any]


def chargeable(arrays: Arrays, markets: Sequence[MarketRules]) -> Bools:
    """[vms]: ran when the period was decided, or was placed by it, in a market that there is."""
    there = arrays["runs"] | arrays["placed"] if "placed" in arrays else arrays["runs"]
    found: Bools = there & in_a_market(arrays, markets)
    return found


def in_a_market(arrays: Arrays, markets: Sequence[MarketRules]) -> Bools:
    """[vms]: whether the VM is in a known market."""
    known = arrays["market"] < min(len(markets), len(arrays["price"]))
    found: Bools = (arrays["market"] >= 0) & known
    return found


def whole(credits_owed: Floats) -> Ints:
    """The nearest whole micro-credits, as far as they can be counted."""
    if np.isnan(credits_owed).any():
        raise ValueError("what a VM owes is not a number")
    found: Ints = np.minimum(np.rint(credits_owed * MICRO), MAX_OWED).astype(np.int64)
    return found


def owed_by_vm(
    arrays: Arrays, running: Ints, elapsed: float, markets: Sequence[MarketRules]
) -> tuple[Ints, Ints]:
    """Rows of these VMs among those that can be charged, and what each owes for so long.

    [vms, resources], micro-credits, of VMs that ran for `elapsed` periods.
    """
    rows = np.flatnonzero(chargeable(arrays, markets) & np.isin(arrays["vm"], running))
    return rows, owed_for(arrays, rows, np.full((len(rows), 1), elapsed), markets)


def owed_for(arrays: Arrays, rows: Ints, periods: Floats, markets: Sequence[MarketRules]) -> Ints:
    """[rows, resources]: micro-credits that VMs owe, for so many periods of running by resource.

    Where use is charged that is nothing: what was used is not known here.
    """
    return whole(costs(arrays, rows, markets) * periods)


def sold(arrays: Arrays) -> tuple[str, ...]:
    """Return the goods of a period's columns, in their order."""
    if "goods" not in arrays:
        return RESOURCES
    return tuple(ALL_GOODS[at] for at in arrays["goods"].tolist())


def costs(arrays: Arrays, rows: Ints, markets: Sequence[MarketRules]) -> Floats:
    """[rows, resources]: credits that each VM owes for one whole period of running."""
    return _costs(
        arrays, rows, markets, arrays["bid"][rows], held_memory.amounts_given(arrays)[rows]
    )


def finite_prices(arrays: Arrays, markets: Sequence[MarketRules]) -> Floats:
    """[markets, resources]: what a unit more than was given costs.

    Where floors took all of a good its price is infinite: there a unit costs what all VMs together
    pay for one.
    """
    found: Floats = arrays["price"].copy()
    rows = np.flatnonzero(chargeable(arrays, markets))
    owed, had = costs(arrays, rows, markets), held_memory.amounts_given(arrays)[rows]
    for at, good in np.argwhere(~np.isfinite(found)).tolist():
        market = arrays["market"][rows] == at
        units = float(had[market, good].sum())
        found[at, good] = float(owed[market, good].sum()) / units if units > 0 else 0.0
    return found


def start_prices(
    arrays: Arrays, markets: Sequence[MarketRules], before: Mapping[str, Mapping[str, float]]
) -> Floats:
    """[markets, resources]: what a unit costs that a guest has before it has limits.

    `before` are the prices of the period before, by market and resource: it costs no more than
    that. An owner that starts a VM knows that price, and a price can be raised for a moment.
    """
    found = finite_prices(arrays, markets)
    for row, market in enumerate(markets[: len(found)]):
        earlier = before.get(market.name, {})
        found[row] = np.minimum(found[row], [earlier.get(good, np.inf) for good in sold(arrays)])
    return found


def resting(arrays: Arrays, markets: Sequence[MarketRules]) -> Ints:
    """Return the rows of VMs that were off or failed on a host when the period was decided."""
    if "rests" not in arrays:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(arrays["rests"] & in_a_market(arrays, markets))


def resting_costs(arrays: Arrays, rows: Ints, markets: Sequence[MarketRules]) -> Floats:
    """[rows, resources]: credits for one whole period off, in which each VM keeps its floor."""
    bid = np.zeros_like(arrays["bid"][rows])
    return _costs(arrays, rows, markets, bid, held_memory.kept_at_rest(arrays)[rows])


def _costs(
    arrays: Arrays, rows: Ints, markets: Sequence[MarketRules], bid: Floats, given: Floats
) -> Floats:
    """[rows, resources]: what these bids owe for a period with what they were given."""
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
    """Return the columns, by market, of the terms that a period's charge goes by.

    A period keeps those that it was decided by: they are what its reservation covers, whatever
    the configuration says by the time of the charge.
    """
    reserve = [one.pricing.reserve_prices(resources) for one in markets]
    return {
        "by_use": np.array([one.by_use for one in markets], dtype=bool),
        "reserve": np.array(reserve, dtype=np.float64),
    }


def most_owed(
    arrays: Arrays, markets: Sequence[MarketRules], most_periods: float
) -> Mapping[int, int]:
    """By account: the most that the charge of this period can come to, in micro-credits.

    Every VM that can be charged runs for as long as a charge can be for, and where use is
    charged it uses all its virtual CPUs. Every VM that is off or failed stays so for as long.
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
    each = np.minimum(whole(owed * most_periods).sum(axis=1), MAX_OWED)
    found: dict[int, int] = {}
    for account, amount in zip(arrays["account"][rows].tolist(), each.tolist(), strict=True):
        if account >= 0:
            found[account] = min(found.get(account, 0) + amount, MAX_OWED)
    return found


def with_use(
    arrays: Mapping[str, Any], rows: Ints, owed: Ints, given: Floats, used: Floats, elapsed: Floats
) -> tuple[Ints, Floats]:
    """What is owed and was had, with the CPU that was used where use is charged."""
    rate = arrays["rate"][rows]
    charged = np.isfinite(rate)
    owed, given = owed.copy(), given.copy()
    owed[charged, CPU] = whole(rate[charged] * used[charged])
    given[charged, CPU] = units(used[charged], elapsed[charged])
    return owed, given


def idle(arrays: Mapping[str, Any], rows: Ints, periods: Floats) -> Ints:
    """[rows, resources]: what is owed for idle cores of a share, where use is charged.

    For so many periods the VM kept its share from others, and had no guest.
    """
    owed = np.zeros((len(rows), arrays["price"].shape[1]))
    cores = np.minimum(
        held_memory.amounts_given(arrays)[rows, CPU] / UNITS_PER_CORE, arrays["vcpus"][rows]
    )
    owed[:, CPU] = np.nan_to_num(arrays["rate"][rows]) * cores * np.maximum(periods, 0.0)
    return whole(owed)
