"""Reserving: a decision keeps back what its charge can take, so that nobody moves it away first.

The charge of the period releases the reservation and takes what is owed (`charging.settle`). A
period that will never be charged releases it too. Until then every other movement out of an
account goes against its balance less what is reserved.
"""

from collections.abc import Iterable, Mapping

import sqlalchemy as sa

from merkatd.database.ledger import account_store, budget_store, entry_store, reservation_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.ledger.entry_store import Posting, TransactionKind
from merkatd.ledger import debts


def reserve(connection: sa.Connection, period: int, most: Mapping[int, int], at_s: float) -> None:
    """Reserve what a period can cost each account at most, as far as it has that free.

    In place of an earlier reservation for it: what an application held by that one alone, and is
    over, goes to its tenant.
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
    """Free what is reserved for a period that will not be charged; debts are collected from it."""
    account_store.lock_books(connection)
    freed = reservation_store.release(connection, period)
    if freed:
        cause = f"release/{period}"
        return_closed(connection, freed, cause, at_s)
        debts.collect(connection, cause, at_s)


def return_closed(connection: sa.Connection, among: Iterable[int], cause: str, at_s: float) -> None:
    """Move what applications that are over still hold to their tenants, as far as it is free.

    Only accounts `among` these are looked at. `cause` is the reference of what freed it.
    """
    found = account_store.lock(connection, among)
    over = budget_store.ended_among(
        connection, [one.id for one in found.values() if one.kind is AccountKind.APPLICATION]
    )
    postings = []
    for account in sorted(over):
        held = found[account]
        if held.free > 0:
            tenant = account_store.ensure(connection, AccountKind.TENANT, held.owner).id
            moves = {account: -held.free, tenant: held.free}
            postings.append(Posting(TransactionKind.BUDGET, f"end/{account}/{cause}", moves))
    entry_store.post_new(connection, postings, at_s)
