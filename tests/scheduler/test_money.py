"""Money in the period: incomes, poverty, and floors without payment."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from twisted.internet.defer import ensureDeferred
from twisted.logger import capturedLogs, formatEvent

from merkatd.currency.income import SupplyPolicy
from merkatd.currency.settings import MoneySettings
from merkatd.database.ledger import note_store
from merkatd.database.scheduler import journal
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.ledger import (
    grant,
    open_tenant,
    set_group_weight,
    set_weight,
    supply_of,
    tenant,
)
from merkatd.market.price import PriceRule
from merkatd.placement.contract import Pricing
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.charging.owed_amounts import most_owed, owed_by_vm
from tests.lengths import SOAK
from tests.scheduler.frontend import Frontend
from tests.served import services_at

DAY_S = 86_400.0


@pytest.fixture
def made() -> Iterator[Callable[..., Frontend]]:
    """Return a function that makes frontends with the money of each test."""
    all_: list[Frontend] = []

    def make(money: MoneySettings, *markets: MarketRules) -> Frontend:
        all_.append(Frontend(hosts=1, money=money, markets=markets or (MarketRules(),)))
        return all_[-1]

    yield make
    for frontend in all_:
        frontend.close()


def owner_of(frontend: Frontend, vm: int) -> int:
    """Return the owner of the VM."""
    return int(frontend.bench.vm(vm).uid)


def bid(frontend: Frontend, vm: int) -> float:
    """Return the VM's bid for CPU in a period now."""
    snapshot = frontend.period().seen.snapshot
    frontend.clock.advance(60)
    return float(snapshot.vms.bid[snapshot.vm_row(vm), 0])


class TestIncomes:
    def test_a_renewal_tops_up_by_weight(self, made: Callable[..., Frontend]) -> None:
        """It comes after the interval; spent credits are restored, saved credits count."""
        frontend = made(MoneySettings(supply=900.0, starting_credits=0.0, renewal_s=600.0))
        for owner, weight in ((5, 2.0), (6, 1.0)):
            frontend.read(
                lambda c, o=owner: open_tenant(c, o, MoneySettings(starting_credits=0.0), 0.0)
            )
            frontend.read(lambda c, o=owner, w=weight: set_weight(c, o, w, "test", 0.0))
        frontend.periods(4, 150.0)
        assert frontend.balances() == {5: 0.0, 6: 0.0}
        with capturedLogs() as logged:
            frontend.periods(1)
        lines = [line for event in logged if "renewal" in (line := formatEvent(event) or "")]
        assert lines == ["A renewal paid out 900.000000 credits"]
        assert frontend.balances() == {5: 600.0, 6: 300.0}
        frontend.read(lambda c: grant(c, 5, -100 * 10**6, "1", "test", 0.0))
        frontend.periods(5, 150.0)
        assert frontend.balances() == {5: 600.0, 6: 300.0}
        frontend.agree()

    def test_a_renewal_without_a_supply_restores_the_starting_credits(
        self, made: Callable[..., Frontend]
    ) -> None:
        """It tops up every tenant by its weight, including new tenants."""
        frontend = made(MoneySettings(starting_credits=100.0, renewal_s=600.0))
        first = owner_of(frontend, frontend.vm(1.0, owner=frontend.user("ann")))
        frontend.periods(5)
        second = owner_of(frontend, frontend.vm(1.0, owner=frontend.user("bob")))
        frontend.periods(5)
        assert frontend.read(supply_of) == 200 * 10**6
        frontend.read(lambda c: set_weight(c, second, 3.0, "test", 0.0))
        frontend.period()
        assert frontend.read(supply_of) == 400 * 10**6
        assert frontend.balances() == {first: 100.0, second: 300.0}
        (note,) = frontend.read(lambda c: note_store.recent(c, 9, kind=note_store.NoteKind.SUPPLY))
        assert "100 credits for each of 2 tenants, times its weight, 4 in all" in note.text
        frontend.agree()

    def test_the_supply_follows_the_configuration(self, made: Callable[..., Frontend]) -> None:
        """It changes in the next period, and the ledger notes the reason."""
        frontend = made(MoneySettings(supply=900.0, starting_credits=0.0))
        frontend.periods(1)
        frontend.world_settings["money"] = MoneySettings(supply=500.0, starting_credits=0.0)
        frontend.start_daemon()
        frontend.periods(1)
        assert frontend.read(supply_of) == 500 * 10**6
        (note,) = frontend.read(lambda c: note_store.recent(c, 9, kind=note_store.NoteKind.SUPPLY))
        assert "supply 900.000000 -> 500.000000 credits: the configured supply is" in note.text

    def test_the_supply_follows_prices_if_configured(self, made: Callable[..., Frontend]) -> None:
        """Prices triple in the last two of four days: the supply falls by a step, announced."""
        policy = SupplyPolicy(enabled=True, days=2)
        frontend = made(MoneySettings(supply=1e7, starting_credits=1e6, policy=policy))
        frontend.measure_hourly()
        vm = frontend.vm(1.0, VCPU=8, MEMORY=8192)
        frontend.vm(0.0, MERKAT_BID_MEMORY=0, MEMORY=1)
        frontend.clock.advance(DAY_S - frontend.clock.seconds() % DAY_S)
        for day in range(5):
            if day == 2:
                frontend.bench.ok(
                    "one.vm.update", vm, 'MERKAT_BID_CPU="3"\nMERKAT_BID_MEMORY="3"', 1
                )
            frontend.periods(2, DAY_S / 2)
        frontend.periods(2, DAY_S)
        assert frontend.read(supply_of) == 9_500_000 * 10**6
        (note,) = frontend.read(lambda c: note_store.recent(c, 9, kind=note_store.NoteKind.SUPPLY))
        assert "prices have risen by 200%" in note.text
        services = services_at(frontend.scheduler)
        rows = frontend.result(ensureDeferred(services.prices.history(9)))
        assert [row.supply for row in rows if row.supply is not None] == [note.text]
        assert rows[-1].at_s > note.at_s >= next(row.at_s for row in rows if row.supply)
        frontend.agree()


