"""Operations with an effect once only: replenishments, payers and concurrent changes."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pytest
import sqlalchemy as sa

from merkatd.currency import MOST_CREDITS
from merkatd.currency.settings import MoneySettings
from merkatd.database import database
from merkatd.database.base.engine import make_engine
from merkatd.database.base.transactions import is_transient
from merkatd.database.ledger import account_store, note_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.ledger.entry_store import audit
from merkatd.database.migrations import METADATA
from merkatd.ledger import (
    BudgetRow,
    Ledger,
    LedgerError,
    grant,
    keep_supply,
    open_application,
    payers,
    renew,
    replenish,
    set_budget,
    set_group_weight,
    tenants,
    update_tenants,
)
from tests.servers import MariaDb

MICRO = 10**6
MONEY = MoneySettings(supply=10_000.0, starting_credits=1_000.0)
Result = TypeVar("Result")


@pytest.fixture
def connection() -> Iterator[sa.Connection]:
    """Yield a connection to a ledger in memory with the tenants 1 and 2."""
    engine = make_engine("sqlite://")
    METADATA.create_all(engine)
    with engine.connect() as connection:
        update_tenants(connection, [1, 2], MONEY, 0.0)
        yield connection
    engine.dispose()


def test_replenishment_waits_for_its_interval(connection: sa.Connection) -> None:
    """Called in every period, a replenishment moves credits once an interval."""
    application = open_application(connection, 1, "web", 100 * MICRO, 10 * MICRO, 0.0).application
    assert replenish(connection, 3600.0, 0.0) == 0
    set_budget(connection, application, 20 * MICRO, None, "r", "test", 0.0)
    set_budget(connection, application, None, 10 * MICRO, "s", "test", 0.0)
    moved = []
    for at_s in (60.0, 3599.0, 3600.0, 3660.0, 7199.0, 7200.0):
        connection.execute(sa.text("UPDATE budgets SET initial = 100000000"))
        moved.append(replenish(connection, 3600.0, at_s))
    assert moved == [0, 0, 10 * MICRO, 0, 0, 10 * MICRO]


class Unanswered:
    """A database whose first reply to each commit is lost, so that all work runs again."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    async def run(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Return the result of the second run."""
        work(self._connection)
        return work(self._connection)

    async def read(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Return the result of `work`."""
        return work(self._connection)


def test_an_ordered_renewal_without_a_reply_is_paid_once(connection: sa.Connection) -> None:
    """A debt takes the income at once; the repeated transaction pays nothing for it again."""
    keep_supply(connection, MONEY, 0.0)
    debtor = account_store.ensure(connection, AccountKind.TENANT, 1).id
    account_store.add(connection, "debt", {debtor: 50_000 * MICRO})
    ledger = Ledger(Unanswered(connection), lambda: 60.0)
    paid = asyncio.run(ledger.renew("root"))
    after = account_store.get(connection, [debtor])[debtor]
    # Half of the supply, of which each tenant had a part already.
    assert (after.balance, after.debt) == (0, 45_000 * MICRO)
    assert paid == 8_000 * MICRO
    assert len(note_store.recent(connection, 9, kind=note_store.NoteKind.RENEWAL)) == 1
    asyncio.run(ledger.renew("root"))
    assert len(note_store.recent(connection, 9, kind=note_store.NoteKind.RENEWAL)) == 2


def test_another_tenants_application_pays_for_nothing(connection: sa.Connection) -> None:
    """A VM that names another tenant's application is paid for by its own owner."""
    application = open_application(connection, 1, "web", 100 * MICRO, 0, 0.0).application
    own = [account_store.ensure(connection, AccountKind.TENANT, owner).id for owner in (1, 2)]
    assert payers(connection, [1, 2, 3], [application] * 3) == [application, own[1], -1]


def test_a_changed_weight_of_a_group_is_noted(connection: sa.Connection) -> None:
    """The note has the author, the old and the new weight, also for a removed weight."""
    set_group_weight(connection, 7, 2.5, "root", 5.0)
    set_group_weight(connection, 7, None, "root", 6.0)
    notes = note_store.recent(connection, 9, kind=note_store.NoteKind.WEIGHT)
    assert [(note.at_s, note.who, note.text) for note in notes] == [
        (6.0, "root", "group 7: weight 2.5 -> 1"),
        (5.0, "root", "group 7: weight 1 -> 2.5"),
    ]


@pytest.mark.parametrize("supply", [0.5, 1.0, 3_000.0])
def test_a_configured_supply_is_applied(supply: float) -> None:
    """Any configured supply applies, and the reason of the change names it."""
    engine = make_engine("sqlite://")
    METADATA.create_all(engine)
    money = MoneySettings(supply=supply, starting_credits=0.0)
    with engine.connect() as connection:
        keep_supply(connection, replace(money, supply=9_000.0), 0.0)
        change = keep_supply(connection, money, 60.0)
        assert change is not None
        assert change.new == supply * MICRO
        assert change.reason == f"the configured supply is {supply:,g} credits"
        assert keep_supply(connection, money, 120.0) is None
    engine.dispose()


def test_tenants_can_be_added_without_limit(connection: sa.Connection) -> None:
    """If the first tenants take all that the ledger can count, later ones get the remainder."""
    money = MoneySettings(starting_credits=MOST_CREDITS)
    update_tenants(connection, range(3, 9), money, 0.0)
    keep_supply(connection, money, 60.0)
    update_tenants(connection, range(9, 12), money, 120.0)
    assert len(tenants(connection)) == 11
    assert audit(connection).sound


def _opening(owner: int) -> Callable[[sa.Connection], BudgetRow]:
    return lambda c: open_application(c, owner, "a", 0, 0, 0.0)


def _act(
    kind: int, owner: int, application: int, amount: int, name: str
) -> Callable[[sa.Connection], object]:
    """Return an operation: a renewal, a grant or withdrawal, or another budget."""
    given = amount if amount % (2 * MICRO) else -amount // 3

    def act(connection: sa.Connection) -> object:
        if kind == 0:
            return renew(connection, "test", 1.0)
        if kind == 1:
            return grant(connection, owner, given, name, "test", 1.0)
        return set_budget(connection, application, amount, None, name, "test", 1.0)

    return act


def test_concurrent_movements_on_mariadb_lose_no_credits(mariadb: MariaDb) -> None:
    """Renewals, grants and budgets of four threads fail only with transient errors."""
    engine = make_engine(mariadb.make("races"), connections=5)
    METADATA.create_all(engine)
    database.transaction(engine, lambda c: update_tenants(c, [1, 2, 3], MONEY, 0.0))
    applications = [database.transaction(engine, _opening(owner)) for owner in (1, 2, 3)]
    errors: list[Exception] = []

    def move_credits(thread: int) -> None:
        rng = np.random.default_rng(thread)
        for act in range(25):
            kind, which = int(rng.integers(3)), int(rng.integers(3))
            amount = int(rng.integers(1, 4_000)) * MICRO
            name = f"{thread}/{act}"
            for _ in range(20):
                try:
                    application = applications[which].application
                    database.transaction(engine, _act(kind, which + 1, application, amount, name))
                except LedgerError:
                    break
                except Exception as error:  # noqa: BLE001 - what a thread raises is checked below
                    if not is_transient(error):
                        errors.append(error)
                        break
                else:
                    break

    threads = [threading.Thread(target=move_credits, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert errors == []
        assert database.transaction(engine, audit).sound
        held = database.transaction(engine, tenants)
        assert all(tenant.balance >= 0 and tenant.in_applications >= 0 for tenant in held)
    finally:
        engine.dispose()
        mariadb.drop("races")


def test_a_renewal_that_waited_for_a_lock_reads_the_new_balance(mariadb: MariaDb) -> None:
    """While a renewal waits, a grant empties the treasury; the renewal pays only the remainder."""
    engine = make_engine(mariadb.make("waiting"), connections=3)
    METADATA.create_all(engine)
    database.transaction(engine, lambda c: update_tenants(c, [1, 2], MONEY, 0.0))
    errors: list[Exception] = []

    def renewal() -> None:
        try:
            database.transaction(engine, lambda c: renew(c, "test", 1.0))
        except Exception as error:  # noqa: BLE001 - what the thread raises is checked below
            errors.append(error)

    waits = threading.Thread(target=renewal)
    with engine.begin() as connection:
        grant(connection, 1, 7_900 * MICRO, "g", "test", 1.0)
        waits.start()
        _until_it_waits(engine)
    waits.join()
    try:
        assert [error for error in errors if not is_transient(error)] == []
        assert database.transaction(engine, audit).sound
    finally:
        engine.dispose()
        mariadb.drop("waiting")


def _until_it_waits(engine: sa.Engine) -> None:
    """Wait for a lock wait; the server refreshes its list after 0.1 seconds of quiet."""
    query = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
    for _ in range(50):
        time.sleep(0.12)
        with engine.connect() as connection:
            if connection.exec_driver_sql(query).scalar():
                return
    raise AssertionError("the renewal does not wait for the grant")
