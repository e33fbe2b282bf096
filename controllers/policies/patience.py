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

Claim = tuple[float, float]
"""The price up to which so many units are wanted, and how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Temper:
    """How an application trades time for money."""

    horizon_s: float = 3600.0
    """Deadlines further away than this are discounted, in proportion; 0: nothing is, and all
    money is offered at once."""
    clinging: float = 2.0
    """By what a running application's limit is multiplied: to be suspended and resumed costs
    it time, which it saves by paying more."""


def limit_price(
    means: float, units: float, work_s: float, left_s: float, period_s: float, temper: Temper
) -> float:
    """Credits for a unit and period that are worth paying now.

    `means` is all the money until the deadline, `units` what full speed takes, `work_s` how
    long the rest takes at full speed and `left_s` how long there is. No less than a period is
    paid for at a time.
    """
    if left_s <= 0:
        return 0.0
    whole = means / (units * max(work_s / period_s, 1.0))
    if temper.horizon_s == 0:
        return whole
    spread = min(work_s / left_s, 1.0)
    return whole * spread * min(temper.horizon_s / left_s, 1.0)


class Book:
    """The claims of a market: what is wanted up to which price, by nobody in particular."""

    def __init__(self, capacity: float, claims: Iterable[Claim] = ()) -> None:
        self._capacity = capacity
        self._claims = sorted(claims)
        self._claimed = sum(units for _, units in self._claims)

    @property
    def overbooked(self) -> bool:
        """Whether somebody must make room."""
        return self._claimed > self._capacity

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

    @property
    def least(self) -> float:
        """The lowest limit of all."""
        return self._claims[0][0] if self._claims else 0.0


def may_start(book: Book, limit: float, units: float) -> bool:
    """Whether there is room for all it needs beside those who would pay as much or more."""
    return book.room_above(limit) >= units


def must_yield(book: Book, limit: float) -> bool:
    """Whether it is this one that is in the way of those who pay more."""
    return book.overbooked and limit <= book.least
