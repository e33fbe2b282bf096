"""The table of accounts, each with a balance in micro-credits.

A balance changes only together with entries that explain it (`entry_store.post`). The balance of
the issuance account is minus the sum of all others, so the sum over all accounts is zero. No other
balance can be negative.

A part of a payer's balance can be reserved for the charges of decided periods
(`reservation_store`). A tenant's account also has the owner's debt: charges that it could not pay.
A debt is no entry, so it is not part of any balance.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.cluster.columns import NO_OWNER
from merkatd.database.base.schema import SERIAL, InList, table
from merkatd.database.base.transactions import LostRaceError


class AccountKind(StrEnum):
    """The purpose of an account."""

    ISSUANCE = "issuance"
    TREASURY = "treasury"
    TENANT = "tenant"
    APPLICATION = "application"


class AccountColumns(TypedColumns):
    """The columns of `accounts`."""

    id: Named[int] = Column(SERIAL, primary_key=True)
    kind: Named[str] = Column(sa.String(16))
    owner: Named[int] = Column(sa.Integer())
    name: Named[str] = Column(sa.String(128))
    balance: Named[int] = Column(sa.BigInteger())
    reserved: Named[int] = Column(sa.BigInteger(), server_default="0")
    debt: Named[int] = Column(sa.BigInteger(), server_default="0")


ACCOUNTS = table(
    "accounts",
    AccountColumns,
    sa.UniqueConstraint("kind", "owner", "name"),
    sa.CheckConstraint("kind = 'issuance' OR balance >= 0", name="only_issuance_owes"),
    sa.Index(None, "owner"),
    sa.Index(None, "debt"),
)

_CHANGED_AT_ONCE = 100

# Each period runs these statements many times: to build one takes longer than to run it.
_EVERY = sa.select(ACCOUNTS).order_by(ACCOUNTS.c.id)
_FIND = sa.select(ACCOUNTS).where(
    ACCOUNTS.c.kind == sa.bindparam("its_kind"),
    ACCOUNTS.c.owner == sa.bindparam("its_owner"),
    ACCOUNTS.c.name == sa.bindparam("its_name"),
)
_READ_IDS = InList(lambda ids: _EVERY.where(ACCOUNTS.c.id.in_(ids)))
_LOCK_IDS = InList(lambda ids: _EVERY.where(ACCOUNTS.c.id.in_(ids)).with_for_update())
_LOCK_TREASURY = (
    sa.select(ACCOUNTS.c.id)
    .where(
        ACCOUNTS.c.kind == AccountKind.TREASURY,
        ACCOUNTS.c.owner == NO_OWNER,
        ACCOUNTS.c.name == "treasury",
    )
    .with_for_update()
)
_LOCK_DEBTORS = (
    sa.select(ACCOUNTS).where(ACCOUNTS.c.debt > 0).order_by(ACCOUNTS.c.id).with_for_update()
)
_TENANTS_OF = InList(
    lambda owners: sa.select(ACCOUNTS.c.owner, ACCOUNTS.c.id).where(
        ACCOUNTS.c.kind == AccountKind.TENANT, ACCOUNTS.c.owner.in_(owners)
    )
)
_HOLDING = (
    sa.select(ACCOUNTS)
    .where(~((ACCOUNTS.c.kind == AccountKind.APPLICATION) & (ACCOUNTS.c.balance == 0)))
    .order_by(ACCOUNTS.c.id)
)
_LOCK_HOLDING = _HOLDING.with_for_update()
_OF_OWNER = (
    sa.select(ACCOUNTS).where(ACCOUNTS.c.owner == sa.bindparam("its_owner")).order_by(ACCOUNTS.c.id)
)
_LOCK_OF_OWNER = _OF_OWNER.with_for_update()
_INSERT = sa.insert(ACCOUNTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRow:
    """An account and its balance."""

    id: int
    kind: AccountKind
    owner: int | None
    """The id of the OpenNebula user that owns the account."""
    name: str
    balance: int
    """Balance in micro-credits."""
    reserved: int = 0
    """The part of the balance that is reserved for charges."""
    debt: int = 0
    """The owner's debt for earlier periods in micro-credits; only on a tenant's account."""

    @property
    def free(self) -> int:
        """Return the part of the balance that is not reserved."""
        return self.balance - self.reserved


def ensure(
    connection: sa.Connection, kind: AccountKind, owner: int | None = None, name: str = ""
) -> AccountRow:
    """Return the account of this kind, owner and name; open an empty one if it is missing."""
    account = find(connection, kind, owner, name)
    if account is not None:
        return account
    row = {"kind": kind, "owner": _stored(owner), "name": name, "balance": 0}
    try:
        connection.execute(_INSERT, row)
    except sa.exc.IntegrityError as error:
        raise LostRaceError(
            f"another transaction opened the {kind} account {name!r} first"
        ) from error
    opened = find(connection, kind, owner, name)
    if opened is None:
        raise LookupError(f"the {kind} account {name!r} of user {owner} was not stored")
    return opened


def issuance(connection: sa.Connection) -> AccountRow:
    """Return the issuance account, whose balance is minus the sum of all others."""
    return ensure(connection, AccountKind.ISSUANCE, name="issuance")


def treasury(connection: sa.Connection) -> AccountRow:
    """Return the treasury, which pays incomes and receives charges."""
    return ensure(connection, AccountKind.TREASURY, name="treasury")


def find(
    connection: sa.Connection, kind: AccountKind, owner: int | None = None, name: str = ""
) -> AccountRow | None:
    """Return the account of this kind, owner and name."""
    values = {"its_kind": kind, "its_owner": _stored(owner), "its_name": name}
    row = connection.execute(_FIND, values).one_or_none()
    return None if row is None else _account(row)


def get(connection: sa.Connection, ids: Iterable[int]) -> dict[int, AccountRow]:
    """Return the accounts of these ids that exist, by id."""
    return _selected(connection, ids, lock=False)


def lock(connection: sa.Connection, ids: Iterable[int]) -> dict[int, AccountRow]:
    """Return the same, and lock the rows until the transaction ends.

    Rows are locked in the order of ids, so that two transactions can't wait for each other.
    """
    return _selected(connection, ids, lock=True)


def of_owner(
    connection: sa.Connection, owner: int, *, locked: bool = False
) -> tuple[AccountRow, ...]:
    """Return the accounts of an OpenNebula user, oldest first: the tenant's own is the first."""
    rows = connection.execute(_LOCK_OF_OWNER if locked else _OF_OWNER, {"its_owner": owner})
    return tuple(_account(row) for row in rows)


