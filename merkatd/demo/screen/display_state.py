"""The displayed state of a demo: only values, so that drawing is a pure function."""

from dataclasses import dataclass, field
from enum import StrEnum


class GoalStatus(StrEnum):
    """The state of a tenant's application."""

    AWAY = "to come"
    ON_TRACK = "on track"
    BEHIND = "behind"
    OVERDUE = "overdue"


@dataclass(frozen=True, slots=True, kw_only=True)
class VmBar:
    """A VM on its host."""

    vm: int
    name: str
    tenant: int
    """The index of its owner among the tenants, -1 for a VM of another user."""
    cpu: float
    """Its allocation of CPU in percent of a core."""
    memory: float
    """Its allocation of memory in MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayedHost:
    """A host with its VMs."""

    name: str
    cpu: float
    memory: float
    vms: tuple[VmBar, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayedTenant:
    """A tenant and its application."""

    name: str
    character: str
    standing: GoalStatus
    vms: int = 0
    pending: int = 0
    bid: float = 0.0
    cores: float = 0.0
    """The cores that its VMs may use together."""
    got: float | None = None
    """The cores that its VMs used lately, None for simulated guests."""
    done: float = 0.0
    """The part of the work that is done."""
    passed: float = 0.0
    """The part of the time to the deadline that has passed."""
    left_min: float = 0.0
    """The minutes to the deadline, or to the next arrival."""
    kept: int = 0
    """The number of deadlines that it met."""
    missed: int = 0
    """The number of deadlines that it missed."""
    balance: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayedDecision:
    """A decision of Merkat or of a tenant, with its reason."""

    period: int
    tenant: int
    """The index of the tenant that it concerns, -1 for none."""
    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayState:
    """The whole displayed state."""

    period: int = 0
    left_s: float = 0.0
    """The time until the demo ends, in seconds at its speed."""
    doing: str = ""
    """What the demo does before its first period."""
    speed_part: float = 1.0
    """The present speed as a part of the demo's speed: lower on a slow machine."""
    command: str = ""
    """A command to try in another terminal."""
    page: str = ""
    """The address of the web page, and a login for it."""
    paused: bool = False
    failures: int = 0
    running: int = 0
    pending: int = 0
    cpu_prices: tuple[float, ...] = ()
    """Prices in credits per core and period, the oldest first."""
    memory_prices: tuple[float, ...] = ()
    """Prices in credits per GiB and period, the oldest first."""
    hosts: tuple[DisplayedHost, ...] = ()
    tenants: tuple[DisplayedTenant, ...] = ()
    decisions: tuple[DisplayedDecision, ...] = field(default=())
    """The newest decisions, the oldest of them first."""
