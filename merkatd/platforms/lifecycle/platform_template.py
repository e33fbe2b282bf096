"""The template of a virtual platform as values, parsed from a tenant's text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from merkatd.platforms.declarations.application_terms import ApplicationTerms
from merkatd.platforms.declarations.template_time import TemplateTime
from merkatd.platforms.rules.lifecycle_events import BudgetPolicy
from merkatd.protocol.platform_messages import Amounts, ClusterTerms, MonitorTerms

NO_CONTROLLER = "none"
"""The controller kind of a platform whose tenant bids by hand."""
PATIENT = "patient"
"""The controller kind of a platform whose VMs run in a limit order."""
PARTIAL = "partial_deadline"
"""The controller kind for work whose finished part has value: it runs until its deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateGoal:
    """The tenant's goals for the platform (its SLO)."""

    deadline: TemplateTime | None = None
    ideal_s: float | None = None
    """The least time for the whole work."""
    performance: float | None = None
    """The performance that the controller must reach, in its own measure."""
    give_up: bool = True
    """Whether late work is worth nothing; the default is False for the kind `PARTIAL` only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateBudget:
    """The platform's budget, in credits."""

    credits: float
    replenishment: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTerms:
    """The conditions of the platform's start."""

    not_before: TemplateTime | None = None
    latest: TemplateTime | None = None
    price_ceiling: Amounts = field(default_factory=dict)
    """The highest price by resource, in credits per unit and period."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualCluster:
    """A virtual cluster: VMs with the same template.

    Exactly one of `template`, `template_id` and `template_name` is set.
    """

    name: str
    template: str | None = None
    """The text of a VM template in OpenNebula's syntax."""
    template_id: int | None = None
    """The id of a VM template in OpenNebula."""
    template_name: str | None = None
    """The name of a VM template in OpenNebula."""
    least: int
    initial: int
    most: int
    floor: Amounts = field(default_factory=dict)
    ceiling: Amounts = field(default_factory=dict)
    monitor: MonitorTerms | None = None

    def terms(self, full_size: Amounts) -> ClusterTerms:
        """Return the cluster's terms for its controller; `full_size` is the full size of a VM."""
        return ClusterTerms(
            name=self.name,
            least=self.least,
            most=self.most,
            floor=self.floor,
            ceiling=full_size,
            monitor=self.monitor,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformTemplate:
    """A tenant's platform template."""

    name: str
    controller: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    market: str | None = None
    over_budget: BudgetPolicy = BudgetPolicy.STOP
    grace_s: float = 30.0
    """The time that its controller may take to end."""
    goal: TemplateGoal = field(default_factory=TemplateGoal)
    budget: TemplateBudget
    start: StartTerms = field(default_factory=StartTerms)
    clusters: tuple[VirtualCluster, ...]
    application: ApplicationTerms | None = None
    """What its application is; None if its tenant does not declare it."""

    @property
    def processes(self) -> int:
        """Return the number of its controllers and monitors.

        Without a controller, monitors measure only an application that its tenant declares.
        """
        controllers = int(self.controller != NO_CONTROLLER)
        if not controllers and self.application is None:
            return 0
        return controllers + sum(cluster.monitor is not None for cluster in self.clusters)

    @property
    def most_vms(self) -> int:
        """Return the most VMs that it may have."""
        return sum(cluster.most for cluster in self.clusters)
