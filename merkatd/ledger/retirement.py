"""Retirement: closing the accounts of a tenant after OpenNebula has removed its user.

The credits of its applications go to its own account, its debt is collected there, and the rest
goes to the treasury. The remaining debt is forgiven. A retired tenant gets no renewals and does not
count for the supply. A later refund is treated in the same way.
"""

from dataclasses import dataclass

import sqlalchemy as sa

from merkatd.currency import MICRO
from merkatd.database.ledger import (
    account_store,
    budget_store,
    charge_store,
    entry_store,
    note_store,
)
from merkatd.database.ledger import tenant_store as stored
from merkatd.database.ledger.account_store import ACCOUNTS
from merkatd.database.ledger.entry_store import Posting, TransactionKind
from merkatd.database.ledger.note_store import Note, NoteKind, RoundKind
from merkatd.database.ledger.tenant_store import TENANTS
from merkatd.ledger import debts
from merkatd.ledger.budgets import end_application

WHO = "OpenNebula"
_HOLDING = (
    sa.select(ACCOUNTS.c.owner)
    .join(TENANTS, TENANTS.c.owner == ACCOUNTS.c.owner)
    .where(TENANTS.c.retired_s.is_not(None), (ACCOUNTS.c.balance > 0) | (ACCOUNTS.c.debt > 0))
    .distinct()
    .order_by(ACCOUNTS.c.owner)
)


@dataclass(frozen=True, slots=True)
class RetirementResult:
    """The result of closing a tenant's accounts, in micro-credits."""

    returned: int
    """The amount returned to the treasury."""
    forgiven: int
    """The debt that was forgiven."""

    def __str__(self) -> str:
        """Describe the retirement for administrators."""
        owed = f"; {self.forgiven / MICRO:.6f} credits of debt are forgiven"
        return (
            "OpenNebula has removed the user: retired,"
            f" {self.returned / MICRO:.6f} credits went to the treasury"
            f"{owed if self.forgiven else ''}"
        )


def retire(connection: sa.Connection, owner: int, at_s: float) -> RetirementResult | None:
    """Close a tenant's accounts; return None while credits are reserved for a coming charge."""
    account_store.lock_books(connection)
    if any(account.reserved for account in account_store.of_owner(connection, owner, locked=True)):
        return None
    for budget in budget_store.of_owner(connection, owner):
        if budget.ended_s is None:
            end_application(connection, budget.application, at_s)
    cause = f"retire/{note_store.begin_round(connection, RoundKind.RETIREMENT, at_s)}"
    debts.collect(connection, cause, at_s)
    theirs = account_store.of_owner(connection, owner, locked=True)
    treasury = account_store.treasury(connection).id
    returned = sum(account.balance for account in theirs)
    if returned:
        moves = {account.id: -account.balance for account in theirs if account.balance}
        posting = Posting(TransactionKind.RETIREMENT, cause, {**moves, treasury: returned})
        entry_store.post(connection, [posting], at_s)
    forgiven = sum(account.debt for account in theirs)
    account_store.add(connection, "debt", {account.id: -account.debt for account in theirs})
    charge_store.write_off(connection, [account.id for account in theirs], forgiven)
    charge_store.forget(connection, [owner])
    known = stored.get(connection, owner)
    if known is not None and known.retired_s is None:
        stored.retire(connection, owner, at_s)
    result = RetirementResult(returned, forgiven)
    note = Note(at_s=at_s, kind=NoteKind.RETIREMENT, who=WHO, owner=owner, text=str(result))
    note_store.add(connection, note)
    return result


def holding(connection: sa.Connection) -> tuple[int, ...]:
    """Return the retired tenants with credits or debts: they received a late refund."""
    return tuple(connection.scalars(_HOLDING))
