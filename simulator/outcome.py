"""How applications fared, and what that is worth to their tenants (Table 1)."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from merkatd.policies.deadline import full_deadline, full_performance, partial_deadline
from simulator.workloads.applications import Application, Tenant


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one application."""

    application: Application
    end_s: float
    """When its work was done; infinite where that never was."""
    done: float
    """The part of its work that was done by its deadline."""

    @property
    def met(self) -> bool:
        """Whether it was done by its deadline."""
        return self.end_s <= self.application.due_s

    @property
    def satisfaction(self) -> float:
        """Table 1, in credits."""
        one = self.application
        exec_s = self.end_s - one.submit_s
        match one.tenant:
            case Tenant.FULL_DEADLINE:
                return full_deadline(one.budget, exec_s, one.deadline_s)
            case Tenant.PARTIAL_DEADLINE:
                return partial_deadline(one.budget, exec_s, one.deadline_s, self.done)
            case Tenant.FULL_PERFORMANCE:
                return full_performance(one.budget, exec_s, one.deadline_s, one.ideal_s)


def satisfaction(outcomes: Iterable[Outcome]) -> float:
    """Of all tenants together."""
    return sum(outcome.satisfaction for outcome in outcomes)


def met_part(outcomes: Iterable[Outcome]) -> float:
    """The part of the applications that met their deadline."""
    met = [outcome.met for outcome in outcomes]
    return sum(met) / len(met) if met else 0.0


def by_start(application: Application, start_s: float, boot_s: float) -> Outcome:
    """Of one that is never interrupted."""
    begin_s = start_s + boot_s
    end_s = begin_s + application.run_s
    in_time_s = min(max(application.due_s - begin_s, 0.0), application.run_s)
    done = in_time_s / application.run_s
    return Outcome(application, end_s if start_s < inf else inf, done)
