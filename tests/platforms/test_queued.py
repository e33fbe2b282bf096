"""Patient platforms: their VMs run in a limit order, and wait with their data while others pay."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from merkatd.api.values.plain_values import members
from merkatd.cluster.orders import LimitOrder
from merkatd.commands.terminal.platform_text import platform_lines
from merkatd.database import Database
from merkatd.database.base.transactions import LostRaceError
from merkatd.database.ledger import account_store
from merkatd.database.scheduler import bid_store, journal, limit_order_store
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.embedded.model.vm_states import Lcm
from merkatd.fleets.vm_template_text import TemplateError
from merkatd.market.price import PriceRule
from merkatd.placement.base.strategy import Pricing
from merkatd.platforms import manager
from merkatd.platforms.lifecycle.controller_failures import LASTING_S
from merkatd.platforms.lifecycle.period_review import PlatformReview, review_platforms
from merkatd.platforms.lifecycle.platform_template import TemplateTime
from merkatd.platforms.platform_views import platform_view
from merkatd.platforms.rules.stated_limits import LEAST_LIMIT
from merkatd.platforms.tenant_orders import Update
from merkatd.protocol.platform_messages import (
    GiveUp,
    Kinds,
    ProgressReport,
    SetLimit,
    SetSize,
    WorkDone,
)
from merkatd.scheduler.base.settings import MarketRules
from tests.lengths import shorten
from tests.platforms.site import BOB, Site
from tests.platforms.test_standby import Rival, freeze

MARKET = MarketRules(
    pricing=Pricing(rule=PriceRule.CLEARING, reserve={"cpu": 0.001, "memory": 0.0001})
)
VM = """\
CPU="1"
VCPU="1"
MEMORY="1024"
EMBEDDED=[WORK="1000000",DEMAND="1",MEMORY_USE="256"]
"""
COST = 3 * (0.1 + 0.1024)
"""The reserve price of three VMs for a period."""


class Queues(Site):
    """A host of four cores; each platform needs three of them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**({"hosts": 1, "markets": (MARKET,)} | settings))

    def start_daemon(self) -> None:
        """Start a daemon that offers the kind `patient`; its controllers only record."""
        super().start_daemon()
        self.notes.offered = Kinds(("notes", "patient"), ("steps",))

    def patient(
        self,
        credits_: float = 600.0,
        deadline: str = "4h",
        ideal_run: str = "1h",
        owner: int | None = None,
        **parts: str,
    ) -> int:
        """Submit a patient platform of three VMs."""
        given = {
            "controller": '[controller]\nkind = "patient"',
            "budget": f"[budget]\ncredits = {credits_}",
            "slo": f'[slo]\ndeadline = "{deadline}"\nideal_run = "{ideal_run}"',
            "cluster": '[[cluster]]\nname = "nodes"\nleast = 3\ninitial = 3\n'
            f'template = """\n{VM}"""',
        }
        return self.submit(owner, **(given | parts))

    def limit_order(self, platform: int) -> LimitOrder | None:
        """Return a platform's limit order."""
        found: Mapping[int, LimitOrder] = self.read(limit_order_store.of_platforms)
        return found.get(platform)

    def orders(self, platform: int) -> LimitOrder:
        """Return a platform's limit order, which exists."""
        found = self.limit_order(platform)
        assert found is not None
        return found

    def states(self, platform: int) -> set[str]:
        """Return the states of a platform's VMs in the cloud."""
        return {self.state(vm) for vm in self.vms(platform)}

    def displaced(self) -> int:
        """Return a platform that ran for some periods and was displaced by a dearer one."""
        platform = self.patient()
        self.until(platform, "running")
        self.act(platform, ProgressReport(done=0.1))
        self.periods(2)
        self.patient(60_000.0, "2h", owner=self.bob)
        self.until(platform, "queued")
        self.periods(2)
        assert self.states(platform) == {"PENDING"}
        return platform

    def give_way(self, platform: int) -> None:
        """End all other platforms."""
        for other in range(1, 10):
            if other != platform and self.exists(other):
                self.wait(self.manager.stop(other, "bob"))

    def exists(self, platform: int) -> bool:
        """Return whether there is a platform of this id that has not ended."""
        with_order = self.read(limit_order_store.of_platforms)
        return platform in with_order

    def ended(self) -> set[int]:
        """Return the VMs that the daemon has ended."""
        steps = self.read(lambda c: journal.recent(c, journal.StepFilter(kind="terminate"), 1000))
        return {stored.step.vm for stored in steps}


