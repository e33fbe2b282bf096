"""The powers of all VMs in a placement, and the utilities that follow: compiled.

# Note [The judgment of a placement]

Each VM on a host gets its least power, services get theirs (Note [Rising utilities] in
`service_powers.py`), and jobs divide the rest of each host: those with a low greatest utility come
first, at full speed. With these powers all jobs go on for a while, the horizon. Then the power of
all jobs is divided anew among all jobs as if each could run: this gives the hypothetical utility of
each (section 4.4 of the paper). Late jobs get what the other ones leave.

Example: J1 has 3,000 left at 1 s, its goal is at 20 s; J2 has 2,000 left and can use 500, its goal
is at 17 s. J1 alone on the host of 1,000 has 2,000 left at 2 s. Then both share 1,000: J2 can reach
0.6875 with 500, and J1 0.7 with the other 500.
Used by `placement_search.py` for each placement that it tries.
"""

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.placement.base.compiled import compiled
from merkatd.placement.utility.powers.job_levels import WORST, Demands, level_of_jobs, power_of_jobs
from merkatd.placement.utility.powers.service_powers import ServiceFlow, set_service_powers

_DONE = 1e-9
"""The part of the work below which a job has ended."""


@compiled
def room_of_jobs(table: Demands, at: Ints, hosts: int) -> Floats:
    """Return [hosts]: what jobs that are not late can use there above their least powers."""
    jobs = np.zeros(hosts)
    for vm in table.order:
        if at[vm] >= 0 and not table.late[table.job[vm]]:
            jobs[at[vm]] += table.room[vm]
    return jobs


@compiled
def least_powers(table: Demands, at: Ints, rest: Floats, power: Floats) -> None:
    """Give each VM with a host its least power, and lower `rest`."""
    for vm in range(len(at)):
        power[vm] = 0.0
        if at[vm] >= 0:
            power[vm] = table.low[vm]
            rest[at[vm]] -= table.low[vm]
    for host in range(len(rest)):
        rest[host] = max(rest[host], 0.0)


@compiled
def serve(
    table: Demands, most: Floats, at: Ints, members: Ints, rest: Floats, power: Floats
) -> None:
    """Add the powers of services, and lower `rest`."""
    services = len(table.base)
    jobs = room_of_jobs(table, at, len(rest))
    low, cap = np.zeros(services + 1), np.zeros(services + 1)
    for vm in table.order:
        if at[vm] >= 0 and not table.late[table.job[vm]]:
            low[services] += table.low[vm]
    for host in range(len(rest)):
        cap[services] += min(jobs[host], rest[host])
    for vm in members:
        low[table.service[vm]] += table.low[vm]
        cap[table.service[vm]] += table.room[vm]
    take = np.zeros(len(at))
    levels, grows = np.zeros(services + 1), np.full(services + 1, True)
    wanted = np.zeros(services)
    set_service_powers(
        ServiceFlow(table, most, at, members, rest, jobs, low, cap, levels, grows, wanted, take)
    )
    for vm in members:
        power[vm] += take[vm]
        rest[at[vm]] = max(rest[at[vm]] - take[vm], 0.0)


@compiled
def divide_hosts(
    table: Demands, most: Floats, at: Ints, members: Ints, spare: Floats, power: Floats
) -> None:
    """Write the power of each VM with a host to `power`, [VMs]; 0 for the others.

    `spare` is [hosts]: the power for jobs and services. `at` is the host of each VM, or -1.
    `members` are the VMs of services, those of a service together.
    """
    rest = spare.copy()
    least_powers(table, at, rest, power)
    count = 0
    for vm in members:
        count += at[vm] >= 0
    if count:
        here = np.empty(count, dtype=np.int64)
        count = 0
        for vm in members:
            if at[vm] >= 0:
                here[count] = vm
                count += 1
        serve(table, most, at, here, rest, power)
    for vm in table.order:
        if at[vm] >= 0:
            given = min(table.room[vm], rest[at[vm]])
            power[vm] += given
            rest[at[vm]] -= given


@compiled
def utilities_of_services(table: Demands, power: Floats, out: Floats) -> None:
    """Write the utility of each service with the powers of its VMs (Eq. 1)."""
    total = np.zeros(len(table.base))
    for vm in range(len(power)):
        if table.service[vm] >= 0:
            total[table.service[vm]] += power[vm]
    for service in range(len(total)):
        above = total[service] - table.base[service]
        utility = WORST
        if above > 0.0:
            utility = max(1.0 - table.work[service] / (above * table.goal[service]), WORST)
        out[service] = utility


@compiled
def utilities_of_jobs(
    table: Demands, power: Floats, starts: Floats, horizon: float, out: Floats
) -> None:
    """Write the hypothetical utility of each job at the horizon.

    `starts` is [VMs]: the time until it uses its power.
    """
    jobs = len(table.left)
    speed, done = np.zeros(jobs), np.zeros(jobs)
    for vm in table.order:
        speed[table.job[vm]] += power[vm]
        done[table.job[vm]] += power[vm] * max(horizon - starts[vm], 0.0)
    left, best, most = np.zeros(jobs), np.zeros(jobs), np.zeros(jobs)
    reach = table.reach - horizon
    mine, late = 0.0, 0.0
    for job in range(jobs):
        if table.late[job]:
            late += speed[job]
        else:
            mine += speed[job]
        left[job] = max(table.left[job] - done[job], 0.0)
        if left[job] > _DONE * table.left[job]:
            best[job] = table.best[job] * left[job] / table.left[job]
            most[job] = (reach[job] - best[job]) / table.span[job]
        else:
            left[job] = 0.0
            most[job] = (table.reach[job] - table.left[job] / speed[job]) / table.span[job]
    after = Demands(
        left, reach, table.span, best, table.late, table.base, table.work, table.goal, table.job,
        table.service, table.low, table.room, table.order,
    )  # fmt: skip
    level = level_of_jobs(after, most, False, mine)
    late += max(mine - power_of_jobs(after, most, False, level), 0.0)
    last = level_of_jobs(after, most, True, late)
    for job in range(jobs):
        common = last if table.late[job] else level
        out[job] = most[job] if left[job] == 0.0 else min(common, most[job])


@compiled
def judge_placement(
    table: Demands,
    most: Floats,
    at: Ints,
    members: Ints,
    spare: Floats,
    starts: Floats,
    horizon: float,
    power: Floats,
    utility: Floats,
) -> None:
    """Write the powers of VMs, and the utilities of jobs and then services at the horizon.

    See Note [The judgment of a placement].
    """
    divide_hosts(table, most, at, members, spare, power)
    jobs = len(table.left)
    utilities_of_jobs(table, power, starts, horizon, utility[:jobs])
    utilities_of_services(table, power, utility[jobs:])
