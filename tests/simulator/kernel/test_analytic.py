"""The kernel against known results: queues, and exponential failures."""

import numpy as np
import pytest

from merkatd.cluster import FailureRates
from simulator.baselines.placement.first_fit import FirstFit
from simulator.baselines.queue_baselines import fcfs
from simulator.kernel.data_center import DataCenter, KernelRhythm, equal_domains, tree_of_hosts
from simulator.kernel.kernel_deciders import PlacerDecider
from simulator.kernel.kernel_run import KernelRun
from simulator.kernel.kernel_state import GuestPhase
from simulator.model.simulated_cloud import OperationCosts
from simulator.workloads import SwfJob
from tests.lengths import shorten
from tests.simulator.kernel.small_centers import YEARLY, requests

AT_ONCE = OperationCosts(boot_s=0.0)
EVENTS = KernelRhythm(period_s=1e9, monitor_s=1e9, decide_at_events=True)


def waits(servers: int, gap_s: float, service_s: float, count: int, seed: int) -> KernelRun:
    """Run a queue with as many servers as hosts, of one VM each."""
    rng = np.random.default_rng(seed)
    center = DataCenter(hosts=tree_of_hosts((servers,), [1.0, 1.0]), costs=AT_ONCE, rhythm=EVENTS)
    asked = requests(
        np.cumsum(rng.exponential(gap_s, count)), rng.exponential(service_s, count), [1.0, 1.0]
    )
    run = KernelRun(center, asked, PlacerDecider(FirstFit()), span_s=1e8)
    run.run()
    assert (run.state.phase == GuestPhase.ENDED).all()
    return run


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_waiting_times_of_a_single_server(load: float) -> None:
    """M/M/1: the mean wait is load / (service rate - arrival rate), within 3 standard errors.

    Waits of neighbours are alike, so the error comes from the means of 30 blocks.
    """
    count = shorten(60_000, 12_000)
    waited = waits(1, 10.0, 10.0 * load, count, 1).state.waited_s
    service, arrival = 1.0 / (10.0 * load), 0.1
    blocks = waited.reshape(30, -1).mean(axis=1)
    error = blocks.std(ddof=1) / np.sqrt(len(blocks))
    assert abs(waited.mean() - load / (service - arrival)) <= 3 * error
    assert error < 0.15 * waited.mean()


@pytest.mark.parametrize("servers", [1, 3])
def test_each_wait_is_that_of_first_come_first_served(servers: int) -> None:
    """The same jobs in the simulator's own queue start at the same times."""
    run = waits(servers, 10.0, 8.0 * servers, 1_000, 2)
    asked = run.requests
    jobs = [
        SwfJob(row, at_s, run_s, 1, -1.0, -1.0, 0)
        for row, (at_s, run_s) in enumerate(
            zip(asked.arrival_s.tolist(), asked.lifetime_s.tolist(), strict=True)
        )
    ]
    starts = np.array(fcfs(jobs, servers).start_s)
    assert asked.arrival_s + run.state.waited_s == pytest.approx(starts)


def test_hosts_survive_as_long_as_expected() -> None:
    """Without repairs the part exp(-rate x time) of hosts still works, within 3 standard errors."""
    count, mean_s = 4_000, 5_000.0
    center = DataCenter(
        hosts=tree_of_hosts((count,), [1.0, 1.0]),
        rates=FailureRates(kind=("host",), per_year=np.array([YEARLY / mean_s])),
        repair_s={"host": 1e12},
        rhythm=KernelRhythm(monitor_s=500.0),
    )
    asked = requests([], 1.0, [1.0, 1.0])
    run = KernelRun(center, asked, PlacerDecider(FirstFit()), span_s=10_000.0, seed=4)
    columns = run.run().columns
    survive = np.exp(-columns["at_s"] / mean_s)
    error = np.sqrt(survive * (1.0 - survive) / count)
    assert (np.abs(1.0 - columns["failed_hosts"] / count - survive) <= 3 * error).all()
    assert len(survive) == 21


def test_hosts_work_the_expected_part_of_the_time() -> None:
    """In the long run: the mean time to a failure, divided by it and the mean repair together."""
    count = 100
    center = DataCenter(
        hosts=tree_of_hosts((count,), [1.0, 1.0]),
        rates=FailureRates(kind=("host",), per_year=np.array([YEARLY / 300.0])),
        repair_s={"host": 100.0},
        rhythm=KernelRhythm(monitor_s=2_000.0),
    )
    asked = requests([], 1.0, [1.0, 1.0])
    run = KernelRun(center, asked, PlacerDecider(FirstFit()), span_s=60_000.0, seed=5)
    failed = run.run().columns["failed_hosts"][2:] / count
    error = failed.std(ddof=1) / np.sqrt(len(failed))
    assert abs(failed.mean() - 0.25) <= 3 * error
    assert error < 0.02


def test_redundant_domains_fail_together_only() -> None:
    """With the part p of each domain's time failed, a host is cut off p^2 of its time, not p."""
    count = 30
    hosts = tree_of_hosts(
        (count,), [1.0, 1.0], domains={"network": equal_domains(count, count, redundant=True)}
    )
    center = DataCenter(
        hosts=hosts,
        rates=FailureRates(kind=("network",), per_year=np.array([YEARLY / 400.0])),
        repair_s={"network": 100.0},
        rhythm=KernelRhythm(monitor_s=1_000.0),
    )
    run = KernelRun(
        center, requests([], 1.0, [1.0, 1.0]), PlacerDecider(FirstFit()), span_s=1.5e5, seed=6
    )
    failed = run.run().columns["failed_hosts"][1:] / count
    error = failed.std(ddof=1) / np.sqrt(len(failed))
    assert abs(failed.mean() - 0.04) <= 3 * error
    assert error < 0.005
