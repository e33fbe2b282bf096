"""The odds of a limit: how often it would have run in the recorded past, and be done by a deadline.

# Note [The odds of a limit]

The history is a sequence of stretches of time. In each of them a bundle of goods needed a limit of
so many credits a period. A limit runs in the stretches that needed no more, and pays what these
needed, since an order pays the least limit with which it would still run.

The chance that an order gets its work done by a deadline is the part of all moments of the history
from which on it would have been. The history continues after its end with its beginning: so all
moments count alike for each deadline, and the chance never falls if the limit rises or the
deadline is later.

Example: 6 hours, of which the first 2 and the fifth needed 5 credits, the others 3. With a limit of
4 an order runs from hour 2 to 4 and from 5 to 6, half of the past. Two hours of work within three:

    begins at        0   0.5   1   1.5   2   2.5   3   3.5   4   4.5   5   5.5
    runs until + 3   1   1.5   2   2     2   2     2   1.5   1   1     1   1

From hour 1 to 3 there are two hours of work in the next three, and nowhere else: 2 of 6 moments, a
chance of a third. A limit of 5 always runs, and is done in time with certainty.

The moments are no independent trials: neighbours share most of their next hours. `windows` says how
many times the history has the length of the deadline.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import floor, isfinite, log10

import numpy as np

from merkatd.cluster.columns import Floats
from merkatd.cluster.orders import LEAST_LIMIT

_DAY_S = 86_400.0
_ROUNDING = 1e-9
LEAST_HISTORY_S = 3_600.0
"""The shortest history that says anything."""
LEAST_WINDOWS = 3.0
"""The history must be so many times as long as the time until the deadline."""


@dataclass(frozen=True, eq=False)
class NeededLimits:
    """What a bundle needed as its limit in the recorded past, oldest first."""

    lasted_s: Floats
    """[stretches]: how long each of them lasted, above 0."""
    needed: Floats
    """[stretches]: credits a period; infinite where no limit was enough."""

    @cached_property
    def length_s(self) -> float:
        """Return the length of the history."""
        return float(self.lasted_s.sum())

    def windows(self, within_s: float) -> float:
        """Return how many times the history has the length of a deadline."""
        return self.length_s / within_s

    def part(self, limit: float) -> float:
        """Return the part of the past in which this limit would have run."""
        return float(self.lasted_s[self.needed <= limit].sum() / self.length_s)

    def cost(self, limit: float) -> float | None:
        """Return the average cost of a period in which it would have run; None if it never did."""
        runs = self.needed <= limit
        if not runs.any():
            return None
        return float(np.average(self.needed[runs], weights=self.lasted_s[runs]))

    def stops_per_day(self, limit: float) -> float:
        """Return how often a day the order would have been suspended."""
        runs = self.needed <= limit
        stops = int(np.count_nonzero(runs & ~np.roll(runs, -1)))
        return stops / self.length_s * _DAY_S

    def chance(self, limit: float, work_s: float, within_s: float) -> float:
        """Return the part of all moments from which on the work would have been done in time."""
        runs = self.needed <= limit
        worked = np.concatenate([[0.0], np.cumsum(np.where(runs, self.lasted_s, 0.0))])
        ends = np.concatenate([[0.0], np.cumsum(self.lasted_s)])
        length, works = float(ends[-1]), float(worked[-1])

        def until(at_s: Floats) -> Floats:
            """Return the work done from the beginning of the history until then."""
            laps = np.floor(at_s / length)
            until_s: Floats = laps * works + np.interp(at_s - laps * length, ends, worked)
            return until_s

        # Between these moments the work within the deadline changes along a straight line.
        moments = np.unique(np.concatenate([ends, np.mod(ends - within_s, length)]))
        done = until(moments + within_s) - until(moments)
        enough = work_s * (1.0 - _ROUNDING)
        low, high = np.minimum(done[:-1], done[1:]), np.maximum(done[:-1], done[1:])
        crosses = (low < enough) & (high > enough)
        rise = np.where(crosses, high - low, 1.0)
        parts = np.where(crosses, (high - enough) / rise, low >= enough)
        return float(parts @ np.diff(moments) / length)


@dataclass(frozen=True, slots=True)
class LimitOdds:
    """What a limit would have meant in the recorded past."""

    limit: float
    part: float
    """The part of the past in which it would have run."""
    stops_per_day: float
    """How often a day the order would have been suspended."""
    cost: float | None
    """The average cost of a period of running; None if it would never have run."""
    chance: float | None
    """The chance that the work is done in time; None without a deadline."""


def odds_of(past: NeededLimits, limit: float, work_s: float, within_s: float | None) -> LimitOdds:
    """Return what a limit would have meant in this past."""
    return LimitOdds(
        limit=limit,
        part=past.part(limit),
        stops_per_day=past.stops_per_day(limit),
        cost=past.cost(limit),
        chance=None if within_s is None else past.chance(limit, work_s, within_s),
    )


def past_of(
    started_s: Sequence[float], needed: Floats, until_s: float, most_s: float
) -> NeededLimits:
    """Return the past of records that began at these times.

    Each lasts until the next one, at most `most_s`: of the time after it nothing is known.
    """
    lasted = np.clip(np.diff(np.append(np.asarray(started_s, dtype=float), until_s)), 0.0, most_s)
    there = lasted > 0
    return NeededLimits(lasted[there], needed[there])


def limits_around(needed: float | None, past: NeededLimits | None) -> list[float]:
    """Return the limits to show: parts and multiples of the present need, or of the average one."""
    middle = needed
    if middle is None and past is not None:
        middle = past.cost(np.finfo(float).max)
    if middle is None:
        return []
    below, above = ([float(f"{middle * factor:.3g}") for factor in some] for some in _FACTORS)
    return [*below, middle if needed is not None else rounded_up(middle), *above]


_FACTORS = (0.5, 0.75), (1.5, 2.0)
_DIGITS = 4
BEYOND = 1e9
"""A limit above this is as good as none: bids never leave the whole of a market."""


def rounded_up(limit: float) -> float:
    """Return the next limit above with four significant digits, as texts show it.

    A limit that just equals another order's might not displace it.
    """
    if limit < LEAST_LIMIT:
        return LEAST_LIMIT
    if not isfinite(limit):
        return limit
    unit = 10.0 ** (floor(log10(limit)) + 1 - _DIGITS)
    return float(f"{(floor(limit / unit * (1.0 + _ROUNDING)) + 1) * unit:.{_DIGITS}g}")
