"""The state of a declared application: its goal, its progress, and its monitors' measurements.

# Note [Which runs are comparable]
A job's profile comes from its owner's finished runs of the same template. Runs have the same
template if their platforms have the same name, controller, clusters and VM templates. The text as a
whole would be too strict: a later run has another deadline and another budget. The name alone would
be too lax: the tenant may have changed the program. The owner counts because a tenant must not
change, or learn, what a platform of another tenant needs.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Final

from merkatd.base import parameter_bounds
from merkatd.platforms.declarations.application_terms import (
    ApplicationTerms,
    JobTerms,
    ServiceTerms,
)
from merkatd.platforms.lifecycle.platform_template import NO_CONTROLLER, PlatformTemplate
from merkatd.platforms.rules.made_iterations import measured_part
from merkatd.protocol.measurement_names import ARRIVALS, RESPONSE, THROUGHPUT, WORK_PER_REQUEST
from merkatd.protocol.platform_messages import MonitorReading, Readings

FRESH_S, FRESH_LOOKS = 300.0, 3.0
"""How long a reading counts: this time, or so many intervals of its monitor if that is longer."""
_NOTHING: Final = MonitorReading(0.0, {})


@dataclass(frozen=True, slots=True)
class DeclaredTerms:
    """What a template says of its application, without the rest of the template."""

    terms: ApplicationTerms
    every_s: Mapping[str, float]
    """By cluster: the interval of its monitor."""
    steps: float | None
    """The iterations of its work; None if the template does not state them."""
    controlled: bool = True
    """Whether it has a controller."""

    @property
    def ends_by_iterations(self) -> float | None:
        """Return the iterations after which the daemon itself ends a job; None if it does not."""
        is_job = isinstance(self.terms, JobTerms)
        return self.steps if is_job and not self.controlled and self.every_s else None


def declared_terms(template: PlatformTemplate) -> DeclaredTerms | None:
    """Return what a template declares; None if it declares nothing."""
    if template.application is None:
        return None
    states_steps = "steps" in template.parameters
    return DeclaredTerms(
        terms=template.application,
        every_s={
            cluster.name: parameter_bounds.number(cluster.monitor.parameters, "every_s")
            for cluster in template.clusters
            if cluster.monitor is not None
        },
        steps=parameter_bounds.number(template.parameters, "steps") if states_steps else None,
        controlled=template.controller != NO_CONTROLLER,
    )


def template_key(template: PlatformTemplate, vm_templates: Mapping[str, str]) -> str:
    """Return a text that is the same for templates of the same job.

    See Note [Which runs are comparable].
    """
    same = {
        "name": template.name,
        "controller": template.controller,
        "parameters": template.parameters,
        "clusters": [asdict(cluster) | {"template": None} for cluster in template.clusters],
        "vm_templates": vm_templates,
    }
    return sha256(json.dumps(same, sort_keys=True, default=str).encode()).hexdigest()


def goal_s(terms: JobTerms, submitted_s: float, deadline_s: float | None) -> float | None:
    """Return when a job should end: at its goal, or else at the platform's deadline."""
    return deadline_s if terms.goal is None else terms.goal.seconds(submitted_s)


def done_part(
    declared: DeclaredTerms, report: Mapping[str, Any] | None, readings: Readings
) -> float | None:
    """Return the finished part of a job's work, from 0 to 1; None if it is unknown.

    A controller reports it. Without a controller, the slowest VM counts, by the iterations that its
    monitor has seen.
    """
    reported = (report or {}).get("done")
    if reported is not None:
        return min(max(float(reported), 0.0), 1.0)
    if declared.steps is None or not declared.every_s:
        return None
    return measured_part(readings, declared.every_s, declared.steps)


@dataclass(frozen=True, slots=True)
class MeasuredService:
    """What the monitor of a service measured lately; None for what it did not measure."""

    arrivals_per_s: float | None = None
    response_s: float | None = None
    work_per_request: float | None = None
    """The measured core-seconds, or else the declared ones."""
    throughput_per_s: float | None = None


def measured_service(declared: DeclaredTerms, readings: Readings) -> MeasuredService:
    """Return the newest measurements of a service's monitor, unless they are too old."""
    terms = declared.terms
    if not isinstance(terms, ServiceTerms):
        return MeasuredService()
    reading = readings.get(terms.cluster, _NOTHING)
    every_s = declared.every_s.get(terms.cluster, 0.0)
    values = reading.values if reading.age_s <= max(FRESH_S, FRESH_LOOKS * every_s) else {}
    return MeasuredService(
        arrivals_per_s=values.get(ARRIVALS),
        response_s=values.get(RESPONSE),
        work_per_request=values.get(WORK_PER_REQUEST, terms.work_per_request),
        throughput_per_s=values.get(THROUGHPUT),
    )
