"""The rounding of charges: many short periods cost as much as one long period.

# Note [Rounding that adds up]

Balances are whole micro-credits, and periods can be a second long. If each charge were rounded
alone, the errors of sixty charges would add up: a VM that costs 20 micro-credits in an interval of
60 s would cost 0.33 in each second, and pay nothing. So a charge is the difference of two rounded
amounts: what the VM would owe at this cost from the beginning of a cycle of time until the end of
the period, less what it would owe until the beginning. At a constant cost the differences add up to
the rounded whole, however the time is divided. Each charge is wrong by less than a micro-credit.
Example: at 0.33 micro-credits a second, from second 100 of the cycle on, the amounts are rounded
from 33.33, 33.67, 34, 34.33. The charges of the three seconds are 1, 0 and 0.

A charge is at most what the decision has reserved. Very high costs are rounded alone: they would
exceed the precision of the amounts, and a micro-credit is nothing to them.
"""

import math
from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.currency import MICRO

MAX_OWED = 2**61
"""The most micro-credits that a VM can owe for a resource; twice this still fits an integer."""

CYCLE_S = 65_536.0
"""The length of the cycle, in seconds."""
_EXACT = 2.0**46
"""The amount of micro-credits in a cycle above which a charge is rounded alone."""


@dataclass(frozen=True, slots=True)
class ChargedSpan:
    """The time of a charge, and the length of an interval."""

    from_s: float
    """The time of the observation at which the period began."""
    interval_s: float
    most_intervals: float
    """The number of intervals that the decision has reserved."""

    def owed(self, costs: Floats, seconds: Floats | float) -> Ints:
        """Return micro-credits for these costs of a whole interval, for so many seconds.

        Both are [rows, resources], or of shapes that fit. Raise ValueError for a cost that is not
        a number.
        """
        alone = whole(costs * (seconds / self.interval_s))
        begin_s = math.fmod(self.from_s, CYCLE_S)
        micro = np.minimum(costs * MICRO, _EXACT)
        until = np.floor(micro * (begin_s + seconds) / self.interval_s + 0.5)
        before = np.floor(micro * begin_s / self.interval_s + 0.5)
        exact = costs * MICRO * (2.0 * CYCLE_S / self.interval_s) < _EXACT
        added_up = np.minimum((until - before).astype(np.int64), whole(costs * self.most_intervals))
        owed: Ints = np.where(exact, added_up, alone)
        return owed

    def owed_for_all(self, amounts: Floats, seconds: float) -> Ints:
        """Return micro-credits for these amounts, which all the seconds of the period cost."""
        if seconds <= 0:
            return whole(amounts)
        return self.owed(amounts * (self.interval_s / seconds), seconds)


def whole(credits_owed: Floats) -> Ints:
    """Round credits to whole micro-credits, up to the largest countable amount."""
    if np.isnan(credits_owed).any():
        raise ValueError("an owed amount must be a number (got NaN)")
    micro: Ints = np.minimum(np.rint(credits_owed * MICRO), MAX_OWED).astype(np.int64)
    return micro
