"""Random clouds whose every table is filled: applications, domains, topology, power, history."""

from dataclasses import replace
from typing import Any

import numpy as np

from merkatd.cluster import HostState, Requirements, Snapshot, UsageHistory, VmKind, VmState
from merkatd.cluster.applications import Jobs, Replicated, Services, Stages
from merkatd.cluster.hosts import FailureRates
from merkatd.cluster.snapshot import checked_snapshot
from tests.clouds import tangled

NOW_S = 1_000_000.0
SAMPLES = 12
JOBS, SERVICES, REPLICATED = (10, 11), (12, 13), (14, 15)
"""The numbers of the applications of each kind."""


def filled_cloud(seed: int, hosts: int | None = None, vms: int | None = None) -> Snapshot:
    """Return a random cloud with all constraints and all tables."""
    plain = tangled(seed, hosts, vms)
    rng = np.random.default_rng([seed, 1])
    filled = replace(
        plain,
        now_s=NOW_S,
        period=100 + seed,
        hosts=replace(plain.hosts, **_hosts(plain, rng)),
        vms=replace(plain.vms, **_vms(plain, rng)),
        requirements=Requirements(
            name=plain.requirements.name,
            allowed=plain.requirements.allowed,
            rank=rng.uniform(0, 10, plain.requirements.allowed.shape),
        ),
        history=_history(plain, rng),
        **_applications(rng),
    )
    return checked_snapshot(filled)


def _unknown(rng: np.random.Generator, values: Any, part: float = 0.2) -> Any:
    """Return the values without some of them."""
    return np.where(rng.random(np.shape(values)) < part, np.nan, values)


def _hosts(plain: Snapshot, rng: np.random.Generator) -> dict[str, Any]:
    count, off = len(plain.hosts), plain.hosts.state == HostState.OFF
    at = np.arange(count)
    asleep = off & (rng.random(count) < 0.5)
    switch = np.stack([at % 3, np.where(at % 2 == 0, (at + 1) % 3, -1)], axis=1)
    power = np.stack([np.where(at % 5 == 4, -1, at % 2), np.full(count, -1)], axis=1)
    return {
        "used": _unknown(rng, plain.hosts.capacity * rng.uniform(0, 1, (count, 1))),
        "domains": {"network": switch, "power": power},
        "topology": np.stack([np.zeros_like(at), at // 4, at // 2], axis=1),
        "link_mbps": _unknown(rng, np.full(count, 1e4)),
        "idle_watts": _unknown(rng, rng.uniform(40, 90, count)),
        "full_watts": _unknown(rng, rng.uniform(200, 400, count)),
        "can_sleep": asleep | (rng.random(count) < 0.5),
        "asleep": asleep,
    }


def _vms(plain: Snapshot, rng: np.random.Generator) -> dict[str, Any]:
    vms, count = plain.vms, len(plain.vms)
    application = rng.choice([-1, *JOBS, *SERVICES, *REPLICATED], count)
    runs = vms.state == VmState.RUNNING
    return {
        "application": application,
        "owner": rng.integers(2, 6, count),
        "vcpus": rng.integers(1, 5, count),
        "held": _unknown(rng, vms.cap * rng.uniform(0.3, 1, (count, 1))),
        "moved_at_s": _unknown(rng, NOW_S - rng.uniform(0, 7200, count), 0.5),
        "started_s": np.where(runs, NOW_S - rng.uniform(0, 1e5, count), np.nan),
        "dirty_mib_s": _unknown(rng, rng.uniform(0, 200, count)),
        "kind": np.where(np.isin(application, JOBS), int(VmKind.BATCH), int(VmKind.SERVICE)),
        "disk_mib": _unknown(rng, rng.uniform(0, 1e5, count)),
        "shared_disk": rng.random(count) < 0.7,
        "priority": rng.integers(0, 3, count).astype(float),
        "leaves": (rng.random(count) < 0.05) & (vms.host >= 0),
        "placeable": rng.random(count) < 0.9,
    }


def _history(plain: Snapshot, rng: np.random.Generator) -> UsageHistory:
    """Return a history in which new VMs and hosts have no early samples."""
    at_s = NOW_S - 60.0 * np.arange(SAMPLES - 1, -1, -1.0)
    tables = {}
    for name, most in (("vms", plain.vms.cap), ("hosts", plain.hosts.capacity)):
        use = most * rng.uniform(0, 1, (SAMPLES, *most.shape))
        begins = rng.integers(0, SAMPLES + 1, len(most))
        use[np.arange(SAMPLES)[:, np.newaxis] < begins] = np.nan
        tables[name] = use
    return UsageHistory(at_s=at_s, **tables)


def _applications(rng: np.random.Generator) -> dict[str, Any]:
    """Return the tables of applications; some numbers are unknown."""
    return {
        "jobs": Jobs(
            application=np.array(JOBS),
            submitted_s=NOW_S - rng.uniform(60, 3600, 2),
            started_s=_unknown(rng, np.full(2, NOW_S - 60.0), 0.5),
            goal_s=_unknown(rng, NOW_S + rng.uniform(-60, 7200, 2)),
            work_done=rng.uniform(0, 1e5, 2),
        ),
        "stages": Stages(
            job=np.array([0, 0, 1]),
            work=rng.uniform(1e3, 1e6, 3),
            least_speed=rng.uniform(0, 50, 3),
            greatest_speed=rng.uniform(50, 400, 3),
            memory_mib=rng.uniform(0, 500, 3),
        ),
        "services": Services(
            application=np.array(SERVICES),
            response_goal_s=rng.uniform(0.01, 1, 2),
            arrivals_per_s=_unknown(rng, rng.uniform(0, 100, 2)),
            work_per_request=_unknown(rng, rng.uniform(0.1, 5, 2)),
            response_s=_unknown(rng, rng.uniform(0.01, 2, 2)),
        ),
        "replicated": Replicated(
            application=np.array(REPLICATED),
            needed=rng.integers(1, 5, 2),
            run_time_s=rng.uniform(600, 1e5, 2),
            reliability=rng.uniform(0.5, 0.9999, 2),
        ),
        "failure_rates": FailureRates(
            kind=("host", "network", "power"), per_year=np.array([0.5, 0.2, 0.1])
        ),
    }
