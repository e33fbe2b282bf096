"""Modes dry and shadow: the daemon decides, changes nothing, and reports its mode."""

import pytest
from twisted.logger import capturedLogs, formatEvent

from merkatd.database import Database
from merkatd.database.base.transactions import Transactions
from merkatd.database.scheduler import journal, period_store, price_store
from merkatd.database.scheduler.order_store import Mode
from merkatd.database.scheduler.period_store import PeriodState
from merkatd.scheduler.base.acting_settings import ActingSettings
from merkatd.scheduler.observation.observed import Observed
from tests.lengths import SOAK
from tests.modes.site import Site


@pytest.mark.parametrize("mode", [Mode.SHADOW, *[Mode.DRY] * SOAK])
class TestNoChanges:
    def test_no_call_changes_the_cloud(self, mode: Mode, site: Site) -> None:
        """Pending VMs, oversized VMs and contention cause no change either."""
        site.mode(mode)
        vms = [site.vm(bid) for bid in (1.0, 3.0)]
        site.vm(MEMORY=20_000, MERKAT_MIN_MEMORY=10_000)
        site.bench.ok("one.vm.deploy", vms[1], 0)
        site.minutes(5)
        assert site.changes() == []
        assert [site.state(vm) for vm in vms] == ["PENDING", "RUNNING"]
        assert site.read(lambda c: journal.recent(c, journal.StepFilter())) == ()

    def test_no_tenant_is_charged(self, mode: Mode, site: Site) -> None:
        """The watched time is not charged later either."""
        ann = site.user("ann")
        vm = site.vm(5.0, owner=ann)
        site.mode(mode)
        site.bench.ok("one.vm.deploy", vm, 0)
        site.minutes(3)
        before = site.balances()
        site.minutes(3)
        site.mode(Mode.ON)
        site.minutes(1)
        assert site.balances() == before
        site.minutes(1)
        assert sum(site.balances().values()) < sum(before.values())
        site.agree()

    def test_prices_are_computed(self, mode: Mode, site: Site) -> None:
        """They show the prices that tenants would pay."""
        site.mode(mode)
        site.vm(6.0)
        site.minutes(2)
        period = site.read(lambda c: period_store.get(c, 2))
        assert period.state is PeriodState.WATCHED
        assert site.read(lambda c: price_store.load_prices(c, 2))["default"]["cpu"] > 0
        assert site.ask("price")[0]["price"] > 0

    def test_the_last_period_that_acted_is_charged(self, mode: Mode, site: Site) -> None:
        """It is charged once, for its own duration only."""
        ann = site.user("ann")
        site.vm(5.0, owner=ann)
        site.minutes(3)
        before = site.balances()
        site.mode(mode)
        site.minutes(1)
        after = site.balances()
        assert sum(after.values()) < sum(before.values())
        site.minutes(3)
        assert site.balances() == after

    def test_the_mode_is_reported(self, mode: Mode, site: Site) -> None:
        """The status shows the mode; a VM is listed on its actual host, not on the proposed one."""
        site.mode(mode)
        site.vm()
        site.minutes(1)
        assert site.ask("status")["mode"] == mode
        assert site.ask("vms")[0]["host"] is None
        assert site.scheduler.latest is not None
        assert site.scheduler.latest.mode is mode

    def test_a_rollback_is_not_a_database_failure(self, mode: Mode, site: Site) -> None:
        """Proposals of platforms and groups are rolled back without a counted failure."""

        async def proposals(database: Transactions, _seen: Observed) -> tuple[()]:
            await database.run(period_store.newest)
            return ()

        site.world_settings = {"acting": ActingSettings(mode=mode), "proposals": proposals}
        site.start_daemon()
        site.minutes(3)
        database = site.scheduler.world.database
        assert isinstance(database, Database)
        assert database.answered > 0
        assert database.failed == 0

    def test_a_configured_mode_applies_from_the_first_period(self, mode: Mode, site: Site) -> None:
        """An order overrides it, also for the next daemon."""
        site.world_settings = {"acting": ActingSettings(mode=mode)}
        site.start_daemon()
        vm = site.vm()
        site.minutes(2)
        assert site.state(vm) == "PENDING"
        site.mode(Mode.ON)
        site.start_daemon()
        site.minutes(2)
        assert site.state(vm) == "RUNNING"
        answer = site.ask("mode", to="configured", who="root")
        assert (answer["mode"], answer["changed"], answer["ordered"]) == (mode, True, None)


class TestShadow:
    def test_different_placements_are_recorded(self, site: Site) -> None:
        """The other scheduler fills the first of three hosts; Merkat would spread the VMs."""
        site.mode(Mode.SHADOW)
        site.minutes(1)
        vms = [site.vm() for _ in range(4)]
        site.minutes(1)
        for vm in vms:
            site.bench.ok("one.vm.deploy", vm, 0)
        with capturedLogs() as events:
            site.minutes(2)
        texts = [
            text for event in events if (text := formatEvent(event)) and "here it would be" in text
        ]
        assert sorted(text.split(";")[0].split(" on ")[0] for text in texts) == [
            f"VM {vm} was placed" for vm in vms
        ]
        assert all("here it would be on host00" in text for text in texts)
        differences = site.ask("differences")
        assert differences["compared"] == 4
        assert differences["same"] in {1, 2}
        assert {row["theirs"] for row in differences["vms"]} == {"host000"}
        assert {row["ours"] for row in differences["vms"]} == {"host000", "host001", "host002"}
        assert [row["same"] for row in differences["vms"]].count(True) == differences["same"]
        site.start_daemon()
        assert site.ask("differences")["compared"] == 4

    def test_a_vm_that_merkat_would_not_place_has_a_reason(self, site: Site) -> None:
        """The other scheduler overcommits a host; Merkat would not."""
        site.mode(Mode.SHADOW)
        site.minutes(1)
        vm = site.vm(MEMORY=8000, MERKAT_MIN_MEMORY=8000, MERKAT_BID_MEMORY=100)
        first = [site.vm(MEMORY=2000, MERKAT_MIN_MEMORY=2000) for _ in range(3)]
        for host, pending in enumerate(first):
            site.bench.ok("one.vm.deploy", pending, host)
        site.minutes(1)
        site.bench.ok("one.vm.deploy", vm, 1, False)
        site.minutes(1)
        row = next(row for row in site.ask("differences")["vms"] if row["vm"] == vm)
        assert (row["theirs"], row["ours"]) == ("host001", None)
        assert "memory" in row["why"]

    def test_earlier_placements_are_not_compared(self, site: Site) -> None:
        """Placements made in another mode are not compared either."""
        site.vm()
        site.minutes(2)
        site.mode(Mode.SHADOW)
        site.minutes(2)
        site.mode(Mode.DRY)
        site.bench.ok("one.vm.deploy", site.vm(), 0)
        site.minutes(2)
        site.mode(Mode.SHADOW)
        site.minutes(2)
        assert site.ask("differences")["compared"] == 0
