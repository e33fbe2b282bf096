"""The template of a virtual platform, as values: what `reading` makes of a tenant's text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from merkatd.base.quantities import bounded
from merkatd.protocol.platform_messages import Amounts, ClusterTerms, MonitorTerms

NOBODY = "none"
"""The controller of a platform whose tenant bids by hand."""
PATIENT = "patient"
"""The controller of one that runs by the book of claims; by it, too, it starts and resumes."""
PARTIAL = "partial_deadline"
"""The controller of work of which each part is worth something: it runs until its deadline."""


class OverBudget(StrEnum):
    """What becomes of a platform that has used up its budget."""

    STOP = "stop"
    GO_ON = "go on"
    """With what replenishment brings."""


@dataclass(frozen=True, slots=True)
class TemplateTime:
    """A time: so long after the template was submitted, or a certain one."""

    after_s: float | None = None
    at_s: float | None = None

    def seconds(self, submitted_s: float) -> float:
        """On the daemon's clock."""
        at_s = self.at_s if self.at_s is not None else submitted_s + (self.after_s or 0.0)
        return bounded(at_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateGoal:
    """What the tenant wants of it (its SLO)."""

    deadline: TemplateTime | None = None
    ideal_s: float | None = None
    """The least time in which the whole work can be done."""
    performance: float | None = None
    """What the controller is to reach, in its own measure."""
    give_up: bool = True
    """Whether work that can't be done in time is worth nothing: so unless the kind is `PARTIAL`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateBudget:
    """What it may spend, in credits."""

    credits: float
    replenishment: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTerms:
    """When it may start."""

    not_before: TemplateTime | None = None
    latest: TemplateTime | None = None
    price_ceiling: Amounts = field(default_factory=dict)
    """By resource: the highest price, credits per unit and period."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualCluster:
    """A virtual cluster: VMs of one kind."""

    name: str
    template: str | None = None
    """In OpenNebula's words, or"""
    template_id: int | None = None
    """the id of one of OpenNebula's templates, or"""
    template_name: str | None = None
    """its name."""
    least: int
    initial: int
    most: int
    floor: Amounts = field(default_factory=dict)
    ceiling: Amounts = field(default_factory=dict)
    monitor: MonitorTerms | None = None

    def terms(self, whole: Amounts) -> ClusterTerms:
        """What its controller is told of it; `whole` is all that a VM can use."""
        return ClusterTerms(
            name=self.name,
            least=self.least,
            most=self.most,
            floor=self.floor,
            ceiling=whole,
            monitor=self.monitor,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformTemplate:
    """All that a tenant asks for."""

    name: str
    controller: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    market: str | None = None
    over_budget: OverBudget = OverBudget.STOP
    grace_s: float = 30.0
    """How long its controller may take to end."""
    goal: TemplateGoal = field(default_factory=TemplateGoal)
    budget: TemplateBudget
    start: StartTerms = field(default_factory=StartTerms)
    clusters: tuple[VirtualCluster, ...]

    @property
    def processes(self) -> int:
        """How many controllers and monitors it has."""
        if self.controller == NOBODY:
            return 0
        return 1 + sum(one.monitor is not None for one in self.clusters)

    @property
    def most_vms(self) -> int:
        """How many VMs it may have."""
        return sum(one.most for one in self.clusters)
