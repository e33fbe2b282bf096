"""A reservation that replaces another one leaves no credits behind."""

import sqlalchemy as sa

from merkatd.currency.settings import MoneySettings
from merkatd.database import database
from merkatd.database.base.engine import make_engine
from merkatd.database.ledger import account_store
from merkatd.database.ledger.entry_store import audit
from merkatd.database.migrations import METADATA
from merkatd.database.scheduler.period_store import begin
from merkatd.ledger import (
    MICRO,
    end_application,
    keep_supply,
    open_application,
    reserve,
    tenant,
    update_tenants,
)

MONEY = MoneySettings(supply=0.0, starting_credits=100.0)
OWNER = 5


def test_an_application_that_ended_meanwhile_keeps_nothing() -> None:
    """If the application ends between two reservations, the first returns to its tenant."""
    engine = make_engine("sqlite://")
    METADATA.create_all(engine)

    def reserved(connection: sa.Connection) -> tuple[int, int]:
        update_tenants(connection, [OWNER], MONEY, 0.0)
        keep_supply(connection, MONEY, 0.0)
        app = open_application(connection, OWNER, "web", 30 * MICRO, 0, 0.0).application
        period = begin(connection, 1.0, 1.0, 1, 1)
        reserve(connection, period, {app: 20 * MICRO}, 1.0)
        end_application(connection, app, 2.0)
        return app, period

    app, period = database.transaction(engine, reserved)
    assert (
        database.transaction(engine, lambda c: account_store.get(c, [app]))[app].balance
        == 20 * MICRO
    )
    database.transaction(engine, lambda c: reserve(c, period, {}, 3.0))
    assert database.transaction(engine, lambda c: account_store.get(c, [app]))[app].balance == 0
    assert database.transaction(engine, lambda c: tenant(c, OWNER)).balance == 100 * MICRO
    assert database.transaction(engine, audit).sound
    engine.dispose()
