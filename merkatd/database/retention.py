"""Retention: how long each table keeps its rows. No other module deletes rows because of age.

# Note [What is kept, and how long]
Three lengths of time. *Details* belong to one period: allocations, steps, the words of bids.
They are kept for `period.keep_allocations` periods; use and charges become days before they go
(`merkatd.ledger.statements`). *History* is what statements, charts and the record of orders read:
it is kept for `period.keep_history`. Rows in the *present* say how things stand now; there are
as many as there are VMs, tenants and living platforms. Money is never lost: transactions older
than the history become one transaction a kind, with the sum of each account (`carry_forward`).

Example: with 10,080 periods of a minute and 366 days, the allocations of the last week, and
the prices of the last year, can be asked for. A platform that ended 366 days ago goes together
with its VMs, its account and its budget; one that never had a VM goes with the details.

Rows go in batches, each in a transaction of its own, so that a table that has grown for years
holds up nobody.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from merkatd.currency.credits import day_of
from merkatd.database.base.schema import chunks
from merkatd.database.fleets.platform_store import DOINGS
from merkatd.database.ledger.carried_entries import carry_forward
from merkatd.database.ledger.charge_store import SHORTFALLS
from merkatd.database.ledger.note_store import NOTES, ROUNDS
from merkatd.database.ledger.reservation_store import RESERVATIONS
from merkatd.database.ledger.rollup_store import rolled_up_to
from merkatd.database.ledger.usage_store import DETAILS, USES
from merkatd.database.retired_fleets import (
    drop_accounts,
    drop_group_vms,
    drop_platform_vms,
    drop_platforms,
    drop_vm_groups,
)
from merkatd.database.scheduler.bid_store import WORDS
from merkatd.database.scheduler.comparison_store import COMPARISONS
from merkatd.database.scheduler.order_store import ORDERS
from merkatd.database.scheduler.period_store import PERIODS, PeriodState
from merkatd.database.scheduler.plan_store import PLANS
from merkatd.database.scheduler.price_store import ALLOCATIONS, PRICES
from merkatd.database.scheduler.step_store import OUTSTANDING, STEPS

BATCH = 5_000
"""About how many rows of a table one transaction deletes at most."""
_ROWS = 50
"""As many rows as this a period or a day is taken to have in a table."""
_AS_AN_ACCOUNT = 10
"""An account takes as long as so many rows: its entries are given to its owner one by one."""

_ENDED = (PeriodState.CHARGED, PeriodState.FAILED, PeriodState.WATCHED)


class RetentionTimes(StrEnum):
    """How long rows are kept."""

    DETAILS = "details"
    HISTORY = "history"
    PRESENT = "present"


KEPT: Mapping[str, RetentionTimes] = {
    "accounts": RetentionTimes.HISTORY,
    "allocations": RetentionTimes.DETAILS,
    "arrears": RetentionTimes.PRESENT,
    "bid_words": RetentionTimes.DETAILS,
    "bids": RetentionTimes.PRESENT,
    "budgets": RetentionTimes.HISTORY,
    "comparisons": RetentionTimes.DETAILS,
    "details": RetentionTimes.DETAILS,
    "entries": RetentionTimes.HISTORY,
    "leases": RetentionTimes.PRESENT,
    "notes": RetentionTimes.HISTORY,
    "orders": RetentionTimes.HISTORY,
    "periods": RetentionTimes.HISTORY,
    "plans": RetentionTimes.DETAILS,
    "platform_doings": RetentionTimes.DETAILS,
    "platform_vms": RetentionTimes.DETAILS,
    "platforms": RetentionTimes.HISTORY,
    "prices": RetentionTimes.HISTORY,
    "reservations": RetentionTimes.PRESENT,
    "rollups": RetentionTimes.PRESENT,
    "rounds": RetentionTimes.DETAILS,
    "shortfalls": RetentionTimes.HISTORY,
    "steps": RetentionTimes.DETAILS,
    "tenant_groups": RetentionTimes.PRESENT,
    "tenants": RetentionTimes.PRESENT,
    "transactions": RetentionTimes.HISTORY,
    "uses": RetentionTimes.HISTORY,
    "vm_group_vms": RetentionTimes.DETAILS,
    "vm_groups": RetentionTimes.HISTORY,
}
"""By table."""


@dataclass(frozen=True, slots=True)
class Horizon:
    """The oldest that is kept."""

    details_period: int
    """The first period whose details are kept,"""
    details_s: float
    """and when it was, in seconds since the epoch."""
    history_s: float
    """Since when history is kept."""


def tidy(connection: sa.Connection, horizon: Horizon, most: int = BATCH) -> bool:
    """Delete one batch of each table's rows that are too old; whether there may be more."""
    counts = [rule(connection, horizon, most) for rule in _RULES]
    return any(count >= most for count in counts)


_Rule = Callable[[sa.Connection, Horizon, int], int]


def _drop(
    connection: sa.Connection,
    table: sa.Table[Any],
    name: str,
    old: sa.ColumnElement[bool],
    most: int,
) -> int:
    """Delete old rows, of at most so many values of the column; how many values they had."""
    column = table.c[name]
    found = list(connection.scalars(sa.select(column).where(old).distinct().limit(most)))
    for some in chunks(found):
        connection.execute(sa.delete(table).where(column.in_(some), old))
    return len(found)


