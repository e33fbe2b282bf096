"""What a period costs each payer, and who is in arrears.

After some days the charges of a day become one; the periods of which that was done are known
by the newest of them, and nothing can be charged or given back for them any more.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import chunks, table
from merkatd.database.ledger import account_store, entry_store
from merkatd.database.ledger.account_store import ACCOUNTS, AccountKind
from merkatd.database.ledger.entry_store import (
    BookingError,
    Posting,
    TransactionKind,
    UnknownAccountError,
)
from merkatd.database.ledger.rollup_store import rolled_up_to


class ArrearsColumns(TypedColumns):
    """The columns of `arrears`; owners without debt have no row."""

    owner: Named[int] = Column(sa.Integer(), primary_key=True, autoincrement=False)
    periods: Named[float] = Column(sa.Double())
    """Intervals, of which a short period is a part."""


ARREARS = table("arrears", ArrearsColumns)


def load(connection: sa.Connection) -> dict[int, float]:
    """By owner."""
    rows = connection.execute(sa.select(ARREARS.c.owner, ARREARS.c.periods))
    return {owner: count for owner, count in rows}  # noqa: C416 - rows are no pairs to mypy


def replace(connection: sa.Connection, counts: Mapping[int, float]) -> None:
    """Keep these counts and no others from now on."""
    if load(connection) == dict(counts):
        return
    connection.execute(sa.delete(ARREARS))
    if counts:
        rows = [{"owner": owner, "periods": count} for owner, count in sorted(counts.items())]
        connection.execute(sa.insert(ARREARS), rows)


def forget(connection: sa.Connection, owners: Iterable[int]) -> None:
    """Drop the counts of these owners."""
    for some in chunks(sorted(set(owners))):
        connection.execute(sa.delete(ARREARS).where(ARREARS.c.owner.in_(some)))


class ShortfallColumns(TypedColumns):
    """The columns of `shortfalls`: what was owed for a period and could not be taken."""

    period: Named[int] = Column(
        sa.Integer(), sa.ForeignKey("periods.number"), primary_key=True, autoincrement=False
    )
    account: Named[int] = Column(
        sa.BigInteger(), sa.ForeignKey("accounts.id"), primary_key=True, autoincrement=False
    )
    at_s: Named[float] = Column(sa.Double())
    missing: Named[int] = Column(sa.BigInteger())


SHORTFALLS = table("shortfalls", ShortfallColumns, sa.Index(None, "account", "period"))
_PAYERS = frozenset({AccountKind.TENANT, AccountKind.APPLICATION})


@dataclass(frozen=True, slots=True)
class Charged:
    """What charging a period came to, in micro-credits by account."""

    taken: Mapping[int, int]
    """Posted now."""
    missing: Mapping[int, int]
    """Owed, recorded as a shortfall and not posted."""
    before: frozenset[int]
    """Charged for this period by an earlier call; left as they were."""


@dataclass(frozen=True, slots=True)
class UnpaidCharge:
    """What an account could not pay for a period."""

    period: int
    account: int
    at_s: float
    missing: int


def reference_of(period: int, account: int) -> str:
    """The reference of the one charge of a payer for a period."""
    return f"charge/{period}/{account}"


def charge(connection: sa.Connection, period: int, owed: Mapping[int, int], at_s: float) -> Charged:
    """Take what is owed for a period from each account to the treasury, at most what is free.

    The first call for a period and an account settles it: later ones change nothing, also
    where the account could not pay then and could now.
    """
    due = {account: amount for account, amount in owed.items() if _checked(account, amount)}
    if period <= rolled_up_to(connection):
        return Charged({}, {}, frozenset(due))
    by_reference = {reference_of(period, account): account for account in due}
    done = entry_store.transactions_below(connection, f"charge/{period}/")
    before = frozenset(by_reference[one] for one in done if one in by_reference)
    treasury = account_store.treasury(connection).id
    payers = account_store.lock(connection, due.keys() - before | {treasury})
    taken, missing, postings = {}, {}, []
    for reference, account in by_reference.items():
        if account in before:
            continue
        payer = payers.get(account)
        if payer is None or payer.kind not in _PAYERS:
            raise UnknownAccountError(f"there is no tenant or application with account {account}")
        taken[account] = amount = min(due[account], max(payer.free, 0))
        if amount < due[account]:
            missing[account] = due[account] - amount
        moves = {account: -amount, treasury: amount} if amount else {}
        postings.append(Posting(TransactionKind.CHARGE, reference, moves))
    entry_store.post_new(connection, postings, at_s, payers)
    _record(connection, period, missing, at_s)
    return Charged(taken, missing, before)


def refund(connection: sa.Connection, period: int, at_s: float) -> int:
    """Give back all that was charged for a period, once; the micro-credits that were."""
    treasury = account_store.treasury(connection).id
    postings = []
    for reference, number in entry_store.transactions_below(
        connection, f"charge/{period}/"
    ).items():
        payer = int(reference.rpartition("/")[2])
        taken = -entry_store.amounts_of(connection, number).get(payer, 0)
        if taken:
            moves = {treasury: -taken, payer: taken}
            back = f"refund/{period}/{payer}"
            postings.append(Posting(TransactionKind.REFUND, back, moves))
    posted = entry_store.post(connection, postings, at_s)
    return sum(-one.amounts[treasury] for one in postings if one.reference in posted)


def write_off(connection: sa.Connection, debtors: Sequence[int], amount: int) -> None:
    """Take so much off the shortfalls of these accounts, the newest first: it is not owed any more.

    What was collected of a debt paid the oldest ones.
    """
    query = sa.select(SHORTFALLS).where(SHORTFALLS.c.account.in_(debtors), SHORTFALLS.c.missing > 0)
    for row in connection.execute(query.order_by(SHORTFALLS.c.period.desc())).all():
        part = min(row.missing, amount)
        amount -= part
        if part:
            same = (SHORTFALLS.c.period == row.period) & (SHORTFALLS.c.account == row.account)
            change = sa.update(SHORTFALLS).where(same)
            connection.execute(change.values(missing=SHORTFALLS.c.missing - part))


def payers_of(connection: sa.Connection, period: int) -> frozenset[int]:
    """The accounts that were charged for a period."""
    found = entry_store.transactions_below(connection, f"charge/{period}/")
    return frozenset(int(reference.rpartition("/")[2]) for reference in found)


def missing_between(connection: sa.Connection, owner: int, since_s: float, until_s: float) -> int:
    """What a user owed and could not pay from one time up to and without another."""
    theirs = (ACCOUNTS.c.id == SHORTFALLS.c.account) & (ACCOUNTS.c.owner == owner)
    query = (
        sa.select(sa.func.sum(SHORTFALLS.c.missing))
        .select_from(sa.join(SHORTFALLS, ACCOUNTS, theirs))
        .where(SHORTFALLS.c.at_s >= since_s, SHORTFALLS.c.at_s < until_s)
    )
    return int(connection.scalar(query) or 0)


def shortfalls(connection: sa.Connection, period: int) -> dict[int, int]:
    """The shortfalls of a period by account."""
    query = sa.select(SHORTFALLS.c.account, SHORTFALLS.c.missing)
    rows = connection.execute(query.where(SHORTFALLS.c.period == period))
    return {account: missing for account, missing in rows}  # noqa: C416 - rows are no pairs to mypy


def shortfalls_of(
    connection: sa.Connection, account: int, limit: int = 100
) -> tuple[UnpaidCharge, ...]:
    """The newest shortfalls of an account, newest first."""
    query = sa.select(SHORTFALLS).where(SHORTFALLS.c.account == account)
    rows = connection.execute(query.order_by(SHORTFALLS.c.period.desc()).limit(limit))
    return tuple(UnpaidCharge(row.period, row.account, row.at_s, row.missing) for row in rows)


def _checked(account: int, amount: int) -> bool:
    """Whether anything is owed; BookingError where that can't be said."""
    if type(amount) is not int or not 0 <= amount <= entry_store.MAX_AMOUNT:
        raise BookingError(f"account {account} can't owe {amount!r} micro-credits for a period")
    return amount > 0


def _record(
    connection: sa.Connection, period: int, missing: Mapping[int, int], at_s: float
) -> None:
    rows = [
        {"period": period, "account": account, "at_s": at_s, "missing": amount}
        for account, amount in missing.items()
    ]
    if rows:
        connection.execute(sa.insert(SHORTFALLS), rows)
