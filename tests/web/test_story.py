"""The overview's first sentences, and the texts about deadlines."""

from dataclasses import replace
from typing import Any

import pytest

from merkatd.service.market.prices import PastPriceRow
from merkatd.service.platforms import PlatformSummary
from merkatd.web.base.goals import Goal, of_platform
from merkatd.web.layout.html import joined
from merkatd.web.pages.overview_page import story
from merkatd.web.pages.row_tables import ending, progress, verdict

GOAL = Goal(
    name="weather", owner=2, state="running", platform=1, began_s=0.0, deadline_s=100.0,
    projected_end_s=90.0, done=0.5, on_track=True,
)  # fmt: skip
LATE = replace(GOAL, name="work", owner=3, platform=None, projected_end_s=160.0, on_track=False)


def prices(*cpu: float | None, market: str = "default") -> list[PastPriceRow]:
    """Return a row for each price of 1 % of a core."""
    return [PastPriceRow(1, 0.0, market, {"cpu": price}) for price in cpu]


def tenant(name: str, cpu: float, lasts_s: float | None = None) -> dict[str, Any]:
    """Return a row of the tenants' table."""
    return {
        "name": name, "vms": 1, "cpu": cpu, "memory": 2048.0, "cost": cpu / 100, "lasts_s": lasts_s,
    }  # fmt: skip


class TestStory:
    def test_administrators_read_about_all_tenants(self) -> None:
        """The price and its change, the largest tenant, and deadlines in danger."""
        text = story(
            [tenant("ann", 300.0), tenant("bob", 1000.0)],
            [GOAL, LATE],
            prices(0.02, None, 0.05),
            {3: "bob"},
            of_all=True,
            interval_s=60.0,
        )
        assert text == (
            "CPU costs 300 credits per core-hour, 2.5 times as much as one period ago."
            " Two tenants share 13 cores; bob gets most, 10 cores, and pays 10 credits a period."
            " One of two deadlines will be met; late: bob."
        )

    def test_a_tenant_reads_about_itself(self) -> None:
        """It has the tenant's share and cost, and how long credits last."""
        text = story(
            [tenant("ann", 100.0, 3600.0)],
            [GOAL],
            prices(0.05, 0.01),
            {},
            of_all=False,
            interval_s=60.0,
        )
        assert text == (
            "CPU costs 60 credits per core-hour, 80% less than one period ago. You get 1 core and"
            " 2.00 GiB for 1 credits a period, which your credits last for 1 h."
            " The deadline will be met."
        )

    @pytest.mark.parametrize(
        ("tenants", "of_all", "expected"),
        [
            ([], True, "No tenant has a running VM."),
            ([], False, "You have no VMs yet: create one in OpenNebula, or submit a platform."),
            (
                [tenant("ann", 100.0)],
                True,
                "ann is the only tenant and gets all that it can use: 1 core.",
            ),
        ],
    )
    def test_missing_data_are_left_out(
        self, tenants: list[dict[str, Any]], of_all: bool, expected: str
    ) -> None:
        """The sentences mention only existing data."""
        assert story(tenants, [], [], {}, of_all=of_all, interval_s=60.0) == expected

    def test_a_stable_price_has_no_comparison(self) -> None:
        """With several markets, no single price is shown as the price of all."""
        assert story([], [], prices(0.05, 0.055), {}, of_all=False, interval_s=60.0).startswith(
            "CPU costs 330 credits per core-hour. "
        )
        two = [*prices(0.05), *prices(0.1, market="other")]
        assert "CPU" not in story([], [], two, {}, of_all=False, interval_s=60.0)


class TestDeadlines:
    def test_deadlines_have_the_same_words_everywhere(self) -> None:
        """The words are on track, late, in time, and cancelled."""
        over = replace(GOAL, ended_s=80.0, projected_end_s=80.0, state="done")
        given_up = replace(over, state="cancelled", on_track=False)
        assert [word in str(verdict(goal)) for goal, word in (
            (GOAL, "on track"), (LATE, "late"), (over, "in time"), (given_up, "cancelled"),
        )] == [True] * 4  # fmt: skip
        assert [ending(goal) for goal in (GOAL, LATE, over)] == [
            "10 s early",
            "1 min late",
            "20 s early",
        ]
        assert "50% of its time" in joined(progress(GOAL, 50.0))
        assert "time" not in joined(progress(over, 90.0))

    def test_ended_platforms_are_judged_by_their_end(self) -> None:
        """A platform that ended after its deadline was late; without a deadline it was neither."""
        platform = PlatformSummary(
            id=1, name="x", owner=2, controller="none", state="done", why="", needs="", held=False,
            submitted_s=0.0, since_s=60.0, started_s=1.0, deadline_s=50.0, on_track=None,
            projected_end_s=None, slack_s=None, performance=None, reference=None, done=1.0,
            report=None, trouble=None, application=None, budget=0.0, replenishment=0.0,
            balance=0.0, spent=0.0, sizes={}, size=0,
        )  # fmt: skip
        assert of_platform(platform).on_track is False
        assert of_platform(replace(platform, since_s=40.0)).on_track is True
        assert of_platform(replace(platform, deadline_s=None)).on_track is None
        assert of_platform(replace(platform, state="running")).ended_s is None
