"""Metrics that are computed after each period: moves and their causes, fairness, balances."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import sqlalchemy as sa
from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from merkatd.base.clock import Executor
from merkatd.cluster import Floats, HostState, Migrate, Snapshot
from merkatd.cluster.columns import NO_HOST
from merkatd.currency import MICRO
from merkatd.database.base.transactions import Transactions
from merkatd.database.ledger import account_store, tenant_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.scheduler import period_store
from merkatd.market.error import assess_placement
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.phases.announce import Announcement

_UNKNOWN = ""
"""The group name of tenants without a known group."""
_log = Logger()


class Balances:
    """The balances and quarantined periods, read after each period."""

    def __init__(
        self,
        database: Transactions,
        tell: Callable[[Mapping[str, float], float], None],
        quarantined: Callable[[int], None],
    ) -> None:
        """`tell` gets the balances by group and the treasury, `quarantined` a number of periods."""
        self._database = database
        self._tell = tell
        self._quarantined = quarantined

    def announced(self, announcement: Announcement) -> None:
        """Read the balances after a period."""
        ensureDeferred(self._read(announcement.seen.observation.group_name))

    async def _read(self, names: Mapping[int, str]) -> None:
        try:
            of_groups, treasury = await self._database.read(balances)
            waiting = await self._database.read(period_store.quarantined)
        except Exception as error:  # noqa: BLE001 - the next period reads again, unless it ends
            _log.warn("The balances could not be read for the metrics: {error}", error=str(error))
            return
        named = {
            _UNKNOWN if group is None else names.get(group, str(group)): amount / MICRO
            for group, amount in of_groups.items()
        }
        self._tell(named, treasury / MICRO)
        self._quarantined(len(waiting))


def balances(connection: sa.Connection) -> tuple[Mapping[int | None, int], int]:
    """Return the balances by OpenNebula's group and that of the treasury, in micro-credits."""
    groups = {tenant.owner: tenant.group for tenant in tenant_store.every(connection)}
    by_group: defaultdict[int | None, int] = defaultdict(int)
    treasury = 0
    for account in account_store.holding(connection):
        if account.kind is AccountKind.TREASURY:
            treasury = account.balance
        elif account.owner is not None:
            by_group[groups.get(account.owner)] += account.balance
    return by_group, treasury


@dataclass(frozen=True, slots=True)
class Fairness:
    """The fairness of a market at the observation of a period."""

    market: str
    mean_error: float
    """The mean of the placed VMs' largest allocation errors (Eq. 2) over their resources."""
    largest_error: float
    """The largest allocation error of a VM."""
    shortfall: float
    """The sum of bid x shortfall: credits a period that buy nothing on the VMs' hosts."""


class FairnessMetrics:
    """The fairness of the markets, computed after each period.

    A thread computes it, since it takes as long as the assessment of a plan.
    """

    def __init__(self, executor: Executor, tell: Callable[[list[Fairness]], None]) -> None:
        self._executor = executor
        self._tell = tell

    def announced(self, announcement: Announcement) -> None:
        """Compute the fairness after a period."""
        ensureDeferred(self._compute_fairness(announcement.seen.snapshot))

    async def _compute_fairness(self, snapshot: Snapshot) -> None:
        try:
            fairness_of_markets = await self._executor.run(lambda: fairness(snapshot))
        except Exception:  # noqa: BLE001 - a missing metric must not cost a period
            _log.failure("The allocation errors could not be computed for the metrics")
            return
        self._tell(fairness_of_markets)


def fairness(snapshot: Snapshot) -> list[Fairness]:
    """Return the fairness of each market."""
    assessed = assess_placement(snapshot, snapshot.vms.host)
    placed = snapshot.vms.host != NO_HOST
    return [
        Fairness(
            market=name,
            mean_error=_mean(assessed.errors[placed & (snapshot.vms.market == row)]),
            largest_error=float(assessed.largest_error[row]),
            shortfall=float(assessed.shortfall[row]),
        )
        for row, name in enumerate(snapshot.markets.name)
    ]


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


class MoveCause(StrEnum):
    """The reason of a move; `explain` shows the numbers."""

    DRAINED = "drained"
    """The host is drained."""
    ASKED = "asked"
    """A user asked for the move (RESCHED)."""
    ROOM = "room"
    """Another step waits for the resources that the move frees."""
    SHARES = "shares"
    """VMs get a larger part of the shares that they bid for."""
    EARLIER = "earlier"
    """The move was decided before this daemon started."""


class MoveResult(StrEnum):
    """The result of a move."""

    SENT = "sent"
    REFUSED = "refused"
    POSTPONED = "postponed"
    CONFIRMED = "confirmed"
    EXPIRED = "expired"


class MoveReasons:
    """The reasons of the moves that are under way."""

    def __init__(self) -> None:
        self._why: dict[str, MoveCause] = {}

    def of(self, announcement: Announcement) -> Iterator[tuple[MoveResult, MoveCause]]:
        """Yield the result and cause of each move that a period decided or judged."""
        yield from self._judged(announcement.seen)
        steps = announcement.decided.steps
        moves = [step for step in steps if step.kind == Migrate.kind and isinstance(step, Migrate)]
        waited_for = {awaited for step in steps for awaited in step.after} if moves else set()
        for step in moves:
            result = MoveResult(announcement.acted.not_done.get(step.id, MoveResult.SENT))
            why = cause(step, announcement.seen, waited_for)
            if result is MoveResult.SENT:
                self._why[step.id] = why
            yield result, why

    def _judged(self, observed: Observed) -> Iterator[tuple[MoveResult, MoveCause]]:
        """Yield the results of moves of earlier periods."""
        verdicts = observed.verdicts
        for result, ended in (
            (MoveResult.CONFIRMED, verdicts.confirmed),
            (MoveResult.EXPIRED, verdicts.expired.keys()),
        ):
            for step in verdicts.moves & ended:
                yield result, self._why.get(step, MoveCause.EARLIER)
        under_way = {step.id for step in verdicts.waiting}
        self._why = {step: why for step, why in self._why.items() if step in under_way}


def cause(step: Migrate, observed: Observed, waited_for: AbstractSet[str]) -> MoveCause:
    """Return the strongest reason of a move."""
    hosts = observed.snapshot.hosts
    if np.any((hosts.id == step.source) & (hosts.state == HostState.DRAINED)):
        return MoveCause.DRAINED
    leaves = observed.observation.vm_leaves
    if leaves is not None and np.any(leaves[observed.observation.vm_id == step.vm]):
        return MoveCause.ASKED
    return MoveCause.ROOM if step.id in waited_for else MoveCause.SHARES
