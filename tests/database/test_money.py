"""Credits are conserved, and a reference moves them once."""

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.database.base.engine import make_engine
from merkatd.database.ledger import account_store, charge_store, entry_store
from merkatd.database.ledger.account_store import ACCOUNTS, AccountKind
from merkatd.database.ledger.entry_store import (
    ENTRIES,
    BookingError,
    OverdrawnError,
    Posting,
    TransactionKind,
    UnbalancedError,
    UnknownAccountError,
    audit,
)
from merkatd.database.migrations import METADATA
from merkatd.database.scheduler import period_store
from tests.database.books import balances, open_accounts
from tests.lengths import EXAMPLES, shorten

AMOUNTS = st.integers(0, 10**12)


def move(reference: str, source: int, target: int, amount: int) -> Posting:
    """Return a posting from one account to another."""
    return Posting(TransactionKind.CORRECTION, reference, {source: -amount, target: amount})


def test_an_account_is_opened_once(connection: sa.Connection) -> None:
    """A second call returns the same account; kind, owner and name identify accounts."""
    account = account_store.ensure(connection, AccountKind.APPLICATION, 5, "web")
    assert account_store.ensure(connection, AccountKind.APPLICATION, 5, "web") == account
    others = [
        account_store.ensure(connection, AccountKind.APPLICATION, 5, "Web"),
        account_store.ensure(connection, AccountKind.APPLICATION, 6, "web"),
        account_store.ensure(connection, AccountKind.TENANT, 5, "web"),
    ]
    assert len({account.id, *(other.id for other in others)}) == 4
    assert [account.id for account in account_store.of_owner(connection, 5)] == [
        account.id,
        others[0].id,
        others[2].id,
    ]


def test_treasury_and_issuance_have_no_owner(connection: sa.Connection) -> None:
    """There is one account of each, however often they are requested."""
    for _ in range(2):
        assert account_store.treasury(connection).owner is None
        assert account_store.issuance(connection).owner is None
    assert len(account_store.every(connection)) == 2


def test_both_sides_of_a_movement_are_recorded(connection: sa.Connection) -> None:
    """Balances and entries agree, and a statement covers the requested time."""
    first, other = open_accounts(connection, [100, 0])
    entry_store.post(connection, [move("gift", first, other, 30)], 60.0)
    assert account_store.get(connection, [first, other])[other].balance == 30
    lines = entry_store.of_account(connection, first, 0.0, 61.0)
    assert [(line.reference, line.amount) for line in lines] == [("income/0", 100), ("gift", -30)]
    assert [line.reference for line in entry_store.of_account(connection, first, 60.0, 61.0)] == [
        "gift"
    ]
    assert entry_store.of_account(connection, first, 1.0, 60.0) == ()


@pytest.mark.parametrize(
    ("amounts", "error"),
    [
        ({1: -5, 2: 4}, UnbalancedError),
        ({1: 5}, UnbalancedError),
        ({1: -0.5, 2: 0.5}, BookingError),
        ({1: True, 2: -1}, BookingError),
    ],
)
def test_an_unbalanced_posting_is_an_error(
    amounts: dict[int, int], error: type[BookingError]
) -> None:
    """Entries are whole micro-credits and sum to zero."""
    with pytest.raises(error):
        Posting(TransactionKind.CORRECTION, "wrong", amounts)


def test_only_issuance_may_be_negative(connection: sa.Connection) -> None:
    """An overdraft error names the balance, and nothing changes."""
    first, other = open_accounts(connection, [100, 0])
    before = balances(connection)
    with pytest.raises(OverdrawnError, match=r"has 100 micro-credits: 101 can't"):
        entry_store.post(connection, [move("too much", first, other, 101)], 1.0)
    with pytest.raises(UnknownAccountError, match="999"):
        entry_store.post(connection, [move("nowhere", first, 999, 1)], 1.0)
    assert balances(connection) == before
    assert entry_store.posted(connection, ["too much", "nowhere"]) == frozenset()


def test_the_database_rejects_a_negative_balance(connection: sa.Connection) -> None:
    """A constraint protects the accounts even against errors in the code."""
    (account,) = open_accounts(connection, [100])
    # PyMySQL does not map MariaDB's error number for this to `IntegrityError`.
    with pytest.raises((sa.exc.IntegrityError, sa.exc.OperationalError), match=r"(?i)constraint"):
        connection.execute(sa.update(ACCOUNTS).where(ACCOUNTS.c.id == account).values(balance=-1))


def test_the_audit_finds_changed_rows(connection: sa.Connection) -> None:
    """A balance or an entry changed outside of the ledger is reported."""
    (account,) = open_accounts(connection, [100])
    assert audit(connection).sound
    connection.execute(sa.update(ACCOUNTS).where(ACCOUNTS.c.id == account).values(balance=101))
    result = audit(connection)
    assert (result.total, result.wrong, result.sound) == (1, (account,), False)
    connection.execute(sa.update(ENTRIES).where(ENTRIES.c.account_id == account).values(amount=101))
    result = audit(connection)
    assert (result.wrong, len(result.unbalanced)) == ((), 1)


def test_a_charge_takes_at_most_the_balance(connection: sa.Connection) -> None:
    """Missing credits are recorded, and no account owes them afterwards."""
    rich, poor, broke, idle = open_accounts(connection, [100, 10, 0, 7])
    period = period_store.begin(connection, 0.0, 0.0, hosts=1, vms=4)
    result = charge_store.charge(connection, period, {rich: 60, poor: 25, broke: 5, idle: 0}, 60.0)
    assert result.taken == {rich: 60, poor: 10, broke: 0}
    assert result.missing == {poor: 15, broke: 5}
    assert charge_store.shortfalls(connection, period) == {poor: 15, broke: 5}
    held = balances(connection)
    assert [held[account] for account in (rich, poor, broke, idle)] == [40, 0, 0, 7]
    assert account_store.treasury(connection).balance == 70
    assert audit(connection).sound


