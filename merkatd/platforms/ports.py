"""What the manager of platforms and those who run controllers say to each other.

A controller decides for one platform; the manager keeps all of them. Whoever runs controllers
implements `Controllers`; what a controller asks for arrives at an `Attendant` as an `Action`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Amounts = Mapping[str, float]
"""By resource."""


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
class Suspend:
    """Suspend the whole platform; the manager resumes it when the price allows."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The work is done: everything can be ended."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """The work can't be done any more: everything is to be ended."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How the platform fares; what is None is not known."""

    on_track: bool | None = None
    projected_end_s: float | None = None
    """When it will be done, on the daemon's clock, in seconds since the epoch."""
    performance: float | None = None
    """As the controller measures it, e.g. seconds per iteration,"""
    reference: float | None = None
    """and what it would have to be."""
    done: float | None = None
    """The part of the work that is done, from 0 to 1."""
    text: str = ""
    """In words, for people."""


Action = SetBids | SetSize | Suspend | Done | GiveUp | Report


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an action."""

    accepted: bool
    why: str = ""
    """Where it was refused: what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitor:
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
    """Of each VM: CPU in percent of a core, memory in MiB,"""
    ceiling: Amounts = field(default_factory=dict)
    """and the most that each can use."""
    monitor: Monitor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """All that a controller must know to begin; the same after each start but for what changed."""

    platform: int
    name: str
    owner: int
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
    memory: Any = None
    """What the controller asked to be kept when it last did: a value that JSON can carry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VmNow:
    """One VM of a platform, as the last period left it."""

    vm: int
    cluster: str
    state: str
    """`pending`, `running`, `busy`, `suspended`, or another of the daemon's words."""
    bid: Amounts
    allocation: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What one platform is told after a period; nobody else is told the same."""

    platform: int
    period: int
    at_s: float
    state: str
    prices: Amounts
    """Of the platform's market: credits per unit and period."""
    vms: tuple[VmNow, ...]
    balance: float
    """Credits."""
    deadline_s: float | None
    sizes: Mapping[str, int]
    """By cluster: how many VMs it is to have."""


class Attendant(Protocol):
    """The manager, as those who run controllers see it."""

    async def act(self, platform: int, action_id: str, action: Action) -> Outcome:
        """Take an action of a platform's controller.

        An id that was taken before changes nothing and is answered with what became of it then.
        """

    async def remember(self, platform: int, memory: Any) -> None:
        """Keep this for the controller; it is in the next `Assignment`."""

    async def ended(self, platform: int, why: str, *, final: bool) -> None:
        """A controller ended unasked; with `final` it won't be started again."""


class Controllers(Protocol):
    """Whoever runs the platforms' controllers and monitors."""

    def attend(self, attendant: Attendant) -> None:
        """Bring to this one whatever controllers ask for; told once, before anything starts."""

    async def start(self, assignment: Assignment) -> None:
        """Have the platform's controller and monitors run; where they do, tell them the news."""

    async def stop(self, platform: int, grace_s: float) -> None:
        """End them: asked first, ended for certain after the grace."""

    def announce(self, news: Sequence[News]) -> None:
        """Tell each platform's controller what the last period came to; never waits."""

    async def close(self) -> None:
        """End all processes; the platforms go on at the next start."""
