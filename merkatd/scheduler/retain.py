"""Retention: rolling details up to daily totals, and deleting old rows."""

import sqlalchemy as sa
from twisted.logger import Logger

from merkatd.database import retention
from merkatd.database.retention import Horizon
from merkatd.database.scheduler import period_store
from merkatd.scheduler.charging.charge import roll_up_books
from merkatd.scheduler.context import PeriodContext

EVERY = 60
"""The number of periods between two runs."""
MOST_EARLY = 12
"""The number of periods in an interval whose details are kept for the whole time of retention."""
_BATCHES = 2 * EVERY
"""The most transactions in a run: two for each new period, as one may have very many steps. A table
that has grown for years needs several runs."""

_log = Logger()


async def retain(context: PeriodContext, period: int) -> None:
    """After each 60th period, sum up old charges and delete old rows."""
    if period % EVERY:
        return
    horizon = await context.database.read(lambda c: horizon_of(c, context, period))
    await roll_up_books(context, horizon.details_period)
    for _ in range(_BATCHES):
        if not await context.database.run(lambda c: retention.delete_old_rows(c, horizon)):
            return
    _log.info("More old rows remain; they are deleted after later periods")


def horizon_of(connection: sa.Connection, context: PeriodContext, period: int) -> Horizon:
    """Return the limits of age after this period.

    Deleted rows never come back, and clocks are sometimes wrong. So the time since the oldest
    period with details counts as at most one interval per period. While a clock is ahead, and after
    days without periods, more rows are kept than necessary. Periods that began early do not shorten
    the retention of details, up to `MOST_EARLY` periods in each interval on average.
    """
    rhythm, now_s = context.rhythm, context.now()
    oldest = period_store.first_from(connection, period - rhythm.keep_allocations)
    if oldest is not None:
        passed_s = (period - oldest.number + 1) * rhythm.interval_s
        now_s = min(now_s, oldest.started_s + passed_s)
    details_s = now_s - rhythm.keep_allocations * rhythm.interval_s
    first = period_store.first_since(connection, details_s)
    # With correct clocks that is the oldest one.
    most = rhythm.keep_allocations * MOST_EARLY
    begun_early = period if first is None else max(first, period - most)
    return Horizon(
        details_period=min(period - rhythm.keep_allocations, begun_early),
        details_s=details_s,
        history_s=now_s - rhythm.keep_history_s,
    )
