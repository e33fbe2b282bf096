"""Ended platforms are kept for a year: lists and orders read few of them."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import sqlalchemy as sa

from merkatd import ledger
from merkatd.currency.settings import MoneySettings
from merkatd.database.base.engine import make_engine
from merkatd.database.fleets import platform_store
from merkatd.database.fleets.platform_store import LISTED_OVER, PlatformRow
from merkatd.database.ledger import account_store, budget_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.migrations import METADATA
from merkatd.platforms import tenant_orders
from merkatd.platforms.lifecycle.template_reader import read_template
from merkatd.platforms.tenant_orders import MOST_LIVING, OrderError, Submission
from tests.platforms.site import template

ANN, BOB = 2, 3
_MANY = 1_200


@pytest.fixture
def connection() -> Iterator[sa.Connection]:
    """Yield a connection to an empty database."""
    engine = make_engine("sqlite://")
    METADATA.create_all(engine)
    with engine.connect() as opened:
        yield opened
    engine.dispose()


def store_platform(
    connection: sa.Connection, number: int, owner: int = ANN, state: str = "done"
) -> int:
    """Store a platform and return its id."""
    row = PlatformRow(
        token=f"{owner}/{number}",
        owner=owner,
        name=f"a{number}",
        account=None,
        template=template(),
        vm_templates={},
        state=state,
        submitted_s=1.0,
        since_s=1.0,
        deadline_s=None,
        sizes={},
    )
    return platform_store.add(connection, row).id


def test_lists_show_all_living_platforms_and_the_newest_ended_ones(
    connection: sa.Connection,
) -> None:
    """An old running platform precedes many ended ones."""
    living = [store_platform(connection, number, state="running") for number in range(3)]
    over = [store_platform(connection, number) for number in range(3, 3 + 2 * LISTED_OVER)]
    strange = store_platform(connection, 0, BOB)
    shown = [row.id for row in platform_store.listed(connection, ANN)]
    assert shown == living + over[-LISTED_OVER:]
    assert strange in {row.id for row in platform_store.listed(connection)}


def test_ended_platforms_do_not_count_towards_the_limit(connection: sa.Connection) -> None:
    """A tenant with many ended platforms has the same limit of living ones."""
    for number in range(MOST_LIVING):
        store_platform(connection, number, state="running")
    connection.execute(
        sa.insert(platform_store.PLATFORMS),
        [_row(connection) | {"token": f"over{number}", "state": "done"} for number in range(_MANY)],
    )
    text = template()
    given = Submission(
        token=str(_MANY),
        owner=ANN,
        text=text,
        template=read_template(text),
        vm_templates={},
        who="ann",
    )
    with pytest.raises(OrderError, match="at most 100 platforms"):
        tenant_orders.submit(connection, given, MoneySettings(), 1.0)


def test_a_platform_has_the_number_of_its_application(connection: sa.Connection) -> None:
    """Also after applications that belong to no platform; a repeated submission keeps it."""
    money = MoneySettings(supply=1e9)
    ledger.open_tenant(connection, ANN, money, 1.0)
    for at in range(3):
        ledger.open_application(connection, ANN, f"other{at}", 0, 0, 1.0)
        given = Submission(
            token=f"token{at}",
            owner=ANN,
            text=template(),
            template=read_template(template()),
            vm_templates={},
            who="ann",
        )
        stored = tenant_orders.submit(connection, given, money, 1.0)
        assert stored.account == stored.id
        budget = ledger.budget_of(connection, stored.id)
        assert budget.name == f"{stored.name}-{stored.id}"
        assert tenant_orders.submit(connection, given, money, 2.0) == stored


def _row(connection: sa.Connection) -> dict[str, object]:
    query = sa.select(platform_store.PLATFORMS).limit(1)
    row = dict(connection.execute(query).mappings().one())
    del row["id"]
    return row


def test_closed_empty_accounts_are_not_read(connection: sa.Connection) -> None:
    """Holdings and payers stay the same with a thousand of them."""
    ledger.open_tenant(connection, ANN, MoneySettings(supply=1e6), 1.0)
    kept = ledger.open_application(connection, ANN, "kept", 0, 0, 1.0).application
    for number in range(2 * LISTED_OVER):
        ended = ledger.open_application(connection, ANN, f"a{number}", 0, 0, 1.0).application
        budget_store.end(connection, ended, 2.0)
    applications = account_store.every(connection, AccountKind.APPLICATION)
    assert len(applications) == 2 * LISTED_OVER + 1
    assert [account.id for account in budget_store.open_accounts(connection)] == [kept]
    held = account_store.holding(connection)
    assert all(account.kind is not AccountKind.APPLICATION for account in held)
    listed = budget_store.of_owner(connection, ANN)
    assert len(listed) == 1 + budget_store.LISTED_OVER
    assert listed[0].application == kept


def test_a_closed_account_with_credits_counts(connection: sa.Connection) -> None:
    """Its credits are the owner's until they are returned."""
    ledger.open_tenant(connection, ANN, MoneySettings(supply=1e6), 1.0)
    budget = ledger.open_application(connection, ANN, "a", 0, 0, 1.0)
    account_store.add(connection, "balance", {budget.application: 7})
    budget_store.end(connection, budget.application, 2.0)
    assert any(account.id == budget.application for account in account_store.holding(connection))
    (tenant,) = (tenant for tenant in ledger.tenants(connection) if tenant.owner == ANN)
    assert tenant.in_applications == 7
    assert replace(tenant, in_applications=0).holdings == tenant.balance
