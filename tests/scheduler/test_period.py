"""The period on the embedded cloud: placement, shares, limits, charges and messages."""

import time
from typing import Any

import numpy as np
import pytest
from twisted.logger import capturedLogs

from merkatd.database.scheduler import journal, period_store, price_store
from merkatd.database.scheduler.bid_store import Bid, BidSource, record_bids
from merkatd.database.scheduler.order_store import Order
from merkatd.database.scheduler.step_store import StepState
from merkatd.embedded.model.settings import HostSize
from merkatd.scheduler.phases.announce import Announcement
from tests.lengths import shorten
from tests.machine_speed import slowness
from tests.scheduler.frontend import Frontend, entries_by_reference

PERIODS = shorten(1_000, 30)
MINUTES = shorten(60, 20)


class TestOnePeriod:
    def test_pending_vms_are_placed_and_confirmed_by_observation(self, frontend: Frontend) -> None:
        """Steps are confirmed in the next period, never by the answer alone."""
        vms = [frontend.vm() for _ in range(6)]
        frontend.period()
        assert frontend.outstanding() == 6
        frontend.clock.advance(60)
        frontend.period()
        assert frontend.outstanding() == 0
        assert {frontend.state(vm) for vm in vms} == {"RUNNING"}
        assert sorted(frontend.host_of(vm) for vm in vms) == [0, 0, 1, 1, 2, 2]
        frontend.agree()

    def test_hosts_enforce_the_shares(self, frontend: Frontend) -> None:
        """Bids of 1 and 3 on a contended host of four cores: quotas of one core and three."""
        frontend.close()
        frontend.__init__(hosts=1)  # type: ignore[misc]
        cheap = frontend.vm(1.0, VCPU=4)
        dear = frontend.vm(3.0, VCPU=4)
        frontend.periods(3)
        assert 4 * frontend.limits(cheap).vcpu_quota == pytest.approx(100_000, rel=0.03)
        assert 4 * frontend.limits(dear).vcpu_quota == pytest.approx(300_000, rel=0.03)

    def test_an_application_slows_when_its_share_falls(self, frontend: Frontend) -> None:
        """The guest's actual work follows the bids."""
        frontend.close()
        frontend.__init__(hosts=1)  # type: ignore[misc]
        vms = [frontend.vm(bid, VCPU=4) for bid in (1.0, 3.0)]
        frontend.periods(3)
        before = frontend.cloud.guests.read(vms)
        frontend.periods(10)
        after = frontend.cloud.guests.read(vms)
        slow, fast = (after[vm].cpu_s - before[vm].cpu_s for vm in vms)
        assert fast / slow == pytest.approx(3.0, rel=0.05)
        assert fast + slow == pytest.approx(600 * 4, rel=0.02)

    def test_a_period_is_charged_at_the_next_for_the_time_passed(self, frontend: Frontend) -> None:
        """The cost is price times allocation, for VMs that ran at both observations."""
        frontend.close()
        frontend.__init__(hosts=1)  # type: ignore[misc]
        ann = frontend.user("ann")
        frontend.vm(6.0, owner=ann)
        frontend.vm(1.0, VCPU=4, MEMORY=8192)
        frontend.periods(3)
        before = frontend.balances()
        announcement = frontend.period()
        price = announcement.prices["default"]
        owner = int(announcement.seen.snapshot.vms.owner[0])
        given = announcement.decided.decision.allocations[0]
        cost = price["cpu"] * given[0] + price["memory"] * given[1]
        assert cost > 1.0
        assert before[owner] - frontend.balances()[owner] == pytest.approx(cost, rel=1e-6)

    def test_prices_are_announced_and_stored(self, frontend: Frontend) -> None:
        """Listeners receive them, and the database keeps them."""
        frontend.close()
        frontend.__init__(hosts=1)  # type: ignore[misc]
        heard: list[Announcement] = []
        frontend.scheduler.listen(heard.append)
        for _ in range(4):
            frontend.vm(6.0, MEMORY=4096)
        frontend.scheduler.start()
        frontend.clock.pump([1.0] * 70)
        assert [announcement.period for announcement in heard] == [1, 2]
        expected = {"default": {"cpu": 24.0 / 400, "memory": 4.0 / 8192}}
        assert heard[-1].prices["default"] == pytest.approx(expected["default"])
        stored = frontend.read(lambda c: price_store.load_prices(c, 2))
        assert stored["default"] == pytest.approx(expected["default"])
        frontend.result(frontend.stopped())

    def test_an_owner_is_told_why_a_vm_stays_pending(self, frontend: Frontend) -> None:
        """The reason is set once, where OpenNebula shows a scheduler's message."""
        vm = frontend.vm(MERKAT_MIN_MEMORY=9000, MEMORY=10000)
        frontend.period()
        message = frontend.bench.vm(vm).user_template
        assert "a host with 10,000 MiB of memory" in str(message)
        requests = frontend.cloud.requests
        frontend.period()
        again = frontend.cloud.requests - requests
        frontend.period()
        assert frontend.cloud.requests - requests == 2 * again

    def test_a_bad_bid_is_answered_with_the_accepted_values(self, frontend: Frontend) -> None:
        """The VM uses the default bid meanwhile."""
        vm = frontend.vm(MERKAT_BID_CPU="lots")
        frontend.periods(2)
        assert "MERKAT_BID_CPU" in str(frontend.bench.vm(vm).user_template)
        assert "a number from 0" in str(frontend.bench.vm(vm).user_template)
        assert frontend.state(vm) == "RUNNING"