@pytest.fixture
def site() -> Iterator[Queues]:
    """Return a cloud with one host."""
    one = Queues()
    yield one
    one.placed_again = set(one.cloud.world.vms.rows)
    one.agree()
    one.close()


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

    def test_its_vms_bid_nothing_before_their_order_is_stated(self, site: Queues) -> None:
        """In an empty cloud VMs that bid nothing would start at once."""
        platform = site.patient()
        site.until(platform, "queued")
        assert site.states(platform) == {"PENDING"}
        bids = site.read(bid_store.amounts)
        assert {sum(bids[vm].values()) for vm in site.vms(platform)} == {0.0}
        site.periods(2)
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


class TestTenant:
    @pytest.mark.parametrize("state", ["starting", "queued", "running", "displaced"])
    def test_a_suspended_platform_keeps_its_vms(self, site: Queues, state: str) -> None:
        """It goes on with the same VMs once its tenant resumes it."""
        if state == "displaced":
            platform = site.displaced()
        else:
            if state == "queued":
                site.patient(60_000.0, "2h", owner=site.bob)
                site.periods(3)
            platform = site.patient()
            site.until(platform, state)
            if state == "running":
                site.periods(2)
        site.wait(site.manager.suspend(platform, "ann"))
        site.until(platform, "suspended")
        vms = site.vms(platform)
        before = site.read(lambda c: limit_order_store.living(c, site.ann))
        assert before == ()
        site.periods(3)
        assert site.states(platform) <= {"PENDING", "STOPPED"}
        site.give_way(platform)
        site.periods(4)
        assert site.states(platform) <= {"PENDING", "STOPPED"}
        site.wait(site.manager.resume(platform, "ann"))
        site.until(platform, "running")
        assert not set(vms) & site.ended()
        if state != "starting":
            assert site.vms(platform) == vms
        assert site.states(platform) == {"RUNNING"}

    @pytest.mark.parametrize(
        "state", ["starting", "queued", "running", "displaced", "suspending", "suspended"]
    )
    def test_a_stopped_platform_leaves_nothing(self, site: Queues, state: str) -> None:
        """Its VMs, its order and its account end in every state."""
        before = site.balances()[site.ann]
        if state == "displaced":
            platform = site.displaced()
            site.give_way(platform)
        else:
            if state == "queued":
                site.vm(50_000.0, BOB, CPU=1, VCPU=4, MEMORY=1024)
                site.periods(3)
            platform = site.patient()
            site.until(platform, "running" if state.startswith("susp") else state)
            if state.startswith("susp"):
                site.wait(site.manager.suspend(platform, "ann"))
                site.until(platform, state)
        site.wait(site.manager.stop(platform, "ann"))
        site.until(platform, "cancelled")
        site.periods(3)
        assert not set(site.vms(platform))
        assert site.limit_order(platform) is None
        assert before - 20 * COST <= site.balances()[site.ann] <= before

    def test_a_suspension_that_is_taken_back_at_once(self, site: Queues) -> None:
        """Some VMs may be down already."""
        platform = site.patient()
        site.until(platform, "running")
        vms = site.vms(platform)
        site.wait(site.manager.suspend(platform, "ann"))
        site.periods(1)
        site.wait(site.manager.resume(platform, "ann"))
        site.until(platform, "running")
        site.periods(2)
        assert site.vms(platform) == vms
        assert site.states(platform) == {"RUNNING"}

    def test_a_later_deadline_lowers_what_it_offers(self, site: Queues) -> None:
        """More credits raise it."""
        site.patient(60_000.0, "2h", owner=site.bob)
        platform = site.patient(600.0, "1h", "30m")
        site.until(platform, "queued")
        site.periods(1)
        first = site.orders(platform).limit
        site.update(platform, Update(deadline=TemplateTime(after_s=4 * 3600.0)))
        site.periods(1)
        second = site.orders(platform).limit
        site.update(platform, Update(budget=6_000.0))
        site.periods(1)
        assert second < first
        assert site.orders(platform).limit > 5 * second


