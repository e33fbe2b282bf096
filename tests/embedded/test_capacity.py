"""Allocations on hosts, and their enforcement."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.embedded.model.settings import EmbeddedSettings
from tests.embedded.support import Bench, xml

BIG = "CPU=4\nMEMORY=2048"


def test_allocations_start_at_deployment_and_last() -> None:
    """A VM is allocated while running, suspended and off, and released when it is stopped."""
    bench = Bench()
    vm_id = bench.new(BIG)
    assert bench.charged() == {}
    bench.ok("one.vm.deploy", vm_id, 0)
    bench.advance(0.02)
    held = {0: (400, 2048, 1)}
    assert bench.charged() == held
    for action in ("suspend", "resume", "poweroff", "resume"):
        bench.advance(5)
        bench.ok("one.vm.action", action, vm_id)
        assert bench.charged() == held
    bench.advance(5)
    bench.ok("one.vm.action", "stop", vm_id)
    bench.advance(5)
    assert bench.charged() == {}


@pytest.mark.parametrize("live", [True, False])
def test_both_hosts_are_allocated_during_a_migration(*, live: bool) -> None:
    """Before and after the migration only one host is."""
    bench = Bench()
    vm_id = bench.running(BIG)
    bench.ok("one.vm.migrate", vm_id, 1, live)
    assert bench.charged() == {0: (400, 2048, 1)}
    bench.advance(0.5)
    assert bench.charged() == {0: (400, 2048, 1), 1: (400, 2048, 1)}
    bench.advance(5)
    assert bench.charged() == {1: (400, 2048, 1)}


def test_a_host_shows_hundredths_of_a_core_and_kib() -> None:
    """HOST_SHARE has oned's units, capacity without reservations, and every VM of the host."""
    bench = Bench()
    bench.ok("one.host.update", 0, "RESERVED_CPU=200 RESERVED_MEM=1048576", 1)
    bench.running(BIG)
    host = xml(bench.ok("one.host.info", 0))
    share = {item.tag: item.text for item in host.iterfind("HOST_SHARE/*") if not len(item)}
    assert share["TOTAL_CPU"] == "800"
    assert share["MAX_CPU"] == "600"
    assert share["MAX_MEM"] == str(15 * 1024 * 1024)
    assert (share["CPU_USAGE"], share["MEM_USAGE"]) == ("400", str(2048 * 1024))
    assert share["RUNNING_VMS"] == "1"
    assert host.findtext("VMS/ID") == "0"


def test_negative_reservations_overcommit() -> None:
    """MAX_CPU becomes larger than TOTAL_CPU."""
    bench = Bench()
    bench.ok("one.host.update", 0, 'RESERVED_CPU="-50%"', 1)
    assert xml(bench.ok("one.host.info", 0)).findtext("HOST_SHARE/MAX_CPU") == "1200"


def test_enforcement_has_the_same_race_as_oned() -> None:
    """Eight concurrent deployments of four cores to eight cores succeed, and a later one fails."""
    bench = Bench()
    vm_ids = [bench.new(BIG) for _ in range(9)]
    for vm_id in vm_ids[:8]:
        bench.ok("one.vm.deploy", vm_id, 0, True)
    bench.advance(0.02)
    assert bench.charged() == {0: (3200, 16384, 8)}
    assert bench.refused("one.vm.deploy", vm_ids[8], 0, True) == (
        2048,
        "[one.vm.deploy] virtual machine [8] does not fit in host [0]. Not enough CPU: 400/-2400",
    )
    bench.ok("one.vm.deploy", vm_ids[8], 0, False)


def test_the_race_can_be_disabled() -> None:
    """Then the third of three concurrent deployments fails at once."""
    bench = Bench(settings=EmbeddedSettings(racy_enforce=False))
    vm_ids = [bench.new(BIG) for _ in range(3)]
    bench.ok("one.vm.deploy", vm_ids[0], 0, True)
    bench.ok("one.vm.deploy", vm_ids[1], 0, True)
    assert bench.refused("one.vm.deploy", vm_ids[2], 0, True)[0] == 2048


def test_enforcement_checks_memory() -> None:
    """A VM larger than the host's memory is rejected, unless enforcement is off."""
    bench = Bench()
    vm_id = bench.new("CPU=1\nMEMORY=99999")
    assert "Not enough memory" in bench.refused("one.vm.deploy", vm_id, 0, True)[1]
    bench.ok("one.vm.deploy", vm_id, 0)


