"""Missing credits become a debt of the owner."""

from collections.abc import Callable, Iterator

import pytest

from merkatd.currency.settings import MoneySettings
from merkatd.database.ledger import charge_store
from merkatd.database.scheduler import period_store
from merkatd.ledger import (
    grant,
    month_of,
    open_application,
    open_tenant,
    statement,
    tenant,
    void_period,
)
from merkatd.placement.contract import Pricing
from merkatd.scheduler.base.settings import MarketRules
from tests.lengths import SOAK, shorten
from tests.scheduler.frontend import START_S, Frontend, sum_shortfalls

MICRO = 10**6
RESERVE = {"cpu": 0.001, "memory": 0.0005}
Poor = Callable[..., tuple[Frontend, int, str]]


@pytest.fixture
def poor() -> Iterator[Poor]:
    """Return a function that makes a frontend with an owner that can't pay for its VM's memory."""
    all_: list[Frontend] = []

    def make(unpaid: int = 10) -> tuple[Frontend, int, str]:
        money = MoneySettings(
            supply=1e6, starting_credits=1.0, renewal_s=1e9, unpaid_periods=unpaid
        )
        market = MarketRules(pricing=Pricing(reserve=RESERVE))
        frontend = Frontend(hosts=1, money=money, markets=(market,))
        all_.append(frontend)
        session = frontend.user("ann")
        vm = frontend.vm(0.0, owner=session, MERKAT_BID_MEMORY=0)
        return frontend, int(frontend.bench.vm(vm).uid), session

    yield make
    for frontend in all_:
        frontend.agree()
        frontend.close()


class TestDebts:
    def test_missing_credits_become_a_debt_and_are_collected_once(self, poor: Poor) -> None:
        """The next income pays the debt; the statement shows it."""
        frontend, owner, _ = poor()
        frontend.periods(shorten(10, 6))
        owed = frontend.read(lambda c: tenant(c, owner)).debt
        assert 0 < owed == frontend.read(sum_shortfalls)
        month = month_of(frontend.clock.seconds())
        assert frontend.read(lambda c: statement(c, owner, month)).debt == owed
        after = frontend.read(lambda c: grant(c, owner, owed + 70, "g", "root", 0.0))
        assert (after.debt, after.balance) == (0, 70)
        assert frontend.read(lambda c: statement(c, owner, month)).difference == 0

    def test_a_voided_period_reduces_the_debt_once(self, poor: Poor) -> None:
        """Its collected part is refunded; a second void does neither."""
        frontend, owner, _ = poor()
        frontend.periods(shorten(10, 6))
        owed = frontend.read(lambda c: tenant(c, owner)).debt
        late = frontend.read(period_store.newest).number - 1
        (part,) = frontend.read(lambda c: charge_store.shortfalls(c, late)).values()

        def again() -> tuple[int, int, int]:
            frontend.clock.advance(1)
            at_s = frontend.clock.seconds()
            given = frontend.read(lambda c: void_period(c, late, "test", "root", at_s))
            standing = frontend.read(lambda c: tenant(c, owner))
            return given, standing.debt, standing.balance

        assert 0 < part < owed
        assert [again() for _ in range(2)] == [(0, owed - part, 0)] * 2
        frontend.read(lambda c: grant(c, owner, owed - part, "g", "root", 0.0))
        late -= 1
        (part,) = frontend.read(lambda c: charge_store.shortfalls(c, late)).values()
        assert [again() for _ in range(2)] == [(part, 0, part), (0, 0, part)]

    def test_a_locked_vm_with_an_unpaid_floor_is_stopped(self, poor: Poor) -> None:
        """It releases its host like any other VM: administrators can remove a lock."""
        frontend, _, session = poor(unpaid=2)
        frontend.periods(2)
        vm = max(frontend.cloud.world.vms.rows)
        frontend.bench.ok("one.vm.lock", vm, 4, True, session=session)
        frontend.periods(shorten(10, 6))
        assert frontend.state(vm) == "STOPPED"

    @pytest.mark.parametrize("every_s", [60.0, 20.0, *[7.0] * SOAK])
    def test_early_periods_do_not_shorten_the_patience(self, poor: Poor, every_s: float) -> None:
        """It is a time: VMs that make periods begin early end no VM sooner."""
        frontend, owner, _ = poor(unpaid=5)
        frontend.periods(2)
        (vm,) = frontend.cloud.world.vms.rows
        while not frontend.read(lambda c: tenant(c, owner)).debt:
            frontend.periods(1, every_s)
        began_s = frontend.clock.seconds()
        while frontend.state(vm) == "RUNNING":
            frontend.periods(1, every_s)
        # The first debt can cover a whole interval.
        assert 3.5 * 60.0 <= frontend.clock.seconds() - began_s <= 6 * 60.0

    def test_a_debt_belongs_to_the_owner_of_any_short_account(self, poor: Poor) -> None:
        """Credits kept in an idle application pay for the tenant's own VM."""
        frontend, owner, _ = poor()
        frontend.read(
            lambda c: open_tenant(
                c, owner, MoneySettings(supply=1e6, starting_credits=0.0), START_S
            )
        )
        frontend.read(lambda c: grant(c, owner, 100 * MICRO, "g", "root", 0.0))
        frontend.read(lambda c: open_application(c, owner, "p", 100 * MICRO, 0, START_S))
        frontend.periods(shorten(10, 6))
        standing = frontend.read(lambda c: tenant(c, owner))
        assert standing.debt == 0
        assert standing.holdings < 100 * MICRO
        assert frontend.read(charge_store.load) == {}

    def test_no_new_vm_of_an_owner_in_debt_is_placed(self, poor: Poor) -> None:
        """It waits and its owner reads the reason; after the payment it is placed."""
        frontend, owner, session = poor()
        frontend.periods(shorten(10, 5))
        new = frontend.vm(1.0, owner=session)
        other = frontend.vm(0.0, owner=frontend.user("bob"), MEMORY=512)
        frontend.periods(2)
        assert (frontend.state(new), frontend.state(other)) == ("PENDING", "RUNNING")
        assert "not placed: its owner owes" in str(frontend.bench.vm(new).user_template)
        frontend.read(lambda c: grant(c, owner, 1000 * MICRO, "g", "root", 0.0))
        frontend.periods(2)
        assert frontend.state(new) == "RUNNING"

    def test_a_recreated_vm_starts_no_new_count(self, poor: Poor) -> None:
        """A VM ended before the last unpaid period and created again is not placed."""
        unpaid = shorten(10, 5)
        frontend, owner, session = poor(unpaid)
        ran = 0
        vm = 0
        for number in range(shorten(60, 14)):
            frontend.periods(1)
            ran += frontend.state(vm) == "RUNNING"
            if number % (unpaid - 1) == unpaid - 2 and frontend.state(vm) != "DONE":
                frontend.bench.ok("one.vm.action", "terminate-hard", vm, session=session)
                frontend.periods(1)
                vm = frontend.vm(0.0, owner=session, MERKAT_BID_MEMORY=0)
        assert ran <= unpaid + 2
        assert frontend.read(lambda c: tenant(c, owner)).debt > 0
