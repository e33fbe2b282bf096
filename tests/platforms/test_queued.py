"""Patient platforms: their VMs run in a limit order, and wait with their data while others pay."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from merkatd.database.base.transactions import LostRaceError
from merkatd.database.ledger import account_store
from merkatd.database.scheduler import bid_store, limit_order_store
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.embedded.model.vm_states import Lcm
from merkatd.fleets.vm_template_text import TemplateError
from merkatd.market.price import PriceRule
from merkatd.placement.contract import Pricing
from merkatd.platforms import manager
from merkatd.platforms.declarations.template_time import TemplateTime
from merkatd.platforms.lifecycle.period_review import PlatformReview, review_platforms
from merkatd.platforms.tenant_orders import Update
from merkatd.protocol.platform_messages import (
    WorkDone,
)
from tests.platforms.queues import COST, MARKET, Queues, closed_after
from tests.platforms.site import BOB


@pytest.fixture
def site() -> Iterator[Queues]:
    """Return a cloud with one host."""
    yield from closed_after(Queues())


class TestWaiting:
    def test_it_starts_when_the_price_falls(self, site: Queues) -> None:
        """Until then its VMs exist, get no host, and cost nothing."""
        dear = [site.vm(5_000.0, BOB, CPU=1, VCPU=1, MEMORY=1024) for _ in range(4)]
        site.periods(2)
        before = site.balances()[site.ann]
        platform = site.patient()
        found = site.until(platform, "queued")
        assert site.states(platform) == {"PENDING"}
        assert platform not in site.notes.running
        site.periods(4)
        assert site.states(platform) == {"PENDING"}
        order = site.orders(platform)
        assert order.vms == tuple(site.vms(platform))
        assert (order.runs, order.owner, order.factor) == (False, site.ann, 2.0)
        assert "waits: its limit is" in order.why
        assert "waits: its limit is" in site.platform(platform).why
        assert found.needs == "free capacity, or time: it offers more as its deadline approaches"
        assert site.balances()[site.ann] == before - 600.0
        for vm in dear:
            site.bench.ok("one.vm.action", "terminate-hard", vm)
        site.until(platform, "running")
        assert set(site.notes.running) == {platform}
        site.periods(1)
        news = site.notes.news[-1]
        assert news.order is not None
        assert news.order.runs
        assert news.order.cost == pytest.approx(COST)
        assert [book.runs for book in news.market.orders] == [True]

    def test_the_period_that_first_sees_its_vms_starts_them(self, site: Queues) -> None:
        """They bid nothing: all start in its order."""
        platform = site.patient()
        site.until(platform, "starting")
        assert not site.exists(platform) or not site.orders(platform).vms
        site.periods(1)
        assert site.orders(platform).runs
        assert site.orders(platform).vms == tuple(sorted(site.vms(platform)))
        bids = site.read(bid_store.amounts)
        assert {sum(bids[vm].values()) for vm in site.vms(platform)} == {0.0}
        site.periods(1)
        assert site.states(platform) == {"RUNNING"}

    def test_its_order_has_all_vms_or_none(self, site: Queues) -> None:
        """OpenNebula creates the third only after some periods."""
        fault = Fault(FaultKind.REFUSE, "one.vm.allocate", code=4096, text="no", count=1)
        site.cloud.faults.add(fault)
        platform = site.patient()
        for _ in range(8):
            site.periods(1)
            assert not site.exists(platform) or len(site.orders(platform).vms) in {0, 3}
            assert site.states(platform) <= {"PENDING"} or len(site.vms(platform)) == 3
        site.until(platform, "running")
        assert site.states(platform) == {"RUNNING"}

    def test_its_limit_rises_until_its_deadline(self, site: Queues) -> None:
        """It ends when its work can't be done in time any more; its budget returns."""
        site.patient(60_000.0, "4h", owner=site.bob)
        site.periods(4)
        before = site.balances()[site.ann]
        platform = site.patient(600.0, "75m", "15m")
        limits = []
        for _ in range(58):
            site.periods(1)
            limits.append(site.orders(platform).limit)
        assert limits == sorted(limits)
        assert limits[-1] > 3 * limits[0]
        assert max(limits) <= 40.0
        assert "the work takes 15 min" in site.until(platform, "cancelled").why
        assert site.balances()[site.ann] == before
        assert site.limit_order(platform) is None

    def test_conditions_that_credits_do_not_change_come_first(self, site: Queues) -> None:
        """Before them it has no VMs."""
        later = site.patient(start='[start]\nnot_before = "5m"')
        dear = site.patient(start="[start.price_ceiling]\ncpu = 0.0005")
        held = site.patient()
        site.wait(site.manager.suspend(held, "ann"))
        site.periods(3)
        for platform in (later, dear, held):
            assert site.platform(platform).state == "postponed"
            assert not site.vms(platform)
        site.wait(site.manager.resume(held, "ann"))
        site.until(later, "queued", 8)

    def test_a_retried_review_states_one_order(
        self, site: Queues, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first review is rolled back."""
        reviews = []

        def review(*given: Any, **named: Any) -> PlatformReview:
            reviews.append(review_platforms(*given, **named))
            if len(reviews) % 2:
                raise LostRaceError
            return reviews[-1]

        monkeypatch.setattr(manager, "review_platforms", review)
        platform = site.patient()
        site.until(platform, "running")
        assert len(site.alive()) == 3
        assert site.orders(platform).vms == tuple(site.vms(platform))

    def test_while_its_vms_boot_its_limit_does_not_fall(self, site: Queues) -> None:
        """It runs in the market already, and keeps the limit with which it started."""
        settings = site.cloud.world.settings
        delays = replace(settings.delays, by_state={**settings.delays.by_state, Lcm.BOOT: 400.0})
        site.cloud.world.settings = replace(settings, delays=delays)
        platform = site.patient(600.0, "90m", "50m")
        for _ in range(10):
            site.periods(1)
            if site.exists(platform) and site.orders(platform).runs:
                break
        started = site.orders(platform)
        site.update(platform, Update(deadline=TemplateTime(after_s=8 * 3600.0)))
        site.periods(3)
        assert site.platform(platform).state == "queued"
        assert site.orders(platform).limit == started.limit
        assert site.orders(platform).least_run_s == started.least_run_s
        site.until(platform, "running")
        site.periods(1)


class TestDisplaced:
    def test_it_goes_on_with_its_data(self, site: Queues) -> None:
        """The same VMs wait without a host, and run again."""
        platform = site.displaced()
        vms = site.vms(platform)
        site.give_way(platform)
        site.until(platform, "running")
        assert site.vms(platform) == vms
        assert not set(vms) & site.ended()
        assert [len(site.bench.vm(vm).history) for vm in vms] == [2, 2, 2]

    @pytest.mark.parametrize(("factor", "runs"), [(1.9, True), (2.1, False)])
    def test_only_twice_its_limit_displaces_it(
        self, site: Queues, factor: float, runs: bool
    ) -> None:
        """Its money for the rest of its work is reserved, so that it can pay that much."""
        platform = site.patient(600.0, "90m", "50m")
        site.until(platform, "running")
        limit = site.orders(platform).limit
        assert site.orders(platform).least_run_s == pytest.approx(3000.0)
        vms = [site.vm(0.0, BOB, CPU=1, VCPU=1, MEMORY=1024) for _ in range(3)]
        site.read(
            lambda c: limit_order_store.add(
                c,
                owner=site.bob,
                vms=vms,
                limit=factor * limit,
                least_run_s=0.0,
                factor=1.0,
                stated_s=0.0,
            )
        )
        site.periods(5)
        assert site.platform(platform).state == ("running" if runs else "queued")
        if runs:
            assert site.orders(platform).cost == pytest.approx(factor * limit, rel=0.01)
            free, balance = self.means(site, platform)
            assert free < 0.25 * balance

    def means(self, site: Queues, platform: int) -> tuple[float, float]:
        """Return the free credits and the balance of a platform."""
        account = site.platform(platform).account
        assert account is not None
        row = site.read(lambda c: account_store.get(c, [account]))[account]
        return row.free / 1e6, row.balance / 1e6

    def test_what_it_pays_does_not_depend_on_its_limit(self, site: Queues) -> None:
        """In an empty cloud it pays the reserve price."""
        before = site.balances()
        platform = site.patient(60_000.0, "2h")
        site.until(platform, "running")
        site.periods(10)
        assert site.act(platform, WorkDone(reason="ready")).accepted
        site.until(platform, "done")
        paid = before[site.ann] - site.balances()[site.ann]
        assert 8 * COST < paid < 14 * COST


@pytest.mark.parametrize("rule", PriceRule)
def test_a_platform_without_a_deadline_or_a_market_with_orders_is_refused(rule: PriceRule) -> None:
    """The error names both."""
    site = Queues(markets=(replace(MARKET, pricing=Pricing(rule=rule)),))
    with pytest.raises(TemplateError) as refused:
        site.patient(slo="")
    text = str(refused.value)
    assert "slo.deadline is missing: kind `patient` needs a deadline" in text
    needs = "needs a market with limit orders (got market 'default'); accepted markets: none"
    assert (needs in text) is (rule is PriceRule.PAPER)
    site.close()
