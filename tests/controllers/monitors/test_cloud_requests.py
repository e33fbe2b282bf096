"""The monitor of requests on the embedded cloud, whose guests run no proxies."""

import asyncio
from pathlib import Path

import pytest

from controllers.monitors.requests_monitor import Requests
from controllers.monitors.traffic.cloud_requests import together
from merkatd.protocol.controller_kinds import HOME, SSH
from tests.bus.rig import assignment, watched
from tests.controllers.monitors.test_steps import Daemon
from tests.embedded.process import SESSION, remote


def test_rates_add_up_and_times_are_means_of_all_answers() -> None:
    """The percentile is that of the slowest service; without an answer there is no time."""
    one = {"arrivals_per_s": 4.0, "throughput_per_s": 3.0, "response_s": 0.1, "p95_s": 0.2}
    two = {"arrivals_per_s": 2.0, "throughput_per_s": 1.0, "response_s": 0.5, "p95_s": 0.9}
    assert together([one, two]) == {
        "arrivals_per_s": 6.0,
        "throughput_per_s": 4.0,
        "answering": 2.0,
        "response_s": pytest.approx(0.2),
        "response_p95_s": 0.9,
    }
    still = dict.fromkeys(one, 0.0)
    assert together([still]) == {"arrivals_per_s": 0.0, "throughput_per_s": 0.0, "answering": 1.0}
    assert together([]) == {}


def test_the_cloud_reports_the_requests_of_its_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The monitor needs no SSH there, and counts services that run."""
    service = "CPU=1 VCPU=1 MEMORY=512 EMBEDDED=[ARRIVALS=5,REQUEST_WORK=0.1]"
    with remote("--hosts", "1", "--speed", "60") as cloud:
        vms = [cloud.ok("one.vm.allocate", service.replace(" ", "\n"), False) for _ in range(3)]
        cloud.ok("one.vm.deploy", vms[1], 0)
        cloud.until_state(vms[1], "3", "3")
        (tmp_path / "one_auth").write_text(SESSION)
        (tmp_path / "one_xmlrpc").write_text(cloud.endpoint)
        monkeypatch.setenv(HOME, str(tmp_path))
        monkeypatch.delenv(SSH, raising=False)
        assigned = watched(assignment(), "requests", source="nginx")
        monitor = Requests(assigned, assigned.clusters[0], Daemon(2))
        seen = asyncio.run(monitor.look())
    assert seen is not None
    assert seen[1]["arrivals_per_s"] == pytest.approx(5.0)
    assert seen[1]["answering"] == 1.0
    assert seen[1]["response_s"] > 0.0
