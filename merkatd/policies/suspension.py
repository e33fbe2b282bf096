"""Suspend and resume: one rule for controllers and for the daemon (section 3.1.1).

A platform needs a certain part of its VMs' full size. Its controller suspends it while it can't pay
for that part; the daemon resumes it when it can. Both compute that part here, from the same
numbers, so that neither undoes the other's decision. Resuming requires more money than continuing
(`MARGIN`), and a rest follows each change (`REST`). A platform whose time to spare is shorter than
a rest keeps running.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from merkatd.policies.deadline import Funds, bid_max
from merkatd.policies.horizontal import Prices

MARGIN: Final = 1.25
"""A platform is resumed when it can spend at least its cost times this factor."""
REST: Final = 10
"""The least number of periods between two changes."""
HORIZON_S: Final = 86_400.0
"""The time for which the credits must last without a deadline, counted from any moment."""
_HALVINGS: Final = 30
_LEAST_OTHERS: Final = 0.1
"""The least part of a market assumed to stay with others, when a platform wants nearly all."""
_EXACT: Final = 1e-9
"""A tolerance for rounding: a deadline that can just be met must not fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The facts about a platform for the suspension rule."""

    purse: Funds
    left_s: float
    """The time until the deadline; infinite without a deadline."""
    work_s: float | None
    """The least time for the rest of the work; None if unknown."""
    least_part: float | None = None
    """The fixed part of the VMs' full size that the platform needs; None to derive it from time."""
    full: Sequence[float]
    """The full size of all VMs together, by resource."""
    prices: Prices
    """The prices without the platform's own bids."""
    interval_s: float
    since_s: float = inf
    """Seconds since the last change; infinite before the first."""
    suspended: bool = False
    """Whether the platform is suspended now."""

    @property
    def margin(self) -> float:
        """Return the factor by which the spending limit must exceed the cost of the need."""
        return MARGIN if self.suspended else 1.0

    @property
    def needed(self) -> float:
        """Return the part that the VMs need; 0 if the platform must run at any price."""
        if self.least_part is not None:
            return self.least_part
        if self.work_s is None or self.left_s <= self.work_s:
            return 0.0
        return self.work_s / self.left_s

    @property
    def spare_s(self) -> float:
        """Return how long the platform can pause without harm."""
        if self.least_part is not None:
            return self.left_s / 2
        return self.left_s - (self.work_s or 0.0)

    @property
    def rest_s(self) -> float:
        """Return the time from one change to the next."""
        return REST * self.interval_s


def spending(purse: Funds, left_s: float, interval_s: float) -> float:
    """Return the spending limit per period, of all VMs together, with which the credits last."""
    return bid_max(purse, HORIZON_S if left_s == inf else left_s, interval_s, 1)


def cost(part: float, full: Sequence[float], prices: Prices) -> float:
    """Return the cost of this part of `full` per period, with its effect on the price (Eq. 1)."""
    cost = 0.0
    for price, amount, capacity in zip(prices.others, full, prices.capacity, strict=True):
        wanted = amount * part
        if wanted > 0:
            others = 1.0 - wanted / capacity if capacity > 0 else 0.0
            cost += price * wanted / max(others, _LEAST_OTHERS)
    return cost


def payable_part(credits_: float, full: Sequence[float], prices: Prices) -> float:
    """Return the part of `full`, up to 1, that these credits buy in a period (Eq. 1)."""
    if cost(1.0, full, prices) <= credits_:
        return 1.0
    fits, fails = 0.0, 1.0
    for _ in range(_HALVINGS):
        tried = (fits + fails) / 2
        if cost(tried, full, prices) <= credits_:
            fits = tried
        else:
            fails = tried
    return fits


def can_pay(case: Case) -> bool:
    """Return whether the cost of the needed part, times the margin, is within the limit."""
    needed = min(case.needed, 1.0)
    if needed <= 0.0:
        return True
    there = spending(case.purse, case.left_s, case.interval_s)
    return cost(needed, case.full, case.prices) * (1 - _EXACT) <= there / case.margin


def rested(case: Case) -> bool:
    """Return whether a running platform has rested enough to be suspended, for any reason."""
    return case.since_s >= case.rest_s and case.spare_s > case.rest_s


def suspends(case: Case) -> bool:
    """Return whether to suspend a running platform."""
    return rested(case) and not can_pay(case)


def rest_left_s(case: Case) -> float:
    """Return the seconds that a suspended platform must still rest; 0 if it can be resumed."""
    if case.least_part is None and case.spare_s <= case.rest_s:
        return 0.0
    return max(case.rest_s - case.since_s, 0.0)