def held_by(connection: sa.Connection, owner: int) -> int:
    """Return the sum of all balances of an OpenNebula user, in micro-credits."""
    query = sa.select(sa.func.sum(ACCOUNTS.c.balance)).where(ACCOUNTS.c.owner == owner)
    return int(connection.scalar(query) or 0)


def ids_of_owner(connection: sa.Connection, owner: int) -> frozenset[int]:
    """Return the ids of all accounts of an OpenNebula user."""
    return frozenset(connection.scalars(sa.select(ACCOUNTS.c.id).where(ACCOUNTS.c.owner == owner)))


def of_tenants(connection: sa.Connection, owners: Iterable[int]) -> dict[int, int]:
    """Return the account ids of those of these users that are tenants, by user id."""
    rows = _TENANTS_OF.rows(connection, sorted(set(owners)))
    return {owner: account for owner, account in rows}  # noqa: C416 - rows are no pairs to mypy


def every(
    connection: sa.Connection, kind: AccountKind | None = None, *, locked: bool = False
) -> tuple[AccountRow, ...]:
    """Return all accounts, or all of one kind, oldest first."""
    query = sa.select(ACCOUNTS).order_by(ACCOUNTS.c.id)
    if kind is not None:
        query = query.where(ACCOUNTS.c.kind == kind)
    rows = connection.execute(query.with_for_update() if locked else query)
    return tuple(_account(row) for row in rows)


