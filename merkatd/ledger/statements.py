"""Daily totals of charge details, and a tenant's monthly statement from them.

A statement reads daily totals. Details of the last hours are not in a daily total yet; the
statement adds them.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from merkatd.currency.credits import Month, day_of
from merkatd.currency.statement import Statement, StatementLine
from merkatd.database.ledger import account_store, charge_store, entry_store, usage_store
from merkatd.database.ledger.rollup_store import roll_up, rolled_up_to
from merkatd.database.ledger.tenant_store import LONGEST_NAME
from merkatd.database.ledger.usage_store import DailyUse, Detail
from merkatd.ledger.tenants import tenant

Numbers = npt.NDArray[Any]
MOST_UNFOLDED = 100_000
"""An upper bound of the details that are not in a daily total yet."""
_GOODS = 4
"""CPU, memory, network, disk; a period without network and disk has the first two columns."""
_VMS = 2**31
"""A bound above all VM ids."""


def uses_of(details: Iterable[Detail]) -> list[DailyUse]:
    """Sum details by day, payer and VM."""
    by_day: dict[int, list[Detail]] = {}
    for detail in details:
        by_day.setdefault(day_of(detail.at_s), []).append(detail)
    return [use for day in sorted(by_day) for use in _daily_uses(day, by_day[day])]


def _daily_uses(day: int, details: Sequence[Detail]) -> list[DailyUse]:
    """Sum the details of a day by payer and VM; a VM has the last of its names."""
    row_keys = np.concatenate([detail.account * _VMS + detail.vm for detail in details])
    keys, last, key_of_row = np.unique(row_keys[::-1], return_index=True, return_inverse=True)
    key_of_row = key_of_row[::-1]
    names = [name for detail in details for name in detail.names]
    seconds = np.concatenate([detail.seconds for detail in details])
    used = np.concatenate(
        [_widened(detail.allocation) * detail.seconds[:, np.newaxis] for detail in details]
    )
    charged = np.concatenate([_widened(detail.charged) for detail in details])
    cost = np.zeros((len(keys), _GOODS), dtype=np.int64)
    np.add.at(cost, key_of_row, charged)
    columns = (
        (keys // _VMS).tolist(),
        (keys % _VMS).tolist(),
        [names[len(row_keys) - 1 - row][:LONGEST_NAME] for row in last.tolist()],
        np.bincount(key_of_row, seconds, len(keys)).tolist(),
        np.bincount(key_of_row, used[:, 0], len(keys)).tolist(),
        np.bincount(key_of_row, used[:, 1], len(keys)).tolist(),
        cost[:, 0].tolist(),
        cost[:, 1].tolist(),
        np.bincount(key_of_row, used[:, 2], len(keys)).tolist(),
        np.bincount(key_of_row, used[:, 3], len(keys)).tolist(),
        cost[:, 2].tolist(),
        cost[:, 3].tolist(),
    )
    return [DailyUse(account, day, *rest) for account, *rest in zip(*columns, strict=True)]


def _widened(values: Numbers) -> Numbers:
    """Return [vms, all goods]: zero for goods that were not sold in that period."""
    return np.pad(values, ((0, 0), (0, _GOODS - values.shape[1])))


def fold_details(connection: sa.Connection, most_periods: int = 60) -> int:
    """Add the oldest details to their daily totals; return the number of their periods."""
    unfolded = usage_store.unfolded(connection, most_periods)
    if not unfolded:
        return 0
    by_day: dict[int, list[DailyUse]] = {}
    for use in uses_of(unfolded):
        by_day.setdefault(use.day, []).append(use)
    for day, new in by_day.items():
        together = {(use.account, use.vm): use for use in usage_store.of_day(connection, day)}
        for use in new:
            key = (use.account, use.vm)
            together[key] = together[key].plus(use) if key in together else use
        usage_store.replace_day(connection, day, (together[key] for key in sorted(together)))
    usage_store.mark_folded(connection, unfolded[-1].period)
    return len(unfolded)


def forget(connection: sa.Connection, before: int, at_s: float, most_periods: int = 5) -> int:
    """Replace the details of periods before `before` by daily totals; return how many periods."""
    count = roll_up(connection, before, most_periods, at_s)
    usage_store.forget(connection, rolled_up_to(connection) + 1)
    return count


_CORE = 100.0
"""Percent of a core, to cores."""
_GIB = 1024.0


def statement(connection: sa.Connection, owner: int, month: Month) -> Statement:
    """Return a tenant's month, up to now if it has not ended. Raise NotFoundError."""
    standing = tenant(connection, owner)
    movements = entry_store.sums_of_owner(connection, owner, month.begin_s, month.end_s)
    later = entry_store.sums_of_owner(connection, owner, month.end_s, None)
    closing = account_store.held_by(connection, owner) - sum(later.values())
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
        missing=charge_store.missing_between(connection, owner, month.begin_s, month.end_s),
    )


def _lines(connection: sa.Connection, owner: int, month: Month) -> list[StatementLine]:
    first, last = day_of(month.begin_s), day_of(month.end_s) - 1
    mine = account_store.ids_of_owner(connection, owner)
    fresh = uses_of(usage_store.unfolded(connection, MOST_UNFOLDED))
    together: dict[tuple[int, int], DailyUse] = {}
    for use in (*usage_store.of_owner(connection, owner, first, last), *fresh):
        if use.account in mine and first <= use.day <= last:
            key = (use.vm, use.account)
            together[key] = together[key].plus(use) if key in together else use
    return [_line(together[key]) for key in sorted(together)]


def _line(use: DailyUse) -> StatementLine:
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
