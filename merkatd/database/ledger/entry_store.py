"""Transactions and entries of the double-entry ledger, and its audit.

A transaction has a unique reference: posting it again, after a crash for example, changes nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import SERIAL, chunks, table
from merkatd.database.base.transactions import LostRaceError
from merkatd.database.ledger import account_store
from merkatd.database.ledger.account_store import ACCOUNTS, AccountKind, AccountRow
from merkatd.database.ledger.reservation_store import RESERVATIONS

AFTER_SLASH = chr(ord("/") + 1)
MAX_AMOUNT = 2**62
"""Maximum absolute value of a balance, in micro-credits."""


class TransactionKind(StrEnum):
    """The reason why credits move."""

    ISSUE = "issue"
    """Between issuance and treasury: a change of the supply."""
    INCOME = "income"
    """From the treasury to a tenant, at a renewal."""
    GRANT = "grant"
    """From the treasury to a tenant, by an administrator's order."""
    BUDGET = "budget"
    """Between a tenant and one of its applications."""
    REPLENISHMENT = "replenishment"
    CHARGE = "charge"
    DEBT = "debt"
    """From a tenant or one of its applications to the treasury: collection of the owner's debt."""
    REFUND = "refund"
    RETIREMENT = "retirement"
    """From a removed user's accounts to the treasury."""
    CORRECTION = "correction"


class TransactionColumns(TypedColumns):
    """The columns of `transactions`."""

    id: Named[int] = Column(SERIAL, primary_key=True)
    at_s: Named[float] = Column(sa.Double())
    kind: Named[str] = Column(sa.String(16))
    reference: Named[str] = Column(sa.String(128), unique=True)


class EntryColumns(TypedColumns):
    """The columns of `entries`; the key starts with the account, for statements."""

    account_id: Named[int] = Column(
        sa.BigInteger(), sa.ForeignKey("accounts.id"), primary_key=True, autoincrement=False
    )
    transaction_id: Named[int] = Column(
        sa.BigInteger(),
        sa.ForeignKey("transactions.id"),
        primary_key=True,
        autoincrement=False,
    )
    amount: Named[int] = Column(sa.BigInteger())


TRANSACTIONS = table("transactions", TransactionColumns, sa.Index(None, "at_s"))
ENTRIES = table("entries", EntryColumns, sa.Index(None, "transaction_id"))
_REFERENCES = sa.select(TRANSACTIONS.c.reference, TRANSACTIONS.c.id)
_LATER = _REFERENCES.where(TRANSACTIONS.c.id > sa.bindparam("newest"))
_IDS = _REFERENCES.where(TRANSACTIONS.c.reference.in_(sa.bindparam("references", expanding=True)))
# A range of references: LIKE uses the index only on some servers.
_BELOW = _REFERENCES.where(
    TRANSACTIONS.c.reference > sa.bindparam("prefix"),
    TRANSACTIONS.c.reference < sa.bindparam("after"),
)
_SUMS = sa.select(TRANSACTIONS.c.kind, sa.func.sum(ENTRIES.c.amount)).group_by(TRANSACTIONS.c.kind)
_NEWEST = sa.select(sa.func.max(TRANSACTIONS.c.id))
_INSERT = sa.insert(TRANSACTIONS)
_INSERT_ENTRIES = sa.insert(ENTRIES)


class BookingError(ValueError):
    """A movement of credits is invalid."""


class UnbalancedError(BookingError):
    """The entries of a transaction don't sum to zero."""


class OverdrawnError(BookingError):
    """A balance would become negative."""


class UnknownAccountError(BookingError):
    """An entry names an account that does not exist."""


@dataclass(frozen=True, slots=True)
class Posting:
    """A transaction to post."""

    kind: TransactionKind
    reference: str
    amounts: Mapping[int, int]
    """Micro-credits that each account gains or loses; if empty, only the reference is stored."""

    def __post_init__(self) -> None:
        wrong = [amount for amount in self.amounts.values() if type(amount) is not int]
        if wrong:
            raise BookingError(f"{self.reference}: an amount must be an int (got {wrong[0]!r})")
        if sum(self.amounts.values()) != 0:
            raise UnbalancedError(
                f"{self.reference}: entries must sum to 0 (got {sum(self.amounts.values())})"
            )


@dataclass(frozen=True, slots=True)
class EntryRow:
    """An entry of an account's history."""

    transaction: int
    at_s: float
    kind: TransactionKind
    reference: str
    amount: int


def post(connection: sa.Connection, postings: Sequence[Posting], at_s: float) -> frozenset[str]:
    """Post the postings that are new, change the balances, and return the new references.

    An error means that a posting is invalid: then the caller must not commit its transaction.
    """
    done = posted(connection, [posting.reference for posting in postings])
    return post_new(
        connection, [posting for posting in postings if posting.reference not in done], at_s
    )


