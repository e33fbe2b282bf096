"""Statements: a tenant's month, from its entries and the days of its VMs."""

import sqlalchemy as sa

from merkatd.currency.credits import Month, day_of
from merkatd.currency.statement import Statement, StatementLine
from merkatd.database import accounts, charges, details, entries, uses
from merkatd.database.uses import Use
from merkatd.ledger.folding import MOST_UNFOLDED, uses_of
from merkatd.ledger.tenants import tenant

_CORE = 100.0
"""Percent of a core."""
_GIB = 1024.0


def statement(connection: sa.Connection, owner: int, month: Month) -> Statement:
    """The month of a tenant, up to now where it is not over. Raises NotFoundError."""
    standing = tenant(connection, owner)
    movements = entries.sums_of_owner(connection, owner, month.begin_s, month.end_s)
    later = entries.sums_of_owner(connection, owner, month.end_s, None)
    closing = accounts.held_by(connection, owner) - sum(later.values())
    moved = {str(kind): amount for kind, amount in sorted(movements.items()) if amount}
    return Statement(
        owner=owner,
        name=standing.name,
        group=standing.group,
        month=month,
        opening=closing - sum(moved.values()),
        movements=moved,
        closing=closing,
        lines=_lines(connection, owner, month),
        debt=standing.debt,
        missing=charges.missing_between(connection, owner, month.begin_s, month.end_s),
    )


def _lines(connection: sa.Connection, owner: int, month: Month) -> list[StatementLine]:
    first, last = day_of(month.begin_s), day_of(month.end_s) - 1
    mine = accounts.ids_of_owner(connection, owner)
    fresh = uses_of(details.unfolded(connection, MOST_UNFOLDED))
    together: dict[tuple[int, int], Use] = {}
    for use in (*uses.of_owner(connection, owner, first, last), *fresh):
        if use.account in mine and first <= use.day <= last:
            key = (use.vm, use.account)
            together[key] = together[key].plus(use) if key in together else use
    return [_line(together[key]) for key in sorted(together)]


def _line(use: Use) -> StatementLine:
    return StatementLine(
        vm=use.vm,
        name=use.name,
        account=use.account,
        seconds=use.seconds,
        cpu_core_s=use.cpu_s / _CORE,
        memory_gib_s=use.memory_s / _GIB,
        cpu_cost=use.cpu_cost,
        memory_cost=use.memory_cost,
        network_mbit=use.network_s,
        disk_mib=use.disk_s,
        network_cost=use.network_cost,
        disk_cost=use.disk_cost,
    )
