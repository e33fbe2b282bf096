"""Complete lives of platforms, in virtual time on the embedded cloud."""

from dataclasses import replace

import pytest

from merkatd.database.fleets import platform_store
from merkatd.ledger import LedgerError
from merkatd.platforms.announcements import vms_now
from merkatd.platforms.tenant_orders import Update
from merkatd.protocol.platform_messages import (
    Action,
    ProgressReport,
    SetBids,
    SetLimit,
    SetSize,
    SuspendPlatform,
    WorkDone,
)
from tests.lengths import SOAK
from tests.platforms.site import BOB, Site


class TestLife:
    def test_a_platform_runs_from_template_to_end(self, site: Site) -> None:
        """Its owner's VMs run and end, and the remaining budget returns."""
        before = site.balances()[site.ann]
        platform = site.submit()
        assert site.balances()[site.ann] == before - 50_000
        site.until(platform, "running")
        vms = site.vms(platform)
        assert len(vms) == 2
        assert {site.bench.vm(vm).uid for vm in vms} == {site.ann}
        assert [site.state(vm) for vm in vms] == ["RUNNING", "RUNNING"]
        assert platform in site.notes.running
        site.periods(5)
        assert site.act(platform, WorkDone(reason="all is computed")).accepted
        assert site.until(platform, "done").why == "all is computed"
        assert site.alive() == []
        assert site.notes.running == {}
        assert before - 10 < site.balances()[site.ann] < before

    def test_the_platform_pays_and_its_owner_does_not(self, site: Site) -> None:
        """From the first charge on, the application's account pays."""
        platform = site.submit()
        held = site.balances()[site.ann]
        site.until(platform, "running")
        site.periods(10)
        assert site.balances()[site.ann] == held
        assert site.notes.news[-1].balance < 50_000
        assert site.notes.news[-1].budget == 50_000

    def test_the_reason_of_waiting_is_current(self, site: Site) -> None:
        """It has the present price, also if another price is too high."""
        for _ in range(6):
            site.vm(50.0, BOB)
        site.periods(2)
        platform = site.submit(start="[start.price_ceiling]\ncpu = 0.05")
        site.periods(2)
        first = site.platform(platform)
        assert first.state == "postponed"
        assert first.why.startswith("cpu costs")
        site.vm(50.0, BOB)
        site.periods(3)
        later = site.platform(platform)
        assert later.state == "postponed"
        assert later.why.startswith("cpu costs")
        assert later.why != first.why

    def test_a_controller_grows_shrinks_and_bids(self, site: Site) -> None:
        """This is within its limits; named VMs or the newest ones end."""
        platform = site.submit()
        site.until(platform, "running")
        first, second = site.vms(platform)
        assert not site.act(platform, SetSize(cluster="nodes", count=5), "too many").accepted
        assert site.act(platform, SetSize(cluster="nodes", count=4), "grow").accepted
        site.periods(3)
        assert len(site.vms(platform)) == 4
        bid = {"cpu": 7.0, "memory": 2.0}
        assert site.act(platform, SetBids(bids={second: bid}), "bid").accepted
        site.periods(1)
        assert {vm.vm: vm.bid for vm in site.notes.news[-1].vms}[second] == bid
        assert site.act(platform, SetSize(cluster="nodes", victims=(first,)), "shrink").accepted
        site.periods(3)
        assert first not in site.vms(platform)
        assert len(site.vms(platform)) == 3
        assert site.act(platform, SetSize(cluster="nodes", count=1), "least").accepted
        site.periods(3)
        assert site.vms(platform) == [second]
        assert site.alive() == [second]

    @pytest.mark.parametrize("count", [3, *[None] * SOAK])
    def test_a_victim_that_is_already_leaving_does_not_block_others(
        self, site: Site, count: int | None
    ) -> None:
        """It is not counted again; a VM of another platform is an error."""
        platform, other = site.submit(), site.submit(site.bob)
        site.until(platform, "running")
        site.until(other, "running")
        assert site.act(platform, SetSize(cluster="nodes", count=4), "grow").accepted
        site.periods(3)
        first, second = site.vms(platform)[:2]

        def end_vms(*victims: int) -> SetSize:
            return SetSize(cluster="nodes", count=count, victims=victims)

        assert site.act(platform, end_vms(first), "one").accepted
        assert site.act(platform, end_vms(first, second), "both").accepted
        assert not site.act(platform, end_vms(first, site.vms(other)[0]), "foreign").accepted
        assert site.platform(platform).sizes == {"nodes": count or 2}
        assert {member.vm for member in site.members(platform) if member.leaving} == {first, second}
        site.periods(4)
        assert not {first, second} & set(site.vms(platform))
        assert len(site.vms(platform)) == (count or 2)

    def test_an_action_counts_once(self, site: Site) -> None:
        """Repeated with the same id, it gets the same answer and changes nothing."""
        platform = site.submit()
        site.until(platform, "running")
        assert site.act(platform, SetSize(cluster="nodes", count=3), "a").accepted
        assert site.act(platform, SetSize(cluster="nodes", count=2), "b").accepted
        assert site.act(platform, SetSize(cluster="nodes", count=3), "a").accepted
        assert site.platform(platform).sizes == {"nodes": 2}
        refused = site.act(platform, SetSize(cluster="nodes", count=9), "c")
        assert site.act(platform, SetSize(cluster="nodes", count=2), "c") == refused

    def test_the_id_of_an_action_has_1_to_64_characters(self, site: Site) -> None:
        """Otherwise repeated actions could not be recognized."""
        platform = site.submit()
        site.until(platform, "running")
        for action_id in ("", "x" * 65):
            refused = site.act(platform, ProgressReport(done=0.5), action_id)
            assert not refused.accepted
            assert "1 to 64 characters" in refused.why
        assert site.act(platform, ProgressReport(done=0.5), "x" * 64).accepted

    def test_news_contain_vms_that_the_period_observed(self, site: Site) -> None:
        """A VM created or lost since then has no share in them."""
        platform = site.submit()
        site.until(platform, "running")
        announcement = site.period()
        known = site.members(platform)
        ids = [member.vm for member in known if member.vm is not None]
        site.vm(1.0, BOB)
        assert [member.vm for member in vms_now(known, announcement)] == ids
        for other in (min(ids) - 1, max(ids) + 1, None):
            unknown = replace(known[0], vm=other)
            assert [member.vm for member in vms_now([unknown, known[1]], announcement)] == ids[1:]

    def test_foreign_and_unknown_objects_are_rejected(self, site: Site) -> None:
        """Other platforms' VMs and missing objects can't be changed; wrong values are refused."""
        own, other = site.submit(), site.submit(site.bob)
        site.until(own, "running")
        site.until(other, "running")
        foreign = site.vms(other)[0]
        actions: tuple[Action, ...] = (
            SetBids(bids={foreign: {"cpu": 1.0}}),
            SetSize(cluster="nodes", victims=(foreign,)),
            SetSize(cluster="elsewhere", count=1),
            SetBids(bids={site.vms(own)[0]: {"cpu": float("nan")}}),
            SetBids(bids={site.vms(own)[0]: {"gold": 1.0}}),
            ProgressReport(performance=float("inf")),
            ProgressReport(done=12.0),
            ProgressReport(done=-1e308),
            ProgressReport(work_left_s=-1.0),
            SetLimit(limit=1.0),
        )
        for number, action in enumerate(actions):
            outcome = site.act(own, action, str(number))
            assert not outcome.accepted
            assert outcome.why
        assert site.doings(own)[0].refused
        assert not site.act(999, WorkDone()).accepted

    def test_a_platform_suspended_by_its_controller_is_resumed_by_the_manager(
        self, site: Site
    ) -> None:
        """It resumes when the price allows it; its controller does not run meanwhile."""
        platform = site.submit(start="[start.price_ceiling]\ncpu = 0.05")
        site.until(platform, "running")
        dear = [site.vm(50.0, BOB) for _ in range(6)]
        site.periods(2)
        assert site.act(platform, SuspendPlatform(reason="too dear")).accepted
        site.until(platform, "suspended")
        assert platform not in site.notes.running
        assert {site.state(vm) for vm in site.vms(platform)} == {"SUSPENDED"}
        waits = site.platform(platform)
        site.periods(2)
        waits = site.platform(platform)
        assert waits.state == "suspended"
        assert "cpu costs" in waits.why
        assert "0.05 or less" in waits.needs
        for vm in dear:
            site.bench.ok("one.vm.action", "terminate-hard", vm)
        site.until(platform, "running")
        assert site.notes.running.keys() == {platform}

    def test_a_platform_suspended_by_its_tenant_stays_suspended(self, site: Site) -> None:
        """It waits for its tenant, however low the price is."""
        platform = site.submit()
        site.until(platform, "running")
        site.wait(site.manager.suspend(platform, "ann"))
        site.until(platform, "suspended")
        site.periods(3)
        assert site.platform(platform).state == "suspended"
        site.wait(site.manager.resume(platform, "ann"))
        site.until(platform, "running")

    @pytest.mark.parametrize("count", [1, *[2] * SOAK])
    def test_vms_that_lost_their_hosts_are_resumed_too(self, site: Site, count: int) -> None:
        """The daemon releases the hosts of suspended VMs whose owners do not pay."""
        platform = site.submit()
        site.until(platform, "running")
        site.wait(site.manager.suspend(platform, "ann"))
        site.until(platform, "suspended")
        vms = site.vms(platform)
        site.placed_again.update(vms[:count])
        for vm in site.placed_again:
            site.bench.ok("one.vm.action", "stop", vm)
        site.periods(1)
        assert [site.state(vm) for vm in vms].count("STOPPED") == count
        site.wait(site.manager.resume(platform, "ann"))
        site.until(platform, "running")
        assert site.vms(platform) == vms
        site.periods(2)
        assert [site.state(vm) for vm in vms] == ["RUNNING", "RUNNING"]

    def test_a_platform_can_be_held_before_its_start(self, site: Site) -> None:
        """It starts after the tenant releases it."""
        platform = site.submit()
        site.wait(site.manager.suspend(platform, "ann"))
        site.periods(3)
        assert site.platform(platform).state == "postponed"
        site.wait(site.manager.resume(platform, "ann"))
        site.until(platform, "running")

    def test_lost_vms_are_replaced(self, site: Site) -> None:
        """The cause of their end does not matter."""
        platform = site.submit()
        site.until(platform, "running")
        lost = site.vms(platform)[0]
        site.bench.ok("one.vm.action", "terminate-hard", lost)
        site.periods(4)
        assert lost not in site.vms(platform)
        assert [site.state(vm) for vm in site.vms(platform)] == ["RUNNING", "RUNNING"]


