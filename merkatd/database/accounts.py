"""Accounts: who holds how many micro-credits.

A balance changes only together with the entries that explain it (`entries.post`). Issuance
owes what all others hold, so the sum over all accounts is zero; no other account can owe.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.retrying import LostRaceError
from merkatd.database.schema import SERIAL, chunks, table

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


ACCOUNTS = table(
    "accounts",
    AccountColumns,
    sa.UniqueConstraint("kind", "owner", "name"),
    sa.CheckConstraint("kind = 'issuance' OR balance >= 0", name="only_issuance_owes"),
    sa.Index(None, "owner"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account and what it holds."""

    id: int
    kind: AccountKind
    owner: int | None
    """The OpenNebula user it belongs to."""
    name: str
    balance: int
    """Micro-credits."""


def ensure(
    connection: sa.Connection, kind: AccountKind, owner: int | None = None, name: str = ""
) -> Account:
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


def issuance(connection: sa.Connection) -> Account:
    """The one account that owes what all others hold."""
    return ensure(connection, AccountKind.ISSUANCE, name="issuance")


def treasury(connection: sa.Connection) -> Account:
    """The one account that incomes are paid from and charges are paid to."""
    return ensure(connection, AccountKind.TREASURY, name="treasury")


def find(
    connection: sa.Connection, kind: AccountKind, owner: int | None = None, name: str = ""
) -> Account | None:
    """The account of this kind, owner and name."""
    row = connection.execute(
        sa.select(ACCOUNTS).where(
            ACCOUNTS.c.kind == kind, ACCOUNTS.c.owner == _stored(owner), ACCOUNTS.c.name == name
        )
    ).one_or_none()
    return None if row is None else _account(row)


def get(connection: sa.Connection, ids: Iterable[int]) -> dict[int, Account]:
    """Those of these accounts that exist."""
    return _selected(connection, ids, lock=False)


def lock(connection: sa.Connection, ids: Iterable[int]) -> dict[int, Account]:
    """The same, and nobody else changes them until the transaction ends.

    Always in the order of ids, so that two transactions can't wait for each other.
    """
    return _selected(connection, ids, lock=True)


def of_owner(connection: sa.Connection, owner: int) -> tuple[Account, ...]:
    """The accounts of an OpenNebula user, oldest first."""
    query = sa.select(ACCOUNTS).where(ACCOUNTS.c.owner == owner).order_by(ACCOUNTS.c.id)
    return tuple(_account(row) for row in connection.execute(query))


def every(connection: sa.Connection, kind: AccountKind | None = None) -> tuple[Account, ...]:
    """All accounts, or all of one kind, oldest first."""
    query = sa.select(ACCOUNTS).order_by(ACCOUNTS.c.id)
    if kind is not None:
        query = query.where(ACCOUNTS.c.kind == kind)
    return tuple(_account(row) for row in connection.execute(query))


def _selected(connection: sa.Connection, ids: Iterable[int], *, lock: bool) -> dict[int, Account]:
    found = {}
    for some in chunks(sorted(set(ids))):
        query = sa.select(ACCOUNTS).where(ACCOUNTS.c.id.in_(some)).order_by(ACCOUNTS.c.id)
        for row in connection.execute(query.with_for_update() if lock else query):
            found[row.id] = _account(row)
    return found


def _stored(owner: int | None) -> int:
    return NOBODY if owner is None else owner


def _account(row: sa.Row[Any]) -> Account:
    return Account(
        id=row.id,
        kind=AccountKind(row.kind),
        owner=None if row.owner == NOBODY else row.owner,
        name=row.name,
        balance=row.balance,
    )
