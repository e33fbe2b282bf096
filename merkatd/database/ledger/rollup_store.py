"""Rollups: after some days, the charges of all periods of a day are merged into one per payer.

The sums stay the same, and no balance changes. The table `rollups` stores the newest period that
was rolled up.

Example: a payer was charged 2 credits in each of the 1,440 periods of day 20,000. Afterwards one
transaction, `day/20000/charge/ACCOUNT`, moves 2,880 credits from it to the treasury.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.currency.credits import DAY_S, day_of
from merkatd.database.base.schema import chunks, table
from merkatd.database.ledger.entry_store import (
    AFTER_SLASH,
    ENTRIES,
    TRANSACTIONS,
    TransactionKind,
    transaction_ids,
)
from merkatd.database.scheduler.period_store import PERIODS


class RollupColumns(TypedColumns):
    """The columns of `rollups`, which has one row at most."""

    period: Named[int] = Column(sa.Integer(), primary_key=True, autoincrement=False)
    at_s: Named[float] = Column(sa.Double())


ROLLUPS = table("rollups", RollupColumns)
_NEWEST = sa.select(sa.func.max(ROLLUPS.c.period))

_ROLLED = (TransactionKind.CHARGE, TransactionKind.REFUND)

_Moves = dict[str, Counter[int]]
"""Amounts by account, of each reference."""


def rolled_up_to(connection: sa.Connection) -> int:
    """Return the newest period that was rolled up, 0 if there is none."""
    return connection.scalar(_NEWEST) or 0


def roll_up(connection: sa.Connection, before: int, most_periods: int, at_s: float) -> int:
    """Roll up the oldest periods before this one; return their number."""
    done = rolled_up_to(connection)
    query = sa.select(PERIODS.c.number).where(PERIODS.c.number > done, PERIODS.c.number < before)
    periods = list(connection.scalars(query.order_by(PERIODS.c.number).limit(most_periods)))
    if not periods:
        return 0
    days: dict[tuple[int, TransactionKind], _Moves] = defaultdict(lambda: defaultdict(Counter))
    gone: list[int] = []
    for period in periods:
        for kind in _ROLLED:
            gone += _collect(connection, kind, period, days)
    for some in chunks(gone):
        connection.execute(sa.delete(ENTRIES).where(ENTRIES.c.transaction_id.in_(some)))
        connection.execute(sa.delete(TRANSACTIONS).where(TRANSACTIONS.c.id.in_(some)))
    for (day, kind), moves in days.items():
        _add(connection, day, kind, moves)
    connection.execute(sa.delete(ROLLUPS))
    connection.execute(sa.insert(ROLLUPS), {"period": periods[-1], "at_s": at_s})
    return len(periods)


def _collect(
    connection: sa.Connection,
    kind: TransactionKind,
    period: int,
    days: Mapping[tuple[int, TransactionKind], _Moves],
) -> list[int]:
    """Add the movements of a period to their days; return the ids of its transactions."""
    prefix = f"{kind}/{period}/"
    columns = TRANSACTIONS.c
    query = (
        sa.select(
            columns.id, columns.at_s, columns.reference, ENTRIES.c.account_id, ENTRIES.c.amount
        )
        .outerjoin(ENTRIES, columns.id == ENTRIES.c.transaction_id)
        .where(columns.reference > prefix, columns.reference < prefix[:-1] + AFTER_SLASH)
    )
    ids = set()
    for number, then_s, reference, account, amount in connection.execute(query):
        ids.add(number)
        if account is not None:
            day = day_of(then_s)
            name = f"day/{day}/{kind}/{reference.rpartition('/')[2]}"
            days[day, kind][name][account] += amount
    return sorted(ids)


def _add(connection: sa.Connection, day: int, kind: TransactionKind, moves: _Moves) -> None:
    """Add the movements to the day's transactions, of which some may exist already."""
    ids = transaction_ids(connection, moves)
    new = [
        {"at_s": float(day * DAY_S), "kind": kind, "reference": reference}
        for reference in moves
        if reference not in ids
    ]
    if new:
        connection.execute(sa.insert(TRANSACTIONS), new)
        ids = transaction_ids(connection, moves)
    there: dict[int, Counter[int]] = {}
    for some in chunks(sorted(ids.values())):
        query = sa.select(ENTRIES).where(ENTRIES.c.transaction_id.in_(some))
        for row in connection.execute(query):
            there.setdefault(row.transaction_id, Counter())[row.account_id] = row.amount
        connection.execute(sa.delete(ENTRIES).where(ENTRIES.c.transaction_id.in_(some)))
    rows = []
    for reference, amounts in moves.items():
        sums = there.get(ids[reference], Counter())
        sums.update(amounts)
        rows += [
            {"transaction_id": ids[reference], "account_id": account, "amount": amount}
            for account, amount in sums.items()
        ]
    connection.execute(sa.insert(ENTRIES), rows)
