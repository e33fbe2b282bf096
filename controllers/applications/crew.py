"""The head and the workers of a batch system, and the terms in its template."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from math import isfinite

from controllers.applications.market_position import most
from merkatd.base.parameter_bounds import number, whole
from merkatd.policies.batch_queue import QueueAim
from merkatd.policies.batch_terms import aim_of, head_of, missing, workers_of
from merkatd.policies.horizontal import Prices, bids_for, dear_bids
from merkatd.policies.vertical import Amounts
from merkatd.protocol.platform_messages import Assignment, ClusterTerms, News


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """The workers of a platform."""

    there: Mapping[int, int | None]
    """The number of jobs by VM; None if the worker has not joined the batch system yet."""
    size: int
    """The number of all workers, including those that are still being created."""
    roomless: AbstractSet[int] = frozenset()
    """Workers that have never had a host."""
    away: AbstractSet[int] = frozenset()
    """Workers that have been away too long to wait for them."""

    @property
    def coming(self) -> int:
        """Return the number of workers that are still being created and have no VM id yet."""
        return self.size - len(self.there)

    @property
    def settled(self) -> bool:
        """Return whether all workers have joined, except those that have been away too long."""
        return (
            all(jobs is not None or vm in self.away for vm, jobs in self.there.items())
            and not self.coming
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CrewTerms:
    """The terms of a batch system's template."""

    head: str
    workers: str
    aim: QueueAim
    target_s: float
    """The longest wait of a job, for the aim `wait`."""
    slots: int
    growth: int
    patience: int
    drain_limit_s: float

    @classmethod
    def of(cls, assignment: Assignment) -> "CrewTerms":
        """Read the terms from an assignment. Raise ValueError if they are invalid."""
        parameters = assignment.parameters
        terms = cls(
            head=head_of(parameters),
            workers=workers_of(parameters),
            aim=aim_of(parameters),
            target_s=number(parameters, "target_s"),
            slots=whole(parameters, "slots"),
            growth=whole(parameters, "growth"),
            patience=whole(parameters, "patience"),
            drain_limit_s=number(parameters, "drain_limit_s"),
        )
        for problem in missing(parameters, [cluster.name for cluster in assignment.clusters]):
            raise ValueError(problem)
        return terms


def head_bids(
    head: ClusterTerms, count: int, market: Prices, news: News, spending: float
) -> Amounts:
    """Return the bids for the full size of `count` heads together.

    A head as large as its market can't buy its full size with any finite bid: it bids all that the
    platform may spend.
    """
    sizes = most(head, news.prices)
    bids = bids_for(count, sizes, market)
    if isfinite(sum(bids)):
        return bids
    return dear_bids(sizes, replace(market, others=tuple(news.prices.values())), spending)
