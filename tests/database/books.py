"""A ledger with a supply and tenants, for tests of money."""

import sqlalchemy as sa

from merkatd.database.ledger import account_store, entry_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.ledger.entry_store import Posting, TransactionKind


def open_accounts(connection: sa.Connection, holdings: list[int]) -> list[int]:
    """Return the accounts of tenants with the given holdings and an empty treasury."""
    issuance = account_store.issuance(connection).id
    treasury = account_store.treasury(connection).id
    supply = sum(holdings)
    tenants = [
        account_store.ensure(connection, AccountKind.TENANT, owner, f"tenant {owner}").id
        for owner in range(len(holdings))
    ]
    moves = {tenant: held for tenant, held in zip(tenants, holdings, strict=True) if held}
    postings = [
        Posting(TransactionKind.ISSUE, "issue/0", {issuance: -supply, treasury: supply}),
        Posting(TransactionKind.INCOME, "income/0", {treasury: -supply, **moves}),
    ]
    entry_store.post(connection, postings, 0.0)
    return tenants


def balances(connection: sa.Connection) -> dict[int, int]:
    """Return the balance of each account."""
    return {account.id: account.balance for account in account_store.every(connection)}