class TestFailures:
    def test_a_failed_vm_of_a_queued_platform_is_replaced(self, site: Queues) -> None:
        """The others keep their data; all start together."""
        platform = site.displaced()
        lost, *others = site.vms(platform)
        site.bench.ok("one.vm.action", "hold", lost)
        site.periods(3)
        assert lost in site.ended()
        site.give_way(platform)
        site.until(platform, "running")
        site.periods(3)
        assert site.states(platform) == {"RUNNING"}
        assert set(others) < set(site.vms(platform))
        assert len(site.vms(platform)) == 3
        assert not set(others) & site.ended()
        assert site.orders(platform).vms == tuple(site.vms(platform))

    def test_a_vm_that_opennebula_refuses_does_not_keep_the_others_waiting(
        self, site: Queues
    ) -> None:
        """After three refusals the others start without it."""
        platform = site.displaced()
        lost, *others = site.vms(platform)
        fault = Fault(FaultKind.REFUSE, "one.vm.allocate", code=4096, text="quota")
        site.cloud.faults.add(fault)
        site.bench.ok("one.vm.action", "hold", lost)
        site.periods(3)
        assert site.orders(platform).vms == ()
        site.give_way(platform)
        site.periods(2)
        assert {site.state(vm) for vm in others} == {"PENDING"}
        site.until(platform, "running", 12)
        assert {site.state(vm) for vm in others} == {"RUNNING"}
        site.cloud.faults.clear()
        site.periods(14)
        assert site.states(platform) == {"RUNNING"}
        assert len(site.vms(platform)) == 3

    def test_a_vm_that_is_off_does_not_keep_the_controller_from_running(self, site: Queues) -> None:
        """The others run and cost credits; the controller replaces the one that is off."""
        platform = site.patient()
        site.until(platform, "running")
        site.periods(1)
        off, *others = site.vms(platform)
        site.bench.ok("one.vm.action", "poweroff-hard", off)
        site.clock.advance(60.0)
        other = site.patient(60_000.0, "2h", owner=site.bob)
        site.until(platform, "queued")
        site.wait(site.manager.stop(other, "bob"))
        site.until(platform, "running")
        assert {site.state(vm) for vm in others} == {"RUNNING"}
        site.periods(1)
        assert platform in site.notes.running
        assert site.act(platform, SetSize(cluster="nodes", count=3, victims=(off,))).accepted
        site.periods(6)
        assert site.states(platform) == {"RUNNING"}
        assert len(site.vms(platform)) == 3

    def test_a_platform_whose_vms_all_fail_is_given_up(self, site: Queues) -> None:
        """It was queued when they failed."""
        site.cloud.faults.add(Fault(FaultKind.FAIL, lcm="BOOT"))
        platform = site.patient()
        found = site.until(platform, "failed", 60)
        assert "its VMs fail one after the other" in found.why
        assert site.alive() == []

    def test_a_failing_controllers_order_ends_after_a_while(self, site: Queues) -> None:
        """Its VMs are saved, and start again once the controller works."""
        platform = site.patient()
        site.until(platform, "running")
        vms, limit = site.vms(platform), site.orders(platform).limit
        site.wait(site.manager.ended(platform, "exit code 1", final=False))
        site.periods(int(LASTING_S / 60.0))
        assert site.states(platform) == {"RUNNING"}
        assert site.orders(platform).limit >= limit
        site.periods(1)
        site.wait(site.manager.ended(platform, "exit code 1", final=False))
        site.until(platform, "queued")
        assert site.orders(platform).limit == LEAST_LIMIT
        assert platform in site.notes.running
        site.periods(2)
        assert site.act(platform, SetLimit(limit=limit), "works").accepted
        site.until(platform, "running")
        assert site.vms(platform) == vms
        site.periods(2)
        assert site.states(platform) == {"RUNNING"}

    @pytest.mark.parametrize("policy", ["stop", "go on"])
    def test_the_budget_ends(self, site: Queues, policy: str) -> None:
        """The platform ends, or waits for its replenishment with its data."""
        top = 'name = "weather"' if policy == "stop" else 'name = "weather"\nover_budget = "go on"'
        platform = site.patient(10 * COST + 1.0, "4h", "10m", top=top)
        site.until(platform, "running")
        if policy == "stop":
            assert "budget is used up" in site.until(platform, "failed", 30).why
            return
        site.until(platform, "queued", 30)
        site.periods(3)
        vms = site.vms(platform)
        assert site.states(platform) <= {"PENDING", "STOPPED"}
        site.update(platform, Update(budget=100.0))
        site.until(platform, "running")
        assert site.vms(platform) == vms


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


def test_limits_are_bounded(site: Queues) -> None:
    """A controller may state any limit that its balance pays, for its own platform's order."""
    platform = site.patient()
    site.until(platform, "running")
    site.periods(1)
    has = site.notes.news[-1].balance
    for number, limit in enumerate((0.0, -1.0, float("nan"), float("inf"), 1.01 * has)):
        refused = site.act(platform, SetLimit(limit=limit), f"refused {number}")
        assert not refused.accepted
        assert "a limit must be above 0 and at most" in refused.why
    assert site.act(platform, SetLimit(limit=0.9 * has), "most").accepted
    assert site.orders(platform).limit == 0.9 * has
    assert site.act(platform, SetLimit(limit=0.8 * has), "less").accepted
    told = [doing.text for doing in site.doings(platform) if doing.what == "limit"]
    assert [text for text in told if text.startswith("at most ")] == [
        f"at most {0.8 * has:.4g} credits per period"
    ]
    assert site.act(platform, GiveUp(reason="tired"), "end").accepted


