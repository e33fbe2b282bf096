"""The ledger: keeps the accounts. Functions on a connection, and `Ledger` for async code.

All amounts are whole micro-credits. What is refused raises LedgerError with what would be
right, NotFoundError where there is no such thing. Who may ask for what is settled by whoever
calls: weights, grants, renewals and refunds are for administrators, an application's budget
for its owner and them, statements and balances likewise.
"""

from merkatd.currency import MICRO, MOST_CREDITS, credits_of, micro
from merkatd.currency.credits import Month, month_of, parse_month
from merkatd.currency.settings import Money
from merkatd.currency.statement import Statement, StatementLine
from merkatd.database.ledger.budget_store import Budget
from merkatd.database.ledger.entry_store import Entry
from merkatd.database.ledger.note_store import Note, NoteKind
from merkatd.ledger.bills import Bill, Settled, payers, settle, short_at, void
from merkatd.ledger.budgets import (
    budget_of,
    budgets_of,
    end_application,
    open_application,
    replenish,
    set_budget,
)
from merkatd.ledger.debts import of_owners as debts_of
from merkatd.ledger.errors import LedgerError, NotFoundError
from merkatd.ledger.ledger import Ledger
from merkatd.ledger.renewals import keep_supply, renew, renew_if_due
from merkatd.ledger.reservations import release, reserve
from merkatd.ledger.retirement import Retired, holding, retire
from merkatd.ledger.statements import fold, forget, statement
from merkatd.ledger.tenants import (
    Person,
    Standing,
    accounts_of,
    balance,
    grant,
    history,
    meet,
    met,
    set_group_weight,
    set_weight,
    supply_of,
    tenant,
    tenants,
)

__all__ = [
    "MICRO",
    "MOST_CREDITS",
    "Bill",
    "Budget",
    "Entry",
    "Ledger",
    "LedgerError",
    "Money",
    "Month",
    "NotFoundError",
    "Note",
    "NoteKind",
    "Person",
    "Retired",
    "Settled",
    "Standing",
    "Statement",
    "StatementLine",
    "accounts_of",
    "balance",
    "budget_of",
    "budgets_of",
    "credits_of",
    "debts_of",
    "end_application",
    "fold",
    "forget",
    "grant",
    "history",
    "holding",
    "keep_supply",
    "meet",
    "met",
    "micro",
    "month_of",
    "open_application",
    "parse_month",
    "payers",
    "release",
    "renew",
    "renew_if_due",
    "replenish",
    "reserve",
    "retire",
    "set_budget",
    "set_group_weight",
    "set_weight",
    "settle",
    "short_at",
    "statement",
    "supply_of",
    "tenant",
    "tenants",
    "void",
]
