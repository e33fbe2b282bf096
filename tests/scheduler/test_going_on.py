"""Tenants pay for a period's allocations until the next decision, whatever fails."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from merkatd import ledger
from merkatd.currency.settings import MoneySettings
from merkatd.database import Database
from merkatd.database.ledger import reservation_store, usage_store
from merkatd.database.scheduler import period_store
from merkatd.database.scheduler.order_store import Mode
from merkatd.database.scheduler.period_store import PeriodState
from merkatd.embedded.model.settings import HostSize
from merkatd.ledger import LedgerError
from merkatd.scheduler.base.acting_settings import ActingSettings
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.charging.charge import payer_funds
from tests.scheduler.frontend import PAPER_MARKET, Frontend, entries_by_reference

MONEY = MoneySettings(supply=1e6, starting_credits=1e5)
COST = 20.0
"""The cost of each VM per period: under the paper's rule a VM pays its CPU bid."""


class Failing(Database):
    """A database whose transactions can fail before or after the commit."""

    fails: Callable[[], str | None] = staticmethod(lambda: None)

    async def run(self, work: Any, *arguments: Any, **more: Any) -> Any:
        """Run a transaction as the daemon does, with the chosen fault."""
        how = type(self).fails()
        if how == "before":
            raise RuntimeError("the disk is full")
        result = await super().run(work, *arguments, **more)
        if how == "after":
            raise RuntimeError("it was killed")
        return result


class Breaking(Frontend):
    """A frontend whose transactions can fail."""

    database = Failing


@pytest.fixture
def frontend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Frontend]:
    """Return a frontend whose host runs the VMs of two tenants without contention."""
    monkeypatch.setattr(Failing, "fails", staticmethod(lambda: None))
    made = Breaking(hosts=1, size=HostSize(400, 16384), markets=(PAPER_MARKET,), money=MONEY)
    for name in ("ann", "bob"):
        made.vm(COST, owner=made.user(name), MERKAT_BID_MEMORY=0)
    made.periods(2)
    yield made
    made.agree()
    made.close()


def balance(frontend: Frontend) -> float:
    """Return the credits of both tenants together."""
    return sum(credits_ for owner, credits_ in frontend.balances().items() if owner)


