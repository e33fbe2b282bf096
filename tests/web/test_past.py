"""The recorded last periods: limited in number, and shown only to their owners."""

import sqlite3
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from merkatd.database.scheduler import period_store, price_store
from merkatd.scheduler.base.settings import MarketRules
from merkatd.service.market.balance_history import BalanceChanges, BalanceMovement
from merkatd.service.market.past_periods import shares_of
from merkatd.web.base.charts import of_host, of_platform, of_tenant, of_vm
from merkatd.web.base.goals import Goal
from merkatd.web.base.period_memory import Past, PeriodRecord, moment_before
from tests.api.xmlrpc.site import ANN, BOB, until
from tests.web.site import PageSite

RESOURCES = ("cpu", "memory")


def moment(period: int, vms: int = 2, **changes: Any) -> PeriodRecord:
    """Return a period with VM 0 of owner 7, application 70, and others of owner 8, on host 3."""
    ids = np.arange(vms, dtype=np.int32)
    values: dict[str, Any] = {
        "period": period,
        "at_s": 100.0 * period,
        "vm": ids,
        "owner": np.where(ids == 0, 7, 8).astype(np.int32),
        "application": np.where(ids == 0, 70, -1).astype(np.int32),
        "host": np.full(vms, 3, np.int32),
        "bid": np.full((vms, 2), 1.5, np.float32),
        "given": np.full((vms, 2), 100.0 * period, np.float32),
        "used": np.full((vms, 2), np.nan, np.float32),
        "cost": np.full(vms, 2.0, np.float32),
        "host_id": np.array([3], np.int32),
        "whole": np.array([[800.0, 8192.0]], np.float32),
    }
    return PeriodRecord(**values | changes)


def line(charts: Any, title: str, name: str) -> list[float | None]:
    """Return the values of one line."""
    chart = next(chart for chart in charts.charts if chart.title == title)
    return list(next(line.values for line in chart.lines if line.name == name))


class TestBounds:
    def test_the_number_of_periods_is_limited(self) -> None:
        """The oldest ones are dropped first."""
        past = Past(periods=3, rows=100)
        for period in range(6):
            past.add(moment(period))
        assert [moment.period for moment in past.moments] == [3, 4, 5]

    def test_the_number_of_rows_is_limited(self) -> None:
        """A large cloud keeps fewer periods, and always the newest."""
        past = Past(periods=100, rows=50)
        for period in range(6):
            past.add(moment(period, vms=20))
        assert [moment.period for moment in past.moments] == [4, 5]
        past.add(moment(6, vms=200))
        assert [moment.period for moment in past.moments] == [6]

    def test_earlier_periods_use_the_remaining_room(self) -> None:
        """They never displace a newer period."""
        past = Past(periods=3, rows=100)
        past.add(moment(9))
        assert [past.put_before(moment(period)) for period in (8, 7, 6)] == [True, True, False]
        assert [moment.period for moment in past.moments] == [7, 8, 9]
        assert not Past(periods=9, rows=3).put_before(moment(1, vms=4))


class TestHistories:
    PAST = (moment(1), moment(2, vms=1), moment(3))

    def test_a_vm_has_a_history(self) -> None:
        """It is in cores, and only of periods in which this owner had the VM."""
        charts = of_vm(self.PAST, 1, 8, RESOURCES)
        assert list(charts.period) == [1, 3]
        assert line(charts, "CPU", "gets") == [1.0, 3.0]
        assert line(charts, "Money", "bids") == [3.0, 3.0]
        assert of_vm(self.PAST, 0, 8, RESOURCES).period == []
        assert "uses" not in str(charts.data)

    def test_use_belongs_to_the_period_in_which_it_was_measured(self) -> None:
        """Each period's record has the use of the period before."""
        used = [np.full((2, 2), 100.0 * number, np.float32) for number in range(4)]
        past = tuple(moment(number, used=used[number]) for number in (1, 2, 3))
        charts = of_vm(past, 0, 7, RESOURCES)
        assert line(charts, "CPU", "gets") == [1.0, 2.0, 3.0]
        assert line(charts, "CPU", "uses") == [2.0, 3.0, None]

    def test_a_host_has_a_history(self) -> None:
        """It has the whole host, or one owner's part of it."""
        assert line(of_host(self.PAST, 3, None, RESOURCES), "CPU", "given") == [2.0, 2.0, 6.0]
        mine = of_host(self.PAST, 3, 7, RESOURCES)
        assert line(mine, "CPU", "yours") == [1.0, 2.0, 3.0]
        assert line(mine, "Money", "its VMs pay") == [2.0, 2.0, 2.0]
        assert of_host(self.PAST, 4, None, RESOURCES).period == []

    def test_a_tenant_has_a_history(self) -> None:
        """Earlier balances are the present one minus the movements since."""
        moved = [
            BalanceMovement(*values) for values in ((250.0, -4.0), (150.0, 30.0), (300.0, -1.0))
        ]
        charts = of_tenant(self.PAST, 7, BalanceChanges(60.0, moved), RESOURCES)
        assert line(charts, "Credits", "left") == [35.0, 65.0, 60.0]
        assert line(charts, "Money", "pays") == [2.0, 2.0, 2.0]

    def test_a_platform_has_a_history(self) -> None:
        """It starts with the first period in which the platform or VMs of its budget existed."""

        def goal(done: float) -> tuple[Goal, ...]:
            goal_of_story = Goal(name="x", owner=7, state="running", platform=5, done=done)
            return (
                goal_of_story,
                Goal(name="another", owner=7, state="running", platform=6, done=1.0),
            )

        nobodys = np.full(2, -1, np.int32)
        past = (
            moment(1, application=nobodys),
            moment(2, goals=goal(0.25)),
            moment(3, goals=goal(0.5)),
        )
        charts = of_platform(past, 5, 70, RESOURCES)
        assert list(charts.period) == [2, 3]
        assert line(charts, "Its work", "done") == [25.0, 50.0]
        assert line(charts, "CPU", "gets") == [2.0, 3.0]
        # The database knows the VMs of earlier periods, but not the progress of the work.
        before = of_platform((moment(1), *past[1:]), 5, 70, RESOURCES)
        assert list(before.period) == [1, 2, 3]
        assert line(before, "Its work", "done") == [None, 25.0, 50.0]
        assert line(before, "CPU", "gets") == [1.0, 2.0, 3.0]


