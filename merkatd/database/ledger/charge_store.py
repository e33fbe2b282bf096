"""Charges of periods, shortfalls of payers, and arrears of owners.

After some days, the charges of a day are merged into one per payer (`rollup_store`). For periods
that were merged, nothing can be charged or refunded any more.
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
    """Length of the arrears in intervals; a short period counts as a part of an interval."""


ARREARS = table("arrears", ArrearsColumns)
_LOAD = sa.select(ARREARS.c.owner, ARREARS.c.periods)


def load(connection: sa.Connection) -> dict[int, float]:
    """Return the arrears by owner."""
    rows = connection.execute(_LOAD)
    return {owner: count for owner, count in rows}  # noqa: C416 - rows are no pairs to mypy


def replace(connection: sa.Connection, counts: Mapping[int, float]) -> None:
    """Replace all arrears by these."""
    connection.execute(sa.delete(ARREARS))
    if counts:
        rows = [{"owner": owner, "periods": count} for owner, count in sorted(counts.items())]
        connection.execute(sa.insert(ARREARS), rows)


def forget(connection: sa.Connection, owners: Iterable[int]) -> None:
    """Delete the arrears of these owners."""
    for some in chunks(sorted(set(owners))):
        connection.execute(sa.delete(ARREARS).where(ARREARS.c.owner.in_(some)))


class ShortfallColumns(TypedColumns):
    """The columns of `shortfalls`: amounts owed for a period that an account could not pay."""

    period: Named[int] = Column(
        sa.Integer(), sa.ForeignKey("periods.number"), primary_key=True, autoincrement=False
    )
    account: Named[int] = Column(
        sa.BigInteger(), sa.ForeignKey("accounts.id"), primary_key=True, autoincrement=False
    )
    at_s: Named[float] = Column(sa.Double())
    missing: Named[int] = Column(sa.BigInteger())


SHORTFALLS = table("shortfalls", ShortfallColumns, sa.Index(None, "account", "period"))
_OF_PERIOD = sa.select(SHORTFALLS.c.account, SHORTFALLS.c.missing).where(
    SHORTFALLS.c.period == sa.bindparam("number")
)
_PAYERS = frozenset({AccountKind.TENANT, AccountKind.APPLICATION})


@dataclass(frozen=True, slots=True)
class ChargeResult:
    """The result of charging a period, in micro-credits by account."""

    taken: Mapping[int, int]
    """Amounts posted now."""
    missing: Mapping[int, int]
    """Amounts recorded as shortfalls and not posted."""
    before: frozenset[int]
    """Accounts that an earlier call charged for this period; this call skipped them."""


def reference_of(period: int, account: int) -> str:
    """Return the reference of the charge of a payer for a period."""
    return f"charge/{period}/{account}"


def charge(
    connection: sa.Connection, period: int, owed: Mapping[int, int], at_s: float
) -> ChargeResult:
    """Move the amounts owed for a period to the treasury, from each account at most its free part.

    The first call for a period and an account settles it: later calls change nothing, even if the
    account could not pay then and could now.
    """
    due = {account: amount for account, amount in owed.items() if _checked(account, amount)}
    if period <= rolled_up_to(connection):
        return ChargeResult({}, {}, frozenset(due))
    by_reference = {reference_of(period, account): account for account in due}
    done = entry_store.transactions_below(connection, f"charge/{period}/")
    before = frozenset(by_reference[reference] for reference in done if reference in by_reference)
    treasury = account_store.treasury(connection).id
    payers = account_store.lock(connection, due.keys() - before | {treasury})
    taken, missing, postings = {}, {}, []
    for reference, account in by_reference.items():
        if account in before:
            continue
        payer = payers.get(account)
        if payer is None or payer.kind not in _PAYERS:
            raise UnknownAccountError(f"account {account} belongs to no tenant or application")
        taken[account] = amount = min(due[account], max(payer.free, 0))
        if amount < due[account]:
            missing[account] = due[account] - amount
        moves = {account: -amount, treasury: amount} if amount else {}
        postings.append(Posting(TransactionKind.CHARGE, reference, moves))
    entry_store.post_new(connection, postings, at_s, payers)
    _record(connection, period, missing, at_s)
    return ChargeResult(taken, missing, before)


def refund(connection: sa.Connection, period: int, at_s: float) -> int:
    """Refund all charges of a period, once; return the refunded micro-credits."""
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
    return sum(-posting.amounts[treasury] for posting in postings if posting.reference in posted)


def write_off(connection: sa.Connection, debtors: Sequence[int], amount: int) -> None:
    """Reduce the shortfalls of these accounts by an amount that is not owed any more.

    Start with the newest: the collected part of a debt paid the oldest ones.
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
    """Return the accounts that were charged for a period."""
    references = entry_store.transactions_below(connection, f"charge/{period}/")
    return frozenset(int(reference.rpartition("/")[2]) for reference in references)


def missing_between(connection: sa.Connection, owner: int, since_s: float, until_s: float) -> int:
    """Return the sum of a user's shortfalls from `since_s` until before `until_s`."""
    theirs = (ACCOUNTS.c.id == SHORTFALLS.c.account) & (ACCOUNTS.c.owner == owner)
    query = (
        sa.select(sa.func.sum(SHORTFALLS.c.missing))
        .select_from(sa.join(SHORTFALLS, ACCOUNTS, theirs))
        .where(SHORTFALLS.c.at_s >= since_s, SHORTFALLS.c.at_s < until_s)
    )
    return int(connection.scalar(query) or 0)


def shortfalls(connection: sa.Connection, period: int) -> dict[int, int]:
    """Return the shortfalls of a period by account."""
    rows = connection.execute(_OF_PERIOD, {"number": period})
    return {account: missing for account, missing in rows}  # noqa: C416 - rows are no pairs to mypy


def _checked(account: int, amount: int) -> bool:
    """Return whether an amount is owed. Raise BookingError for an invalid amount."""
    if type(amount) is not int or not 0 <= amount <= entry_store.MAX_AMOUNT:
        raise BookingError(
            f"account {account}: a charge must be 0 to {entry_store.MAX_AMOUNT} (got {amount!r})"
        )
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
