"""Patience: the limit price of a fixed-size application.

An application of fixed size gains nothing from a part of its need: it runs at full speed, or it
waits. Its highest price is what it can pay for a unit if all its money goes into the remaining
work. While there is time, it spreads its money over all the remaining time (as in section 3.1.1).
It offers even less while its deadline is further away than its horizon. So applications with near
deadlines run first, and all of them can meet their deadlines.

A suspension and a resumption cost time. So a running application pays up to `running_factor` times
its limit to avoid them, and its limit is so much below what its money pays for. Otherwise it could
run out of money shortly before the end of its work, and all that it paid would be lost.

The daemon states it as the limit of an order (`most_credits`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from merkatd.policies.deadline import Funds
from merkatd.policies.suspension import REST

_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class PatienceSettings:
    """Settings of the trade between time and money."""

    horizon_s: float = 3600.0
    """Time to the deadline above which an application offers less, in proportion; 0 to offer all
    money at once."""
    running_factor: float = 2.0
    """Factor on the limit price of a running application, at least 1: it pays more to avoid a
    suspension and a resumption, which cost it time."""
    haste: float = 0.5
    """Weight of an application's share of the market, by which it sees its deadline nearer. Room
    for a large application is rare, and small ones take it first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuNeed:
    """An application's money, its need of CPU and its time."""

    means: float
    """All its money until the deadline."""
    units: float
    """The units that full speed takes."""
    capacity: float
    """The capacity of the whole market, in units."""
    work_s: float
    """The time for the rest of the work at full speed."""
    left_s: float
    """The time until the deadline."""


def need_of(purse: Funds, units: float, capacity: float, work_s: float, left_s: float) -> CpuNeed:
    """Return the need of an application with all money that it has and gets until the deadline."""
    left_s = max(left_s, 0.0)
    means = purse.credits + purse.renewal * left_s / purse.renewal_s
    return CpuNeed(
        means=means, units=units, capacity=max(capacity, units), work_s=work_s, left_s=left_s
    )


def share_of(bundle: Mapping[str, float], capacity: Mapping[str, float]) -> float:
    """Return the largest part of a good's capacity that a bundle takes, at most 1."""
    parts = (
        amount / capacity[name] if capacity.get(name, 0.0) > 0 else 1.0
        for name, amount in bundle.items()
        if amount > 0
    )
    return min(max(parts, default=0.0), 1.0)


def most_credits(
    purse: Funds,
    share: float,
    least: float,
    work_s: float,
    left_s: float,
    period_s: float,
    temper: PatienceSettings,
) -> float:
    """Return the most credits per period that an application pays for all it needs.

    `share` is the part of the market that it needs, and `least` the cost at the reserve prices.
    Prices never fall below these: if it can pay `least` for all its work, it waits for nothing
    less. Its present credits must pay for a whole rest, or for its remaining work if that is
    shorter. Future replenishments don't count: with them, it would have to stop before its rest is
    over.
    """
    if left_s <= 0 or share <= 0:
        return 0.0
    need = need_of(purse, 1.0, 1.0 / share, work_s, left_s)  # a unit is all that it needs
    works = max(work_s / period_s, 1.0)
    limit = limit_price(need, period_s, temper)
    least *= 1.0 + _ROUNDING
    if least * works <= need.means:
        limit = max(limit, least)
    return max(min(limit, purse.credits / min(works, REST)), 0.0)


def funded_s(limit: float, purse: Funds, work_s: float, period_s: float) -> float:
    """Return for how much of its remaining work an application can pay its limit now."""
    return min(work_s, purse.credits / limit * period_s) if limit > 0 else 0.0


def limit_price(need: CpuNeed, period_s: float, temper: PatienceSettings) -> float:
    """Return the credits per unit and period that are worth paying now.

    With `running_factor` times that, the money pays for all the work. The least paid time is one
    period: an application whose work is almost done, or short, offers as much as one whose work
    takes a period. Without time left or units needed, the price is 0.
    """
    if need.left_s <= 0 or need.units <= 0:
        return 0.0
    work_s = max(min(need.work_s, need.left_s), period_s)
    price = need.means / (need.units * work_s / period_s) / temper.running_factor
    if temper.horizon_s == 0:
        return price
    part = min(need.units / need.capacity, 1.0)
    seen_s = max(need.left_s * (1.0 - temper.haste * part), work_s)
    return price * work_s / seen_s * min(temper.horizon_s / seen_s, 1.0)
