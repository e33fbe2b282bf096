"""Quotes of patient platforms before their submission: the checks, the odds, nothing stored."""

from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from merkatd.api.xmlrpc.errors import Code
from merkatd.service.base.order_limits import OrderCounts
from merkatd.service.room_recorder import RoomRecorder
from tests.platforms.queues import COST, Queues, patient
from tests.platforms.site import template
from tests.scheduler.frontend import PASSWORD
from tests.service.interfaces import Interfaces, without_none

ANN, BOB = f"ann:{PASSWORD}", f"bob:{PASSWORD}"
QUOTE = "merkat.platform.quote"


class QuotedSite(Interfaces):
    """A host of which each platform needs most, and the interfaces of its daemon."""

    def __init__(self) -> None:
        self.site = Queues()
        super().__init__(self.site, self.site.manager)
        self.periods(1)

    def record(self, hours: float) -> None:
        """Record the prices of room for so many hours."""
        recorder = RoomRecorder(self.site.scheduler)
        for _ in range(round(hours * 12) + 1):
            latest = self.site.period()
            self.site.scheduler.latest = latest
            self.site.result(ensureDeferred(recorder.record(latest)))
            self.site.clock.advance(300)

    def quote(self, text: str) -> Any:
        """Return the quote that Ann gets."""
        value, code = self.call(ANN, QUOTE, text)
        assert code == 0, value
        return value


@pytest.fixture
def asked() -> Iterator[QuotedSite]:
    """Yield such a site."""
    made = QuotedSite()
    yield made
    made.site.close()


def test_all_interfaces_give_the_same_quote_and_store_nothing(asked: QuotedSite) -> None:
    """It has the size of all VMs, the limit of now, and the limit that starts them."""
    before = asked.site.balances()
    value = asked.quote(patient())
    assert value == without_none(asked.control("platform_quote", tenant="ann", template=patient()))
    assert (value["market"], value["size"]) == ("default", 3)
    assert (value["cpu"], value["memory"]) == (300.0, 3072.0)
    assert value["limit_to_start"] == pytest.approx(COST, rel=0.01)
    assert value["limit"] >= value["limit_to_start"]
    assert value["takes"] == ""
    assert (value["work_s"], value["within_s"]) == (3600.0, 7200.0)
    assert "odds need at least 1 h" in value["why"]
    assert not asked.site.exists(1)
    assert asked.site.balances() == before


def test_the_recorded_past_says_whether_it_ends_by_its_deadline(asked: QuotedSite) -> None:
    """The limit that the platform would state is among the limits."""
    asked.record(7)
    value = asked.quote(patient())
    assert value["why"] == ""
    chances = {row["limit"]: row["chance"] for row in value["odds"]}
    assert chances[value["limit"]] == 1.0
    assert min(chances.values()) == 0.0
    without = asked.quote(patient(slo='[slo]\ndeadline = "2h"'))
    assert "work_s" not in without
    assert len(without["odds"]) > 1
    assert all("chance" not in row for row in without["odds"])


def test_the_limit_of_now_counts_other_orders(asked: QuotedSite) -> None:
    """A platform with many credits has the host: a limit must beat its."""
    free = asked.quote(patient())["limit_to_start"]
    asked.site.patient(60_000.0, "2h", owner=asked.site.bob)
    asked.periods(4)
    assert asked.quote(patient())["limit_to_start"] > 10 * free


REFUSED = {
    template(): "controller must be patient for a quote (got 'notes'): the VMs of other platforms",
    "": "template: must be the text of a template (got '')",
    "name = ": "template:",
    patient(top='name = "weather"\nsize = 3'): "size",
    patient(budget="[budget]\ncredits = 1e12"): "credits",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_template_is_checked_as_in_a_submission(asked: QuotedSite, text: str) -> None:
    """Templates of other controllers have no limit order."""
    refused, code = asked.call(ANN, QUOTE, text)
    assert code != 0
    assert REFUSED[text] in refused
    if text and "notes" not in text:
        submitted, _ = asked.call(ANN, "merkat.platform.submit", text)
        words = refused.partition("]")[2]
        assert words
        assert submitted.endswith(words)


def test_only_administrators_ask_for_other_tenants(asked: QuotedSite) -> None:
    """The templates of VMs are read with the caller's rights."""
    ann = asked.call(ANN, QUOTE, patient(), asked.site.bob)
    assert ann[1] == Code.AUTHORIZATION
    assert asked.call(BOB, QUOTE, patient(), asked.site.bob)[1] == 0


def test_a_quote_counts_as_an_order_and_takes_a_turn_of_long_reads(
    asked: QuotedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It parses a text, and reads the recorded past."""
    turns, counted = asked.noted_turns(), list[tuple[Any, ...]]()
    monkeypatch.setattr(OrderCounts, "count", lambda _self, *given: counted.append(given))
    asked.quote(patient())
    assert turns.taken == [asked.site.ann]
    assert counted == [(asked.site.ann, 1.0, [patient()])]
