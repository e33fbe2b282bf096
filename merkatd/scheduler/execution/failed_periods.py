"""Failed periods: the log has why, and the database as far as it can."""

from typing import Any

import sqlalchemy as sa
from twisted.logger import Logger
from twisted.python.failure import Failure

from merkatd.database.scheduler import period_store
from merkatd.database.scheduler.lease_store import LeaseLostError
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.observed import Observed

_log = Logger()


async def give_up(context: PeriodContext, observed: Observed, error: Exception) -> None:
    """Store why the period ended, unless it had decided: then it is charged."""
    why, at_s = f"{type(error).__name__}: {error}", context.now()
    if isinstance(error, LeaseLostError):
        return
    try:
        await context.database.run(lambda c: period_store.give_up(c, observed.period, at_s, why))
    except sa.exc.OperationalError as unstored:
        _log.error(
            "Period {period} failed, and its failure could not be stored: {why}",
            period=observed.period,
            why=str(unstored.orig),
        )
    except Exception:  # noqa: BLE001 - the caller raises the first error
        _log.failure(
            "Period {period} failed, and its failure could not be stored", period=observed.period
        )


def log_failed_period(error: Exception) -> None:
    """Log why a period failed: a line if the database can't be used, else with its traceback."""
    if isinstance(error, sa.exc.OperationalError):
        _log.error(
            "The period failed, as the database can't be used: {why}; the next one starts as"
            " planned",
            why=str(error.orig),
        )
        return
    traced: Any = Failure(error)  # type: ignore[no-untyped-call]
    _log.failure("The period failed; the next one starts as planned", traced)