class TestBids:
    def bid(self, frontend: Frontend, vm: int) -> float:
        """Return the VM's bid for CPU in a period now."""
        snapshot = frontend.period().seen.snapshot
        frontend.clock.advance(60)
        return float(snapshot.vms.bid[snapshot.vm_row(vm), 0])

    def test_the_most_recent_bid_applies(self, frontend: Frontend) -> None:
        """A template's bid counts at first sight, and again only when its text changes."""
        vm = frontend.vm(2.0)
        assert self.bid(frontend, vm) == 2.0
        word = Bid(vm=vm, bid={"cpu": 7.0, "memory": 1.0}, source=BidSource.XMLRPC,
                   at_s=frontend.clock.seconds())  # fmt: skip
        frontend.read(lambda c: record_bids(c, [word]))
        assert self.bid(frontend, vm) == 7.0
        assert self.bid(frontend, vm) == 7.0
        frontend.bench.ok("one.vm.update", vm, 'MERKAT_BID_CPU="4"', 1)
        assert self.bid(frontend, vm) == 4.0

    def test_a_bid_made_during_the_observation_is_newer_than_the_template(
        self, frontend: Frontend
    ) -> None:
        """The template was written before the bid and is not read again."""
        vm = frontend.vm(2.0)
        assert self.bid(frontend, vm) == 2.0
        frontend.bench.ok("one.vm.update", vm, 'MERKAT_BID_CPU="4"', 1)
        real = frontend.scheduler.world.cloud.observe

        async def observe() -> Any:
            seen = await real()
            word = Bid(vm=vm, bid={"cpu": 7.0, "memory": 1.0}, source=BidSource.XMLRPC,
                       at_s=0.0)  # fmt: skip
            frontend.read(lambda c: record_bids(c, [word]))
            return seen

        frontend.scheduler.world.cloud.observe = observe  # type: ignore[method-assign]
        assert self.bid(frontend, vm) == 7.0
        frontend.scheduler.world.cloud.observe = real  # type: ignore[method-assign]
        assert self.bid(frontend, vm) == 7.0
        frontend.bench.ok("one.vm.update", vm, 'MERKAT_BID_CPU="5"', 1)
        assert self.bid(frontend, vm) == 5.0

    def test_a_clock_set_back_leaves_owners_in_control_of_bids(self) -> None:
        """A template changed afterwards counts."""
        off_s = 0.0
        frontend = Frontend(hosts=1)
        try:
            frontend.clock.seconds = lambda: frontend.clock.rightNow + off_s  # type: ignore[method-assign]
            frontend.start_daemon()
            vm = frontend.vm(2.0)
            off_s = 7_200.0
            assert self.bid(frontend, vm) == 2.0
            frontend.bench.ok("one.vm.update", vm, 'MERKAT_BID_CPU="30"', 1)
            assert self.bid(frontend, vm) == 30.0
            off_s = 0.0
            assert self.bid(frontend, vm) == 30.0
            frontend.bench.ok("one.vm.update", vm, 'MERKAT_BID_CPU="3"', 1)
            assert self.bid(frontend, vm) == 3.0
        finally:
            frontend.close()

    def test_a_vm_without_a_bid_uses_the_default_bid(self, frontend: Frontend) -> None:
        """VMs without Merkat attributes can run beside others."""
        vm = frontend.vm(MERKAT_BID_CPU=None, MERKAT_BID_MEMORY=None)
        assert self.bid(frontend, vm) == 1.0


