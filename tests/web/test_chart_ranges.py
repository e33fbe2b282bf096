"""Charts of an hour, a day and a month: spaced periods, within bounds, also after a restart."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import ensureDeferred

from merkatd.web.base.charts import of_vm
from merkatd.web.base.long_memory import (
    DAY,
    HOUR,
    MONTH,
    RANGES,
    ChartRange,
    LongPast,
    SpacedRecords,
)
from tests.api.xmlrpc.site import ANN
from tests.scheduler.frontend import Frontend
from tests.service.interfaces import Interfaces
from tests.web.browser import Browser
from tests.web.site import PageSite
from tests.web.test_past import RESOURCES, line, moment

steps_s = st.lists(st.sampled_from([20.0, 60.0, 400.0, 5_000.0, 90_000.0]), max_size=60)


@given(steps_s, st.sampled_from([DAY, MONTH]), st.integers(2, 90))
def test_a_range_has_one_record_of_each_slot(
    steps: list[float], range_: ChartRange, rows: int
) -> None:
    """It is the first one of its slot; the newest record's range and the rows are the bounds."""
    spaced = SpacedRecords(range_, rows)
    at_s, added = 1e9, []
    for period, step_s in enumerate(steps, start=1):
        at_s += step_s
        spaced.add(moment(period, at_s=at_s))
        added.append((period, at_s))
    firsts: dict[int, tuple[int, float]] = {}
    for period, start_s in added:
        firsts.setdefault(spaced.range.slot(start_s), (period, start_s))
    kept = [(record.period, record.at_s) for record in spaced.records]
    expected = list(firsts.values())
    if expected:
        newest_s = expected[-1][1]
        expected = [each for each in expected if newest_s - each[1] <= spaced.range.span_s]
    assert kept == expected[-max(rows // 2, 1) :]


def test_a_clock_that_is_set_back_does_not_stop_long_ranges() -> None:
    """Periods of a time that did not come are removed, and new ones are kept."""
    spaced = SpacedRecords(DAY)
    ahead_s = 1e9 + 400 * 86_400.0
    for period, at_s in enumerate((1e9, ahead_s, ahead_s + 900.0, 1e9 + 900.0, 1e9 + 1_800.0)):
        spaced.add(moment(period, at_s=at_s))
    assert [record.period for record in spaced.records] == [3, 4]


def test_a_chart_ends_with_the_newest_period() -> None:
    """So a chart of a month and the head of its page show the same period."""
    past = LongPast()
    for period in range(1, 400):
        past.add(moment(period, at_s=60.0 * period))
    shown = {name: [record.period for record in past.over(name, 399)] for name in RANGES}
    assert all(periods[-1] == 399 for periods in shown.values())
    assert all(periods == sorted(set(periods)) for periods in shown.values())
    assert shown["hour"] == list(range(339, 400))
    assert shown["day"][:3] == [1, 15, 30]
    assert shown["month"] == [1, 360, 399]
    assert list(past.over("", 399)) == list(past.over("year", 399)) == list(past.moments)
    # The page of a period does not show the next one, which ends while the page is made.
    assert {past.over(name, 380)[-1].period for name in ("", *RANGES)} == {380}


def test_spaced_periods_keep_their_use() -> None:
    """Consecutive ones show it at the period in which it was."""
    moments = [moment(period) for period in (10, 40, 70)]
    used = [moment.used.copy() for moment in moments]
    for number, amounts in enumerate(used):
        amounts[0] = 100.0 * (number + 1)
    spaced = [
        moment(each.period, used=amounts) for each, amounts in zip(moments, used, strict=True)
    ]
    assert line(of_vm(spaced, 0, 7, RESOURCES), "CPU", "uses") == [1.0, 2.0, 3.0]


def test_older_records_are_put_before_within_bounds() -> None:
    """After a restart they come from the database, the newest first."""
    spaced = SpacedRecords(DAY, rows=6)
    spaced.add(moment(9, at_s=90_000.0))
    old = (moment(8, at_s=50_000.0), moment(7, at_s=3_599.0), moment(6, at_s=40_000.0))
    assert [spaced.put_before(each) for each in old] == [True, False, True]
    assert not spaced.put_before(moment(5, at_s=30_000.0))
    assert [record.period for record in spaced.records] == [6, 8, 9]


def test_the_database_has_one_period_of_each_slot() -> None:
    """Shares and prices: the first of each slot; prices also have the newest period."""
    frontend = Frontend(hosts=1)
    try:
        frontend.vm(2.0)
        made = Interfaces(frontend)
        made.periods(10)  # a minute apart
        past = made.services.past
        shares = frontend.result(ensureDeferred(past.spaced_shares(10, 0.0, 240, 1_000)))
        prices = frontend.result(ensureDeferred(made.services.prices.spaced(10, 1e9, 240)))
        slots = [int(row.at_s // 240.0) for row in prices[:-1]]
        assert slots == sorted(set(slots))
        assert [row.period for row in prices][-1] == 10
        assert [each.period for each in reversed(shares)] == [row.period for row in prices[:-1]]
        recent = frontend.result(ensureDeferred(made.services.prices.spaced(10, 130.0, 1)))
        assert [row.period for row in recent] == [8, 9, 10]
        earlier = frontend.result(ensureDeferred(made.services.prices.spaced(7, 130.0, 1)))
        assert [row.period for row in earlier] == [5, 6, 7]
        few = frontend.result(ensureDeferred(past.spaced_shares(10, 0.0, 60, 3)))
        assert len(few) == 3
    finally:
        frontend.close()


@pytest.mark.parametrize("path", ["/vms/0", "/hosts/0", "/tenants/{ann}", "/prices"])
def test_each_page_with_charts_offers_the_ranges(site: PageSite, path: str) -> None:
    """The chosen range is marked, and its charts end with the page's period."""
    ann: Browser = site.browser(ANN)
    there = path.format(**site.users)
    for name in ("", *RANGES):
        page = ann.get(f"{there}?range={name}" if name else there)
        links = re.findall(r'<a href="([^"]*)"( aria-current="true")?>', page.text)
        chosen = [link for link, current in links if current]
        assert chosen == [f"{there}?range={name}" if name else there]
        shown = re.search(r'<dt>Period</dt><dd><a href="/periods/([0-9]+)">', page.text)
        assert shown is not None
        assert page.charts["period"][-1] == int(shown[1])
        assert len(page.charts["at_s"]) == len(page.charts["period"])
    assert HOUR.name in RANGES
    usual, unknown = ann.get(there).charts, ann.get(f"{there}?range=year").charts
    assert usual["period"][0] == unknown["period"][0]
