"""Accounts: who holds how many micro-credits.

A balance changes only together with the entries that explain it (`entries.post`). Issuance
owes what all others hold, so the sum over all accounts is zero; no other account can owe.

A payer's balance has a reserved part, which waits for charges of periods that are decided
(`reservations`). A tenant's account also keeps the owner's debt (`debts`): what charges could
not take. A debt is no entry, so it is no part of any balance.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import SERIAL, chunks, table
from merkatd.database.base.transactions import LostRaceError

NOBODY = -1
"""The owner of accounts that belong to no user: NULLs would escape the unique key."""


class AccountKind(StrEnum):
    """What an account is for."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRow:
    """An account and what it holds."""

    id: int
    kind: AccountKind
    owner: int | None
    """The OpenNebula user it belongs to."""
    name: str
    balance: int
    """Micro-credits."""
    reserved: int = 0
    """The part of the balance that waits for charges."""
    debt: int = 0
    """On a tenant's account: micro-credits that the owner still owes for earlier periods."""

    @property
    def free(self) -> int:
        """The part of the balance that may be moved."""
        return self.balance - self.reserved


def ensure(
    connection: sa.Connection, kind: AccountKind, owner: int | None = None, name: str = ""
) -> AccountRow:
    """The account of this kind, owner and name, opened empty where there is none yet."""
    found = find(connection, kind, owner, name)
    if found is not None:
        return found
    row = {"kind": kind, "owner": _stored(owner), "name": name, "balance": 0}
    try:
        connection.execute(sa.insert(ACCOUNTS), row)
    except sa.exc.IntegrityError as error:
        raise LostRaceError(f"somebody else opened the {kind} account {name!r}") from error
    opened = find(connection, kind, owner, name)
    if opened is None:
        raise LookupError(f"the {kind} account {name!r} of user {owner} was not stored")
    return opened


def issuance(connection: sa.Connection) -> AccountRow:
    """The one account that owes what all others hold."""
    return ensure(connection, AccountKind.ISSUANCE, name="issuance")


def treasury(connection: sa.Connection) -> AccountRow:
    """The one account that incomes are paid from and charges are paid to."""
    return ensure(connection, AccountKind.TREASURY, name="treasury")


def find(
    connection: sa.Connection, kind: AccountKind, owner: int | None = None, name: str = ""
) -> AccountRow | None:
    """The account of this kind, owner and name."""
    row = connection.execute(
        sa.select(ACCOUNTS).where(
            ACCOUNTS.c.kind == kind, ACCOUNTS.c.owner == _stored(owner), ACCOUNTS.c.name == name
        )
    ).one_or_none()
    return None if row is None else _account(row)


def get(connection: sa.Connection, ids: Iterable[int]) -> dict[int, AccountRow]:
    """Those of these accounts that exist."""
    return _selected(connection, ids, lock=False)


def lock(connection: sa.Connection, ids: Iterable[int]) -> dict[int, AccountRow]:
    """The same, and nobody else changes them until the transaction ends.

    Always in the order of ids, so that two transactions can't wait for each other.
    """
    return _selected(connection, ids, lock=True)


def of_owner(
    connection: sa.Connection, owner: int, *, locked: bool = False
) -> tuple[AccountRow, ...]:
    """The accounts of an OpenNebula user, oldest first: the tenant's own is the first."""
    query = sa.select(ACCOUNTS).where(ACCOUNTS.c.owner == owner).order_by(ACCOUNTS.c.id)
    rows = connection.execute(query.with_for_update() if locked else query)
    return tuple(_account(row) for row in rows)


def held_by(connection: sa.Connection, owner: int) -> int:
    """What all accounts of an OpenNebula user hold together, in micro-credits."""
    query = sa.select(sa.func.sum(ACCOUNTS.c.balance)).where(ACCOUNTS.c.owner == owner)
    return int(connection.scalar(query) or 0)


def ids_of_owner(connection: sa.Connection, owner: int) -> frozenset[int]:
    """The ids of all accounts of an OpenNebula user."""
    return frozenset(connection.scalars(sa.select(ACCOUNTS.c.id).where(ACCOUNTS.c.owner == owner)))


def of_tenants(connection: sa.Connection, owners: Iterable[int]) -> dict[int, int]:
    """By user id: the account of each of these users, where the user is a tenant."""
    found: dict[int, int] = {}
    for some in chunks(sorted(set(owners))):
        query = sa.select(ACCOUNTS.c.owner, ACCOUNTS.c.id)
        mine = (ACCOUNTS.c.kind == AccountKind.TENANT) & ACCOUNTS.c.owner.in_(some)
        found.update((owner, account) for owner, account in connection.execute(query.where(mine)))
    return found


