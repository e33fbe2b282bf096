"""Retiring a tenant: one transaction, on both kinds of databases."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest
import sqlalchemy as sa

from merkatd.currency.settings import MoneySettings
from merkatd.database import database
from merkatd.database.base.engine import make_engine
from merkatd.database.ledger import account_store, reservation_store, tenant_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.ledger.entry_store import MAX_AMOUNT, audit
from merkatd.database.migrations import METADATA
from merkatd.database.scheduler.period_store import begin, charged, decided
from merkatd.ledger import (
    MICRO,
    Bill,
    LedgerError,
    Person,
    RetirementResult,
    holding,
    keep_supply,
    open_application,
    renew,
    retire,
    settle_bill,
    tenant,
    update_tenants,
    void_period,
)
from tests.servers import MariaDb

MONEY = MoneySettings(supply=0.0, starting_credits=100.0)
OWNER, OTHER = 5, 6


@pytest.fixture(params=["sqlite", "mariadb"])
def engine(request: pytest.FixtureRequest) -> Iterator[sa.Engine]:
    """Yield two tenants, one with an application of 30 credits and a debt of 20."""
    if request.param == "sqlite":
        made = make_engine("sqlite://")
    else:
        server: MariaDb = request.getfixturevalue("mariadb")
        made = make_engine(server.make("retirement"))
    METADATA.create_all(made)

    def open_books(connection: sa.Connection) -> None:
        update_tenants(connection, [OWNER, OTHER], MONEY, 0.0, {OWNER: Person("ann", 1)})
        keep_supply(connection, MONEY, 0.0)
        open_application(connection, OWNER, "web", 30 * MICRO, 5 * MICRO, 0.0)
        own = account_store.ensure(connection, AccountKind.TENANT, OWNER).id
        account_store.add(connection, "debt", {own: 20 * MICRO})

    database.transaction(made, open_books)
    yield made
    made.dispose()
    if request.param == "mariadb":
        request.getfixturevalue("mariadb").drop("retirement")


def test_debts_are_paid_first_and_the_rest_returns_to_the_treasury(engine: sa.Engine) -> None:
    """Supply and renewals no longer count the tenant's accounts and applications."""
    result = database.transaction(engine, lambda c: retire(c, OWNER, 9.0))
    assert result is not None
    assert (result.returned, result.forgiven) == (80 * MICRO, 0)

    def look(connection: sa.Connection) -> None:
        row = tenant(connection, OWNER)
        assert (row.holdings, row.debt, row.retired_s, row.entitlement) == (0, 0, 9.0, 0)
        assert account_store.treasury(connection).balance == 100 * MICRO
        change = keep_supply(connection, MONEY, 10.0)
        assert change is not None
        assert change.new == 100 * MICRO
        renew(connection, "test", 11.0)
        assert tenant(connection, OWNER).holdings == 0
        assert tenant(connection, OTHER).holdings == 100 * MICRO
        assert audit(connection).sound

    database.transaction(engine, look)


def test_a_debt_that_exceeds_all_accounts_is_forgiven(engine: sa.Engine) -> None:
    """The accounts pay what they can, and the result names the forgiven rest."""

    def more(connection: sa.Connection) -> None:
        own = account_store.ensure(connection, AccountKind.TENANT, OWNER).id
        account_store.add(connection, "debt", {own: 480 * MICRO})

    database.transaction(engine, more)
    result = database.transaction(engine, lambda c: retire(c, OWNER, 9.0))
    assert result is not None
    assert (result.returned, result.forgiven) == (0, 400 * MICRO)
    assert "400.000000 credits of debt are forgiven" in str(result)
    assert database.transaction(engine, lambda c: tenant(c, OWNER)).debt == 0
    assert database.transaction(engine, audit).sound


def test_a_retirement_waits_for_reserved_charges(engine: sa.Engine) -> None:
    """No credits move before the charge has taken its reservation."""

    def reserve(connection: sa.Connection) -> int:
        period = begin(connection, 1.0, 1.0, 1, 1)
        own = account_store.ensure(connection, AccountKind.TENANT, OWNER).id
        reservation_store.store(connection, period, {own: MICRO})
        return period

    period = database.transaction(engine, reserve)
    assert database.transaction(engine, lambda c: retire(c, OWNER, 9.0)) is None
    assert database.transaction(engine, lambda c: tenant(c, OWNER)).holdings == 100 * MICRO
    database.transaction(engine, lambda c: reservation_store.release(c, period))
    assert database.transaction(engine, lambda c: retire(c, OWNER, 9.0)) is not None


