"""What the manager of platforms and those who run controllers say to each other.

A controller decides for one platform; the manager keeps all of them. Whoever runs controllers
implements `Controllers`; what a controller asks for arrives at an `Attendant` as an `Action`.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from merkatd.base.decoder import MOST_IDS

Amounts = Mapping[str, float]
"""By resource."""

UNBUYABLE_PRICE = 1e15
"""The price of what no bid can buy."""
HISTORY_PERIODS = 10
"""Periods whose prices are told."""
MOST_VMS = MOST_IDS
"""VMs of all platforms of a tenant together, and so of one platform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBids:
    """Bid so much for these VMs from the next period on."""

    bids: Mapping[int, Amounts]
    """By VM id: credits per period, by resource."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSize:
    """Have so many VMs in a cluster, or end the ones named."""

    cluster: str
    count: int | None = None
    """None: as many as there are, less the victims."""
    victims: tuple[int, ...] = ()
    """Ids of the VMs to end; where the count asks for more to end, the newest go."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Want so much CPU up to this price: all in the market are told, but not whose claim it is."""

    price: float
    """Credits per unit and period,"""
    units: float
    """and percent of a core, of all VMs together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendPlatform:
    """Suspend the whole platform; the manager resumes it when the price allows."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkDone:
    """The work is done: everything can be ended."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """The work can't be done any more: everything is to be ended."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressReport:
    """How the platform fares; what is None is not known."""

    on_track: bool | None = None
    projected_end_s: float | None = None
    """When it will be done, on the daemon's clock, in seconds since the epoch."""
    performance: float | None = None
    """As the controller measures it, e.g. seconds per iteration,"""
    reference: float | None = None
    """and what it would have to be."""
    done: float | None = None
    """The part of the work that is done, from 0 to 1,"""
    work_left_s: float | None = None
    """and the least time that the rest takes, in seconds."""
    text: str = ""
    """In words, for people."""


Action = SetBids | SetSize | Claim | SuspendPlatform | WorkDone | GiveUp | ProgressReport


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """What became of an action."""

    accepted: bool
    why: str = ""
    """Where it was refused: what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorTerms:
    """What watches one cluster's application and reports to the controller."""

    kind: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTerms:
    """One virtual cluster, as its tenant wants it."""

    name: str
    least: int
    most: int
    floor: Amounts = field(default_factory=dict)
    """What each VM can't live without: CPU in percent of a core, memory in MiB,"""
    ceiling: Amounts = field(default_factory=dict)
    """and the most that each can use; CPU and memory are always there."""
    monitor: MonitorTerms | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """All that a controller must know to begin; the same after each start but for what changed."""

    platform: int
    name: str
    owner: int
    market: str
    controller: str
    """The kind of controller."""
    parameters: Mapping[str, Any]
    clusters: tuple[ClusterTerms, ...]
    deadline_s: float | None
    """On the daemon's clock, in seconds since the epoch."""
    ideal_s: float | None
    """The least time in which the whole work can be done."""
    performance: float | None
    """The performance that is wanted."""
    started_s: float | None
    interval_s: float
    """Of the periods."""
    budget: float
    """Credits."""
    replenishment: float
    """Credits, added"""
    replenishment_s: float
    """at this interval."""
    give_up: bool = True
    """Whether work that can't be done by the deadline is worth nothing."""
    memory: Any = None
    """What the controller asked to be kept when it last did: a value that JSON can carry."""

    @property
    def most_vms(self) -> int:
        """How many VMs it may have: its messages may be as large as so many need."""
        return sum(one.most for one in self.clusters)


