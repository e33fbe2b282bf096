"""Debts: what charges could not take is owed by the owner, whichever account was short.

A debt stands on the tenant's own account. It is collected from all that the owner can move,
from its own account first and then from its applications, whenever credits come in or are
released. So an owner that is in debt has no credits that it could move.
"""

from collections.abc import Mapping

import sqlalchemy as sa

from merkatd.database.ledger import account_store, charge_store, entry_store
from merkatd.database.ledger.account_store import AccountKind, AccountRow
from merkatd.database.ledger.entry_store import Posting, TransactionKind


def owe(connection: sa.Connection, missing: Mapping[int, int]) -> None:
    """Add what was missing to the debts of these owners."""
    tenants = {
        owner: account_store.ensure(connection, AccountKind.TENANT, owner).id for owner in missing
    }
    account_store.add(connection, "debt", {tenants[owner]: some for owner, some in missing.items()})


def collect(connection: sa.Connection, cause: str, at_s: float) -> dict[int, int]:
    """Take from all debtors what they can pay; by owner, what each still owes.

    `cause` is the reference of what happened: what is collected for it is posted once.
    """
    treasury = account_store.treasury(connection).id
    left: dict[int, int] = {}
    postings: list[Posting] = []
    paid: dict[int, int] = {}
    for debtor in account_store.debtors(connection):
        if debtor.owner is None:
            continue
        moves = _moves(debtor, account_store.of_owner(connection, debtor.owner, locked=True))
        paid[debtor.id] = -sum(moves.values())
        left[debtor.owner] = debtor.debt - sum(moves.values())
        postings += [
            Posting(
                TransactionKind.DEBT,
                f"debt/{cause}/{account}",
                {account: -amount, treasury: amount},
            )
            for account, amount in moves.items()
        ]
    entry_store.post_new(connection, postings, at_s)
    account_store.add(connection, "debt", paid)
    charge_store.forget(connection, [owner for owner, amount in left.items() if not amount])
    return {owner: amount for owner, amount in left.items() if amount}


def _moves(debtor: AccountRow, theirs: tuple[AccountRow, ...]) -> dict[int, int]:
    """By account: what it pays of its owner's debt."""
    left, found = debtor.debt, {}
    own_first = sorted(theirs, key=lambda one: (one.kind is not AccountKind.TENANT, one.id))
    for account in own_first:
        amount = min(left, max(account.free, 0))
        if amount:
            found[account.id] = amount
            left -= amount
    return found


def of_owners(connection: sa.Connection) -> dict[int, int]:
    """By owner: what each debtor owes, as of this transaction."""
    query = sa.select(account_store.ACCOUNTS.c.owner, account_store.ACCOUNTS.c.debt)
    rows = connection.execute(query.where(account_store.ACCOUNTS.c.debt > 0))
    return {owner: debt for owner, debt in rows}  # noqa: C416 - rows are no pairs to mypy
