"""Small random data centres, requests, and a decider that orders anything."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from merkatd.cluster import (
    Deploy,
    FailureRates,
    Floats,
    Migrate,
    Plan,
    Resume,
    Sleep,
    Step,
    Stop,
    Suspend,
    Terminate,
    VmKind,
    Wake,
)
from simulator.kernel.data_center import DataCenter, KernelRhythm, equal_domains, tree_of_hosts
from simulator.kernel.kernel_deciders import KernelMoment, KernelOrders
from simulator.model.simulated_cloud import OperationCosts
from simulator.workloads.vm_requests import VmRequests

SPAN_S = 3600.0
YEARLY = 365.0 * 86_400.0


def requests(arrival_s: Any, lifetime_s: Any, size: Any, **columns: Any) -> VmRequests:
    """Return requests; one lifetime or size holds for all of them."""
    arrivals = np.asarray(arrival_s, dtype=float)
    count = len(arrivals)
    wide = np.broadcast_to(np.asarray(size, dtype=float), (count, np.shape(size)[-1]))
    return VmRequests(
        arrival_s=arrivals,
        lifetime_s=np.broadcast_to(np.asarray(lifetime_s, dtype=float), count).copy(),
        size=wide.copy(),
        **columns,
    )


def random_requests(seed: int, count: int) -> VmRequests:
    """Return requests of all kinds; some are larger than every host."""
    rng = np.random.default_rng(seed)
    size = np.stack(
        [rng.choice([50.0, 100.0, 233.3, 900.0], count), rng.uniform(100.0, 3000.0, count)], axis=1
    )
    arrival = np.sort(
        rng.choice([0.0, 60.0, 61.5, 600.0, 1800.0], count) + rng.integers(0, 3, count)
    )
    return requests(
        arrival,
        rng.choice([20.0, 300.0, 1500.0, np.inf], count),
        size,
        floor=size * rng.choice([0.0, 0.25, 1.0], (count, 1)),
        kind=rng.choice([int(kind) for kind in VmKind], count),
        level=np.full(count, 0.5),
        swing=rng.uniform(0.0, 1.0, count),
        phase=rng.uniform(0.0, 1.0, count),
        dirty_mib_s=rng.choice([np.nan, 0.0, 5.0, 80.0], count),
        disk_mib=rng.choice([0.0, 500.0], count),
    )


def random_center(seed: int) -> DataCenter:
    """Return hosts of different sizes with failures of hosts and of both kinds of domains."""
    rng = np.random.default_rng(seed)
    branches = ((4,), (2, 2), (2, 1, 3))[seed % 3]
    count = int(np.prod(branches))
    hosts = tree_of_hosts(
        branches,
        np.stack([rng.choice([200.0, 800.0], count), rng.choice([2048.0, 4096.0], count)], axis=1),
        domains={
            "network": equal_domains(count, 2, redundant=bool(rng.random() < 0.5)),
            "power": equal_domains(count, 2),
        },
        link_mbps=rng.choice([np.nan, 100.0, 10_000.0], count),
        idle_watts=100.0,
        full_watts=200.0,
    )
    failures = float(rng.choice([0.0, 1.0, 6.0]))
    return DataCenter(
        hosts=hosts,
        costs=OperationCosts(boot_s=float(rng.choice([0.0, 3.6, 90.0]))),
        rates=FailureRates(
            kind=("host", "network", "power"), per_year=np.full(3, failures * YEARLY / SPAN_S)
        ),
        repair_s={"host": 300.0, "network": 120.0},
        rhythm=KernelRhythm(
            period_s=float(rng.choice([60.0, 300.0])),
            monitor_s=120.0,
            decide_at_events=bool(rng.random() < 0.5),
            patience_s=float(rng.choice([np.inf, 400.0])),
        ),
    )


centers = st.integers(0, 10_000).map(random_center)
workloads = st.builds(random_requests, st.integers(0, 10_000), st.integers(0, 25))


class RandomOrders:
    """Orders random steps in each period, possible or not; some wait for others."""

    history_samples = 0

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def decide(self, moment: KernelMoment) -> KernelOrders:
        """Return steps on any VMs and hosts."""
        rng, vms, hosts = self._rng, len(moment.state.phase), len(moment.state.guests)
        steps: dict[str, Step] = {}
        for _ in range(int(rng.integers(0, 2 * vms + 3)) if vms else 0):
            vm, host = int(rng.integers(vms)), int(rng.integers(hosts))
            source = max(int(moment.state.host[vm]), 0)
            after = (str(rng.choice(list(steps))),) if steps and rng.random() < 0.3 else ()
            common: dict[str, Any] = {
                "period": moment.period,
                "reason": "chosen by chance",
                "after": after,
            }
            live = bool(rng.random() < 0.5)
            made: tuple[Step, ...] = (
                Deploy(vm=vm, host=host, **common),
                Deploy(vm=vm, host=host, **common),
                Migrate(vm=vm, source=source, host=host, live=live, **common),
                Migrate(vm=vm, source=source, host=host, live=live, **common),
                Suspend(vm=vm, **common),
                Stop(vm=vm, **common),
                Resume(vm=vm, **common),
                Resume(vm=vm, **common),
                Sleep(host=host, **common),
                Wake(host=host, **common),
                Terminate(vm=vm, **common),
            )
            step = made[int(rng.integers(len(made) if rng.random() < 0.1 else len(made) - 1))]
            steps.setdefault(step.id, step)
        count = int(rng.integers(0, 5)) if vms else 0
        many = rng.choice(vms, count) if count else np.zeros(0, dtype=np.int64)
        return KernelOrders(many, rng.integers(hosts, size=count), Plan(tuple(steps.values())))


def ones(count: int) -> Floats:
    """Return [count, 2]: sizes of one unit."""
    return np.ones((count, 2))
