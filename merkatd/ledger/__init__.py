"""The ledger: the accounts, as functions on a connection and as `Ledger` for async code.

All amounts are whole micro-credits. A refused call raises LedgerError with what is accepted, or
NotFoundError for an unknown tenant, application or account. The caller checks rights: weights,
grants, renewals and refunds are for administrators. A budget, a statement or a balance is for its
owner and administrators.
"""

from merkatd.currency import MICRO, MOST_CREDITS, credits_of, micro
from merkatd.currency.credits import Month, month_of, parse_month
from merkatd.currency.settings import MoneySettings
from merkatd.currency.statement import Statement, StatementLine
from merkatd.database.ledger.budget_store import BudgetRow
from merkatd.database.ledger.entry_store import EntryRow
from merkatd.database.ledger.note_store import Note, NoteKind
from merkatd.ledger.bills import Bill, SettledBill, payers, settle_bill, short_at, void_period
from merkatd.ledger.budgets import (
    budget_of,
    budgets_of,
    end_application,
    open_application,
    open_numbered_application,
    replenish,
    set_budget,
)
from merkatd.ledger.debts import of_owners as debts_of
from merkatd.ledger.errors import LedgerError, NotFoundError
from merkatd.ledger.ledger import Ledger
from merkatd.ledger.month_totals import MonthTotal
from merkatd.ledger.renewals import keep_supply, renew, renew_if_due
from merkatd.ledger.reservations import release, reserve
from merkatd.ledger.retirement import RetirementResult, holding, retire
from merkatd.ledger.statements import fold_details, forget, statement
from merkatd.ledger.tenants import (
    Person,
    TenantAccount,
    accounts_of,
    balance,
    grant,
    history,
    open_tenant,
    set_group_weight,
    set_weight,
    supply_of,
    tenant,
    tenants,
    update_tenants,
)

__all__ = [
    "MICRO",
    "MOST_CREDITS",
    "Bill",
    "BudgetRow",
    "EntryRow",
    "Ledger",
    "LedgerError",
    "MoneySettings",
    "Month",
    "MonthTotal",
    "NotFoundError",
    "Note",
    "NoteKind",
    "Person",
    "RetirementResult",
    "SettledBill",
    "Statement",
    "StatementLine",
    "TenantAccount",
    "accounts_of",
    "balance",
    "budget_of",
    "budgets_of",
    "credits_of",
    "debts_of",
    "end_application",
    "fold_details",
    "forget",
    "grant",
    "history",
    "holding",
    "keep_supply",
    "micro",
    "month_of",
    "open_application",
    "open_numbered_application",
    "open_tenant",
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
    "settle_bill",
    "short_at",
    "statement",
    "supply_of",
    "tenant",
    "tenants",
    "update_tenants",
    "void_period",
]
