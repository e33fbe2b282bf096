"""Patience: for which price to run now, when to wait, when to make room, when to give up.

An application of fixed size gains nothing from a part of what it needs: it runs at full speed,
or it waits. What it could pay for a unit, if all its money went into the work that is left, is
the most it would ever bid. While there is time it spreads its money over all the time that is
left (as section 3.1.1 does), and offers even less as long as its deadline is further away than
its horizon: those whose deadlines are near go first, and all of them meet theirs. All it sees
of others is the book that is published: how many units are claimed above a price.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

from merkatd.policies.deadline import Funds
from merkatd.policies.suspension import REST

Claim = tuple[float, float]
"""The price up to which so many units are wanted, and how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatienceSettings:
    """How an application trades time for money."""

    horizon_s: float = 3600.0
    """Deadlines further away than this are discounted, in proportion; 0: nothing is, and all
    money is offered at once."""
    clinging: float = 2.0
    """By what a running application's limit is multiplied: to be suspended and resumed costs
    it time, which it saves by paying more."""
    haste: float = 0.5
    """Who needs a part of the market sees its deadline nearer by so much of that part: room for
    many is seldom there at once, and those who need little find theirs before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuNeed:
    """What an application needs, and has."""

    means: float
    """All its money until the deadline."""
    units: float
    """What full speed takes,"""
    capacity: float
    """of all that the market has."""
    work_s: float
    """How long the rest takes at full speed,"""
    left_s: float
    """and how long there is."""


def need_of(purse: Funds, units: float, capacity: float, work_s: float, left_s: float) -> CpuNeed:
    """With all that a purse has and gets until the deadline."""
    left_s = max(left_s, 0.0)
    means = purse.credits + purse.renewal * left_s / purse.renewal_s
    return CpuNeed(
        means=means, units=units, capacity=max(capacity, units), work_s=work_s, left_s=left_s
    )


def offered(need: CpuNeed, purse: Funds, period_s: float, temper: PatienceSettings) -> float:
    """What one that waits would pay: no more than it has for all of a rest, or of its work.

    What replenishment will bring it can't pay yet: begun on that, it would have to make room before
    its rest is over.
    """
    periods = min(max(need.work_s / period_s, 1.0), REST)
    has = purse.credits / (need.units * periods)
    return max(min(limit_price(need, period_s, temper), has), 0.0)


def claim_while_running(
    limit: float, purse: Funds, units: float, temper: PatienceSettings
) -> float:
    """What one that runs claims: it clings to what it has, as far as a period can be paid."""
    return max(min(limit * temper.clinging, purse.credits / max(units, 1.0)), 0.0)


def limit_price(need: CpuNeed, period_s: float, temper: PatienceSettings) -> float:
    """Credits for a unit and period that are worth paying now.

    No less than a period is paid for at a time; without a unit that it needs there is no price.
    """
    if need.left_s <= 0 or need.units <= 0:
        return 0.0
    work_s = min(need.work_s, need.left_s)
    whole = need.means / (need.units * max(work_s / period_s, 1.0))
    if temper.horizon_s == 0:
        return whole
    part = min(need.units / need.capacity, 1.0)
    seen_s = max(need.left_s * (1.0 - temper.haste * part), work_s)
    spread = work_s / seen_s if seen_s > 0 else 1.0
    return whole * spread * min(temper.horizon_s / seen_s, 1.0)


class Book:
    """The claims of a market: what is wanted up to which price, by nobody in particular."""

    def __init__(self, capacity: float, claims: Iterable[Claim] = ()) -> None:
        self._capacity = capacity
        self._claims = sorted(claims)
        self._claimed = sum(units for _, units in self._claims)

    @property
    def capacity(self) -> float:
        """All that there is to claim."""
        return self._capacity

    def copy(self) -> "Book":
        """Return a book of the same claims, which can be changed alone."""
        return Book(self._capacity, self._claims)

    def room_above(self, price: float) -> float:
        """What is left by those who would pay this price or more."""
        at = bisect_left(self._claims, (price, 0.0))
        if at < len(self._claims) // 2:
            below = sum(units for _, units in self._claims[:at])
            return self._capacity - (self._claimed - below)
        return self._capacity - sum(units for _, units in self._claims[at:])

    def claim(self, price: float, units: float) -> None:
        """Somebody wants so much."""
        insort(self._claims, (price, units))
        self._claimed += units

    def withdraw(self, price: float, units: float) -> None:
        """Somebody who did, does not any more."""
        self._claims.remove((price, units))
        self._claimed -= units


def may_start(book: Book, limit: float, units: float) -> bool:
    """Whether there is room for all it needs beside those who would pay as much or more."""
    return book.room_above(limit) >= units


def must_yield(book: Book, limit: float) -> bool:
    """Whether those who pay as much or more, itself among them, leave it less than it needs."""
    return book.room_above(limit) < 0
