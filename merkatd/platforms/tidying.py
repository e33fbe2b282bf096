"""What processes of platforms left on the disk is kept as long as details are, and bounded."""

from functools import partial

from twisted.logger import Logger

from merkatd.database.fleets import platform_store
from merkatd.platforms.ports import Controllers
from merkatd.scheduler.context import World

EVERY = 60
"""Periods from one time to the next."""
MOST_OVER = 10
"""The newest platforms of an owner that are over and whose logs are kept: a tenant can begin and
end as many as it likes."""

_log = Logger()


async def tidy(world: World, controllers: Controllers, period: int) -> None:
    """Do so after each 60th period."""
    if period % EVERY:
        return
    rhythm = world.rhythm
    since_s = world.now() - rhythm.keep_allocations * rhythm.interval_s
    kept = await world.database.read(lambda c: platform_store.remembered(c, since_s, MOST_OVER))
    gone = await world.executor.run(partial(controllers.tidy, kept))
    if gone:
        _log.info("Logs of {count} platforms that are over were removed", count=gone)