def lose_decision(frontend: Frontend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a period that charges but fails in its decision; it takes an interval."""
    with monkeypatch.context() as patched:
        patched.setattr("merkatd.scheduler.phases.decide.decided_unstored", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            frontend.period()
    frontend.clock.advance(60)


@pytest.mark.parametrize("lost", [1, 3])
def test_time_after_a_lost_decision_is_charged(
    frontend: Frontend, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """Each period is charged up to the next, also after several lost decisions."""
    frontend.period()
    frontend.clock.advance(60)
    before = balance(frontend)
    for _ in range(lost):
        lose_decision(frontend, monkeypatch)
    frontend.periods(1)
    assert before - balance(frontend) == pytest.approx(2 * COST * (lost + 1))


def test_a_period_without_a_decision_stores_its_reason_and_can_be_voided(
    frontend: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its charge is stored under its own number."""
    frontend.periods(1)
    lose_decision(frontend, monkeypatch)
    row = frontend.read(period_store.newest)
    assert (row.state, row.failure) == (
        PeriodState.CONTINUED,
        "ZeroDivisionError: division by zero",
    )

    def void(connection: Any) -> int:
        at_s = frontend.clock.seconds()
        return ledger.void_period(connection, row.number, "a fault", "root", at_s)

    with pytest.raises(LedgerError, match="not charged yet"):
        frontend.read(void)
    frontend.periods(1)
    assert frontend.read(lambda c: period_store.get(c, row.number)).state is PeriodState.CHARGED
    assert frontend.read(void) == round(2 * COST * 1e6)


def test_a_voided_quarantined_period_is_never_charged(
    frontend: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its columns are kept."""
    frontend.periods(1)
    lose_decision(frontend, monkeypatch)
    number = frontend.read(period_store.newest).number
    frontend.read(lambda c: period_store.quarantine(c, number, 1.0, "why"))
    frontend.read(lambda c: ledger.release(c, number, 1.0))
    frontend.read(lambda c: ledger.void_period(c, number, "a fault", "root", 2.0))
    before = balance(frontend)
    frontend.periods(1)
    assert balance(frontend) == before
    frontend.periods(1)
    assert before - balance(frontend) == pytest.approx(2 * COST)


def test_the_cost_of_a_period_without_a_decision_is_reserved(
    frontend: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a decision, no tenant can transfer its credits away before the charge."""
    frontend.periods(1)

    def reserved() -> dict[int, int]:
        number = frontend.read(period_store.newest).number
        amounts: dict[int, int] = frontend.read(lambda c: reservation_store.of_period(c, number))
        return amounts

    decided = reserved()
    lose_decision(frontend, monkeypatch)
    assert reserved() == decided
    assert len(decided) == 2
    frontend.periods(1)
    assert reserved() == decided


def test_a_reservation_counts_as_free_for_its_own_periods_decision(
    frontend: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This also holds if the charge is repeated after a lost answer; bids are not lowered."""
    frontend.periods(1)
    lose_decision(frontend, monkeypatch)
    number = frontend.read(period_store.newest).number
    world, seen = frontend.scheduler.world, frontend.result(observe_cloud(frontend))

    def free(deciding: int | None) -> float:
        purse = frontend.read(lambda c: payer_funds(c, world, seen, deciding=deciding))
        return float(sum(purse.free.values()) / 1e6)

    assert free(number) == pytest.approx(balance(frontend))
    assert free(None) == pytest.approx(balance(frontend) - 2 * 2 * COST)


def observe_cloud(frontend: Frontend) -> Any:
    """Return a deferred with an observation of the cloud."""
    return ensureDeferred(frontend.scheduler.world.cloud.observe())


def test_a_tenant_with_too_few_credits_goes_into_debt(monkeypatch: pytest.MonkeyPatch) -> None:
    """It can pay for some periods only, and bids less once a period decides again."""
    money = MoneySettings(supply=1e6, starting_credits=100)
    made = Frontend(hosts=1, size=HostSize(400, 16384), markets=(PAPER_MARKET,), money=money)
    made.vm(COST, owner=made.user("ann"), MERKAT_BID_MEMORY=0)
    made.periods(2)
    number = made.read(period_store.newest).number
    (most,) = made.read(lambda c: reservation_store.of_period(c, number)).values()
    made.period()
    made.clock.advance(60)
    before = balance(made)
    for _ in range(11):
        lose_decision(made, monkeypatch)
    made.period()
    (debt,) = made.read(ledger.debts_of).values()
    assert before - balance(made) + debt / 1e6 == pytest.approx(12 * most / 2e6)
    assert balance(made) == 0
    made.agree()
    made.close()


@pytest.mark.parametrize("how", ["before", "after"])
def test_each_second_is_paid_once_wherever_a_period_fails(
    frontend: Frontend, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Each transaction fails or is killed in turn; a new daemon continues."""
    count = turn = 0
    broke = True

    def fails() -> str | None:
        nonlocal count, broke
        count += 1
        broke = broke or count == turn
        return how if count == turn else None

    frontend.periods(1)
    before, first = balance(frontend), frontend.read(period_store.newest).number
    rounds = 0
    while broke:
        turn, count, broke = turn + 1, 0, False
        with monkeypatch.context() as patched:
            patched.setattr(Failing, "fails", staticmethod(fails))
            try:
                frontend.period()
            except RuntimeError:
                frontend.start_daemon()
        frontend.clock.advance(60)
        frontend.periods(1)
        rounds += 2
    assert turn > 6
    frontend.period()
    assert before - balance(frontend) == pytest.approx(2 * COST * (rounds + 1))
    references = frontend.read(entries_by_reference)
    assert len(references) == len(set(references))
    assert frontend.read(period_store.newest).number > first


def test_vms_that_stop_and_start_around_a_lost_decision_are_charged_once(
    frontend: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One VM stops and starts before the lost decision, the other after it."""
    first, second = sorted(frontend.cloud.world.vms.rows)
    frontend.periods(1)
    since = frontend.read(period_store.newest).number

    def off_and_on(vm: int) -> None:
        frontend.bench.ok("one.vm.action", "poweroff-hard", vm)
        frontend.clock.advance(20)
        frontend.bench.ok("one.vm.action", "resume", vm)
        frontend.clock.advance(20)

    off_and_on(first)
    lose_decision(frontend, monkeypatch)
    lose_decision(frontend, monkeypatch)
    off_and_on(second)
    lose_decision(frontend, monkeypatch)
    frontend.period()
    until = frontend.clock.seconds()
    began = frontend.read(lambda c: period_store.get(c, since)).observed_s
    seconds: dict[int, float] = {first: 0.0, second: 0.0}
    for number in range(since, frontend.read(period_store.newest).number):
        detail = frontend.read(lambda c, number=number: usage_store.load(c, number))
        for vm, some in zip(detail.vm.tolist(), detail.seconds.tolist(), strict=True):
            seconds[vm] += some
    for vm in (first, second):
        ran = 0.0
        for record in frontend.bench.vm(vm).history:
            ended = record.retime or until
            ran += max(min(ended, until) - max(record.rstime, began), 0.0)
        assert seconds[vm] == pytest.approx(ran, abs=2)


def test_use_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """If use is charged, the counters of the observation without a decision count."""
    paid = []
    for loses in (False, True):
        made = Frontend(hosts=1, markets=(MarketRules(strategy="groups"),), money=MONEY)
        made.vm(3.0, owner=made.user("ann"))
        made.periods(4)
        before = balance(made)
        for turn in range(4):
            if loses and turn % 2:
                lose_decision(made, monkeypatch)
            else:
                made.periods(1)
        made.period()
        paid.append(before - balance(made))
        made.agree()
        made.close()
    assert paid[0] > 0
    assert paid[1] == pytest.approx(paid[0])


def test_a_dry_run_continues_no_allocation(
    frontend: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the last period that acted is charged."""
    frontend.periods(1)
    frontend.world_settings |= {"acting": ActingSettings(mode=Mode.DRY)}
    frontend.start_daemon()
    before = balance(frontend)
    lose_decision(frontend, monkeypatch)
    frontend.periods(2)
    assert before - balance(frontend) == pytest.approx(2 * COST)
