"""What is to be seen at one moment: values alone, so that drawing them is a pure function."""

from dataclasses import dataclass, field
from enum import StrEnum


class GoalStatus(StrEnum):
    """How a tenant's application stands."""

    AWAY = "to come"
    ON_TRACK = "on track"
    BEHIND = "behind"
    OVERDUE = "overdue"


@dataclass(frozen=True, slots=True, kw_only=True)
class VmBar:
    """A VM on its host."""

    vm: int
    tenant: int
    """The place of its owner among the tenants, -1 for somebody else's."""
    cpu: float
    """Percent of a core that it may use,"""
    memory: float
    """and MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayedHost:
    """A host and who shares it."""

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
    """That its VMs may use together."""
    got: float | None = None
    """That they really got lately, where guests are real."""
    done: float = 0.0
    """Parts of the work"""
    passed: float = 0.0
    """and of the time till the deadline."""
    left_min: float = 0.0
    """Until the deadline, or until it comes."""
    kept: int = 0
    missed: int = 0
    """Deadlines of earlier applications."""
    balance: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayedDecision:
    """Something that Merkat or a tenant decided, and why."""

    period: int
    tenant: int
    """Whom it concerns, -1 for nobody of the cast."""
    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayState:
    """The whole picture."""

    period: int = 0
    left_s: float = 0.0
    """Of the watcher's time, until the demo ends."""
    command: str = ""
    """Something to try in another terminal."""
    page: str = ""
    """Where the web page is, and who may sign in to it."""
    paused: bool = False
    failures: int = 0
    running: int = 0
    pending: int = 0
    cpu_prices: tuple[float, ...] = ()
    """Credits per core and period, oldest first,"""
    memory_prices: tuple[float, ...] = ()
    """and per GiB and period."""
    hosts: tuple[DisplayedHost, ...] = ()
    tenants: tuple[DisplayedTenant, ...] = ()
    decisions: tuple[DisplayedDecision, ...] = field(default=())
    """Oldest first."""