def every(
    connection: sa.Connection, kind: AccountKind | None = None, *, locked: bool = False
) -> tuple[AccountRow, ...]:
    """All accounts, or all of one kind, oldest first."""
    query = sa.select(ACCOUNTS).order_by(ACCOUNTS.c.id)
    if kind is not None:
        query = query.where(ACCOUNTS.c.kind == kind)
    rows = connection.execute(query.with_for_update() if locked else query)
    return tuple(_account(row) for row in rows)


def holding(connection: sa.Connection, *, locked: bool = False) -> tuple[AccountRow, ...]:
    """All accounts but those of applications that hold no credits; oldest first.

    Accounts of applications that are over are kept for as long as their history is.
    """
    empty = (ACCOUNTS.c.kind == AccountKind.APPLICATION) & (ACCOUNTS.c.balance == 0)
    query = sa.select(ACCOUNTS).where(~empty).order_by(ACCOUNTS.c.id)
    rows = connection.execute(query.with_for_update() if locked else query)
    return tuple(_account(row) for row in rows)


def of_applications(connection: sa.Connection, budgets: sa.Select[Any]) -> tuple[AccountRow, ...]:
    """The accounts of applications, of those whose ids the query finds; oldest first."""
    query = sa.select(ACCOUNTS).where(
        ACCOUNTS.c.kind == AccountKind.APPLICATION, ACCOUNTS.c.id.in_(budgets)
    )
    return tuple(_account(row) for row in connection.execute(query.order_by(ACCOUNTS.c.id)))


def lock_books(connection: sa.Connection) -> None:
    """Wait until no other transaction moves credits, and keep others from it until the end.

    # Note [One transaction at a time moves credits]
    MariaDB reads a transaction's rows as they were at its first plain read. A transaction that
    reads balances, waits for a lock and then posts would decide from what was true before the
    wait. So every function that moves credits begins with this lock, and takes what it decides
    from rows that it read for update (`lock`, `of_owner`, `every` with `locked`), which are
    always the present ones. The row of the treasury is the lock.
    """
    treasury_row = sa.select(ACCOUNTS.c.id).where(
        ACCOUNTS.c.kind == AccountKind.TREASURY,
        ACCOUNTS.c.owner == NOBODY,
        ACCOUNTS.c.name == "treasury",
    )
    if connection.scalar(treasury_row.with_for_update()) is None:
        treasury(connection)


def add(connection: sa.Connection, column: str, changes: Mapping[int, int]) -> None:
    """Add to a column of the accounts with these ids."""
    todo = [(account, change) for account, change in sorted(changes.items()) if change]
    for first in range(0, len(todo), _CHANGED_AT_ONCE):
        some = todo[first : first + _CHANGED_AT_ONCE]
        # Written out: one statement for each account would be a round trip each.
        whens = " ".join(f"WHEN {account:d} THEN {change:d}" for account, change in some)
        which = ", ".join(f"{account:d}" for account, _ in some)
        name = ACCOUNTS.c[column].name
        connection.exec_driver_sql(
            f"UPDATE accounts SET {name} = {name} + CASE id {whens} END WHERE id IN ({which})"  # noqa: S608 - a column of ours and whole numbers
        )


def debtors(connection: sa.Connection) -> tuple[AccountRow, ...]:
    """The accounts of all tenants that owe, locked."""
    query = sa.select(ACCOUNTS).where(ACCOUNTS.c.debt > 0).order_by(ACCOUNTS.c.id)
    return tuple(_account(row) for row in connection.execute(query.with_for_update()))


def _selected(
    connection: sa.Connection, ids: Iterable[int], *, lock: bool
) -> dict[int, AccountRow]:
    found = {}
    for some in chunks(sorted(set(ids))):
        query = sa.select(ACCOUNTS).where(ACCOUNTS.c.id.in_(some)).order_by(ACCOUNTS.c.id)
        for row in connection.execute(query.with_for_update() if lock else query):
            found[row.id] = _account(row)
    return found


def _stored(owner: int | None) -> int:
    return NOBODY if owner is None else owner


def _account(row: sa.Row[Any]) -> AccountRow:
    return AccountRow(
        id=row.id,
        kind=AccountKind(row.kind),
        owner=None if row.owner == NOBODY else row.owner,
        name=row.name,
        balance=row.balance,
        reserved=row.reserved,
        debt=row.debt,
    )
