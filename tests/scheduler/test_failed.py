"""Failed VMs keep the capacity that OpenNebula charges, and a retry finds its room."""

from dataclasses import replace
from typing import Any

import pytest

from merkatd.cluster import Migrate
from merkatd.embedded.model.settings import Delays, HostSize
from merkatd.scheduler.base.settings import Rhythm
from tests.scheduler.frontend import Frontend
from tests.scheduler.test_acting import careful_settings

HOST_MIB = 8192
FLOOR_MIB = 5000


def hosts_of(count: int) -> Frontend:
    """Return hosts and a daemon that can retry failed VMs."""
    frontend = Frontend(hosts=count, size=HostSize(400, HOST_MIB))
    frontend.world_settings = careful_settings(frontend, Rhythm())
    frontend.start_daemon()
    return frontend


def heavy(frontend: Frontend, **more: Any) -> int:
    """Create a VM that needs at least 5,000 MiB."""
    return frontend.vm(MEMORY=6000, MERKAT_MIN_MEMORY=FLOOR_MIB, **more)


def fail_boots(frontend: Frontend, count: int) -> None:
    """Make the next boots fail."""
    frontend.bench.ok("embedded.fault.add", {"kind": "fail", "lcm": "BOOT", "count": count})


def used_mib(frontend: Frontend, host: int) -> float:
    """Return the floors of all running VMs that OpenNebula charges to the host."""
    return FLOOR_MIB * len(frontend.cloud.guests.on_host(host))


def host_with_failed_vm() -> tuple[Frontend, int]:
    """Return a host and a VM whose first boot there failed."""
    frontend = hosts_of(1)
    first = heavy(frontend)
    fail_boots(frontend, 1)
    frontend.period()
    frontend.clock.advance(60)
    return frontend, first


def test_the_room_of_a_failed_vm_stays_reserved() -> None:
    """Two floors of 5,000 don't fit on 8,192 MiB: the other VM waits, the retry succeeds."""
    frontend, first = host_with_failed_vm()
    assert frontend.state(first) == "BOOT_FAILURE"
    second = heavy(frontend, cpu_bid=100.0)
    for _ in range(4):
        frontend.period()
        for _ in range(6):
            frontend.clock.advance(10)
            assert used_mib(frontend, 0) <= HOST_MIB
    assert frontend.state(first) == "RUNNING"
    assert frontend.state(second) == "PENDING"
    frontend.agree()
    frontend.close()


def test_a_retry_is_counted_once() -> None:
    """A host of 8,192 MiB has room for the retried VM and for another one of 3,000."""
    frontend, first = host_with_failed_vm()
    second = frontend.vm(MEMORY=3100, MERKAT_MIN_MEMORY=3000)
    frontend.periods(3)
    assert [frontend.state(vm) for vm in (first, second)] == ["RUNNING", "RUNNING"]
    frontend.agree()
    frontend.close()


def test_a_vm_without_a_host_takes_no_room_from_a_retry() -> None:
    """An undeployed VM is charged to no host, whatever its floor."""
    frontend = hosts_of(1)
    resting = heavy(frontend)
    frontend.periods(2)
    frontend.bench.ok("one.vm.action", "undeploy-hard", resting)
    frontend.clock.advance(60)
    first = heavy(frontend)
    fail_boots(frontend, 1)
    frontend.period()
    frontend.clock.advance(60)
    assert frontend.state(first) == "BOOT_FAILURE"
    frontend.periods(2)
    assert [frontend.state(vm) for vm in (resting, first)] == ["UNDEPLOYED", "RUNNING"]
    frontend.agree()
    frontend.close()


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_retry_waits_until_its_floor_fits(by_hand: bool) -> None:
    """An administrator deployed another VM there; the host is not overcommitted."""
    frontend, first = host_with_failed_vm()
    if by_hand:
        other = heavy(frontend)
        frontend.bench.ok("one.vm.deploy", other, 0)
        frontend.clock.advance(60)
    frontend.periods(3)
    assert used_mib(frontend, 0) <= HOST_MIB
    assert frontend.state(first) == ("BOOT_FAILURE" if by_hand else "RUNNING")
    if by_hand:
        assert "once its floor fits there" in frontend.bench.ok("one.vm.info", first)
        frontend.bench.ok("one.vm.action", "terminate-hard", other)
        frontend.clock.advance(60)
        frontend.periods(3)
        assert frontend.state(first) == "RUNNING"
    frontend.close()


