"""Now and then: details become days, and what is older than it is kept for goes."""

import sqlalchemy as sa
from twisted.logger import Logger

from merkatd.database import retention
from merkatd.database.retention import Horizon
from merkatd.database.scheduler import period_store
from merkatd.scheduler.charging.charge import keep_books
from merkatd.scheduler.context import PeriodContext

EVERY = 60
"""Periods from one time to the next."""
_BATCHES = 50
"""The most transactions at a time; a table that has grown for years takes several times."""

_log = Logger()


async def retain(world: PeriodContext, period: int) -> None:
    """Do so after each 60th period."""
    if period % EVERY:
        return
    horizon = await world.database.read(lambda c: horizon_of(c, world, period))
    await keep_books(world, horizon.details_period)
    for _ in range(_BATCHES):
        if not await world.database.run(lambda c: retention.tidy(c, horizon)):
            return
    _log.info("More rows are older than they are kept for; they go after later periods")


def horizon_of(connection: sa.Connection, world: PeriodContext, period: int) -> Horizon:
    """The oldest that is kept after this period.

    What is deleted never comes back, and clocks are set wrong at times. So since the oldest period
    with details no more time counts as passed than an interval for each period. While a clock is
    ahead, and after days in which no period ran, more is kept than need be. Periods that began
    early make no detail go sooner.
    """
    rhythm, now_s = world.rhythm, world.now()
    oldest = period_store.first_from(connection, period - rhythm.keep_allocations)
    if oldest is not None:
        passed_s = (period - oldest.number + 1) * rhythm.interval_s
        now_s = min(now_s, oldest.started_s + passed_s)
    details_s = now_s - rhythm.keep_allocations * rhythm.interval_s
    first = period_store.first_since(connection, details_s)
    # While no clock is wrong that is the oldest one; more can't have begun in that time.
    most = rhythm.keep_allocations * max(rhythm.interval_s / max(rhythm.least_interval_s, 1.0), 1.0)
    begun_early = period if first is None else max(first, period - int(most))
    return Horizon(
        details_period=min(period - rhythm.keep_allocations, begun_early),
        details_s=details_s,
        history_s=now_s - rhythm.keep_history_s,
    )