class TestPoverty:
    def test_a_tenant_short_of_credits_bids_what_it_has(
        self, made: Callable[..., Frontend]
    ) -> None:
        """The tenant is told, and its original bid is kept."""
        frontend = made(MoneySettings(supply=1e6, starting_credits=16.0))
        vm = frontend.vm(6.0, owner=frontend.user("ann"), MERKAT_BID_MEMORY=0)
        frontend.vm(6.0, owner=frontend.user("bob"), MERKAT_BID_MEMORY=0, VCPU=4)
        frontend.periods(2)
        owner = owner_of(frontend, vm)
        bids, held = [], []
        for _ in range(6):
            bids.append(bid(frontend, vm))
            held.append(frontend.balances()[owner])
        # A charge can cover two periods: half of the credits pay for one.
        assert bids == pytest.approx([min(6.0, balance / 2.0) for balance in held])
        assert bids[0] > 1.5
        assert bids[-1] < 1.0
        assert "its credits are running out" in str(frontend.bench.vm(vm).user_template)
        frontend.read(lambda c: grant(c, owner, 100 * 10**6, "1", "test", 0.0))
        assert bid(frontend, vm) == 6.0
        frontend.agree()

    @pytest.mark.parametrize("rule", PriceRule)
    def test_a_bid_affects_the_price_only_as_far_as_its_payer_can_pay(
        self, made: Callable[..., Frontend], rule: PriceRule
    ) -> None:
        """A bid of a million credits leaves the price where 16 real credits put it."""
        prices = []
        for boast in (8.0, 1_000_000.0):
            market = MarketRules(pricing=Pricing(rule=rule, reserve={"cpu": 0.001}))
            frontend = made(MoneySettings(supply=1e6, starting_credits=16.0, renewal_s=1e9), market)
            frontend.vm(1.0, owner=frontend.user("ann"), MERKAT_BID_MEMORY=0, VCPU=4)
            poor = frontend.vm(boast, owner=frontend.user("bob"), MERKAT_BID_MEMORY=0, VCPU=4)
            prices.append([frontend.periods(1).prices["default"]["cpu"] for _ in range(4)])
            assert frontend.state(poor) == "RUNNING"
        # A charge can cover two periods: 16 credits pay for a bid of 8.
        assert prices[0][0] == pytest.approx(9 / 400)
        assert prices[1] == pytest.approx(prices[0])

    def test_a_waiting_vm_lowers_no_bid_of_a_running_vm(
        self, made: Callable[..., Frontend]
    ) -> None:
        """This holds for any bid; waiting VMs divide the credits that running VMs leave.

        A VM that is off needs none.
        """
        frontend = made(MoneySettings(supply=1e6, starting_credits=49.0, renewal_s=1e9))
        ann = frontend.user("ann")
        runs, off = (frontend.vm(1.0, owner=ann, MERKAT_BID_MEMORY=0) for _ in range(2))
        frontend.periods(2)
        frontend.bench.ok("one.vm.action", "poweroff-hard", off)
        frontend.periods(1)
        waits = frontend.vm(
            50_000_000.0, owner=ann, MERKAT_BID_MEMORY=0, SCHED_REQUIREMENTS="RACK > 9"
        )
        snapshot = frontend.period().seen.snapshot
        assert frontend.state(waits) == "PENDING"
        assert snapshot.vms.bid[snapshot.vm_row(runs), 0] == 1.0
        # A charge can cover two periods.
        left = frontend.balances()[owner_of(frontend, runs)] / 2.0 - 1.0
        assert snapshot.vms.bid[snapshot.vm_row(waits), 0] == pytest.approx(left)
        assert "credits are running out" not in str(frontend.bench.vm(runs).user_template)
        frontend.agree()

    def test_owners_are_warned_in_advance(self, made: Callable[..., Frontend]) -> None:
        """The warnings come a day, six hours and an hour before the credits end."""
        paper = MarketRules(pricing=Pricing(rule=PriceRule.PAPER, whole_bids=True))
        frontend = made(MoneySettings(supply=1e6, starting_credits=2000.0), paper)
        vm = frontend.vm(1.0, owner=frontend.user("ann"), MERKAT_BID_MEMORY=0)
        frontend.periods(3)
        owner = owner_of(frontend, vm)
        assert "less than" not in str(frontend.bench.vm(vm).user_template)
        # It bids a credit and pays half of it, the market's full price for its use.
        for left, hours in ((719, "24 hours"), (179, "6 hours"), (29, "1 hour")):
            held = frontend.read(lambda c: tenant(c, owner)).balance
            taken = left * 10**6 - held
            frontend.read(lambda c, t=taken, r=str(left): grant(c, owner, t, r, "test", 0.0))
            frontend.periods(1)
            assert f"less than {hours} " in str(frontend.bench.vm(vm).user_template)

    def test_an_owner_whose_vms_cost_nothing_is_not_warned(
        self, made: Callable[..., Frontend]
    ) -> None:
        """Nor are owners of VMs that ran before the first decision: no cost is known yet."""
        frontend = made(MoneySettings(supply=1e6, starting_credits=3.0, renewal_s=1e9))
        vm = frontend.vm(1.0, owner=frontend.user("ann"), MERKAT_BID_MEMORY=0)
        frontend.bench.ok("one.vm.deploy", vm, 0, False, -1)
        for _ in range(3):
            frontend.clock.advance(60)
            frontend.period()
            assert frontend.state(vm) == "RUNNING"
            assert "less than" not in str(frontend.bench.vm(vm).user_template)

    @pytest.mark.parametrize("rule", [PriceRule.CLEARING, *[PriceRule.PAPER] * SOAK])
    def test_a_floor_without_payment_is_suspended_after_ten_periods(
        self, made: Callable[..., Frontend], rule: PriceRule
    ) -> None:
        """Warnings start at once; paying VMs are unaffected; with credits the VM may resume."""
        reserve = {"cpu": 0.001, "memory": 0.0001}
        market = MarketRules(pricing=Pricing(rule=rule, reserve=reserve))
        frontend = made(MoneySettings(supply=1e6, starting_credits=0.0, renewal_s=1e9), market)
        ann, bob = frontend.user("ann"), frontend.user("bob")
        poor = frontend.vm(1.0, owner=ann, MERKAT_MIN_MEMORY=1024)
        rich = frontend.vm(1.0, owner=bob, MERKAT_BID_MEMORY=5, MEMORY=8192)
        payer = owner_of(frontend, rich)
        frontend.read(lambda c: open_tenant(c, payer, MoneySettings(starting_credits=0.0), 0.0))
        frontend.period()
        frontend.read(lambda c: grant(c, payer, 10**11, "1", "test", 0.0))
        frontend.clock.advance(60)
        running = 0
        while frontend.state(poor) != "SUSPENDED" and running < 30:
            frontend.period()
            frontend.clock.advance(60)
            running += frontend.state(poor) == "RUNNING"
            if running > 4:
                assert "its owner owes" in str(frontend.bench.vm(poor).user_template)
        assert frontend.state(poor) == "SUSPENDED"
        assert frontend.state(rich) == "RUNNING"
        steps = frontend.read(lambda c: journal.history(c, poor, 50))
        (suspend,) = [row for row in steps if row.step.kind == "suspend"]
        assert "not paid in full for 10 periods" in suspend.step.reason
        assert 9 <= running <= 13
        frontend.bench.ok("one.vm.action", "resume", poor, session=ann)
        frontend.periods(3)
        frontend.clock.advance(10)
        assert frontend.state(poor) == "STOPPED"
        owner = owner_of(frontend, poor)
        frontend.read(lambda c: grant(c, owner, 10**9, "2", "test", 0.0))
        frontend.bench.ok("one.vm.action", "resume", poor, session=ann)
        frontend.periods(4)
        assert frontend.state(poor) == "RUNNING"
        assert frontend.read(lambda c: tenant(c, owner)).balance < 10**9
        frontend.placed_again.add(poor)
        frontend.agree()