def _drop_periods(
    connection: sa.Connection, table: sa.Table[Any], old: sa.ColumnElement[bool], most: int
) -> int:
    """The same by periods, of which each has many rows."""
    return _ROWS * _drop(connection, table, "period", old, max(most // _ROWS, 1))


def _allocations(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    old = ALLOCATIONS.c.period < horizon.details_period
    return _drop_periods(connection, ALLOCATIONS, old, most)


def _steps(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    """Those that ended; a step that is under way stays, however old."""
    old = (STEPS.c.period < horizon.details_period) & STEPS.c.state.not_in(OUTSTANDING)
    return _drop_periods(connection, STEPS, old, most)


def _memories(connection: sa.Connection, horizon: Horizon, _most: int) -> int:
    """What strategies remembered; that of the newest periods is used."""
    connection.execute(
        sa.update(PERIODS)
        .where(PERIODS.c.number < horizon.details_period, PERIODS.c.memory.is_not(None))
        .values(memory=None)
    )
    return 0


def _comparisons(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    old = COMPARISONS.c.period < horizon.details_period
    return _drop_periods(connection, COMPARISONS, old, most)


def _words(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    return _drop(connection, WORDS, "id", WORDS.c.at_s < horizon.details_s, most)


def _doings(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    return _drop(connection, DOINGS, "id", DOINGS.c.at_s < horizon.details_s, most)


def _plans(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    """Those that ended; the newest plan is shown."""
    newest = connection.scalar(sa.select(sa.func.max(PLANS.c.id))) or 0
    old = (PLANS.c.ended_s < horizon.details_s) & (PLANS.c.id < newest)
    return _drop(connection, PLANS, "id", old, most)


def _rounds(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    """All but the newest of each kind, from which the next one is due."""
    newest = sa.select(sa.func.max(ROUNDS.c.number)).group_by(ROUNDS.c.kind)
    kept = list(connection.scalars(newest))
    old = (ROUNDS.c.at_s < horizon.details_s) & ROUNDS.c.number.not_in(kept)
    return _drop(connection, ROUNDS, "number", old, most)


def _prices(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    last = _last_period(connection, horizon)
    return _drop_periods(connection, PRICES, PRICES.c.period <= last, most)


def _shortfalls(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    last = _last_period(connection, horizon)
    return _drop_periods(connection, SHORTFALLS, SHORTFALLS.c.period <= last, most)


def _periods(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    """Those that ended and of which nothing else is kept."""
    number = PERIODS.c.number
    used = [
        number.in_(sa.select(table.c.period))
        for table in (ALLOCATIONS, DETAILS, STEPS, PRICES, SHORTFALLS, RESERVATIONS)
    ]
    old = (number <= _last_period(connection, horizon)) & PERIODS.c.state.in_(_ENDED)
    found = list(connection.scalars(sa.select(number).where(old, ~sa.or_(*used)).limit(most)))
    for some in chunks(found):
        connection.execute(sa.delete(PERIODS).where(number.in_(some)))
    return len(found)


def _last_period(connection: sa.Connection, horizon: Horizon) -> int:
    """The newest period that belongs to no kept history; its charges have become days."""
    query = sa.select(sa.func.max(PERIODS.c.number)).where(PERIODS.c.started_s < horizon.history_s)
    last = connection.scalar(query) or 0
    return min(last, rolled_up_to(connection), horizon.details_period - 1)


def _notes(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    return _drop(connection, NOTES, "id", NOTES.c.at_s < horizon.history_s, most)


def _orders(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    """The newest order about each subject is in force."""
    newest = list(connection.scalars(sa.select(sa.func.max(ORDERS.c.id)).group_by(ORDERS.c.host)))
    old = (ORDERS.c.at_s < horizon.history_s) & ORDERS.c.id.not_in(newest)
    return _drop(connection, ORDERS, "id", old, most)


def _uses(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    return _drop(
        connection, USES, "day", USES.c.day < day_of(horizon.history_s), max(most // _ROWS, 1)
    )


def _transactions(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    return carry_forward(connection, horizon.history_s, most)


def _accounts(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    few = max(most // _AS_AN_ACCOUNT, 1)
    return _AS_AN_ACCOUNT * drop_accounts(connection, horizon.history_s, horizon.details_s, few)


# Rows that others refer to go after those.
_RULES: tuple[_Rule, ...] = (
    _allocations,
    _steps,
    _memories,
    _comparisons,
    _words,
    _doings,
    _plans,
    _rounds,
    lambda connection, horizon, most: drop_platform_vms(connection, horizon.details_s, most),
    lambda connection, horizon, most: drop_group_vms(connection, horizon.details_s, most),
    _prices,
    _shortfalls,
    _periods,
    _notes,
    _orders,
    _uses,
    _transactions,
    lambda connection, horizon, most: drop_platforms(
        connection, horizon.history_s, horizon.details_s, most
    ),
    lambda connection, horizon, most: drop_vm_groups(
        connection, horizon.history_s, horizon.details_s, most
    ),
    _accounts,
)
