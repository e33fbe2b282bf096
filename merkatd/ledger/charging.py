"""Charging: a period's bill is settled once, VM by VM to the micro-credit, and can be voided."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa

from merkatd.cluster import Floats, Ints
from merkatd.currency import MICRO, arrears
from merkatd.currency.parts import dealt_out
from merkatd.database import accounts, budgets, charges, details, notes
from merkatd.database import arrears as stored_arrears
from merkatd.database.accounts import AccountKind
from merkatd.database.charges import Charged
from merkatd.database.details import Detail
from merkatd.database.entries import LARGEST, OverdrawnError
from merkatd.database.notes import Note, NoteKind
from merkatd.database.rollups import rolled_up_to
from merkatd.ledger.errors import LedgerError


@dataclass(frozen=True, slots=True, eq=False)
class Bill:
    """What the VMs owe for a period, a row each."""

    period: int
    vm: Ints
    account: Ints
    """Who pays."""
    owed: Ints
    """[vms, resources]: micro-credits, for CPU and memory, or for network and disk too."""
    floor: Ints
    """[vms]: what its floor alone costs, micro-credits."""
    allocation: Floats
    """[vms, resources]"""
    seconds: float
    """For how long is charged."""
    names: Sequence[str]

    def by_account(self) -> dict[int, int]:
        """What each account owes."""
        found: Counter[int] = Counter()
        each = self.owed.sum(axis=1).tolist()
        for account, amount in zip(self.account.tolist(), each, strict=True):
            found[account] += amount
        # Nobody can hold more; what is asked for beyond can't be paid either way.
        return {account: min(amount, LARGEST) for account, amount in found.items()}


@dataclass(frozen=True, slots=True)
class Settled:
    """What settling a bill came to."""

    taken: int
    """Micro-credits."""
    missing: int
    arrears: Mapping[int, int]
    """By VM: for how many periods on end it has not paid for its floor."""


def settle(connection: sa.Connection, bill: Bill, present: Iterable[int], at_s: float) -> Settled:
    """Take what is owed, at most what each payer has; once, however often this is called.

    `present` are all VMs there are: the arrears of others are forgotten.
    """
    before = stored_arrears.load(connection)
    if bill.period <= rolled_up_to(connection) or details.known(connection, bill.period):
        return Settled(0, 0, before)
    result = charges.charge(connection, bill.period, bill.by_account(), at_s)
    if result.before:
        raise LedgerError(f"period {bill.period} was charged before, without details")
    charged = _charged(bill, result)
    details.store(
        connection,
        Detail(
            period=bill.period,
            at_s=at_s,
            vm=bill.vm,
            account=bill.account,
            seconds=bill.seconds,
            allocation=bill.allocation,
            charged=charged,
            names=bill.names,
        ),
    )
    unpaid = arrears.unpaid(charged.sum(axis=1), bill.owed.sum(axis=1), bill.floor)
    counts = arrears.counted(before, bill.vm[unpaid].tolist(), bill.vm[~unpaid].tolist(), present)
    stored_arrears.replace(connection, counts)
    return Settled(sum(result.taken.values()), sum(result.missing.values()), counts)


def _charged(bill: Bill, result: Charged) -> Ints:
    """[vms, resources]: what was taken for each; who is short pays the same part of everything."""
    charged = bill.owed.copy()
    for account in result.missing:
        rows = np.flatnonzero(bill.account == account)
        dealt = dealt_out(result.taken[account], bill.owed[rows].ravel().tolist())
        charged[rows] = np.array(dealt, dtype=np.int64).reshape(len(rows), -1)
    return charged


def void(connection: sa.Connection, period: int, why: str, who: str, at_s: float) -> int:
    """Give back all that was charged for a period, once; the micro-credits that were."""
    if period <= rolled_up_to(connection):
        raise LedgerError(f"period {period} is too long ago: its charges are kept by the day")
    try:
        amount = charges.refund(connection, period, at_s)
    except OverdrawnError as error:
        raise LedgerError(f"period {period} can't be given back yet: {error}") from None
    if amount:
        text = f"period {period} is void, {amount / MICRO:.6f} credits given back: {why}"
        notes.add(connection, Note(at_s=at_s, kind=NoteKind.VOID, who=who, text=text))
    return amount


def payers(
    connection: sa.Connection, owners: Sequence[int], applications: Sequence[int]
) -> list[int]:
    """The account that pays for each VM: its application's, or its owner's; -1 where it has none.

    An application that is over, or is somebody else's, pays for nothing.
    """
    tenant = {one.owner: one.id for one in accounts.every(connection, AccountKind.TENANT)}
    running = {one.application: one.owner for one in budgets.open_ones(connection)}
    return [
        application if running.get(application) == owner else tenant.get(owner, -1)
        for owner, application in zip(owners, applications, strict=True)
    ]
