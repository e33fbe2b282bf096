"""Patience on the embedded cloud: full speed or none, by an anonymous book of claims."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.applications.deadline_controllers import other_claims
from merkatd.platforms.lifecycle.start_conditions import (
    MarketOffer,
    StartAnswer,
    Terms,
    judge_start,
    limit_of,
)
from merkatd.platforms.platform_views import PlatformDetails, platform_view
from merkatd.policies.deadline import Funds
from merkatd.policies.patience import ClaimBook
from merkatd.protocol.platform_messages import Claim, News, SetBids, SuspendPlatform
from tests.controllers.applications.live import Live
from tests.controllers.applications.test_deadline import crowd, finished, submitted

CORES = 400.0


@pytest.fixture
def site() -> Iterator[Live]:
    """Return a site with one host of four cores."""
    live = Live(hosts=1)
    yield live
    live.close()


def news_of(site: Live, platform: int) -> News:
    """Return the last news of the controller."""
    return [latest for latest in site.notes.news if latest.platform == platform][-1]


def test_two_platforms_that_fit_run_at_full_speed(site: Live) -> None:
    """Each claims its price, reads other claims, and bids for its maximum."""
    first, second = submitted(site, 4_800.0, "patient"), submitted(site, 4_000.0, "patient")
    for platform in (first, second):
        site.until(platform, "running")
    site.periods(3)
    for platform in (first, second):
        vms = news_of(site, platform).vms
        assert [vm.allocation["cpu"] for vm in vms] == pytest.approx([100.0, 100.0], abs=1.0)
        assert site.requests(platform, SetBids)[-1].reason.startswith("full speed")
    claims = news_of(site, first).market.claims
    assert [claim.units for claim in claims] == [200.0, 200.0]
    assert claims[0].price < claims[1].price
    prices = [message.price for message in site.requests(first, Claim)]
    assert claims[0].price in prices
    assert prices == sorted(prices)


def test_the_platform_with_most_time_makes_room_and_all_meet_deadlines(site: Live) -> None:
    """Three request six of four cores; the suspended one is resumed."""
    far, near = submitted(site, 9_000.0, "patient"), submitted(site, 3_000.0, "patient")
    for platform in (far, near):
        site.until(platform, "running")
    site.periods(2)
    urgent = submitted(site, 1_000.0, "patient")
    site.until(urgent, "running")
    site.until(far, "suspended")
    assert "leave" in site.requests(far, SuspendPlatform)[-1].reason
    assert not site.requests(near, SuspendPlatform)
    assert not site.requests(urgent, SuspendPlatform)
    site.periods(1)
    assert "claims at this price or above leave" in site.platform(far).why
    states = [finished(site, platform, 200)[0] for platform in (urgent, near, far)]
    assert states == ["done", "done", "done"]


def test_a_platform_waits_for_room_and_reports_it(site: Live) -> None:
    """Earlier platforms with higher prices keep it waiting as long as it can."""
    hurried = [submitted(site, 1_300.0, "patient") for _ in range(2)]
    for platform in hurried:
        site.until(platform, "running")
    patient = submitted(site, 6_000.0, "patient")
    site.periods(2)
    waits = site.platform(patient)
    assert waits.state == "postponed"
    assert "leave 0 of the 200 units it needs" in waits.why
    assert waits.needs == "free capacity, or time: it offers more as its deadline approaches"
    assert finished(site, hurried[0])[0] == "done"
    site.until(patient, "running")


def test_manual_bids_are_in_the_book_at_the_present_price(site: Live) -> None:
    """They are one entry: cheap bids are outbid, and high ones delay the platform."""
    crowd(site, 4)
    site.periods(2)
    platform = submitted(site, 3_000.0, "patient")
    site.until(platform, "running")
    site.periods(3)
    claims = news_of(site, platform).market.claims
    own = {message.price for message in site.requests(platform, Claim)}
    others = [claim for claim in claims if claim.price not in own]
    assert len(others) == 1
    assert others[0].price == pytest.approx(news_of(site, platform).prices["cpu"])
    assert sum(claim.units for claim in claims) == pytest.approx(CORES, rel=0.01)

    crowd(site, 4, bid=50_000.0)
    site.periods(2)
    outbid = submitted(site, 6_000.0, "patient")
    site.periods(3)
    assert site.platform(outbid).state == "postponed"


def test_an_own_claim_counts_once_even_if_partly_listed() -> None:
    """The book lists the units that its VMs received."""
    others = Claim(price=1.0, units=400.0)
    for units in (800.0, 300.0):
        book = (Claim(price=2.0, units=units), others)
        assert other_claims(book, Claim(price=2.0, units=800.0)) == [others]
    assert other_claims((others,), Claim(price=2.0, units=800.0)) == [others]


def test_patience_needs_a_deadline(site: Live) -> None:
    """A platform without one fails at once."""
    platform = site.submit(
        controller='[controller]\nkind = "patient"\nparameters = { steps = 4 }',
    )
    site.until(platform, "failed")
    assert "slo.deadline is missing" in site.platform(platform).why


def test_after_a_restart_the_book_is_read_again(site: Live) -> None:
    """The new daemon has no claims before its first period; running platforms continue."""
    near = submitted(site, 2_400.0, "patient")
    site.until(near, "running")
    site.periods(2)
    site.start_daemon()
    waits = submitted(site, 4_000.0, "patient")
    site.periods(1)
    assert site.platform(waits).why == "no claims are known yet"
    site.until(waits, "running")
    assert [claim.units for claim in news_of(site, near).market.claims] == [200.0, 200.0]
    assert site.platform(near).state == "running"


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.001, 10.0), st.floats(1.0, 400.0)), max_size=8),
    st.floats(700.0, 20_000.0),
)
def test_a_platform_starts_if_the_book_leaves_room(
    claims: list[tuple[float, float]], left_s: float
) -> None:
    """The simulation has the same rule, and there is no other condition."""
    book = ClaimBook(CORES, claims)
    terms = Terms(
        deadline_s=left_s,
        ideal_s=600.0,
        price_ceiling={},
        full={"cpu": 200.0},
        purse=Funds(credits=5_000.0),
        patient=True,
    )
    offer = MarketOffer(now_s=0.0, interval_s=60.0, prices={"cpu": 99.0}, book=book)
    judgement = judge_start(terms, offer)
    roomy = book.room_above(limit_of(terms, offer)) >= 200.0
    assert judgement.answer is (StartAnswer.START if roomy else StartAnswer.WAIT)
    assert bool(judgement.needs) is not roomy


def test_the_tenant_reads_the_result_of_the_book(site: Live) -> None:
    """A running platform shows other claims, a waiting one the reason."""
    runs = submitted(site, 4_000.0, "patient")
    site.until(runs, "running")
    crowd(site, 4, bid=50_000.0)
    waits = submitted(site, 6_000.0, "patient")
    announcement = [site.period() for _ in range(3)][-1]

    def details(platform: int) -> PlatformDetails:
        stored, world = site.platform(platform), site.scheduler.world
        row: PlatformDetails = site.read(lambda c: platform_view(c, stored, world, announcement))
        return row

    assert details(waits).outlook == "wait"
    assert "leave" in details(waits).takes
    assert "no claims are known" not in details(runs).takes
