"""Renewals and the supply: credits from the treasury to tenants, and into the treasury."""

import math

import sqlalchemy as sa

from merkatd.base.quantities import exact_credits_text
from merkatd.currency import MICRO
from merkatd.currency.credits import day_of
from merkatd.currency.income import RenewalPart as Claim
from merkatd.currency.income import SupplyChange, incomes, supply_change
from merkatd.currency.settings import DAY_S, MoneySettings
from merkatd.database.ledger import account_store, entry_store, note_store
from merkatd.database.ledger import tenant_store as stored
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.ledger.entry_store import Posting, TransactionKind
from merkatd.database.ledger.note_store import Note, NoteKind, RoundKind
from merkatd.database.scheduler import price_store
from merkatd.ledger import debts
from merkatd.ledger.tenants import FIRST_ISSUE, issue, standings, supply_of

POLICY = "the supply policy"
CONFIGURATION = "the configuration"


def renew_if_due(connection: sa.Connection, money: MoneySettings, at_s: float) -> int:
    """Renew if an interval has passed; return the micro-credits paid out.

    The first interval begins with the first call; until its end, tenants live on their starting
    credits.
    """
    account_store.lock_books(connection)
    if note_store.newest(connection, RoundKind.RENEWAL) is None:
        note_store.begin_round(connection, RoundKind.RENEWAL, at_s)
    if not note_store.round_due(connection, RoundKind.RENEWAL, at_s, money.renewal_s):
        return 0
    return renew(connection, "the interval", at_s)


def renew_once(connection: sa.Connection, reference: str, who: str, at_s: float) -> int:
    """Renew by order; return the micro-credits paid out.

    The caller chooses `reference` for this one order: a second call with it pays nothing. Without
    it, a repeated transaction would pay debtors twice, as a debt takes the first income at once.
    """
    account_store.lock_books(connection)
    order = f"renewal/{reference}/"
    for done in entry_store.transactions_below(connection, order):
        paid = entry_store.transactions_below(connection, f"income/{done.removeprefix(order)}/")
        return sum(max(entry_store.amounts_of(connection, id_).values()) for id_ in paid.values())
    number, total = _renewed(connection, who, at_s)
    entry_store.post(connection, [Posting(TransactionKind.INCOME, f"{order}{number}", {})], at_s)
    return total


def renew(connection: sa.Connection, who: str, at_s: float) -> int:
    """Top every tenant up to its part of the supply; return the micro-credits paid out."""
    return _renewed(connection, who, at_s)[1]


def _renewed(connection: sa.Connection, who: str, at_s: float) -> tuple[int, int]:
    """Renew; return the number of the renewal and the micro-credits paid out."""
    account_store.lock_books(connection)
    number = note_store.begin_round(connection, RoundKind.RENEWAL, at_s)
    account_store.issuance(connection)
    every = account_store.holding(connection, locked=True)
    known = standings(connection, every)
    account = {tenant.owner: tenant.account for tenant in known}
    claims = [
        Claim(tenant.owner, tenant.weight, tenant.holdings)
        for tenant in known
        if tenant.retired_s is None
    ]
    (treasury,) = (account for account in every if account.kind is AccountKind.TREASURY)
    (issued,) = (-account.balance for account in every if account.kind is AccountKind.ISSUANCE)
    paid = incomes(issued, treasury.balance, claims)
    postings = [
        Posting(
            TransactionKind.INCOME,
            f"income/{number}/{owner}",
            {treasury.id: -amount, account[owner]: amount},
        )
        for owner, amount in paid.items()
        if amount
    ]
    entry_store.post(connection, postings, at_s)
    debts.collect(connection, f"income/{number}", at_s)
    total = sum(paid.values())
    text = f"renewal {number}: {total / MICRO:.6f} credits to {len(postings)} tenants"
    note_store.add(connection, Note(at_s=at_s, kind=NoteKind.RENEWAL, who=who, text=text))
    return number, total


def keep_supply(
    connection: sa.Connection, money: MoneySettings, at_s: float
) -> SupplyChange | None:
    """Adjust the supply: to the policy once a day, or else to the configuration or the weights."""
    account_store.lock_books(connection)
    weights = [tenant.weight for tenant in stored.active(connection)]
    configured = money.supply_for(weights)
    if note_store.newest(connection, RoundKind.SUPPLY) is None:
        note_store.begin_round(connection, RoundKind.SUPPLY, at_s)
        if money.supply > 0:
            issue(connection, configured, FIRST_ISSUE, at_s)
    if money.policy.enabled:
        return _by_policy(connection, money, configured, at_s)
    present = supply_of(connection)
    if present == configured:
        return None
    reason = f"the configured supply is {exact_credits_text(money.supply)} credits"
    if money.supply <= 0:
        reason = (
            f"{exact_credits_text(money.starting_credits)} credits for each of {len(weights)}"
            f" tenants, times its weight, {math.fsum(weights):g} in all"
        )
    return _change(connection, SupplyChange(present, configured, reason), CONFIGURATION, at_s)


def _by_policy(
    connection: sa.Connection, money: MoneySettings, configured: int, at_s: float
) -> SupplyChange | None:
    if not note_store.round_due(connection, RoundKind.SUPPLY, at_s, DAY_S):
        return None
    note_store.begin_round(connection, RoundKind.SUPPLY, at_s)
    changed = note_store.recent(connection, 1, kind=NoteKind.SUPPLY)
    wanted = money.policy.days
    # Wait until the recorded prices show the whole effect of the last change.
    if changed and at_s < changed[0].at_s + 2 * wanted * DAY_S:
        return None
    today = day_of(at_s)
    days = price_store.daily(connection, (today - 2 * wanted) * DAY_S, today * DAY_S)
    change = supply_change(money.policy, configured, supply_of(connection), days)
    return None if change is None else _change(connection, change, POLICY, at_s)


def _change(
    connection: sa.Connection, change: SupplyChange, who: str, at_s: float
) -> SupplyChange | None:
    """Post the change as far as the treasury allows, with a note; None if nothing can change."""
    number = note_store.begin_round(connection, RoundKind.SUPPLY, at_s)
    issuance, treasury = (
        account_store.issuance(connection).id,
        account_store.treasury(connection).id,
    )
    held = account_store.lock(connection, [issuance, treasury])[treasury].balance
    amount = max(change.new - change.old, -held)
    if not amount:
        return None
    moves = {issuance: -amount, treasury: amount}
    posting = Posting(TransactionKind.ISSUE, f"issue/{number}", moves)
    entry_store.post(connection, [posting], at_s)
    made = SupplyChange(change.old, change.old + amount, change.reason)
    text = f"supply {made.old / MICRO:.6f} -> {made.new / MICRO:.6f} credits: {made.reason}"
    note_store.add(connection, Note(at_s=at_s, kind=NoteKind.SUPPLY, who=who, text=text))
    return made