def test_a_retry_waits_until_balloons_release_its_memory() -> None:
    """A VM deployed by hand holds more than its floor: floors fit, memory doesn't."""
    frontend, first = host_with_failed_vm()
    assert frontend.state(first) == "BOOT_FAILURE"
    other = frontend.vm(MEMORY=6000, MERKAT_MIN_MEMORY=3000)
    frontend.bench.ok("one.vm.deploy", other, 0)
    frontend.clock.advance(60)
    waited = 0
    while frontend.state(first) == "BOOT_FAILURE":
        frontend.clock.advance(60)
        held = frontend.cloud.guests.read([other])[other].balloon_mib
        frontend.period()
        waited += 1
        assert waited < 9
    assert waited > 1
    assert held + FLOOR_MIB <= HOST_MIB
    frontend.periods(2)
    assert [frontend.state(vm) for vm in (first, other)] == ["RUNNING", "RUNNING"]
    frontend.agree()
    frontend.close()


def test_the_floor_stays_at_the_source_during_a_migration() -> None:
    """A failed migration leaves the VM on its source, so it must still fit there."""
    frontend = hosts_of(2)
    first = heavy(frontend)
    frontend.periods(2)
    source = frontend.host_of(first)
    frontend.bench.ok("one.vm.action", "resched", first)
    step = next(iter(frontend.period().decided.decision.plan.of(Migrate)))
    assert (step.vm, step.source) == (first, source)
    second = heavy(frontend)
    latest = frontend.period()
    assert second in latest.decided.decision.reasons
    assert frontend.state(second) == "PENDING"
    frontend.close()


def test_a_retry_waits_for_the_memory_of_a_vm_that_leaves() -> None:
    """The migrating VM has a floor of 3,000 and holds 6,000 until it has left."""
    frontend = hosts_of(2)
    world = frontend.cloud.world
    world.settings = replace(world.settings, delays=Delays(memory_mib_s=30.0))
    first = heavy(frontend, SCHED_REQUIREMENTS="ID=0")
    fail_boots(frontend, 1)
    frontend.period()
    frontend.clock.advance(60)
    other = frontend.vm(MEMORY=6000, MERKAT_MIN_MEMORY=3000)
    frontend.bench.ok("one.vm.deploy", other, 0)
    frontend.clock.advance(60)
    frontend.bench.ok("one.vm.action", "resched", other)
    frontend.period()
    frontend.clock.advance(60)
    assert frontend.state(other) == "MIGRATE"
    while frontend.state(other) == "MIGRATE":
        assert frontend.cloud.guests.read([other])[other].balloon_mib == 6000
        frontend.period()
        assert frontend.state(first) == "BOOT_FAILURE"
        frontend.clock.advance(60)
    frontend.periods(3)
    assert [frontend.state(vm) for vm in (first, other)] == ["RUNNING", "RUNNING"]
    frontend.close()


def test_a_failed_vm_claims_no_cpu() -> None:
    """It bids nothing, so other VMs can use the cores that it claimed."""
    frontend = hosts_of(1)
    honest = frontend.vm(MEMORY=1000, VCPU=4, cpu_bid=5.0)
    frontend.period()
    frontend.clock.advance(60)
    failed = heavy(frontend, VCPU=4, MERKAT_MIN_CPU=400, cpu_bid=1e6)
    fail_boots(frontend, 9)
    for _ in range(3):
        frontend.period()
        frontend.clock.advance(60)
    assert frontend.state(failed) == "BOOT_FAILURE"
    assert frontend.limits(honest).vcpu_quota == 100_000
    frontend.close()
