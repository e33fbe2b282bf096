"""What the last periods gave to whom: kept in memory, so many periods and so many rows at most."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from merkatd.api.once import Once
from merkatd.api.questions.present import Present
from merkatd.cluster import Snapshot
from merkatd.cluster.columns import NOWHERE
from merkatd.currency import MICRO
from merkatd.database.scheduler.period_store import Period
from merkatd.scheduler.base.settings import Market
from merkatd.scheduler.charging.owed_amounts import owed_by_vm
from merkatd.scheduler.charging.used_cpu import by_use
from merkatd.web.goals import Goal

MOST_PERIODS = 360
MOST_ROWS = 500_000
"""VMs of all periods together; a row takes some fifty bytes."""

Small = npt.NDArray[np.int32]
Rough = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """One period. Seven digits are enough for a chart."""

    period: int
    at_s: float
    vm: Small
    """[vms]: ids, in order."""
    owner: Small
    application: Small
    host: Small
    """The ids of their hosts, -1 for none."""
    bid: Rough
    """[vms, resources], as are what they get and what they used;"""
    given: Rough
    used: Rough
    """NaN where nobody measured it."""
    cost: Rough
    """[vms]: credits for a whole period; NaN where nobody knows."""
    host_id: Small
    """[hosts], in order; none where the period was before this daemon began."""
    whole: Rough
    """[hosts, resources]: what they have."""
    goals: Sequence[Goal] = ()

    def row(self, vm: int) -> int | None:
        """The row of a VM, if it was there."""
        return _place(self.vm, vm)

    def host_row(self, host: int) -> int | None:
        """The row of a host, if it was there."""
        return _place(self.host_id, host)


class Past:
    """The newest moments, the oldest first."""

    def __init__(self, periods: int = MOST_PERIODS, rows: int = MOST_ROWS) -> None:
        self._most_periods = periods
        self._most_rows = rows
        self._kept: deque[Moment] = deque()
        self._rows = 0
        self.began: int | None = None
        """The first period that this daemon itself has added: the database knows less."""
        self.adding: Once[None] | None = None
        """The period that has just ended is being added, or was."""

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def moments(self) -> Sequence[Moment]:
        """All that are kept."""
        return tuple(self._kept)

    async def settled(self) -> None:
        """Wait until the period that has just ended is there."""
        if self.adding is not None:
            await self.adding.result()

    def owner(self, vm: int) -> int | None:
        """Whose a VM is or was, as far as it is known."""
        for moment in reversed(self._kept):
            row = moment.row(vm)
            if row is not None:
                return int(moment.owner[row])
        return None

    def add(self, moment: Moment) -> None:
        """The newest one; the oldest go where there are too many."""
        if self.began is None:
            self.began = moment.period
        self._kept.append(moment)
        self._rows += len(moment.vm)
        while len(self._kept) > 1 and self._full(0):
            self._rows -= len(self._kept.popleft().vm)

    def put_before(self, moment: Moment) -> bool:
        """An older one than all, as long as there is room; whether there was."""
        if self._full(len(moment.vm)) or len(self._kept) >= self._most_periods:
            return False
        self._kept.appendleft(moment)
        self._rows += len(moment.vm)
        return True

    def _full(self, more: int) -> bool:
        return len(self._kept) > self._most_periods or self._rows + more > self._most_rows


def moment_of(period: int, now: Present, goals: Sequence[Goal]) -> Moment:
    """What a period found and decided."""
    vms, hosts = now.snapshot.vms, now.snapshot.hosts
    order, host_order = np.argsort(vms.id), np.argsort(hosts.id)
    there = now.host != NOWHERE
    host = np.full(len(vms), NOWHERE)
    host[there] = hosts.id[now.host[there]]
    return Moment(
        period=period,
        at_s=now.at_s,
        vm=_small(vms.id[order]),
        owner=_small(vms.owner[order]),
        application=_small(vms.application[order]),
        host=_small(host[order]),
        bid=_rough(vms.bid[order]),
        given=_rough(now.given()[order]),
        used=_used(now.snapshot)[order],
        cost=_rough(now.cost[order].sum(axis=1)),
        host_id=_small(hosts.id[host_order]),
        whole=_rough(hosts.capacity[host_order]),
        goals=tuple(goals),
    )


def moment_before(
    period: Period, arrays: Mapping[str, npt.NDArray[Any]], markets: Sequence[Market]
) -> Moment:
    """What the database has of a period: not who was where, and not what was used."""
    order = np.argsort(arrays["vm"])
    count, resources = arrays["allocation"].shape
    cost = np.zeros(count)
    rows, owed = owed_by_vm(arrays, arrays["vm"], 1.0, markets)
    cost[rows] = np.where(by_use(markets, arrays["market"][rows]), np.nan, owed.sum(axis=1) / MICRO)
    return Moment(
        period=period.number,
        at_s=period.started_s,
        vm=_small(arrays["vm"][order]),
        owner=_small(arrays["owner"][order]),
        application=_small(arrays.get("application", np.full(count, NOWHERE))[order]),
        host=np.full(count, NOWHERE, np.int32),
        bid=_rough(arrays["bid"][order]),
        given=_rough(arrays["allocation"][order]),
        used=np.full((count, resources), np.nan, np.float32),
        cost=_rough(cost[order]),
        host_id=np.zeros(0, np.int32),
        whole=np.zeros((0, resources), np.float32),
    )


def _used(snapshot: Snapshot) -> Rough:
    if snapshot.history is None:
        return np.full(snapshot.vms.bid.shape, np.nan, np.float32)
    return _rough(snapshot.history.vms[-1])


def _place(ids: Small, wanted: int) -> int | None:
    at = int(np.searchsorted(ids, wanted))
    return at if at < len(ids) and int(ids[at]) == wanted else None


def _small(values: Any) -> Small:
    return np.asarray(values, dtype=np.int32)


def _rough(values: Any) -> Rough:
    return np.asarray(values, dtype=np.float32)
