"""Samples of use in both databases: exact times, only the newest, cheap for a large cloud."""

import time
from typing import Any

import numpy as np
import sqlalchemy as sa

from merkatd.database.use_sample_store import keep_samples, stored_samples
from tests.machine_speed import slowness
from tests.placement.conformance.strategy_clouds import bits

LIMIT_S = 0.2
"""The CPU time that the sample of a large cloud may take to be stored."""


def sample(vms: int, seed: int = 1) -> dict[str, Any]:
    """Return a sample of so many VMs, a tenth of them without known memory use."""
    rng = np.random.default_rng(seed)
    used = rng.uniform(0.0, 4096.0, (vms, 2))
    used[rng.random(vms) < 0.1, 1] = np.nan
    return {
        "vm": np.arange(vms),
        "host": rng.integers(0, vms // 10 + 1, vms),
        "there": np.arange(vms // 10 + 1),
        "cpu_s": rng.uniform(0.0, 1e7, vms),
        "used": used,
    }


def test_times_are_exact(connection: sa.Connection) -> None:
    """A time that changed by a bit would store its sample again in each period."""
    times = (np.random.default_rng(3).uniform(0.0, 3e9, 200)).tolist()
    samples = {at_s: sample(3, seed) for seed, at_s in enumerate(sorted(times))}
    keep_samples(connection, samples)
    keep_samples(connection, samples)
    stored = stored_samples(connection)
    assert list(stored) == list(samples)
    assert bits(stored) == bits(samples)


def test_others_are_removed(connection: sa.Connection) -> None:
    """Those that are kept are not written again."""
    first, second, third = (0.1 + 0.2, 1.7642e9 + 1 / 3, 2.5e9)
    keep_samples(connection, {first: sample(3), second: sample(4)})
    keep_samples(connection, {second: sample(5), third: sample(6)})
    stored = stored_samples(connection)
    assert {at_s: len(each["vm"]) for at_s, each in stored.items()} == {second: 4, third: 6}
    keep_samples(connection, {})
    assert stored_samples(connection) == {}


def test_a_large_cloud_costs_a_period_little(connection: sa.Connection) -> None:
    """100,000 VMs, of which each period stores one sample and removes another."""
    large = sample(100_000)
    keep_samples(connection, {1.0: large})
    begun = time.process_time()
    keep_samples(connection, {2.0: large})
    took_s = time.process_time() - begun
    assert took_s < LIMIT_S * slowness(), took_s