def holding(connection: sa.Connection, *, locked: bool = False) -> tuple[AccountRow, ...]:
    """Return all accounts except empty ones of applications, oldest first.

    There are many empty ones: accounts of ended applications are kept as long as their history.
    """
    rows = connection.execute(_LOCK_HOLDING if locked else _HOLDING)
    return tuple(_account(row) for row in rows)


def of_applications(connection: sa.Connection, budgets: sa.Select[Any]) -> tuple[AccountRow, ...]:
    """Return the accounts of the applications whose ids the query selects, oldest first."""
    query = sa.select(ACCOUNTS).where(
        ACCOUNTS.c.kind == AccountKind.APPLICATION, ACCOUNTS.c.id.in_(budgets)
    )
    return tuple(_account(row) for row in connection.execute(query.order_by(ACCOUNTS.c.id)))


def lock_books(connection: sa.Connection) -> None:
    """Take the lock that lets one transaction at a time move credits.

    # Note [One transaction at a time moves credits]
    In MariaDB all plain reads of a transaction see the rows as they were at its first plain read. A
    transaction that reads balances, waits for a lock and then posts would decide from old balances.
    So every function that moves credits takes this lock first, and decides only from rows read for
    update (`lock`, `of_owner` and `every` with `locked`), which are always current. The lock is the
    row of the treasury.

    Example: a balance is 100. Transactions A and B both read it; A takes 80 and commits. B would
    still see 100 and try to take 80 too. With the lock, B reads after A's commit: 20.
    """
    if connection.scalar(_LOCK_TREASURY) is None:
        treasury(connection)


def rename(connection: sa.Connection, account: int, name: str) -> None:
    """Give an account another name, which no account of its owner and kind may have."""
    connection.execute(sa.update(ACCOUNTS).where(ACCOUNTS.c.id == account).values(name=name))


def add(connection: sa.Connection, column: str, changes: Mapping[int, int]) -> None:
    """Add a change to a column of each of these accounts, by id."""
    todo = [(account, change) for account, change in sorted(changes.items()) if change]
    for first in range(0, len(todo), _CHANGED_AT_ONCE):
        some = todo[first : first + _CHANGED_AT_ONCE]
        # One statement for many accounts: one per account would take a round trip each.
        whens = " ".join(f"WHEN {account:d} THEN {change:d}" for account, change in some)
        which = ", ".join(f"{account:d}" for account, _ in some)
        name = ACCOUNTS.c[column].name
        connection.exec_driver_sql(
            f"UPDATE accounts SET {name} = {name} + CASE id {whens} END WHERE id IN ({which})"  # noqa: S608 - a column's name and whole numbers
        )


def debtors(connection: sa.Connection) -> tuple[AccountRow, ...]:
    """Return the accounts of all tenants with a debt, and lock their rows."""
    return tuple(_account(row) for row in connection.execute(_LOCK_DEBTORS))


def _selected(
    connection: sa.Connection, ids: Iterable[int], *, lock: bool
) -> dict[int, AccountRow]:
    query = _LOCK_IDS if lock else _READ_IDS
    return {row.id: _account(row) for row in query.rows(connection, sorted(set(ids)))}


def _stored(owner: int | None) -> int:
    # NULL would not do for accounts without a user: the unique key ignores NULLs.
    return NO_OWNER if owner is None else owner


def _account(row: sa.Row[Any]) -> AccountRow:
    return AccountRow(
        id=row.id,
        kind=AccountKind(row.kind),
        owner=None if row.owner == NO_OWNER else row.owner,
        name=row.name,
        balance=row.balance,
        reserved=row.reserved,
        debt=row.debt,
    )