class TestMoney:
    def test_over_budget_the_tenants_choice_applies(self, site: Site) -> None:
        """The platform stops, or continues with its remaining credits."""
        budget = "[budget]\ncredits = 2"
        stops, goes_on = (
            site.submit(top=f'name = "weather"\nover_budget = "{choice}"', budget=budget)
            for choice in ("stop", "go on")
        )
        site.vm(500.0, BOB)
        for platform in (stops, goes_on):
            site.until(platform, "running")
            bids = {vm: {"cpu": 40.0} for vm in site.vms(platform)}
            assert site.act(platform, SetBids(bids=bids)).accepted
        site.periods(24)  # each period lowers its bids to what half of the remaining credits pays
        assert site.platform(stops).state == "failed"
        assert site.platform(goes_on).state == "running"
        assert site.notes.news[-1].balance < 1e-5

    def test_a_budget_beyond_the_tenants_credits_is_rejected(self, site: Site) -> None:
        """Nothing of the platform is stored."""
        with pytest.raises(LedgerError, match="can't be moved"):
            site.submit(budget="[budget]\ncredits = 1e9")
        site.periods(2)
        assert site.notes.started == []
        assert site.read(platform_store.listed) == ()

    def test_a_budget_can_change_while_the_platform_runs(self, site: Site) -> None:
        """The balance becomes the new amount."""
        platform = site.submit()
        site.until(platform, "running")
        site.update(platform, Update(budget=70_000.0))
        site.periods(1)
        assert 69_990 < site.notes.news[-1].balance <= 70_000
