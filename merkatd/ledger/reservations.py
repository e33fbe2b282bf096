"""Reservations: credits that a decision keeps for its charge, so that they can't be moved first.

The charge of the period releases the reservation and takes the amount owed (`bills.settle_bill`). A
period that is never charged releases it too. Until then, only the balance less the reserved amount
can be moved.
"""

from collections.abc import Iterable, Mapping

import sqlalchemy as sa

from merkatd.database.ledger import account_store, budget_store, entry_store, reservation_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.ledger.entry_store import Posting, TransactionKind
from merkatd.ledger import debts


def reserve(connection: sa.Connection, period: int, most: Mapping[int, int], at_s: float) -> None:
    """Reserve the highest possible cost of a period for each account, up to its free credits.

    This replaces an earlier reservation for the same period. If an ended application held credits
    only because of that one, they go to its tenant.
    """
    account_store.lock_books(connection)
    freed = reservation_store.release(connection, period)
    held = account_store.lock(connection, most)
    possible = {
        account: min(amount, max(held[account].free, 0))
        for account, amount in most.items()
        if account in held
    }
    reservation_store.store(connection, period, possible)
    return_closed(connection, freed, f"reserve/{period}", at_s)


def release(connection: sa.Connection, period: int, at_s: float) -> None:
    """Release the reservation of a period without a charge, and collect debts from it."""
    account_store.lock_books(connection)
    freed = reservation_store.release(connection, period)
    if freed:
        cause = f"release/{period}"
        return_closed(connection, freed, cause, at_s)
        debts.collect(connection, cause, at_s)


def return_closed(connection: sa.Connection, among: Iterable[int], cause: str, at_s: float) -> None:
    """Move the free credits of ended applications to their tenants.

    Only the accounts `among` these are checked. `cause` is the reference of what freed the credits.
    """
    accounts = account_store.lock(connection, among)
    over = budget_store.ended_among(
        connection,
        [account.id for account in accounts.values() if account.kind is AccountKind.APPLICATION],
    )
    postings = []
    for account in sorted(over):
        held = accounts[account]
        if held.free > 0:
            tenant = account_store.ensure(connection, AccountKind.TENANT, held.owner).id
            moves = {account: -held.free, tenant: held.free}
            postings.append(Posting(TransactionKind.BUDGET, f"end/{account}/{cause}", moves))
    entry_store.post_new(connection, postings, at_s)
