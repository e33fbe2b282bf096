"""A wall clock that is ahead for a while ends no platform; a passed deadline does."""

from collections.abc import Iterator

import pytest
from twisted.logger import capturedLogs

from merkatd.api.metrics.notice_metrics import NoticeMetrics
from merkatd.commands.texts.status_text import status_lines
from tests.platforms.site import BOB, Site
from tests.service.interfaces import Interfaces

HOUR_S = 3_600.0
PATIENCE = 10
"""Periods for which a new time must hold."""
DEADLINE = '[slo]\ndeadline = "100h"'
LATE = "[start]\nnot_before = 1970-01-13T00:00:00Z"


class Clocked(Site):
    """A site whose daemon's wall clock can be set, while time passes as usual."""

    ahead_s = 0.0

    def wall_s(self) -> float:
        """Return the time of the daemon's wall clock."""
        return self.clock.seconds() + self.ahead_s


@pytest.fixture
def site() -> Iterator[Clocked]:
    """Yield a site with a correct clock."""
    made = Clocked()
    yield made
    made.close()


def test_a_clock_that_is_briefly_ahead_ends_nothing(site: Clocked) -> None:
    """Running and waiting platforms stay, and so do their VMs."""
    platforms = [
        site.submit(slo=DEADLINE),
        site.submit(slo=DEADLINE, start=LATE),
        site.submit(start=f'{LATE}\nlatest = "100h"'),
    ]
    expected = ["running", "postponed", "postponed"]
    site.periods(5)
    vms = site.alive()
    assert [site.platform(platform).state for platform in platforms] == expected
    site.ahead_s = 200 * HOUR_S
    for _ in range(PATIENCE - 1):
        site.periods(1)
        assert [site.platform(platform).state for platform in platforms] == expected
    site.ahead_s = 0.0
    site.periods(PATIENCE + 2)
    assert [site.platform(platform).state for platform in platforms] == expected
    assert site.alive() == vms


def test_a_new_time_counts_once_it_has_held(site: Clocked) -> None:
    """If the clock was behind and NTP corrected it, the deadline has passed.

    Until then controllers get the believed remaining time, by the clock of their monitors.
    """
    platform, later = site.submit(slo=DEADLINE), site.submit(slo='[slo]\ndeadline = "300h"')
    deadline_s = site.platform(later).deadline_s
    assert deadline_s is not None
    site.periods(5)
    site.ahead_s = 200 * HOUR_S
    deadlines = set()
    for _ in range(PATIENCE):
        now_s = site.clock.seconds()
        site.periods(1)
        news = [message for message in site.notes.news if message.platform == later][-1]
        assert news.at_s == news.market.at_s == now_s + site.ahead_s
        assert news.deadline_s is not None
        assert news.deadline_s - news.at_s == deadline_s - now_s
        deadlines.add(news.deadline_s)
    assert len(deadlines) == 1, "an unchanged deadline keeps its value"
    assert site.platform(platform).state == "running"
    site.periods(1)
    assert site.platform(platform).state in {"stopping", "failed"}
    assert "has passed" in site.platform(platform).why
    assert [message for message in site.notes.news if message.platform == later][
        -1
    ].deadline_s == deadline_s


def test_a_deadline_that_really_passes_ends_its_platform(site: Clocked) -> None:
    """Passing time counts while the clock is in doubt."""
    platform = site.submit(slo='[slo]\ndeadline = "8m"')
    site.periods(5)
    site.ahead_s = 200 * HOUR_S
    site.periods(3)
    assert site.platform(platform).state == "running"
    site.periods(1)
    assert site.platform(platform).state in {"stopping", "failed"}


def test_a_controller_started_in_doubt_gets_the_same_deadline(site: Clocked) -> None:
    """Its assignment agrees with its news."""
    site.submit(slo='[slo]\ndeadline = "300h"')
    site.periods(5)
    site.ahead_s = 200 * HOUR_S
    site.start_daemon()
    site.periods(1)
    assert site.notes.started[-1].deadline_s == site.notes.news[-1].deadline_s
    left_s = 300 * HOUR_S - 240.0
    assert site.notes.news[-1].deadline_s == pytest.approx(site.notes.news[-1].at_s + left_s)


def test_a_jump_of_the_clock_is_logged_once(site: Clocked) -> None:
    """The log has the jump, and its end."""
    site.submit(slo=DEADLINE)
    site.periods(5)
    with capturedLogs() as logs:
        site.ahead_s = 200 * HOUR_S
        site.periods(3)
        site.ahead_s = 0.0
        site.periods(3)
    texts = [log["log_format"] for log in logs if "wall clock" in log.get("log_format", "")]
    assert ["advanced" in text for text in texts] == [True, False]


class TestAfterARestart:
    """A restarted daemon cannot distinguish a long stop from a changed clock."""

    def test_a_deadline_that_passed_during_a_long_stop_counts_soon(self, site: Clocked) -> None:
        """It counts at most ten periods later."""
        platform = site.submit(slo='[slo]\ndeadline = "1h"')
        site.periods(5)
        site.clock.advance(5 * HOUR_S)
        site.start_daemon()
        site.periods(1)
        assert site.platform(platform).state == "running"
        site.periods(PATIENCE)
        assert site.platform(platform).state in {"stopping", "failed"}

    def test_a_deadline_that_passed_during_a_short_stop_counts_at_once(self, site: Clocked) -> None:
        """A short restart is not a jump of the clock."""
        platform = site.submit(slo='[slo]\ndeadline = "10m"')
        site.periods(5)
        site.clock.advance(HOUR_S / 8)
        site.start_daemon()
        site.periods(1)
        assert site.platform(platform).state in {"stopping", "failed"}

    def test_a_restart_while_the_clock_is_ahead_ends_nothing(self, site: Clocked) -> None:
        """The clock may have been set before or during the restart."""
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


def test_a_doubted_clock_is_shown(site: Clocked) -> None:
    """The status, the metrics and each page say so, until the clock is believed."""
    asked = Interfaces(site, site.manager)

    def shown() -> tuple[bool, float, bool]:
        lines = status_lines(asked.control("status"), None)
        metrics = {metric.name: metric for metric in NoticeMetrics(site.scheduler).collect()}
        return (
            "Clock in doubt: it is 8 d 8 h ahead; no deadline takes effect yet." in lines,
            metrics["merkat_clock_ahead_seconds"].samples[0].value,
            b"clock is 8 d 8 h ahead" in asked.page(BOB, "/vms").body,
        )

    asked.periods(2)
    assert shown() == (False, 0.0, False)
    site.ahead_s = 200 * HOUR_S
    asked.periods(1)
    assert shown() == (True, 200 * HOUR_S, True)
    site.ahead_s = 0.0
    asked.periods(1)
    assert shown() == (False, 0.0, False)
