"""The memory of the last periods: bids, allocations, use and costs of each VM."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from merkatd.base.deferreds import SharedResult
from merkatd.cluster import Snapshot
from merkatd.cluster.columns import NO_HOST, row_of
from merkatd.service.base.period_view import PeriodView
from merkatd.service.market.past_periods import PastShares
from merkatd.web.base.goals import Goal

MOST_PERIODS = 360
MOST_ROWS = 500_000
"""The most rows (VMs) of all periods together; a row takes about fifty bytes."""
Small = npt.NDArray[np.int32]
Rough = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class PeriodRecord:
    """The record of a period. Its floats have seven digits, which is enough for a chart."""

    period: int
    at_s: float
    vm: Small
    """[vms]: ids, sorted."""
    owner: Small
    application: Small
    host: Small
    """[vms]: the ids of their hosts, -1 for none."""
    bid: Rough
    """[vms, resources]: bids."""
    given: Rough
    """[vms, resources]: allocations."""
    used: Rough
    """[vms, resources]: measured use, NaN if it was not measured."""
    cost: Rough
    """[vms]: credits for a whole period, NaN if unknown."""
    host_id: Small
    """[hosts]: ids, sorted; empty for a period before the start of this daemon."""
    whole: Rough
    """[hosts, resources]: capacities."""
    goals: Sequence[Goal] = ()

    def row(self, vm: int) -> int | None:
        """Return the row of a VM, None if it did not exist."""
        return row_of(self.vm, vm)

    def host_row(self, host: int) -> int | None:
        """Return the row of a host, None if it did not exist."""
        return row_of(self.host_id, host)


class Past:
    """The records of the last periods, the oldest first."""

    def __init__(self, periods: int = MOST_PERIODS, rows: int = MOST_ROWS) -> None:
        self._most_periods = periods
        self._most_rows = rows
        self._kept: deque[PeriodRecord] = deque()
        self._rows = 0
        self.began: int | None = None
        """The first period that this daemon added itself; records from the database have less."""
        self.adding: SharedResult[None] | None = None
        """The running or finished addition of the latest period."""

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def moments(self) -> Sequence[PeriodRecord]:
        """Return all records, the oldest first."""
        return tuple(self._kept)

    def until(self, period: int) -> Sequence[PeriodRecord]:
        """Return all records up to this period, the oldest first."""
        return [moment for moment in self._kept if moment.period <= period]

    def over(self, range_: str, period: int) -> Sequence[PeriodRecord]:
        """Return the records of a range that ends with this period; here all: it has no ranges."""
        del range_
        return self.until(period)

    async def settled(self) -> None:
        """Wait until the latest period is added."""
        if self.adding is not None:
            await self.adding.result()

    def owner(self, vm: int) -> int | None:
        """Return the last known owner of a VM, None if it is unknown."""
        for moment in reversed(self._kept):
            row = moment.row(vm)
            if row is not None:
                return int(moment.owner[row])
        return None

    def add(self, moment: PeriodRecord) -> None:
        """Add the newest record; remove the oldest ones beyond the limits."""
        if self.began is None:
            self.began = moment.period
        self._kept.append(moment)
        self._rows += len(moment.vm)
        while len(self._kept) > 1 and self._full(0):
            self._rows -= len(self._kept.popleft().vm)

    def put_before(self, moment: PeriodRecord) -> bool:
        """Add a record older than all others if there is room; return whether there was."""
        if self._full(len(moment.vm)) or len(self._kept) >= self._most_periods:
            return False
        self._kept.appendleft(moment)
        self._rows += len(moment.vm)
        return True

    def _full(self, more: int) -> bool:
        return len(self._kept) > self._most_periods or self._rows + more > self._most_rows


def moment_of(period: int, view: PeriodView, goals: Sequence[Goal]) -> PeriodRecord:
    """Return the record of a period from its view."""
    vms, hosts = view.snapshot.vms, view.snapshot.hosts
    order, host_order = np.argsort(vms.id), np.argsort(hosts.id)
    there = view.host != NO_HOST
    host = np.full(len(vms), NO_HOST)
    host[there] = hosts.id[view.host[there]]
    return PeriodRecord(
        period=period,
        at_s=view.at_s,
        vm=_small(vms.id[order]),
        owner=_small(vms.owner[order]),
        application=_small(vms.application[order]),
        host=_small(host[order]),
        bid=_rough(vms.bid[order]),
        given=_rough(view.given()[order]),
        used=_used(view.snapshot)[order],
        cost=_rough(view.cost[order].sum(axis=1)),
        host_id=_small(hosts.id[host_order]),
        whole=_rough(hosts.capacity[host_order]),
        goals=tuple(goals),
    )


def moment_before(shares: PastShares) -> PeriodRecord:
    """Return the record of a period from the database, which has no hosts of VMs and no use."""
    count, resources = shares.given.shape
    return PeriodRecord(
        period=shares.period,
        at_s=shares.at_s,
        vm=_small(shares.vm),
        owner=_small(shares.owner),
        application=_small(shares.application),
        host=np.full(count, NO_HOST, np.int32),
        bid=_rough(shares.bid),
        given=_rough(shares.given),
        used=np.full((count, resources), np.nan, np.float32),
        cost=_rough(shares.cost),
        host_id=np.zeros(0, np.int32),
        whole=np.zeros((0, resources), np.float32),
    )


def _used(snapshot: Snapshot) -> Rough:
    if snapshot.history is None:
        return np.full(snapshot.vms.bid.shape, np.nan, np.float32)
    return _rough(snapshot.history.vms[-1])


def _small(values: Any) -> Small:
    return np.asarray(values, dtype=np.int32)


def _rough(values: Any) -> Rough:
    return np.asarray(values, dtype=np.float32)
