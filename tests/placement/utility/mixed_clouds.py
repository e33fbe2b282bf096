"""Clouds of jobs and services that compete for hosts like those of the paper, from a seed."""

import numpy as np

from merkatd.cluster import Floats, Ints, Snapshot
from merkatd.cluster.applications import Jobs, Services, Stages
from tests.clouds import cloud, hosts_table, vms_table

HOST_CPU, HOST_MIB = 1560.0, 16_000.0
JOB_MIB, SERVICE_MIB = 4320.0, 500.0
NOW_S = 100_000.0


def mixed_cloud(seed: int, hosts: int, placed: int, waiting: int, services: int) -> Snapshot:
    """Return a cloud with so many jobs on hosts and others that wait, three kinds as in the paper.

    Each service has VMs on ten hosts, or on all, and the load for about half of their sizes.
    """
    random = np.random.default_rng(seed)
    jobs = placed + waiting
    kind = random.choice(3, jobs, p=[0.1, 0.4, 0.5])
    speed = np.array([390.0, 156.0, 234.0])[kind]
    takes_s = np.array([9_000.0, 17_600.0, 600.0])[kind]
    factor = random.choice([1.3, 2.5, 4.0], jobs, p=[0.1, 0.3, 0.6])
    runs = np.arange(jobs) < placed
    waited_s = random.uniform(0, 0.3, jobs) * takes_s
    done = np.where(runs, random.uniform(0, 0.9, jobs), 0.0)
    start_s = NOW_S - waited_s - done * takes_s
    place = np.where(runs, np.arange(jobs) % hosts, -1)
    each = min(10, hosts)
    at = (np.arange(services * each) * 7) % hosts
    size = np.concatenate([np.stack([speed, np.full(jobs, JOB_MIB)], 1), _sizes(len(at))])
    application = np.concatenate([np.arange(jobs), jobs + np.repeat(np.arange(services), each)])
    return cloud(
        hosts_table(np.tile([HOST_CPU, HOST_MIB], (hosts, 1))),
        vms_table(
            np.concatenate([place, at]),
            np.zeros_like(size),
            size,
            floor=size * [0.0, 1.0],
            application=application,
        ),
        now_s=NOW_S,
        jobs=Jobs(
            application=np.arange(jobs),
            submitted_s=start_s,
            started_s=np.where(runs, start_s + waited_s, np.nan),
            goal_s=start_s + factor * takes_s,
            work_done=done * takes_s * speed,
        ),
        stages=_stages(takes_s * speed, speed),
        services=Services(
            application=jobs + np.arange(services),
            response_goal_s=np.full(services, 0.1),
            arrivals_per_s=random.uniform(50, 200, services) * each,
            work_per_request=np.full(services, 1.5),
        ),
    )


def _sizes(vms: int) -> Floats:
    """Return the sizes of VMs of services."""
    return np.tile([520.0, SERVICE_MIB], (vms, 1))


def _stages(work: Floats, speed: Floats) -> Stages:
    rows: Ints = np.arange(len(work))
    return Stages(
        job=rows,
        work=work,
        least_speed=np.zeros(len(work)),
        greatest_speed=speed,
        memory_mib=np.zeros(len(work)),
    )
