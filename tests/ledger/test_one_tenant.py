"""One tenant is read without the others, and is the same as in the list of all."""

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd import ledger
from merkatd.currency.credits import divided_rounding_down, part_rounding_down
from merkatd.currency.settings import MoneySettings
from merkatd.database.database import transaction
from merkatd.database.ledger import tenant_store
from merkatd.ledger import NotFoundError
from merkatd.ledger.tenants import name_of, tenant, tenants
from merkatd.service.base.payer_balances import payer_balances, payer_credits
from tests.lengths import shorten
from tests.migrated import migrated

MONEY = MoneySettings(supply=1_000.0, starting_credits=30.0)
WEIGHTS = st.sampled_from([None, 0.0, 0.1, 0.3, 1.0, 2.5, 1e6])


@given(
    total=st.integers(0, 10**15),
    weights=st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.7, 1.0, 3.0, 1e6]), min_size=1),
)
def test_a_part_is_the_same_alone(total: int, weights: list[float]) -> None:
    """To the micro-credit, whatever the order of the others."""
    parts = divided_rounding_down(total, dict(enumerate(weights)))
    numbers = {weight: weights.count(weight) for weight in reversed(weights)}
    for key, weight in enumerate(weights):
        assert part_rounding_down(total, weight, numbers) == parts[key]


def filled(connection: sa.Connection, number: int, rng: st.DataObject) -> None:
    """Open tenants in groups, some with weights and applications, some retired, one known only."""
    for owner in range(2, 2 + number):
        group = rng.draw(st.sampled_from([None, 100, 101]))
        ledger.open_tenant(connection, owner, MONEY, 1.0, name=f"user{owner}", group=group)
        tenant_store.set_weight(connection, owner, rng.draw(WEIGHTS))
        for at in range(rng.draw(st.integers(0, 2))):
            ledger.open_application(connection, owner, f"{owner}-{at}", 2_000_000, 0, 2.0)
        if rng.draw(st.booleans()):
            tenant_store.retire(connection, owner, 3.0)
    tenant_store.set_group_weight(connection, 100, rng.draw(WEIGHTS))
    tenant_store.ensure_tenants(connection, 900, 1.0, "no account")


@settings(max_examples=shorten(100, 15))
@given(number=st.integers(1, 6), rng=st.data())
def test_a_tenant_is_the_same_alone_and_in_the_list(number: int, rng: st.DataObject) -> None:
    """All its values, also if it is retired; a user without an account is no tenant in either."""
    engine = migrated()
    try:
        transaction(engine, lambda c: filled(c, number, rng))
        transaction(engine, lambda c: same(c, number))
    finally:
        engine.dispose()


def same(connection: sa.Connection, number: int) -> None:
    """Compare what is read alone with what is read of all."""
    every = tenants(connection)
    assert len(every) == number
    for row in every:
        assert tenant(connection, row.owner) == row
        assert name_of(connection, row.owner) == row.name
    for owner in (900, 901):
        with pytest.raises(NotFoundError):
            tenant(connection, owner)
    payers = payer_balances(connection)
    for owner in range(2, 4 + number):
        for application in (-1, *payers.applications, *(row.account for row in every)):
            alone = payer_credits(connection, owner, application)
            assert alone == payers.credits(owner, application)
