"""Retention: how long each table keeps its rows. No other module deletes rows because of age.

# Note [What is kept, and how long]
There are three retention times. *Details* belong to one period: allocations, steps, changes of
bids. They are kept for `period.keep_allocations` periods; before their deletion, use and charges
are added up by day (`merkatd.ledger.statements`). *History* is the data of statements, charts and
the record of orders; it is kept for `period.keep_history`. Rows of the *present* describe the
current state; their number depends on the numbers of VMs, tenants and living platforms. Money is
never lost: transactions older than the history become one transaction per kind, with the sum of
each account (`carry_forward`).

Example: with 10,080 periods of a minute and 366 days, the database has the allocations of the last
week and the prices of the last year. A platform that ended 366 days ago is deleted with its VMs,
its account and its budget; a platform that never had a VM is deleted with the details.

Rows are deleted in batches, each in its own transaction, so that cleaning up a table that has grown
for years blocks no other transaction for long.
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
from merkatd.database.room_price_store import ROOM_PRICES
from merkatd.database.scheduler.bid_store import WORDS
from merkatd.database.scheduler.comparison_store import COMPARISONS
from merkatd.database.scheduler.order_store import ORDERS
from merkatd.database.scheduler.period_store import PERIODS, PeriodState
from merkatd.database.scheduler.plan_store import PLANS
from merkatd.database.scheduler.price_store import ALLOCATIONS, PRICES
from merkatd.database.scheduler.step_store import OUTSTANDING, STEPS

BATCH = 5_000
"""Approximate maximum number of rows of a table that one transaction deletes."""
_ROWS = 50
"""Assumed number of rows per day in a table, and the least per period."""
_AS_AN_ACCOUNT = 10
"""Rows that take as long as an account, whose entries are moved to its owner one by one."""

_ENDED = (PeriodState.CHARGED, PeriodState.FAILED, PeriodState.WATCHED)


class RetentionTimes(StrEnum):
    """The retention times of rows."""

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
    "decision_seeds": RetentionTimes.PRESENT,
    "details": RetentionTimes.DETAILS,
    "entries": RetentionTimes.HISTORY,
    "job_runs": RetentionTimes.HISTORY,
    "job_samples": RetentionTimes.PRESENT,
    "leases": RetentionTimes.PRESENT,
    "limit_order_vms": RetentionTimes.PRESENT,
    "limit_orders": RetentionTimes.PRESENT,
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
    "room_prices": RetentionTimes.HISTORY,
    "rounds": RetentionTimes.DETAILS,
    "shortfalls": RetentionTimes.HISTORY,
    "steps": RetentionTimes.DETAILS,
    "strategy_memories": RetentionTimes.PRESENT,
    "tenant_groups": RetentionTimes.PRESENT,
    "tenants": RetentionTimes.PRESENT,
    "transactions": RetentionTimes.HISTORY,
    "use_samples": RetentionTimes.PRESENT,
    "uses": RetentionTimes.HISTORY,
    "vm_group_vms": RetentionTimes.DETAILS,
    "vm_groups": RetentionTimes.HISTORY,
    "vm_histories": RetentionTimes.PRESENT,
}
"""The retention time of each table."""


@dataclass(frozen=True, slots=True)
class Horizon:
    """The oldest rows to keep."""

    details_period: int
    """The first period whose details are kept."""
    details_s: float
    """The time of that period, in seconds since the epoch."""
    history_s: float
    """The time from which on history is kept."""


def delete_old_rows(connection: sa.Connection, horizon: Horizon, most: int = BATCH) -> bool:
    """Delete one batch of old rows of each table; return whether there may be more."""
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
    """Delete the old rows of at most `most` values of a column; return the number of values."""
    column = table.c[name]
    values = list(connection.scalars(sa.select(column).where(old).distinct().limit(most)))
    for some in chunks(values):
        connection.execute(sa.delete(table).where(column.in_(some), old))
    return len(values)


def _drop_periods(
    connection: sa.Connection, table: sa.Table[Any], old: sa.ColumnElement[bool], most: int
) -> int:
    """Delete the old rows of the first periods; return their approximate number.

    A large site has thousands of steps in a period, so whole periods are deleted one by one.
    """
    column, dropped = table.c.period, 0
    first = sa.select(column).where(old).order_by(column).limit(1)
    while dropped < most and (period := connection.scalar(first)) is not None:
        result = connection.execute(sa.delete(table).where(column == period, old))
        dropped += max(result.rowcount, _ROWS)
    return dropped


def _delete_allocations(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    old = ALLOCATIONS.c.period < horizon.details_period
    return _drop_periods(connection, ALLOCATIONS, old, most)


def _delete_steps(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    """Delete ended steps; steps under way stay, however old they are."""
    old = (STEPS.c.period < horizon.details_period) & STEPS.c.state.not_in(OUTSTANDING)
    return _drop_periods(connection, STEPS, old, most)


def _delete_comparisons(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    old = COMPARISONS.c.period < horizon.details_period
    return _drop_periods(connection, COMPARISONS, old, most)


def _delete_bid_words(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    return _drop(connection, WORDS, "id", WORDS.c.at_s < horizon.details_s, most)


def _delete_actions(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    return _drop(connection, DOINGS, "id", DOINGS.c.at_s < horizon.details_s, most)


def _delete_plans(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    """Delete ended plans except the newest plan, which commands show."""
    newest = connection.scalar(sa.select(sa.func.max(PLANS.c.id))) or 0
    old = (PLANS.c.ended_s < horizon.details_s) & (PLANS.c.id < newest)
    return _drop(connection, PLANS, "id", old, most)


def _delete_rounds(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    """Delete rounds except the newest of each kind, from which the next is scheduled."""
    newest = sa.select(sa.func.max(ROUNDS.c.number)).group_by(ROUNDS.c.kind)
    kept = list(connection.scalars(newest))
    old = (ROUNDS.c.at_s < horizon.details_s) & ROUNDS.c.number.not_in(kept)
    return _drop(connection, ROUNDS, "number", old, most)


def _delete_prices(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    last = _last_period(connection, horizon)
    return _drop_periods(connection, PRICES, PRICES.c.period <= last, most)


def _delete_room_prices(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    last = _last_period(connection, horizon)
    return _drop_periods(connection, ROOM_PRICES, ROOM_PRICES.c.period <= last, most)


def _delete_shortfalls(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    last = _last_period(connection, horizon)
    return _drop_periods(connection, SHORTFALLS, SHORTFALLS.c.period <= last, most)


def _delete_periods(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    """Delete ended periods to which no other kept row refers."""
    number = PERIODS.c.number
    used = [
        number.in_(sa.select(table.c.period))
        for table in (ALLOCATIONS, DETAILS, STEPS, PRICES, ROOM_PRICES, SHORTFALLS, RESERVATIONS)
    ]
    old = (number <= _last_period(connection, horizon)) & PERIODS.c.state.in_(_ENDED)
    numbers = list(connection.scalars(sa.select(number).where(old, ~sa.or_(*used)).limit(most)))
    for some in chunks(numbers):
        connection.execute(sa.delete(PERIODS).where(number.in_(some)))
    return len(numbers)


def _last_period(connection: sa.Connection, horizon: Horizon) -> int:
    """Return the newest period to delete: older than the history, its charges added up to days."""
    query = sa.select(sa.func.max(PERIODS.c.number)).where(PERIODS.c.started_s < horizon.history_s)
    last = connection.scalar(query) or 0
    return min(last, rolled_up_to(connection), horizon.details_period - 1)


def _delete_notes(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    return _drop(connection, NOTES, "id", NOTES.c.at_s < horizon.history_s, most)


def _delete_orders(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    """Delete orders except the newest about each subject, which is in force."""
    newest = list(connection.scalars(sa.select(sa.func.max(ORDERS.c.id)).group_by(ORDERS.c.host)))
    old = (ORDERS.c.at_s < horizon.history_s) & ORDERS.c.id.not_in(newest)
    return _drop(connection, ORDERS, "id", old, most)


def _delete_uses(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    return _drop(
        connection, USES, "day", USES.c.day < day_of(horizon.history_s), max(most // _ROWS, 1)
    )


def _delete_transactions(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    return carry_forward(connection, horizon.history_s, most)


def _delete_accounts(connection: sa.Connection, horizon: Horizon, most: int) -> int:
    few = max(most // _AS_AN_ACCOUNT, 1)
    return _AS_AN_ACCOUNT * drop_accounts(connection, horizon.history_s, horizon.details_s, few)


# Referring rows are deleted before the rows to which they refer.
_RULES: tuple[_Rule, ...] = (
    _delete_allocations,
    _delete_steps,
    _delete_comparisons,
    _delete_bid_words,
    _delete_actions,
    _delete_plans,
    _delete_rounds,
    lambda connection, horizon, most: drop_platform_vms(connection, horizon.details_s, most),
    lambda connection, horizon, most: drop_group_vms(connection, horizon.details_s, most),
    _delete_prices,
    _delete_room_prices,
    _delete_shortfalls,
    _delete_periods,
    _delete_notes,
    _delete_orders,
    _delete_uses,
    _delete_transactions,
    lambda connection, horizon, most: drop_platforms(
        connection, horizon.history_s, horizon.details_s, most
    ),
    lambda connection, horizon, most: drop_vm_groups(
        connection, horizon.history_s, horizon.details_s, most
    ),
    _delete_accounts,
)
