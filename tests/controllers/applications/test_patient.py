"""Patience on the embedded cloud: full speed or none, by limit orders."""

from collections.abc import Iterator

import pytest

from merkatd.market.price import PriceRule
from merkatd.placement.contract import Pricing
from merkatd.platforms.platform_views import PlatformDetails, platform_view
from merkatd.protocol.platform_messages import News, ProgressReport, SetBids, SetLimit
from merkatd.scheduler.base.settings import MarketRules
from tests.controllers.applications.live import Live
from tests.controllers.applications.test_deadline import crowd, finished, submitted

MARKET = MarketRules(
    pricing=Pricing(rule=PriceRule.CLEARING, reserve={"cpu": 0.001, "memory": 0.0001})
)


@pytest.fixture
def site() -> Iterator[Live]:
    """Return a site with one host of four cores."""
    live = Live(hosts=1, markets=(MARKET,))
    yield live
    live.close()


def news_of(site: Live, platform: int) -> News:
    """Return the last news of the controller."""
    return [latest for latest in site.notes.news if latest.platform == platform][-1]


def shown(site: Live, platform: int) -> PlatformDetails:
    """Return a platform as its tenant sees it after one more period."""
    announcement, world = site.periods(1), site.scheduler.world
    stored = site.platform(platform)
    row: PlatformDetails = site.read(lambda c: platform_view(c, stored, world, announcement))
    return row


def test_two_platforms_that_fit_run_at_full_speed(site: Live) -> None:
    """They bid nothing, pay the reserve price, and see both orders without names."""
    first, second = submitted(site, 4_800.0, "patient"), submitted(site, 4_000.0, "patient")
    for platform in (first, second):
        site.until(platform, "running")
    site.periods(3)
    for platform in (first, second):
        latest = news_of(site, platform)
        assert [vm.allocation["cpu"] for vm in latest.vms] == pytest.approx([100.0] * 2, abs=1.0)
        assert not site.requests(platform, SetBids)
        assert latest.order is not None
        assert latest.order.runs
        assert latest.order.cost == pytest.approx(0.2 + 0.2048)
        limits = [message.limit for message in site.requests(platform, SetLimit)]
        assert limits == sorted(limits)
    higher, lower = news_of(site, first).market.orders
    assert higher.bundle == lower.bundle == {"cpu": 200.0, "memory": 2048.0}
    assert higher.height > lower.height > 1.0
    report = site.requests(first, ProgressReport)[-1].text
    assert "runs for at most" in report
    assert report.endswith("credits a period, pays 0.4048")


def test_the_platform_with_most_time_makes_room_and_all_meet_deadlines(site: Live) -> None:
    """Three request six of four cores; the displaced one goes on with its data."""
    far, near = submitted(site, 9_000.0, "patient"), submitted(site, 3_000.0, "patient")
    for platform in (far, near):
        site.until(platform, "running")
    site.periods(3)
    vms = site.vms(far)
    urgent = submitted(site, 1_000.0, "patient")
    site.until(urgent, "running")
    queued = site.until(far, "queued")
    assert far not in site.notes.running
    assert site.vms(far) == vms
    site.periods(2)
    assert {site.state(vm) for vm in vms} == {"PENDING"}
    assert "waits: its limit is" in site.platform(far).why
    assert queued.needs == "free capacity, or time: it offers more as its deadline approaches"
    states = [finished(site, platform, 200)[0] for platform in (urgent, near, far)]
    assert states == ["done", "done", "done"]
    what = [doing.what for doing in reversed(site.doings(far))]
    states = [word for word in what if word in {"starting", "queued", "running", "stopping"}]
    assert states == ["starting", "queued", "running", "queued", "running", "stopping"]


def test_a_platform_waits_for_room_and_reports_it(site: Live) -> None:
    """Earlier platforms with higher limits keep it waiting as long as they can."""
    hurried = [submitted(site, 1_300.0, "patient") for _ in range(2)]
    for platform in hurried:
        site.until(platform, "running")
    patient = submitted(site, 6_000.0, "patient")
    site.until(patient, "queued")
    site.periods(2)
    details = shown(site, patient)
    assert "waits: its limit is" in details.why
    assert details.limit is not None
    assert details.order_cost == 0.0
    assert finished(site, hurried[0])[0] == "done"
    site.until(patient, "running")


def test_dear_bids_delay_a_platform_and_cheap_ones_do_not(site: Live) -> None:
    """Bids and orders are in one market."""
    crowd(site, 4)
    site.periods(2)
    platform = submitted(site, 3_000.0, "patient")
    site.until(platform, "running")
    site.periods(3)
    assert [vm.allocation["cpu"] for vm in news_of(site, platform).vms] == [100.0, 100.0]
    crowd(site, 4, bid=50_000.0)
    site.until(platform, "queued")
    outbid = submitted(site, 6_000.0, "patient")
    site.periods(6)
    assert site.platform(outbid).state == "queued"


def test_after_a_restart_platforms_go_on(site: Live) -> None:
    """All is in the database: a daemon that is killed in any period goes on."""
    near, far = submitted(site, 2_400.0, "patient"), submitted(site, 9_000.0, "patient")
    urgent = submitted(site, 1_500.0, "patient")
    for _ in range(12):
        site.periods(1)
        site.start_daemon()
    states = [finished(site, platform, 200)[0] for platform in (urgent, near, far)]
    assert states == ["done", "done", "done"]
