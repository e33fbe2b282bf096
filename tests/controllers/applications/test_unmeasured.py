"""Before the first measured iteration little is known, so controllers act carefully."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from controllers.applications.iterative import UNKNOWN_PART, Iterative
from controllers.applications.market_position import DecisionInput
from merkatd.policies.vertical import Performance
from merkatd.protocol.platform_messages import ProgressReport, SetBids
from tests.controllers.applications.live import Live
from tests.controllers.applications.test_deadline import crowd, finished, submitted

UNKNOWN = "its pace is not known yet"


@pytest.fixture
def site() -> Iterator[Live]:
    """Return a site with one host of four cores."""
    live = Live(hosts=1)
    yield live
    live.close()


def cpu_bids(site: Live, platform: int, reason: str = "") -> list[float]:
    """Return the controller's total CPU bids with this reason."""
    messages = [message for message in site.requests(platform, SetBids) if reason in message.reason]
    return [sum(bid["cpu"] for bid in message.bids.values()) for message in messages]


def test_without_an_ideal_run_time_the_pace_is_measured(site: Live) -> None:
    """Before the first iteration it takes what it gets and reports an unknown pace."""
    crowd(site, 4)
    platform = submitted(site, 1_200.0, ideal=False)
    site.until(platform, "running")
    assert "no iteration" in site.requests(platform, ProgressReport)[0].text
    assert site.requests(platform, ProgressReport)[0].on_track is None
    state, _ = finished(site, platform)
    assert state == "done"
    assert site.requests(platform, ProgressReport)[-1].on_track


def test_two_platforms_without_a_pace_do_not_raise_each_others_bids(site: Live) -> None:
    """Each could pay a hundred times as much, but has enough."""
    crowd(site, 2)
    site.periods(2)
    both = [submitted(site, 24_000.0, budget=50_000.0, ideal=False, steps=2) for _ in range(2)]
    for platform in both:
        site.until(platform, "running")
    site.periods(4)
    for platform in both:
        bids = cpu_bids(site, platform, UNKNOWN)
        assert len(bids) >= 4
        assert max(bids) <= bids[0] * 1.001
        assert site.requests(platform, ProgressReport)[-1].on_track is None


def test_many_platforms_without_a_pace_keep_most_of_their_credits(site: Live) -> None:
    """Bids are bounded though no part worth having fits each.

    Each pays little while its pace is unknown, and none is suspended for a price that they caused
    together.
    """
    crowd(site, 2)
    deadline_s = 24_000.0
    many = [submitted(site, deadline_s, ideal=False, steps=2) for _ in range(5)]
    for platform in many:
        site.until(platform, "running")
    site.periods(8)
    may_spend = 5_000.0 * 60.0 / (deadline_s - 60.0 * (8 + 20))
    for platform in many:
        bids = cpu_bids(site, platform, UNKNOWN)
        assert len(bids) >= 8
        assert bids[-1] > bids[0]
        assert max(bids) <= may_spend / 4
        assert site.platform(platform).state == "running"


class Judging(Iterative):
    """A kind that needs more or has enough."""

    def __init__(self, *, is_slow: bool) -> None:
        self.is_slow = is_slow

    def judged(self, _scene: DecisionInput) -> Performance:
        """Return a value that differs if it is slow."""
        return Performance(value=3.0 if self.is_slow else 1.0, reference=1.0, low=0.8, high=1.2)


@pytest.mark.parametrize(
    ("held", "measured", "is_slow", "part"),
    [
        (0.5, False, False, UNKNOWN_PART),
        (0.0, False, True, UNKNOWN_PART),
        (0.5, False, True, 1.0),
        (0.5, True, False, 1.0),
        (0.0, True, False, 1.0),
    ],
)
def test_only_a_platform_never_measured_is_bounded(
    held: float, measured: bool, is_slow: bool, part: float
) -> None:
    """A measured platform that waits for a host may spend as much as before."""
    scene: Any = SimpleNamespace(held=held, measured=measured, spending=100.0)
    assert Judging(is_slow=is_slow).compared(scene)[1] == 100.0 * part


def test_a_first_iteration_that_takes_too_long_is_slow(site: Live) -> None:
    """The bids rise before its end, and the deadline is met."""
    platform = submitted(site, 1_500.0, ideal=False, steps=4)
    site.until(platform, "running")
    crowd(site, 4)
    known: list[bool | None] = []
    while not any(known):
        site.periods(1)
        known = [message.on_track for message in site.requests(platform, ProgressReport)]
    before = cpu_bids(site, platform)[: known.index(True)]
    assert before[-1] > 1.5 * before[0]
    assert finished(site, platform)[0] == "done"
