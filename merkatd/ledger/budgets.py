"""Budgets of applications: opening, changing, replenishing and ending them."""

from dataclasses import replace

import sqlalchemy as sa

from merkatd.base.quantities import exact_credits_text
from merkatd.currency import MICRO
from merkatd.currency.income import Refill, replenishments
from merkatd.database.ledger import account_store, budget_store, entry_store, note_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.ledger.budget_store import BudgetRow
from merkatd.database.ledger.entry_store import MAX_AMOUNT, Posting, TransactionKind
from merkatd.database.ledger.note_store import Note, NoteKind, RoundKind
from merkatd.ledger.errors import LedgerError, NotFoundError, balance_text
from merkatd.ledger.tenants import present


def open_application(
    connection: sa.Connection,
    owner: int,
    name: str,
    initial: int,
    replenishment: int,
    at_s: float,
) -> BudgetRow:
    """Open an application with a budget from the tenant's account.

    A name belongs to one application for ever: a second call with the same name returns that
    application unchanged.
    """
    if not 1 <= len(name) <= 128:
        raise LedgerError(f"an application's name must have 1 to 128 characters (got {len(name)})")
    account_store.lock_books(connection)
    tenant = account_store.find(connection, AccountKind.TENANT, owner)
    if tenant is None:
        raise NotFoundError(
            f"user {owner} is not a tenant yet: a user becomes one with its first VM"
        )
    present(connection, owner)
    account = account_store.ensure(connection, AccountKind.APPLICATION, owner, name)
    if budget_store.get(connection, account.id) is None:
        _checked(initial, replenishment)
        budget_store.store(connection, account.id, initial, replenishment, at_s)
        _move(connection, tenant.id, account.id, initial, f"open/{account.id}", at_s)
    return budget_of(connection, account.id)


def open_numbered_application(
    connection: sa.Connection,
    owner: int,
    name: str,
    token: str,
    initial: int,
    replenishment: int,
    at_s: float,
) -> BudgetRow:
    """Open an application called NAME-ID, with the id that it gets.

    Its name until then is made of `token`, which no other application may have.
    """
    opened = open_application(connection, owner, f"new {token}", initial, replenishment, at_s)
    numbered = f"{name}-{opened.application}"
    account_store.rename(connection, opened.application, numbered)
    return replace(opened, name=numbered)


def budget_of(connection: sa.Connection, application: int) -> BudgetRow:
    """Return the budget of an application. Raise NotFoundError if it does not exist."""
    budget = budget_store.get(connection, application)
    if budget is None:
        raise NotFoundError(f"there is no application {application}")
    return budget


def budgets_of(connection: sa.Connection, owner: int | None = None) -> tuple[BudgetRow, ...]:
    """Return the budgets of a tenant's applications, or of all open applications."""
    if owner is None:
        return budget_store.open_ones(connection)
    return budget_store.of_owner(connection, owner)


def set_budget(
    connection: sa.Connection,
    application: int,
    amount: int | None,
    replenishment: int | None,
    reference: str,
    who: str,
    at_s: float,
) -> BudgetRow:
    """Change the initial amount, the replenishment, or both; the balance becomes the new amount.

    Excess credits go back to the tenant. Missing credits come from the tenant; if it can't pay, the
    change is refused. The caller chooses `reference`: a second call with it changes nothing.
    """
    before = _locked(connection, application)
    if before.ended_s is not None:
        raise LedgerError(f"application {application} ({before.name}) has ended")
    initial = before.initial if amount is None else amount
    refill = before.replenishment if replenishment is None else replenishment
    _checked(initial, refill)
    full = f"budget/{application}/{reference}"
    if entry_store.posted(connection, [full]):
        return before
    tenant = _tenant_of(connection, before)
    held = account_store.lock(connection, [application])[application].balance
    change = 0 if amount is None else amount - held
    _move(connection, tenant, application, change, full, at_s)
    budget_store.change(connection, application, initial, refill)
    text = (
        f"application {application} ({before.name}): budget {exact_credits_text(initial / MICRO)},"
        f" replenishment {exact_credits_text(refill / MICRO)}, {change / MICRO:+.6f} credits"
    )
    note_store.add(
        connection, Note(at_s=at_s, kind=NoteKind.BUDGET, who=who, owner=before.owner, text=text)
    )
    return budget_of(connection, application)


