"""A market's strategy sees the applications that have VMs in that market."""

import numpy as np

from merkatd.cluster import Markets, Snapshot
from merkatd.cluster.applications import Jobs, Replicated, Services, Stages
from merkatd.cluster.snapshot import checked_snapshot, view_of_market
from tests.clouds import cloud, hosts_table, vms_table


def two_markets(names: tuple[str, ...] = ("gold", "rest")) -> Snapshot:
    """Return a cloud with three jobs, a service and a task set in two markets."""
    market = np.arange(6) % len(names)
    nothing = np.full(3, np.nan)
    return checked_snapshot(
        cloud(
            hosts_table(np.array([[400.0, 100.0]] * 2), market=np.arange(2) % len(names)),
            vms_table(
                [-1] * 6,
                np.ones((6, 2)),
                np.full((6, 2), 10.0),
                application=np.array([5, 6, 7, 8, 9, -1]),
                market=market,
            ),
            markets=Markets(name=names, reserve=np.zeros((len(names), 2))),
            jobs=Jobs(
                application=np.array([5, 6, 7]),
                submitted_s=nothing,
                started_s=nothing,
                goal_s=nothing,
                work_done=np.array([1.0, 2.0, 3.0]),
            ),
            stages=Stages(
                job=np.array([0, 0, 1, 2, 2]),
                work=np.array([50.0, 51.0, 60.0, 70.0, 71.0]),
                least_speed=np.zeros(5),
                greatest_speed=np.ones(5),
                memory_mib=np.zeros(5),
            ),
            services=Services(
                application=np.array([8]),
                response_goal_s=np.array([1.0]),
                arrivals_per_s=np.array([np.nan]),
                work_per_request=np.array([np.nan]),
            ),
            replicated=Replicated(
                application=np.array([9]),
                needed=np.array([3]),
                run_time_s=np.array([60.0]),
                reliability=np.array([0.9]),
            ),
        )
    )


def test_each_market_sees_its_own_applications() -> None:
    """The stages follow their jobs; nothing is lost and nothing is there twice."""
    gold, rest = (checked_snapshot(view_of_market(two_markets(), row)) for row in (0, 1))
    assert gold.jobs.application.tolist() == [5, 7]
    assert gold.jobs.work_done.tolist() == [1.0, 3.0]
    assert gold.stages.job.tolist() == [0, 0, 1, 1]
    assert gold.stages.work.tolist() == [50.0, 51.0, 70.0, 71.0]
    assert (len(gold.services), gold.replicated.application.tolist()) == (0, [9])
    assert rest.jobs.application.tolist() == [6]
    assert (rest.stages.job.tolist(), rest.stages.work.tolist()) == ([0], [60.0])
    assert (rest.services.application.tolist(), len(rest.replicated)) == ([8], 0)


def test_the_only_market_sees_all() -> None:
    """Nothing is copied."""
    snapshot = two_markets(("default",))
    assert view_of_market(snapshot, 0) is snapshot
