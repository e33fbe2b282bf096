"""The time that decides deadlines: the wall clock's, except after an unexplained jump ahead.

A wall clock may be wrong for a while, but an ended platform stays ended. So each observation
compares the wall clock with a monotonic clock. If the wall clock advanced further, the daemon
ignores the jump until the new time has lasted for `patience_s`. A clock that is set back is
believed at once: that ends nothing.

After a restart the daemon can't distinguish a clock that was set from time in which it did not run.
The observations of earlier periods then replace the monotonic clock, and a long gap is doubted like
a jump.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from twisted.logger import Logger

from merkatd.base.clock import Clock
from merkatd.database.base.transactions import Transactions
from merkatd.database.scheduler import period_store
from merkatd.scheduler.base.settings import Rhythm

MOMENT_S, MOMENT_EACH_S = 5.0, 60.0
"""The seconds by which a wall clock may gain on the monotonic clock in each such time, also if it
has many observations."""
SLEWED = 0.1
"""The part of the time between two observations that it may gain too: slewing gains at most
1/12."""
PERIODS, LONGEST_S = 10, 1_800.0
"""The patience with a new time: this number of intervals, and at most this number of seconds."""
_PAST = 4_000
"""The most observations that are read after a start: more than a second apart, they cover twice
that time."""

_log = Logger()


def patience_s(interval_s: float) -> float:
    """Return how long a new time must last before it is believed."""
    return min(PERIODS * interval_s, LONGEST_S)


@dataclass(frozen=True, slots=True)
class Belief:
    """The believed time at one observation, with the state behind it."""

    steady_s: float
    """The monotonic clock's time of the observation."""
    time_s: float
    """The believed time: the wall clock's time, or an earlier one."""
    ahead_s: float = 0.0
    """The wall clock's lead over the believed time; 0 if the wall clock is believed."""
    since_s: float = 0.0
    """The monotonic clock's time since which the wall clock has had this lead."""
    gained_s: float = field(default=0.0, compare=False)
    """The seconds that the wall clock has gained lately, and that were believed."""


def next_belief(before: Belief | None, wall_s: float, steady_s: float, held_s: float) -> Belief:
    """Return the belief after an observation; a new time must last for `held_s`."""
    if before is None:
        return Belief(steady_s, wall_s)
    passed_s = max(steady_s - before.steady_s, 0.0)
    time_s = before.time_s + passed_s
    ahead_s = wall_s - time_s
    before_s = max(before.gained_s - MOMENT_S * passed_s / MOMENT_EACH_S, 0.0)
    moment_s = MOMENT_S - before_s + SLEWED * passed_s
    if ahead_s <= moment_s:
        gained_s = before_s + max(ahead_s - SLEWED * passed_s, 0.0)
        return Belief(steady_s, wall_s, gained_s=gained_s)
    further_s = ahead_s - before.ahead_s
    if before.ahead_s == 0.0 or abs(further_s) > moment_s:
        return Belief(steady_s, time_s, ahead_s, steady_s, before_s)
    if steady_s - before.since_s >= held_s:
        return Belief(steady_s, wall_s)
    gained_s = before_s + max(further_s - SLEWED * passed_s, 0.0)
    # The same lead as before, to the last digit, so that announced deadlines stay the same.
    return Belief(steady_s, wall_s - before.ahead_s, before.ahead_s, before.since_s, gained_s)


def first_belief(past: Sequence[float], wall_s: float, steady_s: float, held_s: float) -> Belief:
    """Return the belief after the first observation, from the times of earlier ones, oldest first.

    Each difference between two times counts as passed, except a gap longer than `held_s`.
    """
    times = [*past, wall_s]
    gaps = [after - before for before, after in pairwise(times)]
    passed = [gap if 0.0 <= gap <= held_s else 0.0 for gap in gaps]
    at_s = steady_s - sum(passed)
    belief = next_belief(None, times[0], at_s, held_s)
    for time_s, step_s in zip(times[1:], passed, strict=True):
        at_s += step_s
        belief = next_belief(belief, time_s, at_s, held_s)
    return belief


class Clocks(Protocol):
    """The sources of the time."""

    @property
    def clock(self) -> Clock:
        """The monotonic clock."""

    @property
    def rhythm(self) -> Rhythm:
        """The length of a period."""

    def now(self) -> float:
        """Return the wall clock's time."""


class BelievedTime:
    """The present belief; logs when the wall clock is doubted and when it is believed again."""

    def __init__(self) -> None:
        self._belief: Belief | None = None

    @property
    def ahead_s(self) -> float:
        """The wall clock's lead over the last believed time."""
        return 0.0 if self._belief is None else self._belief.ahead_s

    async def look(self, clocks: Clocks, database: Transactions, period: int) -> float:
        """Return the believed time in this period; at first, use the times of earlier periods."""
        past: Sequence[float] = ()
        if self._belief is None:
            past = await database.read(lambda c: period_store.observed(c, period, _PAST))
        return self._look(clocks, past)

    def _look(self, clocks: Clocks, past: Sequence[float]) -> float:
        before, now = self._belief, self._next(clocks, past)
        if now.ahead_s > 0.0 and (before is None or before.since_s != now.since_s):
            _log.warn(
                "The wall clock advanced by {ahead:.0f} s more than the time known to have passed."
                " No deadline takes effect until the new time has lasted for {held:.0f} s. If it is"
                " wrong, set the clock right before then.",
                ahead=now.ahead_s,
                held=patience_s(clocks.rhythm.interval_s),
            )
        elif before is not None and before.ahead_s > 0.0 and now.ahead_s == 0.0:
            _log.info("The wall clock is believed again and decides deadlines")
        self._belief = now
        return now.time_s

    def now(self, clocks: Clocks) -> float:
        """Return the believed time for answers, without storing anything."""
        return self._next(clocks, ()).time_s

    def _next(self, clocks: Clocks, past: Sequence[float]) -> Belief:
        wall_s, steady_s = clocks.now(), clocks.clock.seconds()
        held_s = patience_s(clocks.rhythm.interval_s)
        if self._belief is None:
            return first_belief(past, wall_s, steady_s, held_s)
        return next_belief(self._belief, wall_s, steady_s, held_s)
