"""Sums of a span of time by tenant: the use of each VM, and the credits moved for each reason."""

from collections.abc import Iterator

import sqlalchemy as sa

from merkatd.database.ledger.account_store import ACCOUNTS
from merkatd.database.ledger.entry_store import ENTRIES, TRANSACTIONS, TransactionKind
from merkatd.database.ledger.usage_store import USES, DailyUse

_SUMMED = (
    "seconds",
    "cpu_s",
    "memory_s",
    "cpu_cost",
    "memory_cost",
    "network_s",
    "disk_s",
    "network_cost",
    "disk_cost",
)


def uses_by_vm(
    connection: sa.Connection, first: int, last: int, owner: int | None = None
) -> Iterator[DailyUse]:
    """Yield the use of each VM and payer from the first day to the last, as if on the last day.

    With an owner, only of that tenant's accounts.
    """
    query = (
        sa.select(
            USES.c.account,
            USES.c.vm,
            sa.func.max(USES.c.name),
            *(sa.func.sum(USES.c[name]) for name in _SUMMED),
        )
        .select_from(sa.join(USES, ACCOUNTS, ACCOUNTS.c.id == USES.c.account))
        .where(USES.c.day.between(first, last))
        .group_by(USES.c.account, USES.c.vm)
    )
    if owner is not None:
        query = query.where(ACCOUNTS.c.owner == owner)
    for account, vm, name, *sums in connection.execute(query):
        seconds, cpu_s, memory_s, cpu, memory, network_s, disk_s, network, disk = sums
        yield DailyUse(
            account,
            last,
            vm,
            name,
            float(seconds),
            float(cpu_s),
            float(memory_s),
            int(cpu),
            int(memory),
            float(network_s),
            float(disk_s),
            int(network),
            int(disk),
        )


def moved_by_owner(
    connection: sa.Connection, since_s: float, until_s: float, owner: int | None = None
) -> dict[int, dict[TransactionKind, int]]:
    """Return, by tenant and kind, the sums of the entries in [since_s, until_s).

    With an owner, only those of that tenant.
    """
    joined = sa.join(ENTRIES, ACCOUNTS, ACCOUNTS.c.id == ENTRIES.c.account_id)
    query = (
        sa.select(ACCOUNTS.c.owner, TRANSACTIONS.c.kind, sa.func.sum(ENTRIES.c.amount))
        .select_from(sa.join(joined, TRANSACTIONS, TRANSACTIONS.c.id == ENTRIES.c.transaction_id))
        .where(ACCOUNTS.c.owner >= 0, TRANSACTIONS.c.at_s >= since_s, TRANSACTIONS.c.at_s < until_s)
        .group_by(ACCOUNTS.c.owner, TRANSACTIONS.c.kind)
    )
    if owner is not None:
        query = query.where(ACCOUNTS.c.owner == owner)
    moved: dict[int, dict[TransactionKind, int]] = {}
    for tenant, kind, amount in connection.execute(query):
        moved.setdefault(int(tenant), {})[TransactionKind(kind)] = int(amount)
    return moved


def owner_of_account(connection: sa.Connection) -> dict[int, int]:
    """Return the tenant of each account that has one."""
    query = sa.select(ACCOUNTS.c.id, ACCOUNTS.c.owner).where(ACCOUNTS.c.owner >= 0)
    return {row.id: row.owner for row in connection.execute(query)}
