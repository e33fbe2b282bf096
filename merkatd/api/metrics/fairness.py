"""How far the places of VMs keep them from what they would get on one great host."""

from collections.abc import Callable
from dataclasses import dataclass

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from merkatd.cluster import Floats, Snapshot
from merkatd.cluster.columns import NOWHERE
from merkatd.market.error import assess
from merkatd.scheduler.context import Executor
from merkatd.scheduler.phases.announce import Announcement

_log = Logger()


@dataclass(frozen=True, slots=True)
class Fairness:
    """Of one market, as its VMs stood when the period saw them."""

    market: str
    mean_error: float
    """Eq. 2, over the VMs that have a place and, of each, the larger of its resources."""
    largest_error: float
    shortfall: float
    """The sum of bid x shortfall: credits a period that buy nothing where VMs are."""


class Fair:
    """Works it out after each period, beside the reactor: it takes as long as looking at a plan."""

    def __init__(self, executor: Executor, tell: Callable[[list[Fairness]], None]) -> None:
        self._executor = executor
        self._tell = tell

    def announced(self, announcement: Announcement) -> None:
        """A period is over."""
        ensureDeferred(self._work_out(announcement.seen.snapshot))

    async def _work_out(self, snapshot: Snapshot) -> None:
        try:
            found = await self._executor.run(lambda: fairness(snapshot))
        except Exception:  # noqa: BLE001 - a figure that is missing must not cost a period
            _log.failure("The allocation errors were not worked out for the figures")
            return
        self._tell(found)


def fairness(snapshot: Snapshot) -> list[Fairness]:
    """By market."""
    found = assess(snapshot, snapshot.vms.host)
    placed = snapshot.vms.host != NOWHERE
    return [
        Fairness(
            market=name,
            mean_error=_mean(found.errors[placed & (snapshot.vms.market == row)]),
            largest_error=float(found.largest_error[row]),
            shortfall=float(found.shortfall[row]),
        )
        for row, name in enumerate(snapshot.markets.name)
    ]


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0
