"""What is worked out after each period: moves and their causes, fairness, balances."""

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
from merkatd.cluster.columns import NOWHERE
from merkatd.currency import MICRO
from merkatd.database.base.transactions import Transactions
from merkatd.database.ledger import account_store, tenant_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.scheduler import period_store
from merkatd.market.error import assess_placement
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.phases.announce import Announcement

_UNKNOWN = ""
"""The group of those of whom OpenNebula shows none."""
_log = Logger()


class Balances:
    """Reads them, and hands them on."""

    def __init__(
        self,
        database: Transactions,
        tell: Callable[[Mapping[str, float], float], None],
        quarantined: Callable[[int], None],
    ) -> None:
        """`tell` gets balances by group and the treasury, `quarantined` how many periods wait."""
        self._database = database
        self._tell = tell
        self._quarantined = quarantined

    def announced(self, announcement: Announcement) -> None:
        """A period is over."""
        ensureDeferred(self._read(announcement.seen.observation.group_name))

    async def _read(self, names: Mapping[int, str]) -> None:
        try:
            of_groups, treasury = await self._database.read(balances)
            waiting = await self._database.read(period_store.quarantined)
        except Exception as error:  # noqa: BLE001 - the next period reads again, unless it ends
            _log.warn("Balances were not read for the figures: {error}", error=str(error))
            return
        named = {
            _UNKNOWN if group is None else names.get(group, str(group)): amount / MICRO
            for group, amount in of_groups.items()
        }
        self._tell(named, treasury / MICRO)
        self._quarantined(len(waiting))


def balances(connection: sa.Connection) -> tuple[Mapping[int | None, int], int]:
    """By OpenNebula's group, and in the treasury: micro-credits."""
    groups = {one.owner: one.group for one in tenant_store.every(connection)}
    found: defaultdict[int | None, int] = defaultdict(int)
    treasury = 0
    for account in account_store.holding(connection):
        if account.kind is AccountKind.TREASURY:
            treasury = account.balance
        elif account.owner is not None:
            found[groups.get(account.owner)] += account.balance
    return found, treasury


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
    found = assess_placement(snapshot, snapshot.vms.host)
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


class Cause(StrEnum):
    """Why a VM is moved; `explain` has the numbers."""

    DRAINED = "drained"
    """Its host is to be emptied."""
    ASKED = "asked"
    """Somebody asked that it be moved (RESCHED)."""
    ROOM = "room"
    """Another step waits for the room that it leaves."""
    SHARES = "shares"
    """VMs get more of what they bid for."""
    EARLIER = "earlier"
    """It was decided before this daemon began."""


class Result(StrEnum):
    """What became of a move."""

    SENT = "sent"
    REFUSED = "refused"
    POSTPONED = "postponed"
    CONFIRMED = "confirmed"
    EXPIRED = "expired"


class MoveReasons:
    """Remembers why, for as long as a move is under way."""

    def __init__(self) -> None:
        self._why: dict[str, Cause] = {}

    def of(self, announcement: Announcement) -> Iterator[tuple[Result, Cause]]:
        """What a period that is over came to, one by one."""
        yield from self._judged(announcement.seen)
        steps = announcement.decided.steps
        moves = [step for step in steps if step.kind == Migrate.kind and isinstance(step, Migrate)]
        waited_for = {one for step in steps for one in step.after} if moves else set()
        for step in moves:
            result = Result(announcement.acted.not_done.get(step.id, Result.SENT))
            why = cause(step, announcement.seen, waited_for)
            if result is Result.SENT:
                self._why[step.id] = why
            yield result, why

    def _judged(self, seen: Observed) -> Iterator[tuple[Result, Cause]]:
        """Of those of earlier periods."""
        verdicts = seen.verdicts
        for result, ended in (
            (Result.CONFIRMED, verdicts.confirmed),
            (Result.EXPIRED, verdicts.expired.keys()),
        ):
            for step in verdicts.moves & ended:
                yield result, self._why.get(step, Cause.EARLIER)
        under_way = {one.id for one in verdicts.waiting}
        self._why = {step: why for step, why in self._why.items() if step in under_way}


def cause(step: Migrate, seen: Observed, waited_for: AbstractSet[str]) -> Cause:
    """The strongest of the reasons that there are."""
    hosts = seen.snapshot.hosts
    if np.any((hosts.id == step.source) & (hosts.state == HostState.DRAINED)):
        return Cause.DRAINED
    leaves = seen.observation.vm_leaves
    if leaves is not None and np.any(leaves[seen.observation.vm_id == step.vm]):
        return Cause.ASKED
    return Cause.ROOM if step.id in waited_for else Cause.SHARES
