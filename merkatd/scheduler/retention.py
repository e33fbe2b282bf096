"""Now and then: details become days, and what is older than it is kept for goes."""

from twisted.logger import Logger

from merkatd.database import retention
from merkatd.database.retention import Horizon
from merkatd.scheduler.charge import keep_books
from merkatd.scheduler.world import World

EVERY = 60
"""Periods from one time to the next."""
_BATCHES = 50
"""The most transactions at a time; a table that has grown for years takes several times."""

_log = Logger()


async def retain(world: World, period: int) -> None:
    """Do so after each 60th period."""
    if period % EVERY:
        return
    await keep_books(world, period)
    horizon = horizon_of(world, period)
    for _ in range(_BATCHES):
        if not await world.database.run(lambda c: retention.tidy(c, horizon)):
            return
    _log.info("More rows are older than they are kept for; they go after later periods")


def horizon_of(world: World, period: int) -> Horizon:
    """The oldest that is kept after this period."""
    rhythm, now_s = world.rhythm, world.now()
    return Horizon(
        details_period=period - rhythm.keep_allocations,
        details_s=now_s - rhythm.keep_allocations * rhythm.interval_s,
        history_s=now_s - rhythm.keep_history_s,
    )
