"""What the last periods gave is kept, bounded, and told to whom it belongs."""

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
    """A period with VM 0 of owner 7, application 70, and the others of owner 8, on host 3."""
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
    """The values of one line."""
    chart = next(one for one in charts.charts if one.title == title)
    return list(next(one.values for one in chart.lines if one.name == name))


class TestBounds:
    def test_so_many_periods_are_kept(self) -> None:
        """The oldest go first."""
        past = Past(periods=3, rows=100)
        for period in range(6):
            past.add(moment(period))
        assert [one.period for one in past.moments] == [3, 4, 5]

    def test_so_many_rows_are_kept(self) -> None:
        """However large the cloud: then of fewer periods; the newest is always there."""
        past = Past(periods=100, rows=50)
        for period in range(6):
            past.add(moment(period, vms=20))
        assert [one.period for one in past.moments] == [4, 5]
        past.add(moment(6, vms=200))
        assert [one.period for one in past.moments] == [6]

    def test_what_was_before_takes_the_room_that_is_left(self) -> None:
        """And no more."""
        past = Past(periods=3, rows=100)
        past.add(moment(9))
        assert [past.put_before(moment(period)) for period in (8, 7, 6)] == [True, True, False]
        assert [one.period for one in past.moments] == [7, 8, 9]
        assert not Past(periods=9, rows=3).put_before(moment(1, vms=4))


class TestHistories:
    PAST = (moment(1), moment(2, vms=1), moment(3))

    def test_of_a_vm(self) -> None:
        """In cores, and only while it was there and this owner's."""
        found = of_vm(self.PAST, 1, 8, RESOURCES)
        assert list(found.period) == [1, 3]
        assert line(found, "CPU", "gets") == [1.0, 3.0]
        assert line(found, "Money", "bids") == [3.0, 3.0]
        assert of_vm(self.PAST, 0, 8, RESOURCES).period == []
        assert "uses" not in str(found.data)

    def test_what_was_used_is_told_of_the_period_in_which_it_was(self) -> None:
        """Each period finds what was used in the one before."""
        used = [np.full((2, 2), 100.0 * one, np.float32) for one in range(4)]
        past = tuple(moment(one, used=used[one]) for one in (1, 2, 3))
        found = of_vm(past, 0, 7, RESOURCES)
        assert line(found, "CPU", "gets") == [1.0, 2.0, 3.0]
        assert line(found, "CPU", "uses") == [2.0, 3.0, None]

    def test_of_a_host(self) -> None:
        """All of it, or what is one owner's of it."""
        assert line(of_host(self.PAST, 3, None, RESOURCES), "CPU", "given") == [2.0, 2.0, 6.0]
        mine = of_host(self.PAST, 3, 7, RESOURCES)
        assert line(mine, "CPU", "yours") == [1.0, 2.0, 3.0]
        assert line(mine, "Money", "its VMs pay") == [2.0, 2.0, 2.0]
        assert of_host(self.PAST, 4, None, RESOURCES).period == []

    def test_of_a_tenant(self) -> None:
        """What it held then is what it holds now without what came since."""
        moved = [BalanceMovement(*one) for one in ((250.0, -4.0), (150.0, 30.0), (300.0, -1.0))]
        found = of_tenant(self.PAST, 7, BalanceChanges(60.0, moved), RESOURCES)
        assert line(found, "Credits", "left") == [35.0, 65.0, 60.0]
        assert line(found, "Money", "pays") == [2.0, 2.0, 2.0]

    def test_of_a_platform(self) -> None:
        """From the first period on in which it was there, or VMs of its budget were."""

        def goal(done: float) -> tuple[Goal, ...]:
            told = Goal(name="x", owner=7, state="running", platform=5, done=done)
            return (told, Goal(name="another", owner=7, state="running", platform=6, done=1.0))

        nobodys = np.full(2, -1, np.int32)
        past = (
            moment(1, application=nobodys),
            moment(2, goals=goal(0.25)),
            moment(3, goals=goal(0.5)),
        )
        found = of_platform(past, 5, 70, RESOURCES)
        assert list(found.period) == [2, 3]
        assert line(found, "Its work", "done") == [25.0, 50.0]
        assert line(found, "CPU", "gets") == [2.0, 3.0]
        # The database knows the VMs of earlier periods, but not how far the work was.
        before = of_platform((moment(1), *past[1:]), 5, 70, RESOURCES)
        assert list(before.period) == [1, 2, 3]
        assert line(before, "Its work", "done") == [None, 25.0, 50.0]
        assert line(before, "CPU", "gets") == [1.0, 2.0, 3.0]


