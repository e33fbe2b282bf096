"""Each operation that moves credits or changes weights first locks the ledger."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from merkatd import ledger
from merkatd.currency.settings import MoneySettings
from merkatd.database.base.engine import make_engine
from merkatd.database.database import transaction
from merkatd.database.migrations import METADATA
from merkatd.database.scheduler import period_store
from merkatd.ledger import MICRO, renewals
from tests.servers import MariaDb

MONEY = MoneySettings(supply=0.0, starting_credits=100.0)
ANN, APPLICATION, PERIOD, AT_S = 5, 4, 1, 9.0

ORDERS: dict[str, Callable[[sa.Connection], Any]] = {
    "weight": lambda c: ledger.set_weight(c, ANN, 2.0, "root", AT_S),
    "group weight": lambda c: ledger.set_group_weight(c, 1, 2.0, "root", AT_S),
    "grant": lambda c: ledger.grant(c, ANN, -MICRO, "a", "root", AT_S),
    "renew": lambda c: ledger.renew(c, "root", AT_S),
    "ordered renewal": lambda c: renewals.renew_once(c, "a", "root", AT_S),
    "due renewal": lambda c: ledger.renew_if_due(c, MONEY, AT_S),
    "supply": lambda c: ledger.keep_supply(c, MONEY, AT_S),
    "replenishment": lambda c: ledger.replenish(c, 3600.0, AT_S),
    "reservation": lambda c: ledger.reserve(c, PERIOD, {APPLICATION: 1}, AT_S),
    "release": lambda c: ledger.release(c, PERIOD, AT_S),
    "void": lambda c: ledger.void_period(c, PERIOD, "a slip", "root", AT_S),
    "open": lambda c: ledger.open_application(c, ANN, "web2", MICRO, 0, AT_S),
    "budget": lambda c: ledger.set_budget(c, APPLICATION, MICRO, None, "b", "ann", AT_S),
    "end": lambda c: ledger.end_application(c, APPLICATION, AT_S),
    "retire": lambda c: ledger.retire(c, ANN, AT_S),
}


@pytest.fixture(scope="module")
def engine(mariadb: MariaDb) -> Iterator[sa.Engine]:
    """Yield a database with a tenant with an application, and a charged period."""
    made = make_engine(mariadb.make("lock_first"))
    METADATA.create_all(made)

    def fill(connection: sa.Connection) -> None:
        ledger.update_tenants(connection, [ANN], MONEY, 0.0)
        ledger.keep_supply(connection, MONEY, 0.0)
        opened = ledger.open_application(connection, ANN, "web", MICRO, 0, 0.0)
        number = period_store.begin(connection, 1.0, 1.0, 1, 1)
        period_store.decided(connection, number, 1.0, "tabu")
        period_store.charged(connection, number, 2.0)
        assert (opened.application, number) == (APPLICATION, PERIOD)

    transaction(made, fill)
    yield made
    made.dispose()
    mariadb.drop("lock_first")


@pytest.mark.parametrize("order", ORDERS)
def test_the_lock_comes_first(engine: sa.Engine, order: str) -> None:
    """The first statement takes the lock; a plain read before it could return outdated rows."""
    statements: list[str] = []
    with engine.connect() as connection:
        note = partial(_record_statement, statements)
        sa.event.listen(connection, "before_cursor_execute", note)
        ORDERS[order](connection)
        connection.rollback()
    assert len(statements) > 1
    assert "FROM accounts" in statements[0]
    assert statements[0].endswith("FOR UPDATE")


def _record_statement(
    statements: list[str], _connection: Any, _cursor: Any, statement: str, *_more: Any
) -> None:
    statements.append(statement)
