"""The context of the period: all ports, settings and shared state."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import sqlalchemy as sa
from twisted.internet.defer import Deferred, DeferredSemaphore

from merkatd.base.clock import Clock, Executor
from merkatd.cluster import HostState, Scale, Step
from merkatd.cluster.applications import NO_APPLICATIONS, ApplicationTables
from merkatd.cluster.columns import is_one_of
from merkatd.currency.settings import MoneySettings
from merkatd.database.base.transactions import Transactions
from merkatd.limits import LimitsSettings
from merkatd.scheduler.base.acting_settings import ActingSettings
from merkatd.scheduler.base.believed_time import BelievedTime
from merkatd.scheduler.base.early_periods import EarlyPeriods
from merkatd.scheduler.base.ports import (
    CloudPort,
    Histories,
    HypervisorPort,
    Observation,
    ReplyKind,
    StepReply,
)
from merkatd.scheduler.base.settings import GoodsSettings, MarketRules, Rhythm
from merkatd.scheduler.base.traits import FailureSettings
from merkatd.scheduler.base.troubles import FailedMarkets, LastRefusals, Troubles
from merkatd.scheduler.observation.observed import Observed, RecentUse

_SWITCHED = 16
"""The most hosts that are switched at the same time."""


class DrainedHosts:
    """A cloud that reports drained hosts as such; implements `CloudPort`."""

    def __init__(self, cloud: CloudPort, drained: Callable[[], AbstractSet[int]]) -> None:
        """`drained` returns the ids of the drained hosts."""
        self._cloud = cloud
        self._drained = drained

    async def observe(self) -> Observation:
        """Observe the cloud and mark drained hosts. Raise CloudUnreachableError.

        They are neither switched off nor on: an administrator needs them as they are.
        """
        seen = await self._cloud.observe()
        drained = is_one_of(seen.host_id, self._drained())
        if not drained.any():
            return seen
        leaving = drained & (seen.host_state != int(HostState.OFF))
        traits = seen.host_traits
        return replace(
            seen,
            host_state=np.where(leaving, int(HostState.DRAINED), seen.host_state),
            host_traits=None
            if traits is None
            else replace(traits, can_sleep=traits.can_sleep & ~drained),
        )

    async def histories(self, vms: Collection[int], since_s: float) -> Histories:
        """Read the history records of these VMs."""
        return await self._cloud.histories(vms, since_s)

    async def send(self, step: Step) -> StepReply:
        """Ask for one step."""
        return await self._cloud.send(step)

    async def tell(self, vm: int, message: str) -> None:
        """Show a message to the VM's owner."""
        await self._cloud.tell(vm, message)


Proposals = Callable[[Transactions, Observed], Awaitable[Sequence[Step]]]


def all_proposals(*askers: Proposals) -> Proposals:
    """Combine functions that propose steps, in this order."""

    async def proposals(database: Transactions, observed: Observed) -> Sequence[Step]:
        return [step for ask in askers for step in await ask(database, observed)]

    return proposals


Result = TypeVar("Result")


async def _nothing() -> None:
    """Do nothing: a daemon without others may always act."""


async def _no_reason(_host: int, _known: AbstractSet[int], _since_s: float) -> str | None:
    return None


async def _no_retry(_step: Step) -> StepReply:
    return StepReply(ReplyKind.REFUSED, "no way to restart the VM is configured")


async def _all_exist(_users: Collection[int]) -> frozenset[int]:
    return frozenset()


def _not_scaled(
    _connection: sa.Connection,
    _markets: Sequence[MarketRules],
    wishes: Sequence[Scale],
    _period: int,
    _at_s: float,
) -> Sequence[str]:
    return ["no application can be scaled here"] * len(wishes)


async def _no_applications(_database: Transactions) -> ApplicationTables:
    return NO_APPLICATIONS


async def _no_proposals(_database: Transactions, _seen: "Observed") -> Sequence[Step]:
    return ()


