"""Carrying forward: transactions older than the kept history are merged into one per kind.

The sum of each account and every balance stay unchanged. The merged transaction of a kind has the
sum of the entries of each account, and the time of the newest merged transaction.

Example: an account was charged 3, 4 and 5 credits in three old periods. Afterwards the transaction
`carried/charge` has one entry of -12 for it, and the three transactions are deleted.
"""

from collections import Counter
from collections.abc import Sequence

import sqlalchemy as sa

from merkatd.database.base.schema import chunks
from merkatd.database.ledger.account_store import ACCOUNTS, AccountKind
from merkatd.database.ledger.entry_store import AFTER_SLASH, ENTRIES, TRANSACTIONS, TransactionKind

_PREFIX = "carried/"
OF_BUDGETS = (TransactionKind.BUDGET, TransactionKind.REPLENISHMENT)
"""Kinds that move credits only between an application and its owner."""


def carry_forward(connection: sa.Connection, before_s: float, most: int) -> int:
    """Merge at most `most` of the oldest transactions before then; return their number."""
    columns = TRANSACTIONS.c
    query = (
        sa.select(columns.id, columns.kind, columns.at_s)
        .where(
            columns.at_s < before_s,
            (columns.reference <= _PREFIX) | (columns.reference >= _PREFIX[:-1] + AFTER_SLASH),
        )
        .order_by(columns.at_s)
        .limit(most)
    )
    rows = connection.execute(query).all()
    by_kind: dict[str, list[int]] = {}
    for number, kind, _ in rows:
        by_kind.setdefault(kind, []).append(number)
    for kind, numbers in by_kind.items():
        _merge(connection, kind, numbers, max(row.at_s for row in rows if row.kind == kind))
    return len(rows)


def _merge(connection: sa.Connection, kind: str, numbers: Sequence[int], at_s: float) -> None:
    moved: Counter[int] = Counter()
    for some in chunks(numbers):
        sums = (
            sa.select(ENTRIES.c.account_id, sa.func.sum(ENTRIES.c.amount))
            .where(ENTRIES.c.transaction_id.in_(some))
            .group_by(ENTRIES.c.account_id)
        )
        for account, amount in connection.execute(sums):
            moved[account] += int(amount)
        connection.execute(sa.delete(ENTRIES).where(ENTRIES.c.transaction_id.in_(some)))
        connection.execute(sa.delete(TRANSACTIONS).where(TRANSACTIONS.c.id.in_(some)))
    reference = f"{_PREFIX}{kind}"
    query = sa.select(TRANSACTIONS.c.id).where(TRANSACTIONS.c.reference == reference)
    carried = connection.scalar(query)
    if carried is None:
        row = {"at_s": at_s, "kind": kind, "reference": reference}
        connection.execute(sa.insert(TRANSACTIONS), row)
        carried = connection.scalars(query).one()
    else:
        later = sa.update(TRANSACTIONS).where(TRANSACTIONS.c.id == carried)
        connection.execute(later.values(at_s=at_s))
    _add(connection, carried, moved)


def _add(connection: sa.Connection, transaction: int, moved: Counter[int]) -> None:
    """Add these amounts to a transaction's entries; delete entries that become zero."""
    query = sa.select(ENTRIES.c.account_id, ENTRIES.c.amount)
    mine = ENTRIES.c.transaction_id == transaction
    for account, amount in connection.execute(query.where(mine)):
        if account in moved:
            moved[account] += amount
    for some in chunks(sorted(moved)):
        connection.execute(sa.delete(ENTRIES).where(mine, ENTRIES.c.account_id.in_(some)))
    rows = [
        {"transaction_id": transaction, "account_id": account, "amount": amount}
        for account, amount in sorted(moved.items())
        if amount
    ]
    if rows:
        connection.execute(sa.insert(ENTRIES), rows)


def hand_over(connection: sa.Connection, applications: Sequence[int]) -> list[int]:
    """Move the entries of these empty accounts to their owners' accounts.

    Return the accounts whose entries were moved. An account is skipped if its owner has no account,
    or if it has entries that are neither carried nor between it and its owner.
    """
    done = []
    for application in applications:
        owner = connection.scalar(sa.select(ACCOUNTS.c.owner).where(ACCOUNTS.c.id == application))
        tenant = connection.scalar(
            sa.select(ACCOUNTS.c.id).where(
                ACCOUNTS.c.kind == AccountKind.TENANT, ACCOUNTS.c.owner == owner
            )
        )
        entries = connection.execute(
            sa.select(
                ENTRIES.c.transaction_id,
                ENTRIES.c.amount,
                TRANSACTIONS.c.reference,
                TRANSACTIONS.c.kind,
            )
            .join(TRANSACTIONS, TRANSACTIONS.c.id == ENTRIES.c.transaction_id)
            .where(ENTRIES.c.account_id == application)
        ).all()
        if tenant is None or not all(
            row.kind in OF_BUDGETS or row.reference.startswith(_PREFIX) for row in entries
        ):
            continue
        for row in entries:
            _add(connection, row.transaction_id, Counter({tenant: row.amount}))
        connection.execute(sa.delete(ENTRIES).where(ENTRIES.c.account_id == application))
        done.append(application)
    return done
