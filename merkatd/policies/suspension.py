"""Suspend and resume: one rule for controllers and for the daemon (section 3.1.1).

A controller suspends its platform while it can't pay for the part that it needs of all that its VMs
can use; the daemon resumes it when it can. Both compute that part here, from the same numbers, so
that neither undoes the other's decision. Resuming takes more money than going on (`MARGIN`), each
change is followed by a rest (`REST`), and a platform with less time to spare than a rest goes on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from merkatd.policies.deadline import Funds, bid_max
from merkatd.policies.horizontal import Prices

MARGIN: Final = 1.25
"""A platform is resumed when what it needs costs so many times less than it can spend."""
REST: Final = 10
"""Periods from one change to the next."""
HORIZON_S: Final = 86_400.0
"""Without a deadline the credits have to last for this time, from any moment on."""
_HALVINGS: Final = 30
_LEAST_OTHERS: Final = 0.1
"""A platform that wants nearly all that there is finds at least this part with others."""
_EXACT: Final = 1e-9
"""A deadline that can just be met must not fail for the last bit of a float."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A platform before the decision."""

    purse: Funds
    left_s: float
    """Until the deadline; infinite without one."""
    work_s: float | None
    """The least time for the rest of the work; None where that is not known."""
    least_part: float | None = None
    """For tenants who want a part of what their VMs can use, whatever the pace: that part."""
    full: Sequence[float]
    """All that the VMs can use together, by resource."""
    prices: Prices
    """Without the platform's own bids."""
    interval_s: float
    since_s: float = inf
    """Seconds since the last change; infinite where there was none."""
    suspended: bool = False
    """Whether the platform is suspended now."""

    @property
    def margin(self) -> float:
        """Return how many times what it needs a platform must be able to spend."""
        return MARGIN if self.suspended else 1.0

    @property
    def needed(self) -> float:
        """Return the part that the VMs need; 0 where the platform is to run at any price."""
        if self.least_part is not None:
            return self.least_part
        if self.work_s is None or self.left_s <= self.work_s:
            return 0.0
        return self.work_s / self.left_s

    @property
    def spare_s(self) -> float:
        """Return how long the platform can stand still without harm."""
        if self.least_part is not None:
            return self.left_s / 2
        return self.left_s - (self.work_s or 0.0)

    @property
    def rest_s(self) -> float:
        """Return the time from one change to the next."""
        return REST * self.interval_s


def spending(purse: Funds, left_s: float, interval_s: float) -> float:
    """Return what all VMs together can spend in a period, so that the credits last."""
    return bid_max(purse, HORIZON_S if left_s == inf else left_s, interval_s, 1)


def cost(part: float, full: Sequence[float], prices: Prices) -> float:
    """Return what this part of `full` costs in a period, with the effect on the price (Eq. 1)."""
    whole = 0.0
    for price, amount, capacity in zip(prices.others, full, prices.capacity, strict=True):
        wanted = amount * part
        if wanted > 0:
            others = 1.0 - wanted / capacity if capacity > 0 else 0.0
            whole += price * wanted / max(others, _LEAST_OTHERS)
    return whole


def payable_part(credits_: float, full: Sequence[float], prices: Prices) -> float:
    """Return the part of `full`, up to 1, that these credits buy in a period by Eq. 1."""
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
    """Return whether the needed part costs no more than can be spent, divided by the margin."""
    needed = min(case.needed, 1.0)
    if needed <= 0.0:
        return True
    there = spending(case.purse, case.left_s, case.interval_s)
    return cost(needed, case.full, case.prices) * (1 - _EXACT) <= there / case.margin


def rested(case: Case) -> bool:
    """Return whether a platform that runs may be suspended, whatever its kind suspends it for."""
    return case.since_s >= case.rest_s and case.spare_s > case.rest_s


def suspends(case: Case) -> bool:
    """Return whether a platform that runs is to be suspended."""
    return rested(case) and not can_pay(case)


def rests(case: Case) -> float:
    """Return for how many seconds a suspended platform still rests, 0 where it can be resumed."""
    if case.least_part is None and case.spare_s <= case.rest_s:
        return 0.0
    return max(case.rest_s - case.since_s, 0.0)
