"""A tenant with many applications that are over: what it had is read with few queries."""

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
    """To an empty database."""
    engine = make_engine("sqlite://")
    METADATA.create_all(engine)
    with engine.connect() as opened:
        yield opened
    engine.dispose()


def over(connection: sa.Connection, owner: int, numbers: range) -> None:
    """Applications of a tenant that are over: each paid something, and owed more."""
    treasury = account_store.treasury(connection).id
    period = period_store.begin(connection, MAY.begin_s, MAY.begin_s, hosts=1, vms=1)
    for number in numbers:
        at_s = MAY.begin_s + number - 20  # the first twenty before the month
        found = ledger.open_application(connection, owner, f"a{number}", MICRO, 0, at_s)
        account = found.application
        reference, paid = f"charge/{number}/{account}", {account: -5, treasury: 5}
        entry_store.post(connection, [Posting(TransactionKind.CHARGE, reference, paid)], at_s)
        charge_store._record(connection, period, {account: 3}, at_s)
        use = DailyUse(account, _DAY, number, "vm", 60, 6000.0, 0.0, 5, 0)
        usage_store.replace_day(connection, _DAY, [*usage_store.of_day(connection, _DAY), use])
        ledger.end_application(connection, account, at_s + 0.5)


def known(connection: sa.Connection, numbers: range) -> None:
    """Two tenants, both with applications that are over."""
    for owner in (ANN, BOB):
        ledger.open_tenant(connection, owner, MoneySettings(starting_credits=1000.0), 1.0)
        over(connection, owner, numbers)


def queries(connection: sa.Connection, work: Any) -> tuple[int, Any]:
    """How many statements it takes, and what it returns."""
    said: list[str] = []

    def listen(_conn: Any, _cursor: Any, text: str, *_rest: Any) -> None:
        said.append(text)

    sa.event.listen(connection, "before_cursor_execute", listen)
    found = work()
    sa.event.remove(connection, "before_cursor_execute", listen)
    return len(said), found


def test_a_statement_takes_as_many_queries_however_many_there_are(
    connection: sa.Connection,
) -> None:
    """It says the same as all accounts, each by itself."""
    known(connection, range(2))
    few, _ = queries(connection, lambda: ledger.statement(connection, ANN, MAY))
    known(connection, range(2, 42))
    many, found = queries(connection, lambda: ledger.statement(connection, ANN, MAY))
    assert many == few < 20
    mine = account_store.of_owner(connection, ANN)
    moved: Counter[str] = Counter()
    for one in mine:
        sums = entry_store.sums(connection, one.id, MAY.begin_s, MAY.end_s)
        moved.update({str(kind): amount for kind, amount in sums.items()})
    assert found.movements == {kind: amount for kind, amount in moved.items() if amount}
    assert found.closing == sum(one.balance for one in mine)
    assert found.opening == found.closing - sum(moved.values())
    assert {line.account for line in found.lines} == {one.id for one in mine[1:]}
    assert found.missing == 3 * 22


def test_the_page_of_a_tenant_takes_as_many_queries_too(connection: sa.Connection) -> None:
    """Its chart knows what all accounts hold, and what came and went on each."""
    known(connection, range(2))
    few, _ = queries(connection, lambda: balance_changes(connection, ANN, MAY.begin_s))
    known(connection, range(2, 42))
    many, found = queries(connection, lambda: balance_changes(connection, ANN, MAY.begin_s))
    assert many == few < 5
    mine = account_store.of_owner(connection, ANN)
    each = [entry_store.of_account(connection, one.id, MAY.begin_s, 1e12) for one in mine]
    moved = [BalanceMovement(entry.at_s, entry.amount / MICRO) for all_ in each for entry in all_]
    assert found == BalanceChanges(sum(one.balance for one in mine) / MICRO, moved)
