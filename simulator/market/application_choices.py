"""Choices of applications: to request VMs, to yield, to give up.

Each application reads the published book and decides for itself. Each change is published, so other
applications may decide again, until none changes. Applications decide in the order of their limits:
a higher limit does not wait for a lower one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from merkatd.policies.patience import (
    ClaimBook,
    CpuNeed,
    PatienceSettings,
    limit_price,
    may_start,
    must_yield,
)
from simulator.market.tenancy import MICRO, Phase, Tenancy
from simulator.model.simulated_cloud import SimulatedCloud
from simulator.workloads.job_applications import TenantKind

ROUNDS = 8
"""Largest number of rounds of decisions in a period."""


@dataclass(frozen=True, slots=True)
class ChoiceTally:
    """The applications that start, and those that yield."""

    started: tuple[Tenancy, ...]
    yielded: tuple[Tenancy, ...]


def is_hopeless(tenancy: Tenancy, now_s: float, cloud: SimulatedCloud) -> bool:
    """Return whether the application can gain nothing any more.

    An application that needs all its work by the deadline gives up when even full speed is too
    slow. Partial-deadline applications continue until the deadline.
    """
    left_s = tenancy.application.due_s - now_s
    if left_s <= 0:
        return True
    if tenancy.application.tenant is TenantKind.PARTIAL_DEADLINE:
        return False
    ahead_s = tenancy.startup_s(cloud) if tenancy.phase is Phase.WAITING else 0.0
    if tenancy.phase is Phase.PLACED:
        ahead_s = max(min(tenancy.starting_until_s, now_s + tenancy.startup_s(cloud)) - now_s, 0.0)
    return ahead_s + tenancy.left_s > left_s


class ApplicationChoices:
    """The decisions of all applications in a period."""

    def __init__(
        self, cloud: SimulatedCloud, temper: PatienceSettings, liars: Mapping[int, float]
    ) -> None:
        self._cloud = cloud
        self._temper = temper
        self._eager = replace(temper, horizon_s=0.0)
        self._liars = liars
        """By row of dishonest applications: the factor of the announced limit."""

    def __call__(self, live: Sequence[Tenancy], now_s: float) -> ChoiceTally:
        """Repeat the applications' decisions until none changes."""
        waiting, placed = [], []
        for tenancy in live:
            if tenancy.phase is Phase.WAITING:
                tenancy.limit = self._limit(tenancy, now_s)
                waiting.append(tenancy)
            elif tenancy.phase is Phase.PLACED:
                tenancy.limit = max(
                    tenancy.limit, self._limit(tenancy, now_s) * self._temper.running_factor
                )
                placed.append(tenancy)
        waiting.sort(key=lambda tenancy: (-tenancy.limit, tenancy.row))
        placed.sort(key=lambda tenancy: (tenancy.limit, -tenancy.row))
        book = ClaimBook(self._cloud.units, ((tenancy.limit, tenancy.units) for tenancy in placed))
        started: list[Tenancy] = []
        yielded: list[Tenancy] = []
        for _ in range(ROUNDS):
            if not self._decide(book, waiting, placed, started, yielded):
                break
        return ChoiceTally(tuple(started), tuple(yielded))

    def _decide(
        self,
        book: ClaimBook,
        waiting: list[Tenancy],
        placed: list[Tenancy],
        started: list[Tenancy],
        yielded: list[Tenancy],
    ) -> bool:
        """Let each application decide once; return whether any yielded."""
        coming = []
        for tenancy in waiting:
            if may_start(book, tenancy.limit, tenancy.units):
                tenancy.limit *= self._temper.running_factor
                book.claim(tenancy.limit, tenancy.units)
                coming.append(tenancy)
        going = []
        while placed and must_yield(book, placed[0].limit):
            tenancy = placed.pop(0)
            book.withdraw(tenancy.limit, tenancy.units)
            going.append(tenancy)
        for tenancy in coming:
            waiting.remove(tenancy)
        started.extend(coming)
        yielded.extend(going)
        return bool(going)

    def _limit(self, tenancy: Tenancy, now_s: float) -> float:
        """Return the highest price at which the application runs."""
        cloud = self._cloud
        ahead_s = tenancy.startup_s(cloud) if tenancy.phase is Phase.WAITING else 0.0
        left_s = tenancy.application.due_s - now_s
        performance = tenancy.application.tenant is TenantKind.FULL_PERFORMANCE
        need = CpuNeed(
            means=tenancy.means(now_s, cloud.renewal_s),
            units=tenancy.units,
            capacity=cloud.units,
            work_s=tenancy.left_s + ahead_s,
            left_s=left_s,
        )
        limit = limit_price(need, cloud.period_s, self._eager if performance else self._temper)
        claimed = limit * self._liars.get(tenancy.row, 1.0)
        return min(claimed, tenancy.balance / MICRO / tenancy.units)
