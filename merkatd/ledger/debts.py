"""Debts: an owner owes the charges that any of its accounts could not pay.

The debt is recorded at the tenant's own account. Whenever credits arrive or are released, it is
collected from all movable credits of the owner: from its own account first, then from its
applications. So an owner in debt has no movable credits.
"""

from collections.abc import Mapping

import sqlalchemy as sa

from merkatd.database.ledger import account_store, charge_store, entry_store
from merkatd.database.ledger.account_store import AccountKind, AccountRow
from merkatd.database.ledger.entry_store import Posting, TransactionKind

_OWED = sa.select(account_store.ACCOUNTS.c.owner, account_store.ACCOUNTS.c.debt).where(
    account_store.ACCOUNTS.c.debt > 0
)


def add_debts(connection: sa.Connection, missing: Mapping[int, int]) -> None:
    """Add the unpaid amounts to the debts of these owners."""
    tenants = {
        owner: account_store.ensure(connection, AccountKind.TENANT, owner).id for owner in missing
    }
    account_store.add(connection, "debt", {tenants[owner]: some for owner, some in missing.items()})


def collect(connection: sa.Connection, cause: str, at_s: float) -> dict[int, int]:
    """Collect all debts as far as possible; return, by owner, the remaining debt.

    `cause` is the reference of the triggering transaction; each collection for it is posted once.
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
    """Return, by account, its payment towards its owner's debt."""
    left, moves = debtor.debt, {}
    own_first = sorted(
        theirs, key=lambda account: (account.kind is not AccountKind.TENANT, account.id)
    )
    for account in own_first:
        amount = min(left, max(account.free, 0))
        if amount:
            moves[account.id] = amount
            left -= amount
    return moves


def of_owners(connection: sa.Connection) -> dict[int, int]:
    """Return, by owner, the debt of each debtor, as of this transaction."""
    rows = connection.execute(_OWED)
    return {owner: debt for owner, debt in rows}  # noqa: C416 - rows are no pairs to mypy