@dataclass(frozen=True, slots=True, kw_only=True)
class VmNow:
    """One VM of a platform, as the last period left it."""

    vm: int
    cluster: str
    state: str
    """`pending`, `running`, `busy`, `suspended`, `powered_off`, or another of the daemon's words;
    `unknown`: OpenNebula has lost sight of it, and its guest may compute on."""
    bid: Amounts
    allocation: Amounts
    key: str = ""
    """By which it was made (MERKAT_KEY): its host key is derived from it."""
    leaving: bool = False
    """Whether it is to be ended, and is not gone yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketNow:
    """A market as the last period left it; everybody in it is told the same."""

    name: str
    period: int
    at_s: float
    next_s: float
    """When the next period is due: what is bid until then counts in it."""
    prices: Amounts
    """Credits per unit and period; never above `BEYOND`."""
    capacity: Amounts
    """Units that the whole market has."""
    reserve: Amounts
    """The least prices that there can be."""
    past: Mapping[str, tuple[float, ...]]
    """By resource: the prices of the last periods, up to `PAST`, oldest first, with the present."""
    claims: tuple[Claim, ...] = ()
    """What is claimed by anybody, ascending by price; what VMs have without a claim is one too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformStatus:
    """One platform as the last period left it; nobody else is told the same."""

    platform: int
    period: int
    at_s: float
    state: str
    vms: tuple[VmNow, ...]
    balance: float
    """Credits that are left,"""
    budget: float
    """of so many that it has at most,"""
    replenishment: float
    """and that are added at the interval of the assignment."""
    deadline_s: float | None
    performance: float | None
    sizes: Mapping[str, int]
    """By cluster: how many VMs it is to have."""
    claim: Claim | None = None
    """Its own among the market's, as it was said last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News(PlatformStatus):
    """All that a controller is told after a period."""

    market: MarketNow

    @property
    def prices(self) -> Amounts:
        """Of the platform's market: credits per unit and period."""
        return self.market.prices

    @classmethod
    def joined(cls, standing: PlatformStatus, market: MarketNow) -> "News":
        """Both together."""
        own = {one.name: getattr(standing, one.name) for one in fields(PlatformStatus)}
        return cls(market=market, **own)


@dataclass(frozen=True, slots=True)
class Kinds:
    """What can be run, by name."""

    controllers: tuple[str, ...]
    monitors: tuple[str, ...]
    addresses: tuple[str, ...] | None = None
    """What a monitor's `address` may be, * standing for any characters; None: anything."""
    tenant_processes: int | None = None
    """How many processes the platforms of one tenant may have; None: any number."""


class ActionReceiver(Protocol):
    """The manager, as those who run controllers see it."""

    async def act(self, platform: int, action_id: str, action: Action) -> ActionOutcome:
        """Take an action of a platform's controller.

        An id that was taken before changes nothing and is answered with what became of it then.
        """

    async def remember(self, platform: int, memory: Any) -> None:
        """Keep this for the controller; it is in the next `Assignment`."""

    async def ended(self, platform: int, why: str, *, final: bool) -> None:
        """A controller ended unasked; with `final` it won't be started again."""

    async def monitor_ended(self, platform: int, row: int, why: str) -> None:
        """The monitor of a platform's cluster at this row ended; it is started again."""


class Controllers(Protocol):
    """Whoever runs the platforms' controllers and monitors."""

    def attend(self, attendant: ActionReceiver) -> None:
        """Bring to this one whatever controllers ask for; told once, before anything starts."""

    def kinds(self) -> Kinds:
        """Which controllers and monitors there are to choose from now."""

    async def start(self, assignment: Assignment) -> None:
        """Have the platform's controller and monitors run; where they do, tell them the news."""

    async def stop(self, platform: int, grace_s: float) -> None:
        """End them: asked first, ended for certain after the grace."""

    def announce(self, markets: Sequence[MarketNow], standings: Sequence[PlatformStatus]) -> None:
        """Tell everybody what the last period came to, each for their own part; never waits.

        Of each platform that runs, the standing and its market are among them.
        """

    def tidy(self, kept: AbstractSet[int]) -> int:
        """Remove what processes left on the disk, but for these platforms; of how many it was.

        Called beside the event loop.
        """

    async def close(self) -> None:
        """End all processes; the platforms go on at the next start."""