class TestServed:
    def test_each_sees_the_histories_of_its_own(self, site: PageSite) -> None:
        """In the data of charts, and in a table for whom charts are nothing."""
        ann = site.browser(ANN)
        until(lambda: len(ann.get("/vms/0").charts["period"]) > 1, "two periods")
        found = ann.get("/vms/0").charts
        assert {chart["title"] for chart in found["charts"]} == {"CPU", "Memory", "Money"}
        for place in ("/vms/0", "/hosts/0", f"/tenants/{site.users['ann']}"):
            page = ann.get(place)
            assert page.charts["charts"], place
            assert "Values by period" in page.text, place
        assert ann.get(f"/platforms/{site.platform}").charts["period"]

    def test_of_a_host_a_tenant_sees_its_part(self, site: PageSite) -> None:
        """Both have VMs there; what both get together only an administrator sees."""
        parts = [site.browser(who).get("/hosts/0").charts for who in (ANN, BOB, site.admin)]
        period = min(part["period"][-1] for part in parts)
        given = [
            part["charts"][0]["lines"][0]["values"][part["period"].index(period)] for part in parts
        ]
        assert given[0] + given[1] == pytest.approx(given[2], rel=1e-3)
        assert given[0] > 0 < given[1]

    def test_decisions_are_of_ones_own_vms(self, site: PageSite) -> None:
        """Each finds what was done with its own however much is done with others'."""
        shown = [site.browser(who).get("/decisions").text for who in (ANN, BOB, site.admin)]
        assert [["/vms/0" in text, "/vms/1" in text] for text in shown] == [
            [True, False],
            [False, True],
            [True, True],
        ]
        moves = site.browser(ANN).get("/").text.partition("Decisions</h2>")[2]
        assert "deploy" in moves
        assert "limit" not in moves

    def test_of_a_vm_that_is_gone_its_owner_sees_what_was(self, site: PageSite) -> None:
        """Nobody else does, but administrators."""
        vm = int(site.opennebula(BOB, "one.vm.allocate", 'CPU="1"\nMEMORY="128"', False))
        bob = site.browser(BOB)

        def runs() -> bool:
            return any(row["id"] == vm and row["state"] == "RUNNING" for row in site.order("vms"))

        until(runs, "a VM that runs")
        site.opennebula(BOB, "one.vm.action", "terminate-hard", vm)
        until(lambda: "This VM no longer exists." in bob.get(f"/vms/{vm}").text, "its end")
        assert bob.get(f"/vms/{vm}").charts["charts"]
        assert site.browser(ANN).get(f"/vms/{vm}").status == 404
        assert "This VM no longer exists." in site.browser(site.admin).get(f"/vms/{vm}").text

    def test_who_got_what_is_on_the_periods_page(self, site: PageSite) -> None:
        """A tenant finds itself there, and nobody else."""
        period = site.period()
        seen = [site.browser(who).get(f"/periods/{period}").text for who in (ANN, site.admin)]
        assert ["bob" in text for text in seen] == [False, True]
        assert all("Allocations by tenant" in text for text in seen)

    def test_the_database_knows_the_same_of_earlier_periods(self, site: PageSite) -> None:
        """What another daemon would find there is what this one has seen."""
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
