"""Failed operations, their resulting states, and recovery."""

from __future__ import annotations

import pytest

from merkatd.embedded.machines.faults import Fault, FaultKind
from tests.contract.ways import DONE, OFF, PENDING, RUNNING, SUSPENDED
from tests.embedded.support import Bench, in_state

FAILURES = [
    ("PROLOG", (3, 39)),
    ("BOOT", (3, 36)),
]


@pytest.mark.parametrize(("lcm", "stuck"), FAILURES)
def test_a_failed_deployment_stays_allocated_until_it_is_retried(
    lcm: str, stuck: tuple[int, int]
) -> None:
    """The host stays allocated, and recover 2 continues at the failed step."""
    bench = Bench()
    vm_id = bench.new()
    bench.cloud.faults.add(Fault(FaultKind.FAIL, lcm=lcm, count=1))
    bench.ok("one.vm.deploy", vm_id, 0)
    bench.advance(5)
    assert bench.state(vm_id) == stuck
    assert bench.charged() == {0: (100, 512, 1)}
    bench.ok("one.vm.recover", vm_id, 2)
    assert bench.path(vm_id)[-1] == RUNNING


def test_a_failed_live_migration_leaves_the_vm_on_its_host() -> None:
    """The VM returns to RUNNING, and only the old host is allocated."""
    bench = Bench()
    vm_id = bench.running()
    bench.cloud.faults.add(Fault(FaultKind.FAIL, lcm="MIGRATE", vm=vm_id))
    bench.ok("one.vm.migrate", vm_id, 1, True)
    assert bench.path(vm_id) == [RUNNING, (3, 4), RUNNING]
    assert bench.vm(vm_id).history[-1].host == 0
    assert bench.charged() == {0: (100, 512, 1)}


def test_a_failed_restore_stays_on_the_target() -> None:
    """It is in (3, 37) on the new host; recover 4 makes it pending, allocated nowhere."""
    bench = Bench()
    vm_id = bench.running()
    bench.cloud.faults.add(Fault(FaultKind.FAIL, lcm="BOOT_MIGRATE"))
    bench.ok("one.vm.migrate", vm_id, 1, False)
    bench.advance(5)
    assert bench.state(vm_id) == (3, 37)
    assert bench.charged() == {1: (100, 512, 1)}
    bench.ok("one.vm.recover", vm_id, 4)
    bench.advance(1)
    assert bench.state(vm_id) == PENDING
    assert bench.charged() == {}


@pytest.mark.parametrize(
    ("state", "action", "lcm", "back"),
    [
        (RUNNING, "suspend", "SAVE_SUSPEND", RUNNING),
        (RUNNING, "stop", "SAVE_STOP", RUNNING),
        (RUNNING, "stop", "EPILOG_STOP", (3, 41)),
        (RUNNING, "undeploy", "EPILOG_UNDEPLOY", (3, 42)),
        (RUNNING, "poweroff", "SHUTDOWN_POWEROFF", RUNNING),
        (RUNNING, "terminate", "SHUTDOWN", RUNNING),
        (RUNNING, "terminate", "EPILOG", (3, 40)),
        (SUSPENDED, "resume", "BOOT_SUSPENDED", SUSPENDED),
        (OFF, "resume", "BOOT_POWEROFF", OFF),
    ],
)
def test_failures_lead_to_oneds_states(
    state: tuple[int, int], action: str, lcm: str, back: tuple[int, int]
) -> None:
    """The VM returns to its earlier state, or stays in a state of failure that can be retried."""
    bench = Bench()
    vm_id = in_state(bench, state)
    bench.cloud.faults.add(Fault(FaultKind.FAIL, lcm=lcm, count=1))
    bench.ok("one.vm.action", action, vm_id)
    bench.advance(5)
    assert bench.state(vm_id) == back
    assert len(bench.charged()) == 1


def test_recover_codes_have_oneds_effects() -> None:
    """1 succeeds, 0 fails, 3 deletes, and 5 deletes without the host."""
    bench = Bench()
    first, two, three = bench.running(), bench.running(), bench.running()
    for vm_id in (first, two):
        bench.ok("one.vm.action", "suspend", vm_id)
    bench.advance(0.1)
    bench.ok("one.vm.recover", first, 1)
    bench.ok("one.vm.recover", two, 0)
    assert (bench.state(first), bench.state(two)) == (SUSPENDED, RUNNING)
    bench.advance(5)
    assert (bench.state(first), bench.state(two)) == (SUSPENDED, RUNNING)
    bench.ok("one.vm.recover", two, 3)
    assert bench.path(two) == [(3, 23), DONE]
    bench.ok("one.vm.recover", three, 5)
    assert bench.state(three) == DONE
    assert bench.refused("one.vm.recover", first, 2)[0] == 2048
    assert bench.refused("one.vm.recover", first, 9)[0] == 2048


def test_a_failed_live_resize_is_undone() -> None:
    """The old template and its allocation return."""
    bench = Bench()
    vm_id = bench.running()
    bench.cloud.faults.add(Fault(FaultKind.FAIL, lcm="HOTPLUG_RESIZE"))
    bench.ok("one.vm.resize", vm_id, "CPU=2 MEMORY=1024", False)
    bench.advance(5)
    assert bench.state(vm_id) == RUNNING
    assert bench.charged() == {0: (100, 512, 1)}