Ending = Callable[[sa.Connection, int, float], str | None]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PeriodContext:
    """The cloud, its hosts, the database, clocks, randomness, and the settings."""

    cloud: CloudPort
    hypervisors: HypervisorPort
    database: Transactions
    first: Transactions | None = None
    """The same database for periods alone, so that their transactions do not queue behind
    others."""
    clock: Clock
    executor: Executor
    rng: np.random.Generator
    """For waiting times and keys; decisions draw from `seed`."""
    now: Callable[[], float]
    """Seconds since the epoch, or of the virtual time, for stored times."""
    seed: int = 0
    """The seed of decisions that draw random numbers; it is stored in the database."""
    rhythm: Rhythm = field(default_factory=Rhythm)
    acting: ActingSettings = field(default_factory=ActingSettings)
    goods: GoodsSettings = field(default_factory=GoodsSettings)
    markets: Sequence[MarketRules] = (MarketRules(),)
    limits: LimitsSettings = field(default_factory=LimitsSettings)
    money: MoneySettings = field(default_factory=MoneySettings)
    failures: FailureSettings = field(default_factory=FailureSettings)
    """The failures to expect, which OpenNebula does not know."""
    handing: bool = False
    """Whether OpenNebula carries out deployments and migrations, at its driver's request."""
    recent: RecentUse = field(default_factory=RecentUse)
    troubles: Troubles = field(default_factory=Troubles)
    failed_markets: FailedMarkets = field(default_factory=FailedMarkets)
    refusals: LastRefusals = field(default_factory=LastRefusals)
    """The refused steps and wishes of strategies."""
    believed: BelievedTime = field(default_factory=BelievedTime)
    """The time that decides deadlines."""
    early: EarlyPeriods = field(default_factory=EarlyPeriods)
    """Starts the next period early."""
    in_flight: dict[str, Deferred[None]] = field(default_factory=dict)
    """The requests that have not ended, of earlier periods too, by the ids of their steps."""
    switching: DeferredSemaphore = field(default_factory=lambda: DeferredSemaphore(_SWITCHED))
    """The turns of steps that switch hosts off and on, of all periods."""
    certain: Callable[[], Awaitable[None]] = _nothing
    """Raises LeaseLostError if another daemon may be acting already."""
    why_not_on: Callable[[int, AbstractSet[int], float], Awaitable[str | None]] = _no_reason
    """Why a host takes no VM at this moment. Arguments: the host's id, the ids of the VMs known
    there or on their way, and the time since which observations of the host are valid. Raises
    CloudUnreachableError."""
    chores: Callable[[], Awaitable[None]] = _nothing
    """Further work of a scheduler after a period has acted."""
    retry: Callable[[Step], Awaitable[StepReply]] = _no_retry
    """Restarts a VM on the host where it failed to boot."""
    missing_users: Callable[[Collection[int]], Awaitable[frozenset[int]]] = _all_exist
    """Returns the users that do not exist according to OpenNebula, without users of unknown
    state."""
    endings: Sequence[Ending] = ()
    """Work on a removed user's other belongings. Each function ends one kind, given the user's id
    and the time, and returns a description of the remaining ones."""
    scale: Callable[
        [sa.Connection, Sequence[MarketRules], Sequence[Scale], int, float], Sequence[str]
    ] = _not_scaled
    """Changes the numbers of applications' VMs as strategies wish, in the transaction that stores
    their decision. Arguments: the markets, the wishes, the period and the time. Returns for each
    wish why it is not carried out, "" if it is."""
    applications: Callable[[Transactions], Awaitable[ApplicationTables]] = _no_applications
    """Returns what the applications of living platforms declare, by the ids that `vms.application`
    holds; also those without VMs, which a snapshot leaves out."""
    proposals: Callable[[Transactions, "Observed"], Awaitable[Sequence[Step]]] = _no_proposals
    """Proposes steps besides the decided ones; each source stores its own state in the period's
    database."""

    def of_periods(self) -> "PeriodContext":
        """Return this context with the periods' own database."""
        return self if self.first is None else replace(self, database=self.first, first=None)