def test_an_interrupted_retirement_moves_nothing(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The credits and the mark change in one transaction."""

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(tenant_store, "retire", die)
        with pytest.raises(KeyboardInterrupt):
            database.transaction(engine, lambda c: retire(c, OWNER, 9.0))
    row = database.transaction(engine, lambda c: tenant(c, OWNER))
    assert (row.holdings, row.debt, row.retired_s) == (100 * MICRO, 20 * MICRO, None)
    assert database.transaction(engine, lambda c: retire(c, OWNER, 9.0)) is not None


def _retiring(at_s: float) -> Callable[[sa.Connection], RetirementResult | None]:
    return lambda c: retire(c, OWNER, at_s)


def _meeting(people: dict[int, Person]) -> Callable[[sa.Connection], None]:
    return lambda c: update_tenants(c, [], MONEY, 11.0, people)


def test_a_retired_user_shown_by_opennebula_becomes_a_tenant_again(engine: sa.Engine) -> None:
    """The tenant starts again each time, and only if OpenNebula names the user."""
    for at_s in (9.0, 10.0):
        database.transaction(engine, _retiring(at_s))
        database.transaction(engine, lambda c: update_tenants(c, [OWNER], MONEY, 11.0))
        assert database.transaction(engine, lambda c: tenant(c, OWNER)).retired_s is not None
        people = {OWNER: Person("ann", 1)}
        database.transaction(engine, _meeting(people))
        row = database.transaction(engine, lambda c: tenant(c, OWNER))
        assert (row.retired_s, row.holdings) == (None, 100 * MICRO)
    assert database.transaction(engine, holding) == ()
    assert database.transaction(engine, audit).sound


def test_a_forgiven_debt_is_never_paid_back(engine: sa.Engine) -> None:
    """A later void refunds only the credits that were really paid."""

    def spend(connection: sa.Connection) -> int:
        number = begin(connection, 1.0, 1.0, 1, 1)
        decided(connection, number, 1.0, "s")
        payer = tenant(connection, OTHER).account
        owed = np.array([[300 * MICRO, 0]])
        bill = Bill(
            period=number,
            vm=np.array([1]),
            account=np.array([payer]),
            owed=owed,
            allocation=np.ones((1, 2)),
            seconds=np.array([60.0]),
            names=["x"],
        )
        settle_bill(connection, bill, 2.0)
        charged(connection, number, 2.0)
        return number

    number = database.transaction(engine, spend)
    gone = database.transaction(engine, lambda c: retire(c, OTHER, 3.0))
    assert gone is not None
    assert gone.forgiven == 200 * MICRO
    database.transaction(
        engine, lambda c: update_tenants(c, [OTHER], MONEY, 4.0, {OTHER: Person("ed", 1)})
    )
    before = database.transaction(engine, lambda c: tenant(c, OTHER).balance)
    given = database.transaction(
        engine, lambda c: void_period(c, number, "a mistake", "admin", 5.0)
    )
    assert given == 100 * MICRO
    after = database.transaction(engine, lambda c: tenant(c, OTHER))
    assert (after.balance - before, after.debt) == (100 * MICRO, 0)
    assert database.transaction(engine, lambda c: audit(c).sound)


@pytest.mark.parametrize("begun", [True, False])
def test_a_period_without_a_charge_cannot_be_voided(engine: sa.Engine, begun: bool) -> None:
    """A begun or unknown period is an error, so that its real void still refunds everything."""

    def attempt(connection: sa.Connection) -> None:
        number = begin(connection, 1.0, 1.0, 1, 1) if begun else 7
        with pytest.raises(LedgerError, match="not charged yet" if begun else "no period 7"):
            void_period(connection, number, "a slip", "admin", 2.0)

    database.transaction(engine, attempt)


def test_a_debt_at_its_maximum_does_not_stop_charges(engine: sa.Engine) -> None:
    """However large a debt grows, each period is charged and can be voided."""

    def spend(connection: sa.Connection) -> int:
        number = begin(connection, 1.0, 1.0, 1, 1)
        decided(connection, number, 1.0, "s")
        payer = tenant(connection, OTHER).account
        bill = Bill(
            period=number,
            vm=np.array([1, 2, 3]),
            account=np.full(3, payer),
            owed=np.full((3, 2), 2**61),
            allocation=np.ones((3, 2)),
            seconds=np.full(3, 60.0),
            names=["x", "y", "z"],
        )
        settle_bill(connection, bill, 2.0)
        charged(connection, number, 2.0)
        return number

    numbers = [database.transaction(engine, spend) for _ in range(3)]
    assert database.transaction(engine, lambda c: tenant(c, OTHER).debt) <= MAX_AMOUNT
    for number in numbers:
        database.transaction(
            engine, partial(void_period, period=number, why="a mistake", who="admin", at_s=5.0)
        )
    assert database.transaction(engine, lambda c: tenant(c, OTHER).debt) == 0
    assert database.transaction(engine, lambda c: audit(c).sound)
