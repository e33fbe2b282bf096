"""A daemon in a separate process beside a cloud: its actions and its reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.beside import INTERVAL_S
from tests.contract.endpoint import SMALL
from tests.contract.merkat import DISABLED
from tests.contract.ways import PENDING, RUNNING

if TYPE_CHECKING:
    from tests.contract.beside import Daemon, RunningDaemon
    from tests.contract.drivers import Drivers
    from tests.contract.endpoint import Endpoint

BID = SMALL + "MERKAT_BID_CPU=1\n"
BOOT_FAILURE = (3, 36)


@pytest.fixture
def endpoint(running: RunningDaemon) -> Endpoint:
    """Return the daemon's cloud without VMs."""
    running.renew()
    return running.endpoint


@pytest.fixture
def daemon(running: RunningDaemon) -> Daemon:
    """Return the daemon of all tests."""
    return running.daemon


def host_of(endpoint: Endpoint, vm: int) -> int:
    """Return the id of the VM's host."""
    record = endpoint.xml("one.vm.info", vm).findall("HISTORY_RECORDS/HISTORY")[-1]
    return int(record.findtext("HID") or "")


def placed(endpoint: Endpoint, daemon: Daemon, count: int) -> list[int]:
    """Return new VMs that the daemon placed on one host while the others were disabled."""
    for host in endpoint.hosts[1:]:
        endpoint.ok("one.host.status", host, DISABLED)
    vms = [endpoint.new(BID) for _ in range(count)]
    for vm in vms:
        daemon.until(lambda: endpoint.state(vm) == RUNNING, f"VM {vm} running")  # noqa: B023
        assert host_of(endpoint, vm) == endpoint.hosts[0]
    for host in endpoint.hosts[1:]:
        endpoint.ok("one.host.status", host, 0)
    daemon.until(
        lambda: all(
            endpoint.xml("one.host.info", host).findtext("STATE") == "2" for host in endpoint.hosts
        ),
        "all hosts monitored",
    )
    return vms


def message_of(endpoint: Endpoint, vm: int) -> str:
    """Return the message that the VM's owner reads."""
    return endpoint.xml("one.vm.info", vm).findtext("USER_TEMPLATE/SCHED_MESSAGE") or ""


def away(endpoint: Endpoint, vms: list[int]) -> bool:
    """Return whether all of these VMs run, and none on the first host."""
    states = {endpoint.state(vm) for vm in vms}
    return states == {RUNNING} and endpoint.hosts[0] not in {host_of(endpoint, vm) for vm in vms}


def test_disable_moves_no_vm_and_a_flush_empties_the_host(
    endpoint: Endpoint, daemon: Daemon
) -> None:
    """A disabled host keeps its VMs and gets no more; a flush requests that each VM leaves."""
    vms = placed(endpoint, daemon, 2)
    endpoint.ok("one.host.status", endpoint.hosts[0], DISABLED)
    daemon.periods(3)
    assert {host_of(endpoint, vm) for vm in vms} == {endpoint.hosts[0]}
    new = endpoint.new(BID)
    daemon.until(lambda: endpoint.state(new) == RUNNING, "the new VM running")
    assert host_of(endpoint, new) != endpoint.hosts[0]
    for vm in vms:
        endpoint.ok("one.vm.action", "resched", vm)
    daemon.until(lambda: away(endpoint, vms), "an empty host")


def test_a_drain_reports_failures_and_continues(
    endpoint: Endpoint, daemon: Daemon, drivers: Drivers
) -> None:
    """Each owner reads the reason while the driver fails; then the host is emptied."""
    vms = placed(endpoint, daemon, 3)
    drivers.fail("migrate")
    daemon.ask("drain", host=str(endpoint.hosts[0]))
    for vm in vms:
        daemon.until(lambda: "fails to leave" in message_of(endpoint, vm), f"word of VM {vm}")  # noqa: B023
    drivers.mend()
    daemon.until(lambda: away(endpoint, vms), "an empty host")


def test_a_foreign_placement_is_detected(endpoint: Endpoint, daemon: Daemon) -> None:
    """Status, log and metrics report it with the likely cause."""
    vm = endpoint.new(BID + 'SCHED_REQUIREMENTS="ID = 987654"\n')
    daemon.periods(2)
    assert endpoint.state(vm) == PENDING
    endpoint.ok("one.vm.deploy", vm, endpoint.hosts[1])
    daemon.until(lambda: daemon.status().get("others"), "notice of it")
    assert f"VM {vm} was deployed on host {endpoint.hosts[1]}" in daemon.status()["others"]
    assert "opennebula-scheduler" in daemon.log()
    assert 'merkat_foreign_placements_total{kind="deploy"} 1.0' in daemon.metrics()


def test_a_failed_vm_shows_its_host(endpoint: Endpoint, daemon: Daemon, drivers: Drivers) -> None:
    """OpenNebula charges that host for it."""
    drivers.fail("deploy")
    vm = endpoint.new(BID)
    daemon.until(lambda: endpoint.state(vm) == BOOT_FAILURE, "a failed boot")
    daemon.periods(1)
    explained = daemon.ask("explain", vm=str(vm))
    shown = endpoint.xml("one.host.info", host_of(endpoint, vm))
    assert explained["host"] == shown.findtext("NAME")


def test_an_outage_is_two_log_lines(endpoint: Endpoint, daemon: Daemon) -> None:
    """The outage and its end are one line each, whatever the number of failed calls."""
    daemon.periods(1)
    daemon.cut()
    daemon.pause(4 * INTERVAL_S)
    assert daemon.log().count("is away") == 1
    daemon.join()
    daemon.until(lambda: "is back" in daemon.log(), "the line of its return")
    daemon.periods(1)
    lines = [line for line in daemon.log().splitlines() if "is away" in line or "is back" in line]
    assert len(lines) == 2, lines
    assert "Traceback" not in daemon.log()
    del endpoint