def test_a_charge_is_settled_by_its_first_call(connection: sa.Connection) -> None:
    """A repeated charge takes nothing, even from an account that has credits by then."""
    rich, poor = open_accounts(connection, [100, 10])
    period = period_store.begin(connection, 0.0, 0.0, hosts=1, vms=2)
    charge_store.charge(connection, period, {poor: 25}, 60.0)
    entry_store.post(connection, [move("gift", rich, poor, 50)], 61.0)
    again = charge_store.charge(connection, period, {rich: 1, poor: 25}, 62.0)
    assert (again.taken, again.missing) == ({rich: 1}, {})
    assert again.before == {poor}
    assert account_store.get(connection, [poor])[poor].balance == 50
    assert charge_store.shortfalls(connection, period) == {poor: 15}


def test_only_tenants_and_applications_are_charged(connection: sa.Connection) -> None:
    """Charging the treasury or an unknown account is an error."""
    open_accounts(connection, [100])
    period = period_store.begin(connection, 0.0, 0.0, hosts=1, vms=1)
    for account in (
        account_store.treasury(connection).id,
        account_store.issuance(connection).id,
        999,
    ):
        with pytest.raises(UnknownAccountError, match=f"account {account}"):
            charge_store.charge(connection, period, {account: 1}, 60.0)


@pytest.mark.parametrize("amount", [-1, 2**63, 0.5])
def test_an_invalid_charge_is_an_error(connection: sa.Connection, amount: int) -> None:
    """Negative numbers, numbers beyond the maximum and floats raise an error."""
    (account,) = open_accounts(connection, [100])
    with pytest.raises(BookingError, match="a charge must be 0 to"):
        charge_store.charge(connection, 1, {account: amount}, 60.0)


def test_a_thousand_applications_are_charged_in_one_transaction(
    connection: sa.Connection,
) -> None:
    """Each charge has its own reference, and a repetition has no effect."""
    payers = open_accounts(connection, [1_000] * 1_000)
    period = period_store.begin(connection, 0.0, 0.0, hosts=1, vms=1)
    owed = {payer: 1 + payer % 7 for payer in payers}
    assert charge_store.charge(connection, period, owed, 60.0).taken == owed
    assert charge_store.charge(connection, period, owed, 61.0).before == set(payers)
    assert account_store.treasury(connection).balance == sum(owed.values())
    assert audit(connection).sound


@settings(max_examples=EXAMPLES)
@given(
    holdings=st.lists(AMOUNTS, min_size=1, max_size=5),
    moves=st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 4), AMOUNTS, st.integers(0, 6)), max_size=12
    ),
)
def test_the_sum_is_zero_after_any_postings_and_repetitions(
    holdings: list[int], moves: list[tuple[int, int, int, int]]
) -> None:
    """Postings with repeated references or too large amounts are made once or rejected."""
    with in_memory() as connection:
        tenants = open_accounts(connection, holdings)
        expected = dict(zip(tenants, holdings, strict=True))
        made: set[int] = set()
        for source, target, amount, number in moves:
            source_account, other = tenants[source % len(tenants)], tenants[target % len(tenants)]
            if source_account == other:
                continue
            posting = move(f"move/{number}", source_account, other, amount)
            if number in made or amount <= expected[source_account]:
                posted = entry_store.post(connection, [posting], 1.0)
                assert bool(posted) == (number not in made)
                if posted:
                    expected[source_account] -= amount
                    expected[other] += amount
                made.add(number)
            else:
                with pytest.raises(OverdrawnError):
                    entry_store.post(connection, [posting], 1.0)
        held = balances(connection)
        assert {tenant: held[tenant] for tenant in tenants} == expected
        assert audit(connection).sound


@settings(max_examples=shorten(300, 50), deadline=None)
@given(
    holdings=st.lists(AMOUNTS, min_size=1, max_size=5),
    bills=st.lists(st.tuples(st.integers(1, 3), st.lists(AMOUNTS, max_size=5)), max_size=6),
)
def test_replaying_charges_changes_nothing(
    holdings: list[int], bills: list[tuple[int, list[int]]]
) -> None:
    """Any sequence of charges gives the same balances when it is repeated."""
    with in_memory() as connection:
        tenants = open_accounts(connection, holdings)
        for _ in range(3):
            period_store.begin(connection, 0.0, 0.0, hosts=1, vms=1)

        def play() -> tuple[dict[int, int], list[dict[int, int]]]:
            for period, owed in bills:
                charge_store.charge(
                    connection, period, dict(zip(tenants, owed, strict=False)), float(period)
                )
            missing = [charge_store.shortfalls(connection, period) for period in (1, 2, 3)]
            return balances(connection), missing

        first = play()
        assert play() == first
        assert audit(connection).sound
        assert all(amount > 0 for missing in first[1] for amount in missing.values())


class in_memory:  # noqa: N801 - reads as a word in a with statement
    """A connection to an empty database, rolled back at the end."""

    def __init__(self) -> None:
        self._connection = ENGINE.connect()

    def __enter__(self) -> sa.Connection:
        return self._connection.__enter__()

    def __exit__(self, *_error: object) -> None:
        self._connection.close()


ENGINE = make_engine("sqlite://")
METADATA.create_all(ENGINE)
