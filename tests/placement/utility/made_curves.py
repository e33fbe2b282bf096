"""Random applications: jobs before and after their goals, services with and without enough."""

import numpy as np

from merkatd.placement.utility.powers.power_curves import PowerCurves, job_curves, service_curves


def made_curves(random: np.random.Generator, jobs: int, services: int) -> PowerCurves:
    """Return the curves of so many jobs and services."""
    span_s = random.uniform(100, 100_000, jobs)
    left, speed = random.uniform(10, 1e6, jobs), random.uniform(50, 800, jobs)
    goal_in_s = span_s * random.uniform(-0.5, 1, jobs)
    arrivals, work = random.uniform(0, 100, services), random.uniform(0.1, 50, services)
    most = random.uniform(0, 3, services) * arrivals * work + 10
    return job_curves(left, left / speed, goal_in_s, span_s).joined(
        service_curves(arrivals, work, random.uniform(0.01, 5, services), most)
    )
