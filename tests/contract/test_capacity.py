"""The charges of hosts, their units, and the remaining capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.endpoint import HOST_CPU, HOST_MIB
from tests.contract.ways import OFF, PENDING, RUNNING, STOPPED, SUSPENDED, UNDEPLOYED

if TYPE_CHECKING:
    from tests.contract.drivers import Drivers
    from tests.contract.endpoint import Endpoint

BIG = "CPU=4\nMEMORY=2048\n"
HELD = (400, 2048, 1)
KIB = 1024


def test_a_host_shows_hundredths_of_a_core_and_kib(endpoint: Endpoint) -> None:
    """It shows its size, the available and the charged capacity, and the number of VMs."""
    vm = endpoint.running(0, BIG)
    share = endpoint.share(0)
    assert share["TOTAL_CPU"] == share["MAX_CPU"] == HOST_CPU
    assert share["TOTAL_MEM"] == share["MAX_MEM"] == HOST_MIB * KIB
    assert (share["CPU_USAGE"], share["MEM_USAGE"]) == (400, 2048 * KIB)
    assert share["RUNNING_VMS"] == 1
    shown = endpoint.xml("one.host.info", endpoint.hosts[0])
    assert [row.text for row in shown.iterfind("VMS/ID")] == [str(vm)]


def test_parts_of_a_core_are_charged(endpoint: Endpoint) -> None:
    """The charge is exact to a hundredth."""
    endpoint.running(0, "CPU=0.25\nVCPU=2\nMEMORY=100\n")
    endpoint.running(0, "CPU=1.5\nMEMORY=28\n")
    assert endpoint.charged() == {0: (175, 128, 2)}


@pytest.mark.parametrize(
    ("reserved", "cpu", "mib"),
    [
        ('RESERVED_CPU="200"\nRESERVED_MEM="1048576"', 600, HOST_MIB - 1024),
        ('RESERVED_CPU="-200"\nRESERVED_MEM="-1048576"', 1000, HOST_MIB + 1024),
        ('RESERVED_CPU="25%"\nRESERVED_MEM="50%"', 600, HOST_MIB // 2),
        ('RESERVED_CPU="-100%"', 1600, HOST_MIB),
        ('RESERVED_CPU=""\nRESERVED_MEM=""', HOST_CPU, HOST_MIB),
        ('RESERVED_CPU="much"\nRESERVED_MEM="1.5"', HOST_CPU, HOST_MIB),
    ],
)
def test_reserved_capacity_cannot_be_charged(
    endpoint: Endpoint, reserved: str, cpu: int, mib: int
) -> None:
    """Negative numbers overcommit; invalid numbers are ignored."""
    endpoint.ok("one.host.update", endpoint.hosts[1], reserved, 1)
    share = endpoint.share(1)
    assert (share["MAX_CPU"], share["MAX_MEM"]) == (cpu, mib * KIB)
    assert (share["TOTAL_CPU"], share["TOTAL_MEM"]) == (HOST_CPU, HOST_MIB * KIB)


def test_charges_begin_with_a_deployment_and_last(endpoint: Endpoint) -> None:
    """A running, suspended or powered-off VM is charged; any other is not."""
    vm = endpoint.new(BIG)
    assert endpoint.charged() == {}
    endpoint.ok("one.vm.deploy", vm, endpoint.hosts[0])
    endpoint.reaches(vm, RUNNING)
    assert endpoint.charged() == {0: HELD}
    for action, end in (
        ("suspend", SUSPENDED), ("resume", RUNNING), ("poweroff", OFF), ("resume", RUNNING),
    ):  # fmt: skip
        endpoint.act(vm, action, end)
        assert endpoint.charged() == {0: HELD}
    for action, end in (("stop", STOPPED), ("undeploy", UNDEPLOYED)):
        endpoint.act(vm, action, end)
        assert endpoint.charged() == {}
        endpoint.act(vm, "resume", PENDING)
        assert endpoint.charged() == {}
        endpoint.ok("one.vm.deploy", vm, endpoint.hosts[0])
        endpoint.reaches(vm, RUNNING)
        assert endpoint.charged() == {0: HELD}
    endpoint.act(vm, "terminate-hard", (6, 0))
    assert endpoint.charged() == {}


@pytest.mark.parametrize("live", [True, False])
def test_both_hosts_are_charged_during_a_migration(endpoint: Endpoint, *, live: bool) -> None:
    """Afterwards only the target is charged; one of the two always is."""
    vm = endpoint.running(0, BIG)
    endpoint.ok("one.vm.migrate", vm, endpoint.hosts[1], live)
    seen = [endpoint.charged()]

    def over() -> bool:
        seen.append(endpoint.charged())
        return endpoint.state(vm) == RUNNING and seen[-1] == {1: HELD}

    endpoint.until(over, f"migration of VM {vm}")
    order = [{0: HELD}, {0: HELD, 1: HELD}, {1: HELD}]
    assert sorted(map(order.index, seen)) == [order.index(vm) for vm in seen]


def test_enforced_deployments_check_whether_the_vm_fits(endpoint: Endpoint) -> None:
    """They answer 2048 if cores or memory lack; others ignore the capacity."""
    wide, large = endpoint.new("CPU=9\nMEMORY=64\n"), endpoint.new("CPU=1\nMEMORY=20000\n")
    host = endpoint.hosts[0]
    code, text = endpoint.refused("one.vm.deploy", wide, host, True)
    assert code == 2048
    assert "CPU: 900/800" in text
    code, text = endpoint.refused("one.vm.deploy", large, host, True)
    assert code == 2048
    assert f"emory: {20000 * KIB}/{HOST_MIB * KIB}" in text
    for vm in (wide, large):
        endpoint.ok("one.vm.deploy", vm, host, False)
        endpoint.reaches(vm, RUNNING)
    assert endpoint.charged() == {0: (1000, 20064, 2)}


def test_enforced_migrations_check_whether_the_vm_fits(endpoint: Endpoint) -> None:
    """Other migrations don't."""
    vm = endpoint.running(0, "CPU=6\nMEMORY=64\n")
    endpoint.running(1, "CPU=6\nMEMORY=64\n")
    code, _ = endpoint.refused("one.vm.migrate", vm, endpoint.hosts[1], True, True)
    assert code == 2048
    endpoint.ok("one.vm.migrate", vm, endpoint.hosts[1], True, False)
    endpoint.until(lambda: endpoint.charged() == {1: (1200, 128, 2)}, "charge")


def test_a_host_with_vms_cannot_be_removed(endpoint: Endpoint) -> None:
    """It can be removed once they are gone."""
    vm = endpoint.running()
    host = endpoint.hosts[0]
    assert endpoint.refused("one.host.delete", host) == (
        2048,
        "[one.host.delete] Cannot delete host. Can not remove a host with running VMs",
    )
    endpoint.act(vm, "terminate-hard", (6, 0))
    assert endpoint.ok("one.host.delete", host) == host
    assert endpoint.refused("one.host.info", host)[0] == 1024


def test_a_failed_resize_is_reverted(endpoint: Endpoint, drivers: Drivers) -> None:
    """Template and charge are restored."""
    vm = endpoint.running(0, BIG)
    drivers.fail("resize")
    endpoint.ok("one.vm.resize", vm, "CPU=5\nMEMORY=4096\nVCPU=5", False)
    endpoint.until(lambda: endpoint.state(vm) == RUNNING, "the end of the resize")
    endpoint.until(lambda: endpoint.charged() == {0: HELD}, "the old charge")
    assert endpoint.xml("one.vm.info", vm).findtext("TEMPLATE/CPU") == "4"
