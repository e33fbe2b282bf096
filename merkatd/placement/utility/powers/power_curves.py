"""The power that each application needs for a utility, in one form for jobs and services.

# Note [Power curves]

A utility of 0 means that an application just reaches its goal, 1 would be an end at once. The goal
of a job is a time (Eq. 2), that of a service a response time (Eq. 1).

A job has `R` work left, its goal lies `a` seconds ahead, and `b` seconds lie between its start and
its goal. It ends after `a - u b` seconds with a utility of `u`, so it needs the speed (Eq. 7)

    w(u) = R / (a - u b)

A service gets `n` requests a second that take the work `k` each, and its goal is a response time of
`g` seconds. It answers as a queue M/M/1 with processor sharing (Note [Requests of a service] in
`merkatd/policies/service_queue.py`): with the power `w` in `k / (w - n k)` seconds. So it
needs for a utility of `u`

    w(u) = n k + k / (g - u g)

Both have the form `base + scale / (reach - u span)`: a job with `base` 0, a service with `base`
`n k` and `reach` = `span` = `g`. The power grows with the utility, ever more steeply. It ends at
the most that the application can use, and the utility there is the greatest achievable one.

Example: a job with 2,000 left whose goal lies 16 s ahead, of which 16 s are its span, needs 500 for
`u` = 0.75 and 250 for `u` = 0.5. If it can use 400, it reaches at most (16 - 5) / 16 = 0.6875.
Used by `job_curves`, `service_curves` and all functions of `common_utility.py`.
"""

from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Floats

LEAST_UTILITY = -1e6
"""The utility of an application without power, and of a service that can't answer its requests.

Only jobs that are late by more than so many spans of time have a lower one."""


@dataclass(frozen=True, slots=True, eq=False)
class PowerCurves:
    """Power as a function of utility, for [applications]. None of them may be at its end."""

    base: Floats
    scale: Floats
    reach: Floats
    span: Floats
    most_utility: Floats
    """The greatest achievable utility."""

    def __len__(self) -> int:
        """Return the number of applications."""
        return len(self.base)

    def power(self, utility: float | Floats) -> Floats:
        """Return [applications]: the power for this utility, or for the greatest achievable one."""
        capped = np.minimum(utility, self.most_utility)
        power: Floats = self.base + self.scale / (self.reach - capped * self.span)
        return power

    def slope(self, utility: float) -> Floats:
        """Return [applications]: the power for a little more utility; 0 at the greatest one."""
        left = self.reach - np.minimum(utility, self.most_utility) * self.span
        slope: Floats = self.scale * self.span / left**2
        return np.where(utility < self.most_utility, slope, 0.0)

    def utility(self, power: Floats) -> Floats:
        """Return [applications]: the utility with this power."""
        above = power - self.base
        reached = np.full(len(self), -np.inf)
        with np.errstate(over="ignore"):
            time = np.divide(self.scale, above, out=np.full(len(self), np.inf), where=above > 0)
        finite = np.isfinite(time)
        np.divide(self.reach - time, self.span, out=reached, where=finite)
        utility: Floats = np.minimum(np.maximum(reached, LEAST_UTILITY), self.most_utility)
        return utility

    def joined(self, other: "PowerCurves") -> "PowerCurves":
        """Return the curves of these applications and then of the others."""
        return PowerCurves(
            base=np.concatenate([self.base, other.base]),
            scale=np.concatenate([self.scale, other.scale]),
            reach=np.concatenate([self.reach, other.reach]),
            span=np.concatenate([self.span, other.span]),
            most_utility=np.concatenate([self.most_utility, other.most_utility]),
        )


def job_curves(left: Floats, best_s: Floats, goal_in_s: Floats, span_s: Floats) -> PowerCurves:
    """Return the curves of jobs with work left.

    `best_s` is the time that the rest takes at the greatest speeds, `goal_in_s` the time until the
    goal, negative after it, and `span_s` the time between the start and the goal.
    """
    return PowerCurves(
        base=np.zeros(len(left)),
        scale=left,
        reach=goal_in_s,
        span=span_s,
        most_utility=(goal_in_s - best_s) / span_s,
    )


def service_curves(
    arrivals: Floats, work_per_request: Floats, goal_s: Floats, most_power: Floats
) -> PowerCurves:
    """Return the curves of services, each with the most power that its instances can use."""
    base = arrivals * work_per_request
    above = most_power - base
    time = np.divide(work_per_request, above, out=np.full(len(base), np.inf), where=above > 0)
    return PowerCurves(
        base=base,
        scale=work_per_request,
        reach=goal_s,
        span=goal_s,
        most_utility=np.maximum(1.0 - time / goal_s, LEAST_UTILITY),
    )
