"""A snapshot with a value in every table and column that has one."""

import numpy as np

from merkatd.cluster import FailureRates, Snapshot
from merkatd.cluster.applications import Jobs, Replicated, Services, Stages
from merkatd.cluster.snapshot import UsageHistory
from tests.clouds import cloud, hosts_table, vms_table


def complete() -> Snapshot:
    """Return a snapshot with a value in every table and column."""
    return cloud(
        hosts_table(
            np.full((2, 2), 100.0),
            domains={"power": np.array([[1, -1], [2, 1]]), "network": np.array([[5, 6], [7, -1]])},
            topology=np.array([[0, 1], [0, 2]]),
            link_mbps=np.array([1000.0, np.nan]),
            used=np.array([[1.0, 2.0], [np.nan, np.nan]]),
            idle_watts=np.array([80.0, np.nan]),
            full_watts=np.array([160.5, np.nan]),
        ),
        vms_table(
            [0, -1],
            np.ones((2, 2)),
            np.full((2, 2), 50.0),
            moved_at_s=np.array([3.0, np.nan]),
            started_s=np.array([1.0, np.nan]),
            disk_mib=np.array([4096.0, np.nan]),
            shared_disk=np.array([False, True]),
        ),
        jobs=Jobs(
            application=np.array([1, 2]),
            submitted_s=np.array([0.0, 1.0]),
            started_s=np.array([np.nan, 2.0]),
            goal_s=np.array([9.0, 8.0]),
            work_done=np.array([0.0, 0.5]),
        ),
        stages=Stages(
            job=np.array([0, 0, 1]),
            work=np.array([1.0, 2.0, 3.0]),
            least_speed=np.zeros(3),
            greatest_speed=np.ones(3),
            memory_mib=np.full(3, 64.0),
        ),
        services=Services(
            application=np.array([3]),
            response_goal_s=np.array([0.1]),
            arrivals_per_s=np.array([50.0]),
            work_per_request=np.array([0.01]),
        ),
        replicated=Replicated(
            application=np.array([4]),
            needed=np.array([3]),
            run_time_s=np.array([60.0]),
            reliability=np.array([0.99]),
        ),
        failure_rates=FailureRates(
            kind=("host", "network", "power"), per_year=np.array([0.5, 0.25, 0.0])
        ),
        history=UsageHistory(
            at_s=np.array([1.0, 2.0]),
            vms=np.array([[[1.0, 2.0], [np.nan, np.nan]]] * 2),
            hosts=np.ones((2, 2, 2)),
        ),
    )
