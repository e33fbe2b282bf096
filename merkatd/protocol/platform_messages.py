"""Messages between the manager of platforms and the controllers' processes.

A controller decides for one platform; the manager keeps all platforms. A class that runs
controllers implements `Controllers`. It passes their requests, each an `Action`, to an
`ActionReceiver`.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from merkatd.base.decoder import MOST_IDS

Amounts = Mapping[str, float]
"""Amounts by resource."""

UNBUYABLE_PRICE = 1e15
"""The price of a resource that no bid can buy."""
HISTORY_PERIODS, MOST_EARLY = 10, 12
"""The number of past periods, an interval apart, whose prices are published; and the number of
periods in an interval on average up to which they all are."""
MOST_VMS = MOST_IDS
"""The limit of VMs for all platforms of a tenant together, and so for one platform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBids:
    """Set the bids of VMs from the next period on."""

    bids: Mapping[int, Amounts]
    """Credits per period by resource, by VM id."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSize:
    """Set the number of VMs in a cluster, or end particular VMs."""

    cluster: str
    count: int | None = None
    """The new number of VMs; None for the present number less the victims."""
    victims: tuple[int, ...] = ()
    """Ids of the VMs to end; if the count needs more to end, the newest end too."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLimit:
    """Set the limit of the platform's limit order from the next period on."""

    limit: float
    """The most credits per period for all its VMs together."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendPlatform:
    """Suspend the whole platform; the manager resumes it when the price allows."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkDone:
    """End the platform: its work is done."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """End the platform: its work can no longer be done."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressReport:
    """Report the platform's progress; None means unknown."""

    on_track: bool | None = None
    projected_end_s: float | None = None
    """The expected end of the work on the daemon's clock, in seconds since the epoch."""
    performance: float | None = None
    """The performance as the controller measures it, such as seconds per iteration."""
    reference: float | None = None
    """The performance that the platform needs."""
    done: float | None = None
    """The finished part of the work, from 0 to 1."""
    work_left_s: float | None = None
    """The least time for the rest of the work, in seconds; at least 0."""
    text: str = ""
    """A summary for people."""


Action = SetBids | SetSize | SetLimit | SuspendPlatform | WorkDone | GiveUp | ProgressReport


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """The result of an action."""

    accepted: bool
    why: str = ""
    """The reason for a refusal, and what would be accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorTerms:
    """The monitor of one cluster's application: its kind and its parameters."""

    kind: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTerms:
    """One virtual cluster, as its tenant's template describes it."""

    name: str
    least: int
    most: int
    floor: Amounts = field(default_factory=dict)
    """The least that each VM needs: CPU in percent of a core, memory in MiB."""
    ceiling: Amounts = field(default_factory=dict)
    """The most that each VM can use, in the same units; CPU and memory are always present."""
    monitor: MonitorTerms | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The data that a controller needs to start; restarts get it with the tenant's changes."""

    platform: int
    name: str
    owner: int
    market: str
    controller: str
    """The controller's kind."""
    parameters: Mapping[str, Any]
    clusters: tuple[ClusterTerms, ...]
    deadline_s: float | None
    """The deadline on the daemon's clock, in seconds since the epoch."""
    ideal_s: float | None
    """The least time for the whole work."""
    performance: float | None
    """The performance that the tenant wants."""
    started_s: float | None
    interval_s: float
    """The length of a period."""
    budget: float
    """The budget in credits."""
    replenishment: float
    """Credits added in each replenishment interval."""
    replenishment_s: float
    """The replenishment interval."""
    give_up: bool = True
    """Whether work that misses its deadline is worth nothing."""
    memory: Any = None
    """The memory that the controller stored last: a JSON value."""

    @property
    def most_vms(self) -> int:
        """Return how many VMs the platform may have, which limits the size of its messages."""
        return sum(cluster.most for cluster in self.clusters)


