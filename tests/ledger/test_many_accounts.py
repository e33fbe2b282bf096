"""A tenant with many ended applications: its data are read with few queries."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from merkatd import ledger
from merkatd.currency import MICRO
from merkatd.currency.credits import Month
from merkatd.currency.settings import MoneySettings
from merkatd.database.base.engine import make_engine
from merkatd.database.ledger import account_store, charge_store, entry_store, usage_store
from merkatd.database.ledger.entry_store import Posting, TransactionKind
from merkatd.database.ledger.usage_store import DailyUse
from merkatd.database.migrations import METADATA
from merkatd.database.scheduler import period_store
from merkatd.service.market.balance_history import (
    BalanceChanges,
    BalanceMovement,
    balance_changes,
)

ANN, BOB = 2, 3
MAY = Month(2026, 5)
_DAY = int(MAY.begin_s // 86_400)


@pytest.fixture
def connection() -> Iterator[sa.Connection]:
    """Yield a connection to an empty database."""
    engine = make_engine("sqlite://")
    METADATA.create_all(engine)
    with engine.connect() as opened:
        yield opened
    engine.dispose()


def add_ended_applications(connection: sa.Connection, owner: int, numbers: range) -> None:
    """Add ended applications of a tenant; each of them paid some credits and owed more."""
    treasury = account_store.treasury(connection).id
    period = period_store.begin(connection, MAY.begin_s, MAY.begin_s, hosts=1, vms=1)
    for number in numbers:
        at_s = MAY.begin_s + number - 20  # the first twenty before the month
        opened = ledger.open_application(connection, owner, f"a{number}", MICRO, 0, at_s)
        account = opened.application
        reference, paid = f"charge/{number}/{account}", {account: -5, treasury: 5}
        entry_store.post(connection, [Posting(TransactionKind.CHARGE, reference, paid)], at_s)
        charge_store._record(connection, period, {account: 3}, at_s)
        use = DailyUse(account, _DAY, number, "vm", 60, 6000.0, 0.0, 5, 0)
        usage_store.replace_day(connection, _DAY, [*usage_store.of_day(connection, _DAY), use])
        ledger.end_application(connection, account, at_s + 0.5)


def populate(connection: sa.Connection, numbers: range) -> None:
    """Add two tenants with ended applications."""
    for owner in (ANN, BOB):
        ledger.open_tenant(connection, owner, MoneySettings(starting_credits=1000.0), 1.0)
        add_ended_applications(connection, owner, numbers)


def count_queries(connection: sa.Connection, work: Any) -> tuple[int, Any]:
    """Return the number of statements that the work executes, and its result."""
    statements: list[str] = []

    def listen(_conn: Any, _cursor: Any, text: str, *_rest: Any) -> None:
        statements.append(text)

    sa.event.listen(connection, "before_cursor_execute", listen)
    result = work()
    sa.event.remove(connection, "before_cursor_execute", listen)
    return len(statements), result


def test_a_statement_takes_a_constant_number_of_queries(
    connection: sa.Connection,
) -> None:
    """The statement equals the sum over all accounts, with as many queries for 42 as for 2."""
    populate(connection, range(2))
    few, _ = count_queries(connection, lambda: ledger.statement(connection, ANN, MAY))
    populate(connection, range(2, 42))
    many, stated = count_queries(connection, lambda: ledger.statement(connection, ANN, MAY))
    assert many == few < 20
    mine = account_store.of_owner(connection, ANN)
    moved: Counter[str] = Counter()
    for account in mine:
        sums = entry_store.sums(connection, account.id, MAY.begin_s, MAY.end_s)
        moved.update({str(kind): amount for kind, amount in sums.items()})
    assert stated.movements == {kind: amount for kind, amount in moved.items() if amount}
    assert stated.closing == sum(account.balance for account in mine)
    assert stated.opening == stated.closing - sum(moved.values())
    assert {line.account for line in stated.lines} == {account.id for account in mine[1:]}
    assert stated.missing == 3 * 22


def test_a_tenants_page_takes_a_constant_number_of_queries(connection: sa.Connection) -> None:
    """The chart has the balance and the movements of all accounts."""
    populate(connection, range(2))
    few, _ = count_queries(connection, lambda: balance_changes(connection, ANN, MAY.begin_s))
    populate(connection, range(2, 42))
    many, changes = count_queries(connection, lambda: balance_changes(connection, ANN, MAY.begin_s))
    assert many == few < 5
    mine = account_store.of_owner(connection, ANN)
    each = [entry_store.of_account(connection, account.id, MAY.begin_s, 1e12) for account in mine]
    moved = [BalanceMovement(entry.at_s, entry.amount / MICRO) for all_ in each for entry in all_]
    assert changes == BalanceChanges(sum(account.balance for account in mine) / MICRO, moved)