class TestRhythm:
    def test_a_period_that_overruns_is_not_started_twice(self, frontend: Frontend) -> None:
        """The next one starts at the next full interval."""
        frontend.vm()
        frontend.bench.ok(
            "embedded.fault.add",
            {"kind": "delay", "method": "one.vmpool.infoextended", "seconds": 20.0, "count": 1},
        )
        starts = []
        frontend.scheduler.listen(lambda announcement: starts.append(announcement.seen.started_s))
        frontend.scheduler.start()
        frontend.clock.pump([1.0] * 130)
        first = starts[0]
        assert [start - first for start in starts] == pytest.approx([0, 60, 120], abs=1.5)
        frontend.result(frontend.stopped())

    def test_a_paused_daemon_acts_on_no_vm(self, frontend: Frontend) -> None:
        """It acts again after `resume`."""
        vm = frontend.vm()
        frontend.order(Order.PAUSE)
        frontend.scheduler.start()
        frontend.clock.pump([1.0] * 70)
        assert frontend.state(vm) == "PENDING"
        frontend.order(Order.RESUME)
        frontend.clock.pump([1.0] * 70)
        assert frontend.state(vm) == "RUNNING"
        frontend.result(frontend.stopped())

    def test_a_failed_period_leaves_the_cloud_unchanged_and_the_next_runs(
        self, frontend: Frontend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The database stores the reason."""
        vm = frontend.vm()
        with monkeypatch.context() as patched:
            patched.setattr("merkatd.scheduler.phases.decide.decided_unstored", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                frontend.period()
        assert frontend.state(vm) == "PENDING"
        failed = frontend.read(lambda c: period_store.get(c, 1))
        assert failed.state == "failed"
        assert "ZeroDivisionError" in failed.failure
        frontend.periods(2)
        assert frontend.state(vm) == "RUNNING"

    def test_the_first_error_is_raised_if_it_cannot_be_stored(
        self, frontend: Frontend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The log contains the storage error too."""

        def away(*_: object) -> None:
            raise ConnectionError("the database is away")

        with monkeypatch.context() as patched, capturedLogs() as logged:
            patched.setattr("merkatd.scheduler.phases.decide.decided_unstored", lambda *_: 1 / 0)
            patched.setattr("merkatd.database.scheduler.period_store.failed", away)
            with pytest.raises(ZeroDivisionError):
                frontend.period()
        errors = [event["log_failure"].value for event in logged if "log_failure" in event]
        assert [str(error) for error in errors] == ["the database is away"]
        frontend.periods(1)

    def test_many_periods_in_virtual_time(self, frontend: Frontend) -> None:
        """Tenants come and go; in the end every step and credit is accounted for."""
        rng = np.random.default_rng(5)
        sessions = [frontend.user(name) for name in ("ann", "bob", "eve")]
        alive: list[int] = []
        begin = time.process_time()
        for _ in range(PERIODS):
            if rng.random() < 0.8 and len(alive) < 12:
                session = sessions[int(rng.integers(3))]
                alive.append(frontend.vm(float(rng.lognormal()), owner=session))
            if rng.random() < 0.15 and alive:
                vm = alive.pop(int(rng.integers(len(alive))))
                if frontend.state(vm) == "RUNNING":
                    frontend.bench.ok("one.vm.action", "terminate-hard", vm)
            frontend.period()
            frontend.clock.advance(60)
        assert frontend.read(period_store.newest).number == PERIODS
        frontend.agree()
        references = frontend.read(entries_by_reference)
        assert len(references) == len(set(references)) > PERIODS
        states = {
            row.state
            for row in frontend.read(lambda c: journal.recent(c, journal.StepFilter(), 9999))
        }
        assert StepState.CONFIRMED in states
        assert time.process_time() - begin < 0.3 * PERIODS * slowness()


def test_many_periods_without_intervention() -> None:
    """Higher bids get more work done, every tenant pays, and nothing drifts."""
    frontend = Frontend(hosts=2, size=HostSize(400, 16384))
    owners = {name: frontend.user(name) for name in ("ann", "bob")}
    vms = {
        name: [frontend.vm(bid, owner=owners[name], VCPU=4) for _ in range(3)]
        for name, bid in (("ann", 6.0), ("bob", 2.0))
    }
    frontend.scheduler.start()
    frontend.clock.pump([5.0] * 12 * MINUTES)
    frontend.result(frontend.stopped())
    done = {
        name: sum(use.cpu_s for use in frontend.cloud.guests.read(mine).values())
        for name, mine in vms.items()
    }
    assert done["ann"] / done["bob"] == pytest.approx(3.0, rel=0.15)
    assert sum(done.values()) == pytest.approx(60 * MINUTES * 8, rel=0.06)
    assert frontend.scheduler.failures == 0
    assert frontend.read(period_store.newest).number in {MINUTES, MINUTES + 1}
    spent = sorted(1e6 - balance for balance in frontend.balances().values())
    assert spent[1] / spent[0] == pytest.approx(3.0, rel=0.2)
    frontend.agree()
    frontend.close()
