"""What a process wrote last: for one that ended by an exception, that exception."""

from functools import partial
from pathlib import Path
from typing import Final

from twisted.logger import Logger

from merkatd.database.fleets import platform_store
from merkatd.protocol.platform_messages import Controllers
from merkatd.scheduler.context import PeriodContext

_MOST_BYTES: Final = 8192
_LONGEST: Final = 300


def last_words(log: Path) -> str:
    """Return the last line of a log that says something; empty where there is none."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - _MOST_BYTES, 0))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines()]
    said = next((line for line in reversed(lines) if line), "")
    return "".join(one for one in said if one.isprintable())[:_LONGEST]


EVERY = 60
"""Periods from one time to the next."""
MOST_OVER = 10
"""The newest platforms of an owner that are over and whose logs are kept: a tenant can begin and
end as many as it likes."""
_log = Logger()


async def tidy(world: PeriodContext, controllers: Controllers, period: int) -> None:
    """Do so after each 60th period."""
    if period % EVERY:
        return
    rhythm = world.rhythm
    since_s = world.now() - rhythm.keep_allocations * rhythm.interval_s
    kept = await world.database.read(lambda c: platform_store.remembered(c, since_s, MOST_OVER))
    gone = await world.executor.run(partial(controllers.tidy, kept))
    if gone:
        _log.info("Logs of {count} platforms that are over were removed", count=gone)