@dataclass(frozen=True, slots=True, kw_only=True)
class VmNow:
    """One VM of a platform after the last period."""

    vm: int
    cluster: str
    state: str
    """`pending`, `running`, `busy`, `suspended`, `powered_off`, or another of the daemon's VM
    states. With `unknown`, OpenNebula has lost contact to the VM, and its guest may still run."""
    bid: Amounts
    allocation: Amounts
    key: str = ""
    """The VM's creation key (MERKAT_KEY), from which its host key is derived."""
    leaving: bool = False
    """Whether the VM is about to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderStatus:
    """A platform's limit order after the last period."""

    limit: float
    """The most credits per period for all its VMs together."""
    runs: bool
    cost: float | None
    """The credits per period that it pays; None if it took part in no market."""
    why: str = ""
    """Why it waits; empty if it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BookOrder:
    """A limit order as the whole market sees it, without its owner."""

    height: float
    """The multiple of the market's prices that its limit pays; at most `UNBUYABLE_PRICE`."""
    bundle: Amounts
    """The full size of its VMs together, in units by resource."""
    runs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketNow:
    """A market after the last period; all its platforms get the same message."""

    name: str
    period: int
    at_s: float
    next_s: float
    """The time of the next period, which uses all bids made before it."""
    prices: Amounts
    """Credits per unit and period; never above `UNBUYABLE_PRICE`."""
    capacity: Amounts
    """The whole market's capacity, in units."""
    reserve: Amounts
    """The reserve prices."""
    past: Mapping[str, tuple[float, ...]]
    """Prices of the last `HISTORY_PERIODS` periods by resource, an interval apart, oldest first,
    with the present."""
    orders: tuple[BookOrder, ...] = ()
    """All limit orders, from the highest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformStatus:
    """One platform after the last period; only its own processes get this message."""

    platform: int
    period: int
    at_s: float
    state: str
    vms: tuple[VmNow, ...]
    balance: float
    """The credits that are left."""
    budget: float
    """The budget, up to which the balance is replenished."""
    replenishment: float
    """Credits added in each replenishment interval of the assignment."""
    deadline_s: float | None
    performance: float | None
    sizes: Mapping[str, int]
    """The intended number of VMs, by cluster."""
    order: OrderStatus | None = None
    """Its limit order, if its kind states one; it is among the market's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News(PlatformStatus):
    """A controller's news after a period: the platform's status and its market."""

    market: MarketNow

    @property
    def prices(self) -> Amounts:
        """Return the prices of the platform's market, in credits per unit and period."""
        return self.market.prices

    @classmethod
    def joined(cls, standing: PlatformStatus, market: MarketNow) -> "News":
        """Return the platform's status and its market as one value."""
        own = {field.name: getattr(standing, field.name) for field in fields(PlatformStatus)}
        return cls(market=market, **own)


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of controllers and monitors by name, and the limits for templates."""

    controllers: tuple[str, ...]
    monitors: tuple[str, ...]
    addresses: tuple[str, ...] | None = None
    """Patterns of a monitor's `address`, with * for any characters; None for no limit."""
    tenant_processes: int | None = None
    """The limit of processes for all platforms of one tenant; None for no limit."""


@dataclass(frozen=True, slots=True)
class MonitorReading:
    """The newest measurements of a cluster's monitor."""

    age_s: float
    """The seconds since the daemon received them."""
    values: Mapping[str, float]
    """By name, of those in `measurement_names`."""


Readings = Mapping[str, MonitorReading]
"""The newest measurements of a platform's monitors, by cluster."""


class ActionReceiver(Protocol):
    """The manager's interface for the classes that run controllers."""

    async def act(self, platform: int, action_id: str, action: Action) -> ActionOutcome:
        """Carry out an action of a platform's controller, and return its result.

        An action id that was used before changes nothing, and returns the earlier result.
        """

    async def remember(self, platform: int, memory: Any) -> None:
        """Store the controller's memory, which its next `Assignment` contains."""

    async def ended(self, platform: int, why: str, *, final: bool) -> None:
        """Record that a controller ended unexpectedly; with `final` it is not restarted."""

    async def monitor_ended(self, platform: int, row: int, why: str) -> None:
        """Record that the monitor of the cluster at this row ended; it is restarted."""


class Controllers(Protocol):
    """The interface of a class that runs the platforms' controllers and monitors."""

    def attend(self, attendant: ActionReceiver) -> None:
        """Send all requests of controllers to this receiver; called once, before any start."""

    def kinds(self) -> Kinds:
        """Return the kinds of controllers and monitors that are available now."""

    async def start(self, assignment: Assignment) -> None:
        """Start the platform's controller and monitors, unless they run already."""

    async def stop(self, platform: int, grace_s: float) -> None:
        """Stop the platform's processes, by force once the grace time is over."""

    def announce(self, markets: Sequence[MarketNow], standings: Sequence[PlatformStatus]) -> None:
        """Publish the results of the last period to all processes, without waiting.

        The standing and the market of each platform that runs must be among the arguments.
        """

    def readings(self, platform: int) -> Readings:
        """Return the newest measurements of the platform's monitors; any thread may call it."""

    def tidy(self, kept: AbstractSet[int]) -> int:
        """Remove the files of all platforms except `kept`; return the number of those platforms.

        It is called outside the event loop.
        """

    async def close(self) -> None:
        """Stop all processes; the platforms go on at the next start."""
