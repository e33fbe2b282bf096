"""The common utility: the same for all applications that can reach it, with all power used.

# Note [Common utility]

A power `W` is divided so that the least utility is as great as possible, then the next one, and so
on. So all applications have the same utility `u`, but those that can't reach it have their greatest
one. The power that all need together,

    f(u) = sum of w(min(u, greatest utility))

grows with `u`, so `f(u) = W` has one solution. Between two neighbours of the sorted greatest
utilities the set of applications that still grow stays the same. A bisection finds these
neighbours. There f is convex, and Newton's method from the upper one never passes the solution.

Example: jobs with 2,500 and 1,500 left, goals in 18 and 15 s, spans of 20 and 16 s, can use 1,000
and 500. The greatest utilities are 0.775 and 0.75. For 0.75 they need 833 + 500. With 1,000
together both have 0.696: 612 and 388.
Used by `common_utility` and `hypothetical_utilities`.
"""

from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Floats
from merkatd.placement.utility.powers.power_curves import LEAST_UTILITY, PowerCurves

_ROUNDS = 60
"""More steps than Newton's method needs from anywhere."""
_PRECISION = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class DividedPower:
    """A power, divided among applications."""

    common: float
    """The common utility; that of the applications with the greatest ones if power is left."""
    power: Floats
    utility: Floats
    """Both are [applications]."""


def common_utility(curves: PowerCurves, power: float) -> float:
    """Return the utility for which all applications together need this power.

    Where all can have their greatest utility, it is the highest of these; where the power is not
    enough for `LEAST_UTILITY`, it is that.
    """
    if not len(curves):
        return LEAST_UTILITY
    steps = np.unique(curves.most_utility)
    if curves.power(float(steps[-1])).sum() <= power:
        return float(steps[-1])
    if curves.power(LEAST_UTILITY).sum() >= power:
        return LEAST_UTILITY
    low, high = -1, len(steps) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if curves.power(float(steps[middle])).sum() <= power:
            low = middle
        else:
            high = middle
    floor = float(steps[low]) if low >= 0 else LEAST_UTILITY
    return _solve(curves, power, floor, float(steps[high]))


def _solve(curves: PowerCurves, power: float, floor: float, top: float) -> float:
    """Return the solution between two neighbouring greatest utilities, by Newton's method."""
    growing = curves.most_utility >= top
    fixed = float(curves.power(floor)[~growing].sum())
    part = PowerCurves(
        base=curves.base[growing],
        scale=curves.scale[growing],
        reach=curves.reach[growing],
        span=curves.span[growing],
        most_utility=np.full(int(growing.sum()), np.inf),
    )
    utility = top
    for _ in range(_ROUNDS):
        step = (fixed + float(part.power(utility).sum()) - power) / float(part.slope(utility).sum())
        utility -= step
        if abs(step) <= _PRECISION * max(1.0, abs(utility)):
            break
    return utility


def divide_power(curves: PowerCurves, power: float) -> DividedPower:
    """Return the power and the utility of each application.

    Where the power is not enough for the least utility, since services can't answer their requests,
    all get the same part of the power that they need for it.
    """
    common = common_utility(curves, power)
    needed = curves.power(common)
    total = float(needed.sum())
    if common == LEAST_UTILITY and total > power:
        needed = needed * (max(power, 0.0) / total)
    return DividedPower(common, needed, curves.utility(needed))
