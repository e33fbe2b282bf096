"""The time by which deadlines are judged: the wall clock's, once it is believed.

A wall clock may be ahead for a while, and whatever it ends is ended for good. So from look to look
it is compared with a clock that can't be set. Where it went on further than that one, the time
without the jump counts until the new one has held for a while. A clock that is set back is believed
at once: that ends nothing.

After a restart nothing tells a clock that was set from a daemon that was away. The observations of
earlier periods stand in for the other clock, and a long gap is doubted for as long as a jump.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from twisted.logger import Logger

from merkatd.base.clock import Clock
from merkatd.database.base.transactions import Transactions
from merkatd.database.scheduler import period_store
from merkatd.scheduler.base.settings import Rhythm

MOMENT_S = 5.0
"""So much further than the other clock a wall clock may have gone from look to look,"""
SLEWED = 0.1
"""and this part of the time between: one that is put right slowly gains a twelfth at most."""
PERIODS, LONGEST_S = 10, 1_800.0
"""A new time is believed once it has held for so many intervals, or for so long."""
_PAST = 400
"""More periods than there can be in that time, where they begin early as often as they may."""

_log = Logger()


def patience_s(interval_s: float) -> float:
    """How long a new time has to hold."""
    return min(PERIODS * interval_s, LONGEST_S)


@dataclass(frozen=True, slots=True)
class Belief:
    """The time that was believed at a look, and why."""

    steady_s: float
    """On the clock that can't be set: when it was looked,"""
    time_s: float
    """and the time that is believed: the wall clock's time, or an earlier one."""
    ahead_s: float = 0.0
    """By how much the wall clock is ahead of that; 0 where it is believed."""
    since_s: float = 0.0
    """On the clock that can't be set: since when it has been as far ahead."""


def looked(before: Belief | None, wall_s: float, steady_s: float, held_s: float) -> Belief:
    """The belief after a look. `held_s` is how long a new time has to hold."""
    if before is None:
        return Belief(steady_s, wall_s)
    passed_s = max(steady_s - before.steady_s, 0.0)
    time_s = before.time_s + passed_s
    ahead_s = wall_s - time_s
    moment_s = MOMENT_S + SLEWED * passed_s
    if ahead_s <= moment_s:
        return Belief(steady_s, wall_s)
    if before.ahead_s == 0.0 or abs(ahead_s - before.ahead_s) > moment_s:
        return Belief(steady_s, time_s, ahead_s, steady_s)
    if steady_s - before.since_s >= held_s:
        return Belief(steady_s, wall_s)
    # As far ahead as before, to the last digit: deadlines that are told stay the same.
    return Belief(steady_s, wall_s - before.ahead_s, before.ahead_s, before.since_s)


def resumed(past: Sequence[float], wall_s: float, steady_s: float, held_s: float) -> Belief:
    """The belief after the first look, behind observations at these times, oldest first.

    From one to the next as much time passed as they say, but none in a gap that is too long.
    """
    times = [*past, wall_s]
    gaps = [after - before for before, after in pairwise(times)]
    passed = [gap if 0.0 <= gap <= held_s else 0.0 for gap in gaps]
    at_s = steady_s - sum(passed)
    belief = looked(None, times[0], at_s, held_s)
    for time_s, step_s in zip(times[1:], passed, strict=True):
        at_s += step_s
        belief = looked(belief, time_s, at_s, held_s)
    return belief


class Clocks(Protocol):
    """What the time is read from."""

    @property
    def clock(self) -> Clock:
        """The clock that can't be set."""

    @property
    def rhythm(self) -> Rhythm:
        """How long a period takes."""

    def now(self) -> float:
        """The wall clock's time."""


class Believed:
    """Remembers the belief, and tells the log where the wall clock is not."""

    def __init__(self) -> None:
        self._belief: Belief | None = None

    @property
    def ahead_s(self) -> float:
        """By how much the wall clock was ahead of what was believed last."""
        return 0.0 if self._belief is None else self._belief.ahead_s

    async def look(self, clocks: Clocks, database: Transactions, period: int) -> float:
        """The time that is believed now, in this period; at the first look earlier ones count."""
        past: Sequence[float] = ()
        if self._belief is None:
            past = await database.read(lambda c: period_store.observed(c, period, _PAST))
        return self._look(clocks, past)

    def _look(self, clocks: Clocks, past: Sequence[float]) -> float:
        before, now = self._belief, self._next(clocks, past)
        if now.ahead_s > 0.0 and (before is None or before.since_s != now.since_s):
            _log.warn(
                "The wall clock went {ahead:.0f} s further than the time that is known to have"
                " passed. Nothing is ended by a deadline until it has held for {held:.0f} s. Where"
                " it is wrong, set it right before",
                ahead=now.ahead_s,
                held=patience_s(clocks.rhythm.interval_s),
            )
        elif before is not None and before.ahead_s > 0.0 and now.ahead_s == 0.0:
            _log.info("The wall clock is believed again: deadlines are judged by its time")
        self._belief = now
        return now.time_s

    def now(self, clocks: Clocks) -> float:
        """The time that is believed, for answers: nothing is remembered of it."""
        return self._next(clocks, ()).time_s

    def _next(self, clocks: Clocks, past: Sequence[float]) -> Belief:
        wall_s, steady_s = clocks.now(), clocks.clock.seconds()
        held_s = patience_s(clocks.rhythm.interval_s)
        if self._belief is None:
            return resumed(past, wall_s, steady_s, held_s)
        return looked(self._belief, wall_s, steady_s, held_s)
