"""A wall clock that is ahead for a while ends no platform; a deadline that has passed does."""

from collections.abc import Iterator
from typing import Any

import pytest
from twisted.logger import capturedLogs

from tests.platforms.site import Site

HOUR_S = 3_600.0
PATIENCE = 10
"""Periods for which a new time has to hold."""
DEADLINE = '[slo]\ndeadline = "100h"'
LATE = "[start]\nnot_before = 1970-01-13T00:00:00Z"


class Clocked(Site):
    """Its daemon's wall clock is set; the time that passes is not."""

    ahead_s = 0.0

    def wall_s(self) -> float:
        """What the daemon's wall clock says."""
        return self.clock.seconds() + self.ahead_s


@pytest.fixture
def site() -> Iterator[Clocked]:
    """With a right clock."""
    made = Clocked()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("parts", "state"),
    [
        ({"slo": DEADLINE}, "running"),
        ({"slo": DEADLINE, "start": LATE}, "postponed"),
        ({"start": f'{LATE}\nlatest = "100h"'}, "postponed"),
    ],
)
def test_nothing_ends_while_the_clock_is_ahead_for_some_periods(
    site: Clocked, parts: Any, state: str
) -> None:
    """Neither what runs, nor what waits; its VMs stay."""
    platform = site.submit(**parts)
    site.periods(5)
    before, vms = site.platform(platform), site.alive()
    assert before.state == state
    site.ahead_s = 200 * HOUR_S
    for _ in range(PATIENCE - 1):
        site.periods(1)
        assert site.platform(platform).state == state
    site.ahead_s = 0.0
    site.periods(PATIENCE + 2)
    assert site.platform(platform).state == state
    assert site.alive() == vms


def test_a_new_time_counts_once_it_has_held(site: Clocked) -> None:
    """The clock was behind, and NTP has set it right: the deadline has passed."""
    platform = site.submit(slo=DEADLINE)
    site.periods(5)
    site.ahead_s = 200 * HOUR_S
    site.periods(PATIENCE)
    assert site.platform(platform).state == "running"
    site.periods(1)
    assert site.platform(platform).state in {"stopping", "failed"}
    assert "has passed" in site.platform(platform).why


def test_a_deadline_that_really_passes_in_doubt_ends_its_platform(site: Clocked) -> None:
    """The time that passes counts all the while."""
    platform = site.submit(slo='[slo]\ndeadline = "8m"')
    site.periods(5)
    site.ahead_s = 200 * HOUR_S
    site.periods(3)
    assert site.platform(platform).state == "running"
    site.periods(1)
    assert site.platform(platform).state in {"stopping", "failed"}


def test_controllers_go_by_the_same_time(site: Clocked) -> None:
    """They have as much time left as is believed, by the clock that their monitors have too."""
    platform = site.submit(slo='[slo]\ndeadline = "300h"')
    deadline_s = site.platform(platform).deadline_s
    assert deadline_s is not None
    site.periods(5)
    site.ahead_s = 200 * HOUR_S
    told = set()
    for _ in range(PATIENCE):
        now_s = site.clock.seconds()
        site.periods(1)
        news = site.notes.news[-1]
        assert news.at_s == news.market.at_s == now_s + site.ahead_s
        assert news.deadline_s is not None
        assert news.deadline_s - news.at_s == deadline_s - now_s
        told.add(news.deadline_s)
    assert len(told) == 1, "one that stays the same is told as the same"
    site.periods(1)
    assert site.notes.news[-1].deadline_s == deadline_s


def test_a_controller_that_starts_in_doubt_is_told_the_same(site: Clocked) -> None:
    """Its assignment agrees with its news."""
    site.submit(slo='[slo]\ndeadline = "300h"')
    site.periods(5)
    site.ahead_s = 200 * HOUR_S
    site.start_daemon()
    site.periods(1)
    assert site.notes.started[-1].deadline_s == site.notes.news[-1].deadline_s
    left_s = 300 * HOUR_S - 240.0
    assert site.notes.news[-1].deadline_s == pytest.approx(site.notes.news[-1].at_s + left_s)


def test_an_administrator_reads_of_it_once(site: Clocked) -> None:
    """When the clock jumps, and when it is believed again."""
    site.submit(slo=DEADLINE)
    site.periods(5)
    with capturedLogs() as logs:
        site.ahead_s = 200 * HOUR_S
        site.periods(5)
        site.ahead_s = 0.0
        site.periods(5)
    told = [log["log_format"] for log in logs if "wall clock" in log.get("log_format", "")]
    assert ["advanced" in one for one in told] == [True, False]


class TestAfterARestart:
    """Nothing tells a daemon that was away from a clock that was set."""

    def test_a_deadline_that_passed_meanwhile_counts_soon_after(self, site: Clocked) -> None:
        """Ten periods later at most."""
        platform = site.submit(slo='[slo]\ndeadline = "1h"')
        site.periods(5)
        site.clock.advance(5 * HOUR_S)
        site.start_daemon()
        site.periods(1)
        assert site.platform(platform).state == "running"
        site.periods(PATIENCE)
        assert site.platform(platform).state in {"stopping", "failed"}

    def test_a_deadline_that_passes_in_a_short_stop_counts_at_once(self, site: Clocked) -> None:
        """A restart is no jump."""
        platform = site.submit(slo='[slo]\ndeadline = "10m"')
        site.periods(5)
        site.clock.advance(HOUR_S / 8)
        site.start_daemon()
        site.periods(1)
        assert site.platform(platform).state in {"stopping", "failed"}

    def test_a_restart_while_the_clock_is_ahead_ends_nothing(self, site: Clocked) -> None:
        """Whether the clock was set before it or meanwhile."""
        platform = site.submit(slo=DEADLINE)
        site.periods(5)
        site.ahead_s = 200 * HOUR_S
        site.start_daemon()
        site.periods(3)
        site.start_daemon()
        site.periods(3)
        assert site.platform(platform).state == "running"
        site.ahead_s = 0.0
        site.periods(PATIENCE + 2)
        assert site.platform(platform).state == "running"
