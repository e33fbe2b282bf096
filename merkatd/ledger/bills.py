"""Charging: a period's bill is settled once, VM by VM to the micro-credit, and can be voided."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa

from merkatd.cluster import Floats, Ints
from merkatd.currency import MICRO, solvency
from merkatd.currency.credits import divided_exactly
from merkatd.database.ledger import (
    account_store,
    budget_store,
    charge_store,
    entry_store,
    note_store,
    reservation_store,
    usage_store,
)
from merkatd.database.ledger import charge_store as stored_arrears
from merkatd.database.ledger.charge_store import Charged
from merkatd.database.ledger.entry_store import MAX_AMOUNT, OverdrawnError, Posting, TransactionKind
from merkatd.database.ledger.note_store import Note, NoteKind
from merkatd.database.ledger.rollup_store import rolled_up_to
from merkatd.database.ledger.usage_store import Detail
from merkatd.database.scheduler import period_store
from merkatd.database.scheduler.period_store import PeriodState
from merkatd.ledger import debts
from merkatd.ledger.errors import LedgerError
from merkatd.ledger.reservations import release, return_closed


@dataclass(frozen=True, slots=True, eq=False)
class Bill:
    """What the VMs owe for a period, a row each."""

    period: int
    vm: Ints
    account: Ints
    """Who pays."""
    owed: Ints
    """[vms, resources]: micro-credits, for CPU and memory, or for network and disk too."""
    allocation: Floats
    """[vms, resources]"""
    seconds: Floats
    """[vms]: for how long each is charged."""
    names: Sequence[str]
    intervals: float = 1.0
    """How long the period was."""

    def by_account(self) -> dict[int, int]:
        """What each account owes."""
        found: Counter[int] = Counter()
        each = self.owed.sum(axis=1).tolist()
        for account, amount in zip(self.account.tolist(), each, strict=True):
            found[account] += amount
        # Nobody can hold more; what is asked for beyond can't be paid either way.
        return {account: min(amount, MAX_AMOUNT) for account, amount in found.items()}


@dataclass(frozen=True, slots=True)
class SettledBill:
    """What settling a bill came to."""

    taken: int
    """Micro-credits."""
    missing: int
    """Owed and not taken: added to the debts of the owners."""


def settle_bill(connection: sa.Connection, bill: Bill, at_s: float) -> SettledBill:
    """Take what is owed from what is reserved and free, once, however often this is called.

    What a payer lacks is its owner's debt from now on, and is collected at once from whatever else
    the owner can move.
    """
    account_store.lock_books(connection)
    if bill.period <= rolled_up_to(connection) or usage_store.has_details(connection, bill.period):
        release(connection, bill.period, at_s)
        return SettledBill(0, 0)
    freed = reservation_store.release(connection, bill.period)
    owed = _countable(connection, bill.by_account())
    result = charge_store.charge(connection, bill.period, owed, at_s)
    if result.before:
        raise LedgerError(f"period {bill.period} was charged before, without details")
    usage_store.store(
        connection,
        Detail(
            period=bill.period,
            at_s=at_s,
            vm=bill.vm,
            account=bill.account,
            seconds=bill.seconds,
            allocation=bill.allocation,
            charged=_charged(bill, result),
            names=bill.names,
        ),
    )
    cause = f"charge/{bill.period}"
    return_closed(connection, {*freed, *result.taken}, cause, at_s)
    short = _owners(connection, result.missing)
    debts.owe(connection, short)
    owing = debts.collect(connection, cause, at_s)
    before = stored_arrears.load(connection)
    counts = solvency.arrears_after(before, short.keys() & owing, owing, bill.intervals)
    stored_arrears.replace(connection, counts)
    return SettledBill(sum(result.taken.values()), sum(result.missing.values()))


def _countable(connection: sa.Connection, owed: Mapping[int, int]) -> Mapping[int, int]:
    """Return what accounts owe, no more for an owner than its debt can still grow by."""
    debt = debts.of_owners(connection)
    if sum(owed.values()) + max(debt.values(), default=0) <= MAX_AMOUNT:
        return owed
    found = dict(owed)
    for account in account_store.get(connection, owed).values():
        if account.owner is not None:
            before = debt.get(account.owner, 0)
            found[account.id] = min(owed[account.id], MAX_AMOUNT - before)
            debt[account.owner] = before + found[account.id]
    return found


def short_at(connection: sa.Connection, at_s: float) -> frozenset[int]:
    """The owners that could not pay in full for periods that were charged at this time."""
    newest = period_store.recent(connection, 100, PeriodState.CHARGED)
    charged = [one.number for one in newest if one.charged_s == at_s]
    missing = [charge_store.shortfalls(connection, number) for number in charged]
    return frozenset(owner for one in missing for owner in _owners(connection, one))


def _owners(connection: sa.Connection, missing: Mapping[int, int]) -> dict[int, int]:
    """By owner: what its accounts could not pay together."""
    found: Counter[int] = Counter()
    for account in account_store.get(connection, missing).values():
        if account.owner is not None:
            found[account.owner] += missing[account.id]
    return dict(found)


def _charged(bill: Bill, result: Charged) -> Ints:
    """[vms, resources]: what was taken for each; who is short pays the same part of everything."""
    charged = bill.owed.copy()
    for account in result.missing:
        rows = np.flatnonzero(bill.account == account)
        dealt = divided_exactly(result.taken[account], bill.owed[rows].ravel().tolist())
        charged[rows] = np.array(dealt, dtype=np.int64).reshape(len(rows), -1)
    return charged


def void_period(connection: sa.Connection, period: int, why: str, who: str, at_s: float) -> int:
    """Give back all that was charged for a period, once; the micro-credits that were.

    A period in quarantine is closed by this: it will not be charged.
    """
    account_store.lock_books(connection)
    if period <= rolled_up_to(connection):
        raise LedgerError(f"period {period} is too long ago: its charges are kept by the day")
    if period_store.get(connection, period) is None:
        raise LedgerError(f"there is no period {period}")
    if period_store.waits_for_charge(connection, period):
        raise LedgerError(
            f"period {period} is not charged yet: the next period charges it, then it can be void"
        )
    try:
        amount = charge_store.refund(connection, period, at_s)
        amount += _forgive(connection, period, at_s)
    except OverdrawnError as error:
        raise LedgerError(f"period {period} can't be given back yet: {error}") from None
    if period_store.close_quarantine(connection, period, at_s, f"void: {why}"):
        text = f"period {period} is void and will not be charged: {why}"
        note_store.add(connection, Note(at_s=at_s, kind=NoteKind.VOID, who=who, text=text))
    if amount:
        cause = f"refund/{period}"
        return_closed(connection, charge_store.payers_of(connection, period), cause, at_s)
        debts.collect(connection, cause, at_s)
        text = f"period {period} is void, {amount / MICRO:.6f} credits given back: {why}"
        note_store.add(connection, Note(at_s=at_s, kind=NoteKind.VOID, who=who, text=text))
    return amount


def _forgive(connection: sa.Connection, period: int, at_s: float) -> int:
    """Take what could not be charged for a period off its owners' debts, once.

    What of it was collected already is given back; how many micro-credits those are.
    """
    reference = f"refund/{period}/owed"
    if entry_store.posted(connection, [reference]):
        return 0
    treasury = account_store.treasury(connection).id
    forgiven: dict[int, int] = {}
    back: dict[int, int] = {}
    for owner, amount in _owners(connection, charge_store.shortfalls(connection, period)).items():
        tenant = account_store.of_owner(connection, owner, locked=True)[0]
        forgiven[tenant.id] = -min(amount, tenant.debt)
        back[tenant.id] = amount - min(amount, tenant.debt)
    moves = {treasury: -sum(back.values()), **back} if any(back.values()) else {}
    entry_store.post(connection, [Posting(TransactionKind.REFUND, reference, moves)], at_s)
    account_store.add(connection, "debt", forgiven)
    return sum(back.values())


def payers(
    connection: sa.Connection, owners: Sequence[int], applications: Sequence[int]
) -> list[int]:
    """The account that pays for each VM: its application's, or its owner's; -1 where it has none.

    An application that is over, or is somebody else's, pays for nothing.
    """
    tenant = account_store.of_tenants(connection, owners)
    running = {one.application: one.owner for one in budget_store.open_ones(connection)}
    return [
        application if running.get(application) == owner else tenant.get(owner, -1)
        for owner, application in zip(owners, applications, strict=True)
    ]