def test_offline_hosts_are_checked_and_disabled_ones_are_not() -> None:
    """Oned deploys to a disabled host; an offline host is rejected and has no capacity."""
    bench = Bench()
    bench.ok("one.host.status", 0, 1)
    bench.ok("one.vm.deploy", bench.new(), 0)
    bench.ok("one.host.status", 1, 2)
    assert bench.refused("one.vm.deploy", bench.new(), 1)[1].endswith(
        "Host is offline, cannot use it to deploy VM"
    )
    states = [
        (host.findtext("STATE"), host.findtext("HOST_SHARE/MAX_CPU"))
        for host in xml(bench.ok("one.hostpool.info"))
    ]
    assert states == [("2", "800"), ("8", "0"), ("4", "800")]
    bench.ok("one.host.status", 1, 0)
    assert xml(bench.ok("one.host.info", 1)).findtext("HOST_SHARE/MAX_CPU") == "800"


def test_pinned_vms_show_their_cores_and_reject_live_migration() -> None:
    """The pin appears as core:vm, and the error text is oned's."""
    bench = Bench()
    vm_id = bench.running('CPU=2 VCPU=2 MEMORY=64 TOPOLOGY=[PIN_POLICY="CORE"]')
    cpus = [item.text for item in xml(bench.ok("one.host.info", 0)).iterfind(".//CPUS")]
    assert cpus[:3] == [f"0:{vm_id}", f"1:{vm_id}", "2:-1"]
    assert bench.refused("one.vm.migrate", vm_id, 1, True)[1] == (
        "[one.vm.migrate] VM with a pinned NUMA topology cannot be live-migrated"
    )
    bench.ok("one.vm.migrate", vm_id, 1, False)
    bench.advance(5)
    assert bench.cloud.world.hosts.rows[0].pins == {}


def test_a_host_with_vms_cannot_be_removed() -> None:
    """An empty host can be removed, and its id is not reused."""
    bench = Bench()
    vm_id = bench.running()
    assert bench.refused("one.host.delete", 0) == (
        2048,
        "[one.host.delete] Cannot delete host. Can not remove a host with running VMs",
    )
    bench.ok("one.vm.action", "terminate-hard", vm_id)
    bench.advance(5)
    bench.ok("one.host.delete", 0)
    bench.ok("one.host.delete", 2)
    assert bench.ok("one.host.allocate", "new", "kvm", "kvm", 0) == 3
    assert bench.refused("one.host.allocate", "new", "kvm", "kvm", 0)[0] == 8192


VERBS = st.sampled_from(
    ["deploy", "live", "cold", "suspend", "resume", "stop", "undeploy", "poweroff", "terminate",
     "fail", "retry", "recreate", "resize"]
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(VERBS, st.integers(0, 3), st.integers(0, 2), st.floats(0, 2)), max_size=25)
)
def test_allocations_add_up_after_any_calls(steps: list[tuple[str, int, int, float]]) -> None:
    """After calls in any order, each host has exactly the allocations of its VMs."""
    bench = Bench()
    for _ in range(4):
        bench.new(BIG)
    for verb, vm_id, host, wait_s in steps:
        calls: dict[str, tuple[Any, ...]] = {
            "deploy": ("one.vm.deploy", vm_id, host),
            "live": ("one.vm.migrate", vm_id, host, True),
            "cold": ("one.vm.migrate", vm_id, host, False),
            "fail": ("one.vm.recover", vm_id, 0),
            "retry": ("one.vm.recover", vm_id, 2),
            "recreate": ("one.vm.recover", vm_id, 4),
            "resize": ("one.vm.resize", vm_id, f"CPU={host + 1}", False),
        }
        bench.raw(*calls.get(verb, ("one.vm.action", verb, vm_id)))
        bench.advance(wait_s)
        world = bench.cloud.world
        for row in world.hosts:
            vms = [world.vms.rows[oid] for oid in row.vms]
            assert row.used_cpu == sum(vm.cpu for vm in vms)
            assert row.used_memory_kib == sum(vm.memory_mib for vm in vms) * 1024
            assert all(row.id in vm.charged for vm in vms)
    bench.advance(20)
    for vm in bench.cloud.world.vms:
        held = len(vm.charged)
        assert held == (0 if bench.state(vm.id) in {(1, 0), (4, 0), (6, 0), (9, 0)} else 1)
