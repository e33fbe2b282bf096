"""Credits reserved by a decision can't be moved before the charge."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from merkatd import ledger
from merkatd.currency.settings import MoneySettings
from merkatd.database.fleets import fleet_store
from merkatd.database.ledger import account_store, usage_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.scheduler import period_store, price_store
from merkatd.database.scheduler.order_store import Mode
from merkatd.database.scheduler.period_store import PeriodState
from merkatd.ledger import (
    Bill,
    LedgerError,
    end_application,
    grant,
    open_application,
    open_tenant,
    set_budget,
    supply_of,
    tenant,
    void_period,
)
from merkatd.market.price import PriceRule
from merkatd.placement.contract import Pricing
from merkatd.scheduler.base.acting_settings import ActingSettings
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.charging.owed_amounts import costs
from tests.lengths import shorten
from tests.scheduler.frontend import START_S, Frontend, entries_by_reference, sum_shortfalls

MICRO = 10**6


@pytest.fixture
def made() -> Iterator[Callable[..., Frontend]]:
    """Return a function that makes frontends with the money of each test."""
    all_: list[Frontend] = []

    def make(money: MoneySettings, **world: Any) -> Frontend:
        # Under this rule every bid has a price, even without a competing bid.
        world.setdefault(
            "markets", (MarketRules(pricing=Pricing(rule=PriceRule.PAPER, whole_bids=True)),)
        )
        all_.append(Frontend(hosts=1, money=money, **world))
        return all_[-1]

    yield make
    for frontend in all_:
        frontend.agree()
        frontend.close()


@pytest.fixture
def paid_by(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Return the application of each VM, as a platform would set it."""
    belongs: dict[int, int] = {}
    monkeypatch.setattr(fleet_store, "applications", lambda _connection: dict(belongs))
    return belongs


def account_of(connection: sa.Connection, owner: int) -> account_store.AccountRow:
    """Return the tenant's own account."""
    account = account_store.find(connection, AccountKind.TENANT, owner)
    assert account is not None
    return account


def test_credits_moved_between_payers_still_pay(
    made: Callable[..., Frontend], paid_by: dict[int, int]
) -> None:
    """After each decision the tenant moves what it can to the payer that owes less."""
    frontend = made(MoneySettings(supply=1e6, starting_credits=100_000.0))
    session = frontend.user("ann")
    first = frontend.vm(4_000.0, owner=session)
    second = frontend.vm(4_000.0, owner=session)
    owner = int(frontend.bench.vm(first).uid)
    frontend.read(
        lambda c: open_tenant(c, owner, MoneySettings(starting_credits=100_000.0), START_S)
    )
    budget = frontend.read(lambda c: open_application(c, owner, "p", 50_000 * MICRO, 0, START_S))
    application = budget.application
    paid_by[second] = application

    refusals: list[str] = []

    def moved(connection: sa.Connection, number: int) -> None:
        own, its = account_of(connection, owner), account_store.get(connection, [application])
        both = own.balance + its[application].balance
        for wanted in (both, 0) if number % 2 else (0, both):
            try:
                set_budget(connection, application, wanted, None, f"{number}/{wanted}", "ann", 0.0)
            except LedgerError as error:
                refusals.append(str(error))

    for number in range(shorten(12, 6)):
        frontend.periods(1)
        frontend.read(lambda c, n=number: moved(c, n))
    assert frontend.read(sum_shortfalls) == 0
    assert frontend.read(lambda c: tenant(c, owner)).holdings < 60_000 * MICRO
    assert len(refusals) == sum("are reserved" in text for text in refusals) > 0


def test_only_free_credits_leave_an_account(made: Callable[..., Frontend]) -> None:
    """Larger grants back and budgets are refused, with both amounts in the message."""
    frontend = made(MoneySettings(supply=1e6, starting_credits=100.0))
    session = frontend.user("ann")
    vm = frontend.vm(10.0, owner=session, MERKAT_BID_MEMORY=0)
    frontend.vm(10.0, owner=frontend.user("bob"), MERKAT_BID_MEMORY=0)
    owner = int(frontend.bench.vm(vm).uid)
    frontend.periods(3)
    held = frontend.read(lambda c: account_of(c, owner))
    assert 0 < held.reserved < held.balance

    def taken(amount: int) -> int:
        balance: int = frontend.read(
            lambda c: grant(c, owner, -amount, str(amount), "root", 0.0)
        ).balance
        return balance

    with pytest.raises(LedgerError, match=r"has [\d.]+, of which [\d.]+ are reserved"):
        taken(held.free + 1)
    assert taken(held.free) == held.reserved
    frontend.periods(1)
    assert frontend.read(sum_shortfalls) == 0


