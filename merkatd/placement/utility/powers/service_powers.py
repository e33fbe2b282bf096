"""The powers of services beside jobs on the same hosts: compiled.

# Note [Rising utilities]

All jobs together count as one application here: the power that they need for a utility is the sum
over all jobs, those that wait included, as any of them may run later (the hypothetical utility). A
service needs the power of Eq. 1. The utility of all that still grow rises as far as the hosts
allow. Those that can't grow any further keep theirs, and the others rise on. A service first takes
power that no job on its hosts can use, and then power of jobs, both evenly over its VMs.

Example: a host of 1,000 runs a job that can use 800, and a VM of a service that can use 600. The
service begins with the 200 that the job can't use. While its utility is below that of the job, it
takes more, and the job keeps the rest.
Used by `divide_hosts` in `power_division.py`.
"""

from typing import NamedTuple

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.placement.base.compiled import compiled
from merkatd.placement.utility.powers.job_levels import WORST, Demands, power_of_jobs

_NEAR = 1e-9
_GROWS = 1e-5
"""A little more utility: the test whether an application can still grow."""
_STEPS = 60


class ServiceFlow(NamedTuple):
    """Services and their hosts. `levels`, `grows`, `low` and `cap` have jobs as the last entry."""

    table: Demands
    most: Floats
    """[jobs]: the greatest utilities."""
    at: Ints
    """[VMs]: the host of each."""
    members: Ints
    """The VMs of services with a host; those of a service stand together."""
    rest: Floats
    """[hosts]: the power above the least powers."""
    jobs: Floats
    """[hosts]: what jobs there can use of it."""
    low: Floats
    """The sum of the least powers."""
    cap: Floats
    """The most power above these."""
    levels: Floats
    """The utilities."""
    grows: Bools
    wanted: Floats
    """[services]"""
    take: Floats
    """[VMs]: the power above the least one."""


@compiled
def serve_evenly(flow: ServiceFlow, vms: Ints, missing: float, rest: Floats, kept: Floats) -> float:
    """Give the VMs of a service what it misses, evenly; return what is still missing.

    Lower `rest`, and on each host leave what is `kept` there.
    """
    while missing > _NEAR:
        open_ = 0
        for vm in vms:
            host = flow.at[vm]
            if min(rest[host] - kept[host], flow.table.room[vm] - flow.take[vm]) > _NEAR:
                open_ += 1
        if open_ == 0:
            break
        part = missing / open_
        for vm in vms:
            host = flow.at[vm]
            free = min(rest[host] - kept[host], flow.table.room[vm] - flow.take[vm])
            if free > _NEAR:
                given = min(part, free)
                flow.take[vm] += given
                rest[host] -= given
                missing -= given
    return max(missing, 0.0)


@compiled
def serve_all(flow: ServiceFlow, rest: Floats) -> float:
    """Give services what they want, and lower `rest`; return what they lack."""
    none = np.zeros(len(rest))
    missing = flow.wanted.copy()
    for member in flow.members:
        flow.take[member] = 0.0
    for turn in range(2):
        first = 0
        for last in range(1, len(flow.members) + 1):
            service = flow.table.service[flow.members[first]]
            if last < len(flow.members) and flow.table.service[flow.members[last]] == service:
                continue
            kept = flow.jobs if turn == 0 else none
            vms = flow.members[first:last]
            missing[service] = serve_evenly(flow, vms, missing[service], rest, kept)
            first = last
    return float(missing.sum())


@compiled
def set_wanted(flow: ServiceFlow) -> None:
    """Set what services want above their least powers."""
    for service in range(len(flow.wanted)):
        power, level = np.inf, flow.levels[service]
        if level < 1.0:
            time = flow.table.goal[service] * (1.0 - level)
            power = flow.table.base[service] + flow.table.work[service] / time
        flow.wanted[service] = min(max(power - flow.low[service], 0.0), flow.cap[service])


@compiled
def are_served(flow: ServiceFlow) -> bool:
    """Return whether all reach their levels."""
    set_wanted(flow)
    rest, jobs = flow.rest.copy(), len(flow.wanted)
    if serve_all(flow, rest) > _NEAR * (1.0 + float(flow.wanted.sum())):
        return False
    power = 0.0
    for host in range(len(rest)):
        power += min(flow.jobs[host], max(rest[host], 0.0))
    if power >= flow.cap[jobs] * (1.0 - _NEAR):
        return True
    needed = power_of_jobs(flow.table, flow.most, False, flow.levels[jobs]) - flow.low[jobs]
    enough = min(needed, flow.cap[jobs]) * (1.0 - _NEAR) - _NEAR
    return bool(power >= enough)


@compiled
def try_level(flow: ServiceFlow, level: float) -> bool:
    """Return whether all that still grow reach this level beside the others."""
    for source in range(len(flow.levels)):
        if flow.grows[source]:
            flow.levels[source] = level
    return are_served(flow)


@compiled
def rise_together(flow: ServiceFlow) -> float:
    """Raise all that still grow to the highest level in reach, and return it.

    It is below `WORST` if none is.
    """
    if try_level(flow, 1.0):
        return 1.0
    high, low, step = 1.0, 1.0, 0.5
    while True:
        low, step = max(high - step, WORST), step * 4.0
        if try_level(flow, low):
            break
        if low == WORST:
            return 2.0 * WORST
        high = low
    for _step in range(_STEPS):
        if high - low <= 1e-7 * max(1.0, abs(low)):
            break
        middle = 0.5 * (high + low)
        if try_level(flow, middle):
            low = middle
        else:
            high = middle
    try_level(flow, low)
    return low


@compiled
def keep_bounded(flow: ServiceFlow, level: float) -> bool:
    """Stop those that can't grow beyond this level; return whether any still grows."""
    more, count = level + _GROWS * max(1.0, abs(level)), 0
    for source in range(len(flow.levels)):
        if flow.grows[source]:
            flow.levels[source] = more
            flow.grows[source] = are_served(flow)
            flow.levels[source] = level
            count += flow.grows[source]
    return count > 0


@compiled
def share_worst(flow: ServiceFlow) -> None:
    """Give services the same part of what they need for the worst utility, and jobs nothing."""
    low, high = 0.0, 1.0
    for source in range(len(flow.levels)):
        flow.levels[source] = WORST
    set_wanted(flow)
    full = flow.wanted.copy()
    for _step in range(_STEPS):
        middle = 0.5 * (low + high)
        flow.wanted[:] = middle * full
        if serve_all(flow, flow.rest.copy()) <= _NEAR:
            low = middle
        else:
            high = middle
    flow.wanted[:] = low * full
    serve_all(flow, flow.rest.copy())


@compiled
def set_service_powers(flow: ServiceFlow) -> None:
    """Write the powers of services to `take`. See Note [Rising utilities]."""
    for _source in range(len(flow.levels)):
        level = rise_together(flow)
        if level < WORST:
            share_worst(flow)
            return
        if level == 1.0 or not keep_bounded(flow, level):
            break
    are_served(flow)
