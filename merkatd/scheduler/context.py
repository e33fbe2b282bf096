"""Everything the period works with, handed in once."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import sqlalchemy as sa

from merkatd.base.clock import Clock, Executor
from merkatd.cluster import HostState, Step
from merkatd.currency.settings import MoneySettings
from merkatd.database.base.transactions import Transactions
from merkatd.limits import LimitsSettings
from merkatd.scheduler.base.believed_time import Believed
from merkatd.scheduler.base.ports import (
    CloudPort,
    Histories,
    HypervisorPort,
    Observation,
    ReplyKind,
    StepReply,
)
from merkatd.scheduler.base.settings import ActingSettings, GoodsSettings, MarketRules, Rhythm
from merkatd.scheduler.base.troubles import Troubles
from merkatd.scheduler.observation.observed import Observed, RecentUse


class DrainedHosts:
    """A cloud some of whose hosts are being drained: implements `ports.Cloud`."""

    def __init__(self, cloud: CloudPort, drained: Callable[[], AbstractSet[int]]) -> None:
        """`drained` gives the ids of those hosts."""
        self._cloud = cloud
        self._drained = drained

    async def observe(self) -> Observation:
        """As the cloud shows itself, but for those hosts' states. Raises UnreachableError."""
        seen = await self._cloud.observe()
        reached = seen.host_state != int(HostState.OFF)
        leaving = np.isin(seen.host_id, sorted(self._drained())) & reached
        if not leaving.any():
            return seen
        return replace(seen, host_state=np.where(leaving, int(HostState.DRAINED), seen.host_state))

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


def all_of(*askers: Proposals) -> Proposals:
    """What all of them ask for, one after the other."""

    async def proposals(database: Transactions, seen: Observed) -> Sequence[Step]:
        return [step for ask in askers for step in await ask(database, seen)]

    return proposals


Result = TypeVar("Result")


async def _nothing() -> None:
    """Whoever is alone may always act."""


async def _no_reason(_host: int, _known: AbstractSet[int], _since_s: float) -> str | None:
    return None


async def _no_retry(_step: Step) -> StepReply:
    return StepReply(ReplyKind.REFUSED, "nobody knows how to start it again")


async def _all_exist(_users: Collection[int]) -> frozenset[int]:
    return frozenset()


async def _no_proposals(_database: Transactions, _seen: "Observed") -> Sequence[Step]:
    return ()


Ending = Callable[[sa.Connection, int, float], str | None]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PeriodContext:
    """The cloud, its hosts, the database, time, chance, and the rules."""

    cloud: CloudPort
    hypervisors: HypervisorPort
    database: Transactions
    first: Transactions | None = None
    """The same database for periods alone: their transactions wait behind no others there."""
    clock: Clock
    executor: Executor
    rng: np.random.Generator
    now: Callable[[], float]
    """Seconds since the epoch, or of the virtual time: what is stored."""
    rhythm: Rhythm = field(default_factory=Rhythm)
    acting: ActingSettings = field(default_factory=ActingSettings)
    goods: GoodsSettings = field(default_factory=GoodsSettings)
    markets: Sequence[MarketRules] = (MarketRules(),)
    strategies: Mapping[str, Any] = field(default_factory=dict)
    """Settings by strategy name, where they are not the defaults."""
    limits: LimitsSettings = field(default_factory=LimitsSettings)
    money: MoneySettings = field(default_factory=MoneySettings)
    handing: bool = False
    """Whether OpenNebula carries out deployments and migrations, when its driver asks for them."""
    recent: RecentUse = field(default_factory=RecentUse)
    troubles: Troubles = field(default_factory=Troubles)
    believed: Believed = field(default_factory=Believed)
    """The time by which deadlines are judged."""
    certain: Callable[[], Awaitable[None]] = _nothing
    """Raises LeaseLostError where another daemon may be acting already."""
    why_not_on: Callable[[int, AbstractSet[int], float], Awaitable[str | None]] = _no_reason
    """Why a host, by its id, takes nothing at this moment; given the ids of the VMs that are
    known to be there, or on their way, and since when what was seen of it still counts. Raises
    UnreachableError."""
    chores: Callable[[], Awaitable[None]] = _nothing
    """What else a scheduler has to do, once a period has acted."""
    retry: Callable[[Step], Awaitable[StepReply]] = _no_retry
    """Starts a VM once more on the host where it failed to boot."""
    missing_users: Callable[[Collection[int]], Awaitable[frozenset[int]]] = _all_exist
    """The users among these that do not exist, as OpenNebula says; none that it says nothing of."""
    endings: Sequence[Ending] = ()
    """What a removed user has besides credits and VMs: each ends it, given the user's id and the
    time, and returns what is still to end, in words."""
    proposals: Callable[[Transactions, "Observed"], Awaitable[Sequence[Step]]] = _no_proposals
    """Steps that are asked for besides those that are decided; whoever asks keeps what it must
    remember in the period's own database."""

    def of_periods(self) -> "PeriodContext":
        """Return the world as periods use it."""
        return self if self.first is None else replace(self, database=self.first, first=None)
