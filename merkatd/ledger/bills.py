"""Charging: the bill of a period, settled once, exact to the micro-credit for each VM."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
from merkatd.database.ledger.charge_store import ChargeResult
from merkatd.database.ledger.entry_store import MAX_AMOUNT, OverdrawnError, Posting, TransactionKind
from merkatd.database.ledger.note_store import Note, NoteKind
from merkatd.database.ledger.rollup_store import rolled_up_to
from merkatd.database.ledger.usage_store import Detail
from merkatd.database.scheduler import period_store
from merkatd.ledger import debts
from merkatd.ledger.errors import LedgerError
from merkatd.ledger.reservations import release, return_closed


@dataclass(frozen=True, slots=True, eq=False)
class Bill:
    """The debts of all VMs for a period, one row each."""

    period: int
    vm: Ints
    account: Ints
    """[vms]: the paying account."""
    owed: Ints
    """[vms, resources]: micro-credits, for CPU and memory, or for network and disk too."""
    allocation: Floats
    """[vms, resources]: the allocated amounts."""
    seconds: Floats
    """[vms]: the charged time."""
    names: Sequence[str]
    intervals: float = 1.0
    """The length of the period, in intervals."""

    def plus(
        self, vm: Ints, account: Ints, owed: Ints, seconds: Floats, names: Mapping[int, str]
    ) -> "Bill":
        """Return the bill with further debts; `names` are those of VMs, by id."""
        return replace(
            self,
            vm=np.concatenate([self.vm, vm]),
            account=np.concatenate([self.account, account]),
            owed=np.concatenate([self.owed, owed]),
            allocation=np.concatenate([self.allocation, np.zeros(owed.shape)]),
            seconds=np.concatenate([self.seconds, seconds]),
            names=[*self.names, *(names.get(id_, "") for id_ in vm.tolist())],
        )

    def by_account(self) -> dict[int, int]:
        """Return the total of each account."""
        totals: Counter[int] = Counter()
        each = self.owed.sum(axis=1).tolist()
        for account, amount in zip(self.account.tolist(), each, strict=True):
            totals[account] += amount
        # No balance can exceed this limit, so the rest could not be paid anyway.
        return {account: min(amount, MAX_AMOUNT) for account, amount in totals.items()}


@dataclass(frozen=True, slots=True)
class SettledBill:
    """The result of settling a bill, in micro-credits."""

    taken: int
    """The amount paid."""
    missing: int
    """The amount not paid, which was added to the owners' debts."""


def settle_bill(connection: sa.Connection, bill: Bill, at_s: float) -> SettledBill:
    """Charge the bill to reserved and free credits; a second call changes nothing.

    An unpaid part becomes the owner's debt. It is collected at once from all other credits that the
    owner can move.
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
    debts.add_debts(connection, short)
    owing = debts.collect(connection, cause, at_s)
    before = stored_arrears.load(connection)
    counts = solvency.arrears_after(before, short.keys() & owing, owing, bill.intervals)
    if counts != before:
        stored_arrears.replace(connection, counts)
    return SettledBill(sum(result.taken.values()), sum(result.missing.values()))


def _countable(connection: sa.Connection, owed: Mapping[int, int]) -> Mapping[int, int]:
    """Return the amounts of the accounts, limited so that no owner's debt exceeds its maximum."""
    debt = debts.of_owners(connection)
    if sum(owed.values()) + max(debt.values(), default=0) <= MAX_AMOUNT:
        return owed
    countable = dict(owed)
    for account in account_store.get(connection, owed).values():
        if account.owner is not None:
            before = debt.get(account.owner, 0)
            countable[account.id] = min(owed[account.id], MAX_AMOUNT - before)
            debt[account.owner] = before + countable[account.id]
    return countable


def short_at(connection: sa.Connection, at_s: float) -> frozenset[int]:
    """Return the owners that could not pay in full for the periods charged at this time."""
    charged = period_store.charged_at(connection, at_s)
    missing = [charge_store.shortfalls(connection, number) for number in charged]
    return frozenset(owner for shortfalls in missing for owner in _owners(connection, shortfalls))


def _owners(connection: sa.Connection, missing: Mapping[int, int]) -> dict[int, int]:
    """Return, by owner, the sum that its accounts could not pay."""
    totals: Counter[int] = Counter()
    for account in account_store.get(connection, missing).values():
        if account.owner is not None:
            totals[account.owner] += missing[account.id]
    return dict(totals)


def _charged(bill: Bill, result: ChargeResult) -> Ints:
    """Return [vms, resources]: the amount taken; a short account pays one part of every item."""
    charged = bill.owed.copy()
    for account in result.missing:
        rows = np.flatnonzero(bill.account == account)
        dealt = divided_exactly(result.taken[account], bill.owed[rows].ravel().tolist())
        charged[rows] = np.array(dealt, dtype=np.int64).reshape(len(rows), -1)
    return charged


def void_period(connection: sa.Connection, period: int, why: str, who: str, at_s: float) -> int:
    """Give back all charges of a period, once; return the micro-credits.

    This also closes a period in quarantine: it will not be charged.
    """
    account_store.lock_books(connection)
    if period <= rolled_up_to(connection):
        raise LedgerError(f"period {period} is too old to void: only its daily totals are kept")
    if period_store.get(connection, period) is None:
        raise LedgerError(f"there is no period {period}")
    if period_store.waits_for_charge(connection, period):
        raise LedgerError(
            f"period {period} is not charged yet: void it after the next period has charged it"
        )
    try:
        amount = charge_store.refund(connection, period, at_s)
        amount += _forgive(connection, period, at_s)
    except OverdrawnError as error:
        raise LedgerError(f"period {period} can't be refunded yet: {error}") from None
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
    """Reduce the owners' debts by the unpaid charges of a period, once.

    Give back the part that was already collected; return its micro-credits.
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
    """Return the paying account of each VM: its application's, or its owner's; -1 for none.

    An application pays only while it is open, and only for VMs of its own owner.
    """
    tenant = account_store.of_tenants(connection, owners)
    running = {budget.application: budget.owner for budget in budget_store.open_ones(connection)}
    return [
        application if running.get(application) == owner else tenant.get(owner, -1)
        for owner, application in zip(owners, applications, strict=True)
    ]
