"""Deletion of platforms, groups and applications that ended long ago, with their VMs and accounts.

Each function deletes at most `most` objects that ended before a time, and returns their number.
"""

from typing import Any

import sqlalchemy as sa

from merkatd.database.base.schema import chunks
from merkatd.database.fleets.fleet_store import MEMBERS
from merkatd.database.fleets.group_store import VM_GROUPS
from merkatd.database.fleets.group_vm_store import GROUP_VMS
from merkatd.database.fleets.job_run_store import JOB_RUNS, JOB_SAMPLES
from merkatd.database.fleets.platform_store import DOINGS, OVER, PLATFORMS
from merkatd.database.ledger.account_store import ACCOUNTS, AccountKind
from merkatd.database.ledger.budget_store import BUDGETS
from merkatd.database.ledger.carried_entries import OF_BUDGETS, hand_over
from merkatd.database.ledger.charge_store import SHORTFALLS
from merkatd.database.ledger.entry_store import ENTRIES, TRANSACTIONS
from merkatd.database.ledger.reservation_store import RESERVATIONS
from merkatd.database.ledger.usage_store import USES


def drop_platform_vms(connection: sa.Connection, before_s: float, most: int) -> int:
    """Delete ended VMs of platforms; return their number."""
    return _drop_vms(connection, MEMBERS, MEMBERS.c.platform, before_s, most)


def drop_group_vms(connection: sa.Connection, before_s: float, most: int) -> int:
    """Delete ended VMs of groups; return their number."""
    return _drop_vms(connection, GROUP_VMS, GROUP_VMS.c.vm_group, before_s, most)


def _drop_vms(
    connection: sa.Connection, table: sa.Table, owner: sa.Column[int], before_s: float, most: int
) -> int:
    """Delete ended VMs, but keep each owner's highest number, from which the next one follows."""
    highest = sa.select(sa.func.max(table.c.number).label("number"), owner.label("owner"))
    last = highest.group_by(owner).subquery()
    kept = sa.select(table.c.create_key).join(
        last, (last.c.owner == owner) & (last.c.number == table.c.number)
    )
    keys = _keys(connection, table.c.create_key, table.c.gone_s < before_s, kept, most)
    for some in chunks(keys):
        connection.execute(sa.delete(table).where(table.c.create_key.in_(some)))
    return len(keys)


def _keys(
    connection: sa.Connection,
    column: sa.Column[str],
    old: sa.ColumnElement[bool],
    kept: sa.Select[Any],
    most: int,
) -> list[str]:
    """Return some of the old keys. MySQL can't delete from a table that the statement reads."""
    return list(connection.scalars(sa.select(column).where(old, column.not_in(kept)).limit(most)))


def drop_platforms(
    connection: sa.Connection, before_s: float, unused_before_s: float, most: int
) -> int:
    """Delete ended platforms with all their rows; sooner if they never had a VM."""
    ended_s = PLATFORMS.c.since_s
    unused = PLATFORMS.c.id.not_in(sa.select(MEMBERS.c.platform)) & (ended_s < unused_before_s)
    old = PLATFORMS.c.state.in_(OVER) & ((ended_s < before_s) | unused)
    there = sa.select(MEMBERS.c.platform).where(MEMBERS.c.gone_s.is_(None))
    query = sa.select(PLATFORMS.c.id).where(
        old, PLATFORMS.c.id.not_in(there), PLATFORMS.c.id < _highest(connection, PLATFORMS.c.id)
    )
    query = query.limit(most)
    ids = list(connection.scalars(query))
    for some in chunks(ids):
        connection.execute(sa.delete(DOINGS).where(DOINGS.c.platform.in_(some)))
        connection.execute(sa.delete(MEMBERS).where(MEMBERS.c.platform.in_(some)))
        connection.execute(sa.delete(JOB_SAMPLES).where(JOB_SAMPLES.c.platform.in_(some)))
        connection.execute(sa.delete(JOB_RUNS).where(JOB_RUNS.c.platform.in_(some)))
        connection.execute(sa.delete(PLATFORMS).where(PLATFORMS.c.id.in_(some)))
    return len(ids)


def drop_vm_groups(
    connection: sa.Connection, before_s: float, unused_before_s: float, most: int
) -> int:
    """Delete ended groups with their VMs; sooner if they never had a VM."""
    there = sa.select(GROUP_VMS.c.vm_group).where(GROUP_VMS.c.gone_s.is_(None))
    ended_s = VM_GROUPS.c.ended_s
    unused = VM_GROUPS.c.id.not_in(sa.select(GROUP_VMS.c.vm_group)) & (ended_s < unused_before_s)
    old = ((ended_s < before_s) | unused) & VM_GROUPS.c.id.not_in(there)
    old &= VM_GROUPS.c.id < _highest(connection, VM_GROUPS.c.id)
    ids = list(connection.scalars(sa.select(VM_GROUPS.c.id).where(old).limit(most)))
    for some in chunks(ids):
        connection.execute(sa.delete(GROUP_VMS).where(GROUP_VMS.c.vm_group.in_(some)))
        connection.execute(sa.delete(VM_GROUPS).where(VM_GROUPS.c.id.in_(some)))
    return len(ids)


def drop_accounts(
    connection: sa.Connection, before_s: float, unused_before_s: float, most: int
) -> int:
    """Delete the empty accounts of ended applications that belong to no kept platform.

    An account that only its budget moved is deleted sooner: it has no record of payments.
    """
    used = sa.select(PLATFORMS.c.account).where(PLATFORMS.c.account.is_not(None))
    paid = (
        sa.select(ENTRIES.c.account_id)
        .join(TRANSACTIONS, TRANSACTIONS.c.id == ENTRIES.c.transaction_id)
        .where(ENTRIES.c.account_id == ACCOUNTS.c.id, TRANSACTIONS.c.kind.not_in(OF_BUDGETS))
    )
    unused = (BUDGETS.c.ended_s < unused_before_s) & ~paid.exists()
    query = (
        sa.select(ACCOUNTS.c.id)
        .join(BUDGETS, BUDGETS.c.account == ACCOUNTS.c.id)
        .where(
            ACCOUNTS.c.kind == AccountKind.APPLICATION,
            ACCOUNTS.c.balance == 0,
            ACCOUNTS.c.debt == 0,
            (BUDGETS.c.ended_s < before_s) | unused,
            ACCOUNTS.c.id < _highest(connection, ACCOUNTS.c.id),
            ACCOUNTS.c.id.not_in(used),
            ACCOUNTS.c.id.not_in(sa.select(USES.c.account)),
            ACCOUNTS.c.id.not_in(sa.select(SHORTFALLS.c.account)),
            ACCOUNTS.c.id.not_in(sa.select(RESERVATIONS.c.account)),
        )
        .limit(most)
    )
    ids = hand_over(connection, list(connection.scalars(query)))
    for some in chunks(ids):
        connection.execute(sa.delete(BUDGETS).where(BUDGETS.c.account.in_(some)))
        connection.execute(sa.delete(ACCOUNTS).where(ACCOUNTS.c.id.in_(some)))
    return len(ids)


def _highest(connection: sa.Connection, column: sa.Column[int]) -> int:
    """Return the highest id. Its row must stay: otherwise SQLite would assign the id again."""
    return connection.scalar(sa.select(sa.func.max(column))) or 0