class TestServed:
    def test_users_see_the_histories_of_their_own_objects(self, site: PageSite) -> None:
        """The data are in charts and in a table for readers without charts."""
        ann = site.browser(ANN)
        until(lambda: len(ann.get("/vms/0").charts["period"]) > 1, "two periods")
        charts = ann.get("/vms/0").charts
        assert {chart["title"] for chart in charts["charts"]} == {"CPU", "Memory", "Money"}
        for place in ("/vms/0", "/hosts/0", f"/tenants/{site.users['ann']}"):
            page = ann.get(place)
            assert page.charts["charts"], place
            assert "Values by period" in page.text, place
        assert ann.get(f"/platforms/{site.platform}").charts["period"]

    def test_a_tenant_sees_its_part_of_a_host(self, site: PageSite) -> None:
        """Only an administrator sees the sum of all tenants' parts."""
        parts = [site.browser(who).get("/hosts/0").charts for who in (ANN, BOB, site.admin)]
        period = min(part["period"][-1] for part in parts)
        given = [
            part["charts"][0]["lines"][0]["values"][part["period"].index(period)] for part in parts
        ]
        assert given[0] + given[1] == pytest.approx(given[2], rel=1e-3)
        assert given[0] > 0 < given[1]

    def test_users_see_decisions_about_their_own_vms(self, site: PageSite) -> None:
        """Other users' decisions do not displace them."""
        shown = [site.browser(who).get("/decisions").text for who in (ANN, BOB, site.admin)]
        assert [["/vms/0" in text, "/vms/1" in text] for text in shown] == [
            [True, False],
            [False, True],
            [True, True],
        ]
        moves = site.browser(ANN).get("/").text.partition("Decisions</h2>")[2]
        assert "deploy" in moves
        assert "limit" not in moves

    def test_the_owner_of_a_removed_vm_sees_its_history(self, site: PageSite) -> None:
        """Administrators see it too, and other users do not."""
        vm = int(site.opennebula(BOB, "one.vm.allocate", 'CPU="1"\nMEMORY="128"', False))
        bob = site.browser(BOB)

        def runs() -> bool:
            return any(row["id"] == vm and row["state"] == "RUNNING" for row in site.order("vms"))

        until(runs, "a VM that runs")
        site.terminate(BOB, vm)
        until(lambda: "This VM no longer exists." in bob.get(f"/vms/{vm}").text, "its end")
        assert bob.get(f"/vms/{vm}").charts["charts"]
        assert site.browser(ANN).get(f"/vms/{vm}").status == 404
        assert "This VM no longer exists." in site.browser(site.admin).get(f"/vms/{vm}").text

    def test_a_periods_page_shows_allocations_by_tenant(self, site: PageSite) -> None:
        """A tenant sees only itself."""
        period = site.period()
        seen = [site.browser(who).get(f"/periods/{period}").text for who in (ANN, site.admin)]
        assert ["bob" in text for text in seen] == [False, True]
        assert all("Allocations by tenant" in text for text in seen)

    def test_the_database_has_the_same_data_of_earlier_periods(self, site: PageSite) -> None:
        """A restarted daemon reads what this one recorded."""
        shown = site.browser(site.admin).get("/vms/0").charts
        at = len(shown["period"]) - 1
        kept = _kept(site, shown["period"][at])
        row = kept.row(0)
        assert row is not None
        gets, pays = shown["charts"][0]["lines"][0], shown["charts"][2]["lines"][0]
        assert (gets["name"], pays["name"]) == ("gets", "pays")
        assert float(kept.given[row, 0]) / 100 == pytest.approx(gets["values"][at], rel=1e-3)
        assert float(kept.cost[row]) == pytest.approx(pays["values"][at], rel=1e-3)


def _kept(site: PageSite, number: int) -> PeriodRecord:
    path = f"file:{site.state / 'merkat.db'}?mode=ro"
    engine = sa.create_engine("sqlite://", creator=lambda: sqlite3.connect(path, uri=True))
    try:
        with engine.connect() as connection:
            period = period_store.get(connection, number)
            arrays = price_store.load_allocations(connection, number)
    finally:
        engine.dispose()
    assert period is not None
    assert arrays is not None
    return moment_before(shares_of(period, arrays, [MarketRules(name="default")]))
