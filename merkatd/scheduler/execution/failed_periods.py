"""Failed periods: storing why they ended."""

from twisted.logger import Logger

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
    except Exception:  # noqa: BLE001 - the caller raises the first error
        _log.failure(
            "Period {period} failed, and its failure could not be stored", period=observed.period
        )