def post_new(
    connection: sa.Connection,
    postings: Sequence[Posting],
    at_s: float,
    held: Mapping[int, AccountRow] | None = None,
) -> frozenset[str]:
    """Do the same for postings that the caller knows to be new.

    `held` are the accounts that the caller has already locked and read.
    """
    references = frozenset(posting.reference for posting in postings)
    if len(references) != len(postings):
        raise BookingError("two postings have the same reference")
    moved: Counter[int] = Counter()
    for posting in postings:
        moved.update(posting.amounts)
    _check(connection, moved, held or {})
    _insert(connection, postings, at_s)
    account_store.add(connection, "balance", moved)
    return references


def posted(connection: sa.Connection, references: Iterable[str]) -> frozenset[str]:
    """Return which of the references are already posted."""
    return frozenset(transaction_ids(connection, references))


def of_account(
    connection: sa.Connection, account: int, since_s: float, until_s: float
) -> tuple[EntryRow, ...]:
    """Return the entries of an account from `since_s` until before `until_s`, oldest first."""
    columns = TRANSACTIONS.c
    query = (
        sa.select(columns.id, columns.at_s, columns.kind, columns.reference, ENTRIES.c.amount)
        .join(TRANSACTIONS, columns.id == ENTRIES.c.transaction_id)
        .where(ENTRIES.c.account_id == account, columns.at_s >= since_s, columns.at_s < until_s)
        .order_by(columns.id)
    )
    return tuple(
        EntryRow(number, then_s, TransactionKind(kind), reference, amount)
        for number, then_s, kind, reference, amount in connection.execute(query)
    )


def sums(
    connection: sa.Connection, account: int, since_s: float, until_s: float | None
) -> dict[TransactionKind, int]:
    """Return the sums of an account's entries from `since_s` until before `until_s`, by kind."""
    query = _SUMS.join(TRANSACTIONS, TRANSACTIONS.c.id == ENTRIES.c.transaction_id)
    mine = ENTRIES.c.account_id == account, TRANSACTIONS.c.at_s >= since_s
    return _by_kind(connection, query.where(*mine), until_s)


def sums_of_owner(
    connection: sa.Connection, owner: int, since_s: float, until_s: float | None
) -> dict[TransactionKind, int]:
    """Return the sums of the entries of all accounts of an OpenNebula user, by kind.

    One query reads all accounts: each application leaves an account, by default for a year.
    """
    query = _SUMS.select_from(_of_owner(owner)).where(TRANSACTIONS.c.at_s >= since_s)
    return _by_kind(connection, query, until_s)


def _by_kind(
    connection: sa.Connection, query: sa.Select[str, int], until_s: float | None
) -> dict[TransactionKind, int]:
    if until_s is not None:
        query = query.where(TRANSACTIONS.c.at_s < until_s)
    return {TransactionKind(kind): int(total) for kind, total in connection.execute(query)}


def moved_of_owner(
    connection: sa.Connection, owner: int, since_s: float
) -> tuple[tuple[float, int], ...]:
    """Return time and amount of the entries of all accounts of a user, ordered by account."""
    query = (
        sa.select(TRANSACTIONS.c.at_s, ENTRIES.c.amount)
        .select_from(_of_owner(owner))
        .where(TRANSACTIONS.c.at_s >= since_s)
        .order_by(ENTRIES.c.account_id, TRANSACTIONS.c.id)
    )
    return tuple((at_s, amount) for at_s, amount in connection.execute(query))


def _of_owner(owner: int) -> sa.Join:
    """Return the join of a user's entries with their accounts and transactions."""
    theirs = (ACCOUNTS.c.id == ENTRIES.c.account_id) & (ACCOUNTS.c.owner == owner)
    known = sa.join(ENTRIES, ACCOUNTS, theirs)
    return sa.join(known, TRANSACTIONS, TRANSACTIONS.c.id == ENTRIES.c.transaction_id)


def transactions_below(connection: sa.Connection, prefix: str) -> dict[str, int]:
    """Return the ids of transactions by reference, for a prefix that ends in a slash."""
    rows = connection.execute(_BELOW, {"prefix": prefix, "after": prefix[:-1] + AFTER_SLASH})
    return {reference: number for reference, number in rows}  # noqa: C416 - rows are no pairs to mypy


def amounts_of(connection: sa.Connection, transaction: int) -> dict[int, int]:
    """Return the amounts of a transaction's entries by account."""
    query = sa.select(ENTRIES.c.account_id, ENTRIES.c.amount)
    rows = connection.execute(query.where(ENTRIES.c.transaction_id == transaction))
    return {account: amount for account, amount in rows}  # noqa: C416 - rows are no pairs to mypy


