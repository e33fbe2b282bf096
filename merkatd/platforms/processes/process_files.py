"""Log files of platforms' processes: the last line of a log, and the removal of old logs."""

from functools import partial
from pathlib import Path
from typing import Final

from twisted.logger import Logger

from merkatd.database.fleets import platform_store
from merkatd.protocol.platform_messages import Controllers
from merkatd.scheduler.context import PeriodContext

_MOST_BYTES: Final = 8192
_LONGEST: Final = 300


def last_log_line(log: Path) -> str:
    """Return the last line of a log that is not blank; empty if there is none.

    If the process ended by an exception, that line is the exception.
    """
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - _MOST_BYTES, 0))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines()]
    last = next((line for line in reversed(lines) if line), "")
    return "".join(letter for letter in last if letter.isprintable())[:_LONGEST]


EVERY = 60
"""The number of periods between two removals."""
MOST_OVER = 10
"""The number of an owner's newest ended platforms whose logs are kept. Without this limit a tenant
could fill the disk, as it can start and end any number of platforms."""
_log = Logger()


async def remove_old_logs(context: PeriodContext, controllers: Controllers, period: int) -> None:
    """Remove the logs of old ended platforms; works in each 60th period only."""
    if period % EVERY:
        return
    rhythm = context.rhythm
    since_s = context.now() - rhythm.keep_allocations * rhythm.interval_s
    kept = await context.database.read(lambda c: platform_store.remembered(c, since_s, MOST_OVER))
    gone = await context.executor.run(partial(controllers.tidy, kept))
    if gone:
        _log.info("Removed the logs of {count} ended platforms", count=gone)
