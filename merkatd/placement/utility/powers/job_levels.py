"""The common utility of jobs, compiled: what `common_utility.py` computes, in a tenth of its time.

A strategy asks for it once for each placement that it tries. Jobs that can't reach their goal any
more ("late") form a kind of their own.
"""

from typing import NamedTuple

from merkatd.cluster import Bools, Floats, Ints
from merkatd.placement.base.compiled import compiled

WORST = -1e6
"""`LEAST_UTILITY` of `power_curves.py`, for compiled functions."""
_NEAR = 1e-10
_STEPS = 100


class Demands(NamedTuple):
    """What jobs and services need: columns of jobs, then of services, then of VMs."""

    left: Floats
    """[jobs]: the work that is left."""
    reach: Floats
    """[jobs]: the time until the goal."""
    span: Floats
    """[jobs]: the time between the start and the goal."""
    best: Floats
    """[jobs]: the time that the rest takes at full speed."""
    late: Bools
    """[jobs]: whether the job comes after those that still reach their goals."""
    base: Floats
    """[services]: the work that the requests of a second take."""
    work: Floats
    """[services]: the work of a request."""
    goal: Floats
    """[services]: the goal of the response time."""
    job: Ints
    """[VMs]: the job of each, or -1."""
    service: Ints
    """[VMs]: the service of each, or -1."""
    low: Floats
    """[VMs]: the least power."""
    room: Floats
    """[VMs]: the power that it can use above the least one."""
    order: Ints
    """The VMs of jobs, in the order in which they get power on their hosts."""


@compiled
def power_of_jobs(table: Demands, most: Floats, late: bool, utility: float) -> float:
    """Return the power that all jobs of a kind need for this utility (Eq. 7), or their greatest."""
    total = 0.0
    for job in range(len(most)):
        if table.late[job] == late and table.left[job] > 0.0:
            level = min(utility, most[job])
            total += table.left[job] / (table.reach[job] - level * table.span[job])
    return total


@compiled
def slope_of_jobs(table: Demands, most: Floats, late: bool, utility: float) -> float:
    """Return the power that a little more utility takes, by the utility."""
    slope = 0.0
    for job in range(len(most)):
        if table.late[job] == late and table.left[job] > 0.0 and utility <= most[job]:
            time = table.reach[job] - utility * table.span[job]
            slope += table.left[job] * table.span[job] / (time * time)
    return slope


@compiled
def greatest_level(table: Demands, most: Floats, late: bool) -> float:
    """Return the highest of the greatest utilities; `WORST` without any job of the kind."""
    highest = WORST
    for job in range(len(most)):
        if table.late[job] == late and table.left[job] > 0.0:
            highest = max(highest, most[job])
    return highest


@compiled
def level_of_jobs(table: Demands, most: Floats, late: bool, power: float) -> float:
    """Return the common utility of all jobs of a kind with this power.

    Newton's method, inside a bracket that each step makes smaller. See Note [Common utility].
    """
    high = greatest_level(table, most, late)
    if high <= WORST or power_of_jobs(table, most, late, high) <= power:
        return high
    if power <= 0.0:
        return WORST
    low, step = high, 0.25
    while low > WORST:
        low, step = max(high - step, WORST), step * 4.0
        if power_of_jobs(table, most, late, low) <= power:
            break
        high = low
    if high <= WORST:
        return WORST
    level = high
    for _step in range(_STEPS):
        above = power_of_jobs(table, most, late, level) - power
        if above > 0.0:
            high = level
        else:
            low = level
        slope = slope_of_jobs(table, most, late, level)
        following = level - above / slope if slope > 0.0 else low
        if not low < following < high:
            following = 0.5 * (low + high)
        if abs(following - level) <= _NEAR * max(1.0, abs(level)):
            return following
        level = following
    return level