def _check(
    connection: sa.Connection, moved: Mapping[int, int], held: Mapping[int, AccountRow]
) -> None:
    further = account_store.lock(connection, moved.keys() - held.keys())
    for number, amount in moved.items():
        account = held.get(number) or further.get(number)
        if account is None:
            raise UnknownAccountError(f"account {number} does not exist")
        balance = account.balance + amount
        if account.kind is not AccountKind.ISSUANCE and balance < account.reserved and amount < 0:
            kept = f", {account.reserved} of them reserved for charges" if account.reserved else ""
            raise OverdrawnError(
                f"account {number} ({account.kind} {account.name!r}) has {account.balance}"
                f" micro-credits{kept}: {-amount} can't be taken from it"
            )
        if abs(balance) > MAX_AMOUNT:
            raise BookingError(
                f"account {number}: the balance would be {balance}, beyond {MAX_AMOUNT}"
            )


def _insert(connection: sa.Connection, postings: Sequence[Posting], at_s: float) -> None:
    if not postings:
        return
    rows = [{"at_s": at_s, "kind": p.kind, "reference": p.reference} for p in postings]
    newest = connection.scalar(_NEWEST) or 0
    try:
        connection.execute(_INSERT, rows)
    except sa.exc.IntegrityError as error:
        raise LostRaceError("another transaction posted the same reference first") from error
    later = connection.execute(_LATER, {"newest": newest})
    ids = {reference: number for reference, number in later}  # noqa: C416 - rows are no pairs to mypy
    entries = [
        {"transaction_id": ids[posting.reference], "account_id": account, "amount": amount}
        for posting in postings
        for account, amount in posting.amounts.items()
        if amount
    ]
    if entries:
        connection.execute(_INSERT_ENTRIES, entries)


def transaction_ids(connection: sa.Connection, references: Iterable[str]) -> dict[str, int]:
    """Return the ids of transactions, by reference."""
    numbers: dict[str, int] = {}
    for some in chunks(sorted(references)):
        rows = connection.execute(_IDS, {"references": some})
        numbers.update((reference, number) for reference, number in rows)
    return numbers


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of a check of the whole ledger: 0 and empty if it is sound."""

    total: int
    """The sum of all balances, in micro-credits."""
    unbalanced: tuple[int, ...]
    """Transactions whose entries don't sum to zero."""
    wrong: tuple[int, ...]
    """Accounts whose balance isn't the sum of their entries."""
    misreserved: tuple[int, ...] = ()
    """Accounts that reserve more than their balance, or not the sum of their reservations."""

    @property
    def sound(self) -> bool:
        """Return whether the ledger has no error."""
        return self.total == 0 and not (self.unbalanced or self.wrong or self.misreserved)


def total(connection: sa.Connection) -> int:
    """Return the sum of all balances, which must be zero; fast, as it reads no entries."""
    return int(connection.scalar(sa.select(sa.func.sum(ACCOUNTS.c.balance))) or 0)


def audit(connection: sa.Connection) -> Audit:
    """Check all accounts, transactions and reservations."""
    amount = sa.func.coalesce(sa.func.sum(ENTRIES.c.amount), 0)
    unbalanced = (
        sa.select(ENTRIES.c.transaction_id).group_by(ENTRIES.c.transaction_id).having(amount != 0)
    )
    wrong = (
        sa.select(ACCOUNTS.c.id)
        .outerjoin(ENTRIES, ENTRIES.c.account_id == ACCOUNTS.c.id)
        .group_by(ACCOUNTS.c.id, ACCOUNTS.c.balance)
        .having(ACCOUNTS.c.balance != amount)
    )
    kept = sa.func.coalesce(sa.func.sum(RESERVATIONS.c.amount), 0)
    misreserved = (
        sa.select(ACCOUNTS.c.id)
        .outerjoin(RESERVATIONS, RESERVATIONS.c.account == ACCOUNTS.c.id)
        .where(ACCOUNTS.c.kind != AccountKind.ISSUANCE)
        .group_by(ACCOUNTS.c.id, ACCOUNTS.c.balance, ACCOUNTS.c.reserved)
        .having(sa.or_(ACCOUNTS.c.reserved != kept, ACCOUNTS.c.balance < ACCOUNTS.c.reserved))
    )
    return Audit(
        total=total(connection),
        unbalanced=tuple(connection.scalars(unbalanced)),
        wrong=tuple(connection.scalars(wrong)),
        misreserved=tuple(connection.scalars(misreserved)),
    )
