"""A thousand hosts and ten thousand VMs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.embedded.process import ROOT


@pytest.fixture(scope="module")
def measured() -> dict[str, float]:
    """Return the measurements of the probe, which runs in a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.embedded.scale_probe"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    found: dict[str, float] = json.loads(ended.stdout)
    return found


def test_the_pools_arrive_complete(measured: dict[str, float]) -> None:
    """All VMs run, and warm pools are as long as cold ones."""
    assert measured["running"] == 10_000
    assert measured["vms warm bytes"] == measured["vms cold bytes"] > 10_000_000
    assert measured["hosts warm bytes"] == measured["hosts cold bytes"] > 1_000_000


@pytest.mark.parametrize("pool", ["vms", "hosts", "samples"])
@pytest.mark.parametrize("time", ["cold", "warm"])
def test_the_reactor_is_not_blocked(measured: dict[str, float], pool: str, time: str) -> None:
    """No turn costs more than 50 ms of CPU on a machine where the reference takes 40 ms."""
    assert measured[f"{pool} {time} held s"] <= 1.25 * max(measured["reference_s"], 0.04)


def test_a_warm_pool_is_only_joined(measured: dict[str, float]) -> None:
    """It costs less CPU than the reference, which joins 200,000 strings."""
    assert measured["joined s"] <= measured["reference_s"]


def test_building_the_cloud_is_cheap(measured: dict[str, float]) -> None:
    """Creating and deploying ten thousand VMs costs less than a hundred references."""
    assert measured["built s"] <= 100 * measured["reference_s"]