def test_an_application_that_ends_pays_its_last_period_and_returns_the_rest(
    made: Callable[..., Frontend], paid_by: dict[int, int]
) -> None:
    """Reserved credits stay until the charge; no rest remains, also after a refund."""
    frontend = made(MoneySettings(supply=1e6, starting_credits=1_000.0))
    session = frontend.user("ann")
    vm = frontend.vm(10.0, owner=session)
    owner = int(frontend.bench.vm(vm).uid)
    frontend.read(lambda c: open_tenant(c, owner, MoneySettings(starting_credits=1_000.0), START_S))
    budget = frontend.read(lambda c: open_application(c, owner, "p", 500 * MICRO, 0, START_S))
    application = budget.application
    paid_by[vm] = application
    frontend.periods(3)
    number = frontend.read(period_store.newest).number
    back = frontend.read(lambda c: end_application(c, application, START_S))
    left = frontend.read(lambda c: account_store.get(c, [application]))[application]
    assert left.balance == left.reserved > 0
    assert back > 0
    frontend.periods(1)
    assert frontend.read(lambda c: account_store.get(c, [application]))[application].balance == 0
    assert frontend.read(sum_shortfalls) == 0
    assert f"charge/{number}/{application}" in frontend.read(entries_by_reference)
    assert frontend.read(lambda c: usage_store.has_details(c, number))
    before = frontend.read(lambda c: tenant(c, owner)).balance
    given = frontend.read(lambda c: void_period(c, number, "test", "root", START_S))
    assert given > 0
    assert frontend.read(lambda c: account_store.get(c, [application]))[application].balance == 0
    assert frontend.read(lambda c: tenant(c, owner)).balance == before + given


def test_a_voided_period_is_refunded_once(made: Callable[..., Frontend]) -> None:
    """A second void moves no credits, and an uncharged period can't be voided."""
    frontend = made(MoneySettings(supply=1e6, starting_credits=1_000.0))
    vm = frontend.vm(10.0, owner=frontend.user("ann"))
    owner = int(frontend.bench.vm(vm).uid)
    frontend.periods(4)
    newest = frontend.read(period_store.newest).number
    with pytest.raises(LedgerError, match="is not charged yet"):
        frontend.read(lambda c: void_period(c, newest, "test", "root", START_S))
    given = [
        frontend.read(
            partial(void_period, period=newest - 1, why="test", who="root", at_s=START_S + later)
        )
        for later in range(3)
    ]
    assert given[0] > 0
    assert given[1:] == [0, 0]
    entries = frontend.read(lambda c: tenant(c, owner)).holdings
    assert entries <= 1_000 * MICRO


def test_a_dry_run_reserves_no_credits(made: Callable[..., Frontend]) -> None:
    """A dry run is never charged, so its tenants can move all their credits."""
    frontend = made(MoneySettings(supply=1e6, starting_credits=1_000.0))
    vm = frontend.vm(10.0, owner=frontend.user("ann"))
    owner = int(frontend.bench.vm(vm).uid)
    frontend.periods(3)
    frontend.world_settings["acting"] = ActingSettings(mode=Mode.DRY)
    frontend.start_daemon()
    frontend.periods(2)
    assert frontend.read(lambda c: account_of(c, owner)).reserved == 0


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a blob of arrays is damaged"),
        sa.exc.DataError("UPDATE", {}, Exception(1264, "damaged: out of range")),
        sa.exc.OperationalError("UPDATE", {}, Exception(1690, "damaged: out of range")),
    ],
)
def test_a_period_that_cannot_be_charged_is_quarantined(
    error: Exception, made: Callable[..., Frontend], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later periods are decided and charged, and an administrator sees the period."""
    frontend = made(MoneySettings(supply=1e6, starting_credits=1_000.0))
    vm = frontend.vm(10.0, owner=frontend.user("ann"))
    owner = int(frontend.bench.vm(vm).uid)
    frontend.periods(3)
    bad = frontend.read(period_store.newest).number
    load_allocations, settle = price_store.load_allocations, ledger.settle_bill

    def load(connection: sa.Connection, period: int) -> Any:
        if period == bad and isinstance(error, ValueError):
            raise error
        return load_allocations(connection, period)

    def settled(connection: sa.Connection, bill: Bill, at_s: float) -> Any:
        if bill.period == bad:
            raise error
        return settle(connection, bill, at_s)

    monkeypatch.setattr(price_store, "load_allocations", load)
    monkeypatch.setattr(ledger, "settle_bill", settled)
    before = frontend.read(lambda c: tenant(c, owner)).holdings
    frontend.periods(4)
    (row,) = frontend.read(period_store.quarantined)
    assert (row.number, row.state) == (bad, PeriodState.QUARANTINED)
    assert "damaged" in (row.failure or "")
    assert frontend.read(lambda c: period_store.get(c, bad + 1)).state is PeriodState.CHARGED
    assert frontend.read(lambda c: tenant(c, owner)).holdings < before
    assert frontend.read(lambda c: void_period(c, bad, "its columns are damaged", "root", 0.0)) == 0
    assert frontend.read(period_store.quarantined) == ()
    assert frontend.read(supply_of) == 1_000_000 * MICRO


def test_a_period_keeps_the_terms_of_its_charge(made: Callable[..., Frontend]) -> None:
    """A new configuration before the charge could otherwise exceed the reservation."""
    clearing = MarketRules(pricing=Pricing(rule=PriceRule.CLEARING))
    paper = MarketRules(pricing=Pricing(rule=PriceRule.PAPER))
    frontend = made(MoneySettings(supply=1e6), markets=(clearing,))
    frontend.vm(1.0)
    frontend.period()
    arrays = frontend.read(lambda c: price_store.load_allocations(c, 1))
    dear = {**arrays, "price": np.full_like(arrays["price"], 100.0)}
    rows = np.array([0])
    assert (costs(dear, rows, (paper,)) <= arrays["bid"]).all()
    assert (costs(dear, rows, (paper,)) == costs(dear, rows, (clearing,))).all()