def end_application(connection: sa.Connection, application: int, at_s: float) -> int:
    """End the application; return the micro-credits that went back to its tenant.

    Credits reserved for its last charge go back once that charge is made.
    """
    budget = _locked(connection, application)
    if budget.ended_s is not None:
        return 0
    tenant = _tenant_of(connection, budget)
    held = account_store.lock(connection, [application, tenant])[application].free
    moves = {application: -held, tenant: held} if held else {}
    posting = Posting(TransactionKind.BUDGET, f"end/{application}", moves)
    entry_store.post(connection, [posting], at_s)
    budget_store.end(connection, application, at_s)
    return held


def replenish(connection: sa.Connection, interval_s: float, at_s: float) -> int:
    """Replenish all budgets if an interval has passed; return the micro-credits moved."""
    account_store.lock_books(connection)
    if not note_store.round_due(connection, RoundKind.REPLENISHMENT, at_s, interval_s):
        return 0
    number = note_store.begin_round(connection, RoundKind.REPLENISHMENT, at_s)
    by_owner: dict[int, list[BudgetRow]] = {}
    for budget in budget_store.open_ones(connection, locked=True):
        by_owner.setdefault(budget.owner, []).append(budget)
    postings = []
    for owner, theirs in by_owner.items():
        tenant = _tenant_of(connection, theirs[0])
        held = account_store.lock(connection, [tenant, *(budget.application for budget in theirs)])
        refills = [
            Refill(
                budget.application,
                budget.initial,
                budget.replenishment,
                held[budget.application].balance,
            )
            for budget in theirs
        ]
        amounts = {
            account: some
            for account, some in replenishments(held[tenant].free, refills).items()
            if some
        }
        if amounts:
            moves = {tenant: -sum(amounts.values()), **amounts}
            reference = f"replenish/{number}/{owner}"
            postings.append(Posting(TransactionKind.REPLENISHMENT, reference, moves))
    entry_store.post(connection, postings, at_s)
    return sum(-min(posting.amounts.values()) for posting in postings)


def _locked(connection: sa.Connection, application: int) -> BudgetRow:
    """Lock and return the budget: no other transaction moves credits until this one ends."""
    account_store.lock_books(connection)
    budget = budget_store.get(connection, application, locked=True)
    if budget is None:
        raise NotFoundError(f"there is no application {application}")
    return budget


def _tenant_of(connection: sa.Connection, budget: BudgetRow) -> int:
    return account_store.ensure(connection, AccountKind.TENANT, budget.owner).id


def _checked(initial: int, replenishment: int) -> None:
    for what, amount in (("a budget", initial), ("a replenishment", replenishment)):
        if not 0 <= amount <= MAX_AMOUNT:
            raise LedgerError(
                f"{what} must be between 0 and {MAX_AMOUNT // MICRO} credits"
                f" (got {exact_credits_text(amount / MICRO)})"
            )


def _move(
    connection: sa.Connection,
    tenant: int,
    application: int,
    amount: int,
    reference: str,
    at_s: float,
) -> None:
    """Move micro-credits to the application, or back to its tenant. Raise LedgerError if short."""
    held = account_store.lock(connection, [tenant, application])
    source = held[tenant] if amount > 0 else held[application]
    if abs(amount) > source.free:
        name = "the tenant" if amount > 0 else f"application {application} ({source.name})"
        raise LedgerError(
            f"{exact_credits_text(abs(amount) / MICRO)} credits can't be moved: {name} has"
            f" {balance_text(source)}"
        )
    moves = {tenant: -amount, application: amount} if amount else {}
    entry_store.post(connection, [Posting(TransactionKind.BUDGET, reference, moves)], at_s)