def shown(site: Queues, platform: int) -> str:
    """Return the text of `platform show`."""
    announcement, world = site.periods(1), site.scheduler.world
    row = site.platform(platform)
    view = site.read(lambda c: platform_view(c, row, world, announcement))
    return " ".join(platform_lines(members(view), None))


def test_its_tenant_sees_limit_and_cost(site: Queues) -> None:
    """Before the start the limit that it would state, then the cost, or what it lacks."""
    later = site.patient(start='[start]\nnot_before = "5h"', deadline="10h")
    runs = site.patient()
    site.until(runs, "running")
    waits = site.patient(owner=site.bob)
    site.until(waits, "queued")
    site.periods(1)
    limit = site.orders(runs).limit
    assert f"Its limit order may cost {limit:.4g} credits a period, and pays" in shown(site, runs)
    text = shown(site, waits)
    assert "is queued: limit order" in text
    assert site.orders(waits).why in text
    assert text.count("in nodes: pending") == 3
    assert "and it would start with" in text
    assert "they bid" not in text
    started = float(site.orders(waits).why.rpartition(" ")[2])
    assert f"credits a period; it would start with {started:.4g}" in text
    text = shown(site, later)
    assert "Its limit order may cost 0.6072 credits a period; it would start with" in text
    site.wait(site.manager.stop(runs, "ann"))
    site.wait(site.manager.stop(waits, "bob"))
    site.periods(3)
    text = shown(site, later)
    assert "may cost 0.6072 credits a period; it would start with 0.6072." in text


class Cut(Exception):  # noqa: N818 - a kill, not an error
    """The daemon is killed."""


@pytest.mark.parametrize("seed", range(shorten(12, 3)))
def test_a_kill_in_any_transaction_loses_nothing(
    site: Queues, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon ends before or after a commit; the next one goes on from the database."""
    rng = np.random.default_rng(seed)
    real = Database.run
    left = [0]

    async def run(self: Database, work: Any) -> Any:
        left[0] -= 1
        if left[0] == 0 and rng.random() < 0.5:
            raise Cut
        done = await real(self, work)
        if left[0] == 0:
            raise Cut
        return done

    first = site.patient(600.0, "2h", "30m")
    second = site.patient(6_000.0, "3h", owner=site.bob)
    held = False
    monkeypatch.setattr(Database, "run", run)
    for _ in range(24):
        left[0] = int(rng.integers(1, 12))
        with suppress(Cut):
            site.period()
        left[0] = 0
        site.clock.advance(60.0)
        site.start_daemon()
        if rng.random() < 0.2:
            order = site.manager.resume if held else site.manager.suspend
            site.wait(order(second, "bob"))
            held = not held
    monkeypatch.undo()
    site.start_daemon()
    if held:
        site.wait(site.manager.resume(second, "bob"))
    site.until(second, "running", 30)
    assert site.platform(first).state in {"queued", "running"}
    for platform in (first, second):
        assert len(site.vms(platform)) == 3
        assert not set(site.vms(platform)) & site.ended()
    assert sorted(site.alive()) == sorted([*site.vms(first), *site.vms(second)])
    site.wait(site.manager.stop(second, "bob"))
    site.until(first, "running", 30)


def test_two_daemons_share_the_orders(site: Queues) -> None:
    """When the leader freezes, the other goes on with the same order, and starts the controller."""
    platform = site.patient()
    first, second = Rival(site, "first"), Rival(site, "second")
    for one in (first, second):
        one.notes.offered = site.notes.offered
    site.clock.pump([10.0] * 40)
    assert site.platform(platform).state == "running"
    order, vms = site.orders(platform), site.vms(platform)
    assert set(first.notes.running) == {platform}
    freeze(first)
    site.clock.pump([10.0] * 40)
    assert set(second.notes.running) == {platform}
    assert site.orders(platform).id == order.id
    assert site.vms(platform) == vms
    assert site.states(platform) == {"RUNNING"}
    second.end()


@pytest.mark.parametrize("seed", range(shorten(6, 2)))
def test_kills_at_any_moment_lose_no_vm(site: Queues, seed: int) -> None:
    """The daemon is killed after a different number of calls of each period."""
    first = site.patient()
    second = site.patient(6_000.0, "3h", owner=site.bob)
    for period in range(14):
        calls = site.cut_off_after((seed + period) % 4)
        site.try_period()
        site.restore(calls)
        site.clock.advance(60.0)
        site.start_daemon()
    for platform in (first, second):
        assert len(site.vms(platform)) == 3
        assert not set(site.vms(platform)) & site.ended()
    assert len(site.alive()) == 6
    site.until(second, "running")
    assert site.platform(first).state == "queued"