def test_amounts_too_large_to_count_are_bounded() -> None:
    """An infinite price or bid causes no uncountable debt."""
    arrays = {
        "vm": np.array([4]),
        "market": np.array([0]),
        "owner": np.array([2]),
        "account": np.array([3]),
        "bid": np.array([[1.0, 1e15]]),
        "allocation": np.array([[10.0, 10.0]]),
        "floor": np.array([[5.0, 0.0]]),
        "price": np.array([[math.inf, 1e15]]),
        "runs": np.array([True]),
    }
    clearing = [MarketRules(pricing=Pricing(rule=PriceRule.CLEARING))]
    rows, owed = owed_by_vm(arrays, np.array([4]), 1.0, clearing)
    assert (rows.tolist(), owed.tolist()) == ([0], [[10**6, 2**61]])
    assert most_owed(arrays, clearing, 2.0) == {3: 2**61}


def test_a_period_reads_only_the_accounts_of_payers(
    frontend: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a renewal reads all accounts."""
    frontend.vm()
    frontend.periods(2)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("all accounts are read")

    monkeypatch.setattr("merkatd.database.ledger.account_store.every", refuse)
    frontend.periods(2)


def test_the_group_of_a_vm_changes_no_weight(made: Callable[..., Frontend]) -> None:
    """A user may give its VM another of its groups, and make the pool of users unreadable."""
    frontend = made(MoneySettings(supply=1_000_000, renewal_s=1e9))
    rich = frontend.bench.ok("one.group.allocate", "rich")
    session = frontend.user("eve")
    vm = frontend.vm(owner=session)
    frontend.read(lambda c: set_group_weight(c, rich, 100.0, "root", 0.0))
    frontend.periods(2)
    frontend.bench.ok("one.vm.chown", vm, -1, rich)
    frontend.start_daemon()  # it knows no earlier content of the pool
    frontend.cloud.faults.add(Fault(FaultKind.TRUNCATE, "one.userpool.info"))
    frontend.periods(3)
    eve = frontend.read(lambda c: tenant(c, owner_of(frontend, vm)))
    assert (eve.name, eve.group, eve.weight) == ("eve", 1, 1.0)
