"""The simulator runs jobs as the daemon does: the same starts, suspensions, ends and charges."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from merkatd.opennebula import current_state
from merkatd.scheduler.base.settings import Rhythm
from simulator.model.simulated_cloud import OperationCosts, SimulatedCloud
from simulator.orders.order_run import OrderRun
from simulator.workloads.job_applications import Application
from tests.lengths import shorten
from tests.scheduler.frontend import START_S
from tests.simulator.both_ways.daemon_run import DaemonRun, JobRecord

JOBS = shorten(40, 32)

CLOUD = SimulatedCloud(
    nodes=40,
    cpu=200.0,
    memory_mib=8192.0,
    renewal_s=80.0,
    strategy="tabu",
    # With more, a guest's memory would be too small for some seconds after its start.
    memory_use=0.2,
    costs=OperationCosts(
        boot_s=3.6,
        suspend_s_per_mib=0.03531,
        resume_s_per_mib=0.03531,
        migrate_s_per_mib=0.03531,
        migrating_speed=1.0,
    ),
)


def job(
    submit_s: float,
    run_s: float,
    tasks: int,
    deadline_s: float,
    budget: float = 600.0,
    memory_mib: float = 100.0,
) -> Application:
    """Return a job that is worth nothing after its deadline."""
    return Application(
        number=0,
        submit_s=submit_s,
        run_s=run_s,
        tasks=tasks,
        memory_mib=memory_mib,
        ideal_s=run_s + CLOUD.costs.boot_s,
        deadline_s=deadline_s,
        budget=budget,
    )


def drawn(count: int, seed: int) -> list[Application]:
    """Return jobs that displace each other; no two come in the same part of a second.

    So no period begins at the very time of another event, where the order of both is chance.
    """
    rng, jobs, at_s = np.random.default_rng(seed), [], 10
    for row in range(count):
        run_s, factor = float(rng.integers(30, 90)), float(rng.uniform(1.5, 8.0))
        jobs.append(
            job(
                at_s + 0.02 * row + 0.01,
                run_s,
                int(rng.choice([2, 2, 4, 4, 6])),
                float(round(factor * run_s + 60.0)),
                round(2000.0 / factor, 3),
                float(rng.choice([100, 200, 400, 600])),
            )
        )
        at_s += int(rng.integers(0, 3))
    return jobs


def by_simulator(cloud: SimulatedCloud, jobs: Sequence[Application]) -> list[JobRecord]:
    """Return what happens to the jobs in the simulator, from the same time on as in the daemon."""
    shifted = [replace(each, submit_s=START_S + each.submit_s) for each in jobs]
    run = OrderRun(shifted, cloud, 3, {}, Rhythm(), START_S, {})
    run.to_the_end()
    return [
        JobRecord(
            starts=tuple(at_s - START_S for at_s in platform.starts),
            suspensions=tuple(at_s - START_S for at_s in platform.suspensions),
            end_s=platform.tenancy.end_s - START_S,
            spent=platform.tenancy.spent,
        )
        for platform in run.platforms
    ]


def by_daemon(cloud: SimulatedCloud, jobs: Sequence[Application]) -> list[JobRecord]:
    """Return what happens to the jobs in the daemon."""
    site = DaemonRun(cloud, jobs, Rhythm())
    records = site.run(40_000.0)
    # Displaced VMs are deployed again.
    site.placed_again = set(site.cloud.world.vms.rows)
    site.agree()
    site.close()
    return records


def test_the_daemon_and_the_simulator_do_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are equal but for the rounding of a large clock, which may move a charge a little."""
    # In the simulator calls to the cloud take no time.
    monkeypatch.setattr(current_state, "_MOMENT_S", 0.0)
    jobs = drawn(JOBS, 4)
    real, simulated = by_daemon(CLOUD, jobs), by_simulator(CLOUD, jobs)
    assert sum(len(record.suspensions) for record in real) >= JOBS / 4
    assert sum(other.spent == each.spent for each, other in zip(real, simulated, strict=True)) > (
        0.8 * JOBS
    )
    for each, other in zip(real, simulated, strict=True):
        assert other.spent == pytest.approx(each.spent, abs=10)
        assert other.starts == pytest.approx(each.starts, abs=1e-3)
        assert other.suspensions == pytest.approx(each.suspensions, abs=1e-3)
        assert other.end_s == pytest.approx(each.end_s, abs=1e-3)
