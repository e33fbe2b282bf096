"""Frequent queries use an index, on a real server."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from merkatd.currency.credits import Month
from merkatd.currency.settings import MoneySettings
from merkatd.database.base.engine import make_engine
from merkatd.database.database import transaction
from merkatd.database.ledger import (
    account_store,
    entry_store,
    note_store,
    rollup_store,
    usage_store,
)
from merkatd.database.migrations import METADATA
from merkatd.database.scheduler import period_store, price_store
from merkatd.ledger import Bill, fold_details, settle_bill, statement, update_tenants
from merkatd.service.market.balance_history import balance_changes
from tests.servers import MariaDb

VMS = 30
PERIODS = 80


def fill(connection: sa.Connection) -> None:
    """Store enough rows that a full scan is not the fastest plan."""
    update_tenants(connection, range(VMS), MoneySettings(), 0.0)
    payers = [
        account.id for account in account_store.every(connection) if account.owner is not None
    ]
    for number in range(1, PERIODS + 1):
        at_s = number * 3600.0
        begun = period_store.begin(connection, at_s, at_s, hosts=1, vms=VMS)
        period_store.decided(connection, begun, at_s, "tabu")
        price_store.store_prices(connection, begun, {"default": {"cpu": 1.0, "memory": 1.0}})
        bill = Bill(
            period=begun,
            vm=np.arange(VMS),
            account=np.array(payers),
            owed=np.full((VMS, 2), 5),
            allocation=np.ones((VMS, 2)),
            seconds=np.full(VMS, 60.0),
            names=["vm"] * VMS,
        )
        settle_bill(connection, bill, at_s)
        if number % 20 == 0:
            fold_details(connection)


@pytest.fixture(scope="module")
def engine(mariadb: MariaDb) -> Iterator[sa.Engine]:
    """Yield a database with the rows of some days."""
    made = make_engine(mariadb.make("queries"))
    METADATA.create_all(made)
    transaction(made, fill)
    with made.connect() as connection:
        for table in METADATA.tables:
            connection.exec_driver_sql(f"ANALYZE TABLE {table}").all()
    yield made
    made.dispose()
    mariadb.drop("queries")


ASKED: dict[str, Callable[[sa.Connection], Any]] = {
    "a tenant's statement": lambda c: statement(c, 3, Month(1970, 1)),
    "what a tenant holds and what moved": lambda c: balance_changes(c, 3, 0.0),
    "an account's entries": lambda c: entry_store.of_account(c, 5, 0.0, 1e6),
    "what was charged for a period": lambda c: entry_store.transactions_below(c, "charge/60/"),
    "one period's details": lambda c: usage_store.load(c, 60),
    "details that are in no day": lambda c: usage_store.unfolded(c, 60),
    "a day's uses": lambda c: usage_store.of_day(c, 5),
    "a week of prices": lambda c: price_store.daily(c, 0.0, 3 * 86_400.0),
    "the newest decision": period_store.newest_decided,
    "notes of a kind": lambda c: note_store.recent(c, 1, kind=note_store.NoteKind.SUPPLY),
    "a rollup's next periods": partial(rollup_store.roll_up, before=3, most_periods=1, at_s=0.0),
}

LARGE = {"transactions", "entries", "uses", "periods", "prices", "details"}


@pytest.mark.parametrize("what", ASKED)
def test_no_large_table_is_read_whole(engine: sa.Engine, what: str) -> None:
    """For each large table, EXPLAIN names a key and never a full scan."""
    statements: list[tuple[str, Any]] = []

    def listen(_conn: Any, _cursor: Any, text: str, values: Any, *_rest: Any) -> None:
        if text.startswith(("SELECT", "DELETE", "UPDATE")):
            statements.append((text, values))

    with engine.connect() as connection:
        sa.event.listen(connection, "before_cursor_execute", listen)
        ASKED[what](connection)
        sa.event.remove(connection, "before_cursor_execute", listen)
        assert statements
        for text, values in statements:
            for row in connection.exec_driver_sql(f"EXPLAIN {text}", values).mappings():
                if row["table"] in LARGE:
                    assert row["key"] is not None, (text, dict(row))
                    assert row["type"] not in {"ALL", "index"} or "LIMIT" in text, (text, dict(row))
        connection.rollback()
