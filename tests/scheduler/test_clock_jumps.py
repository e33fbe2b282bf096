"""A wall clock that is set while the daemon runs."""

from itertools import pairwise

import pytest
from twisted.internet.task import Clock

from merkatd.embedded.clock import ScaledClock
from merkatd.scheduler.beat import Beat
from merkatd.scheduler.settings import Rhythm

DAY_S = 86_400.0
RHYTHM = Rhythm()


class Site:
    """Periods that take no time, by a wall clock as the daemon has it beside an OpenNebula."""

    def __init__(self) -> None:
        self._reactor = Clock()
        self._set_s = 1.8e9
        clock = ScaledClock(self._reactor, self._wall_s, 1.0, self._wall_s(), self._wall_s())
        self.ran: list[float] = []
        self.beat = Beat(clock, RHYTHM, self._period)
        self.beat.start()

    def pass_s(self, seconds: float) -> None:
        """So much time passes really."""
        self._reactor.pump([5.0] * round(seconds / 5))

    def set_clock(self, jump_s: float) -> None:
        """By so much, forward or back."""
        self._set_s += jump_s

    @property
    def longest_gap_s(self) -> float:
        """Between two periods, really."""
        return max(after - before for before, after in pairwise(self.ran))

    def _wall_s(self) -> float:
        return self._set_s + self._reactor.seconds()

    async def _period(self) -> None:
        self.ran.append(self._reactor.seconds())


@pytest.mark.parametrize("jump_s", [-3600.0, -365 * DAY_S, 3600.0, 365 * DAY_S])
def test_periods_go_on_when_the_clock_is_set(jump_s: float) -> None:
    """At most an interval is lost."""
    site = Site()
    site.pass_s(600.0)
    site.set_clock(jump_s)
    site.pass_s(3600.0)
    assert site.longest_gap_s <= 2 * RHYTHM.interval_s
    assert len(site.ran) >= 4200.0 / RHYTHM.interval_s - 1


def test_a_clock_that_was_a_year_ahead_for_minutes_stops_nothing() -> None:
    """Nor does an event wait for the old time."""
    site = Site()
    site.pass_s(600.0)
    site.set_clock(365 * DAY_S)
    site.pass_s(300.0)
    site.set_clock(-365 * DAY_S)
    site.beat.wake()
    site.pass_s(1200.0)
    assert site.longest_gap_s <= 2 * RHYTHM.interval_s
