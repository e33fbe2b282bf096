"""The life of a VM: the states that each action leads through."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.endpoint import State
from tests.contract.ways import (
    ACTIONS,
    AT_ONCE,
    DEPLOYS,
    DONE,
    MIGRATIONS,
    OFF,
    PENDING,
    RUNNING,
    STOPPED,
    SUSPENDED,
    UNDEPLOYED,
)

if TYPE_CHECKING:
    from tests.contract.drivers import Drivers
    from tests.contract.endpoint import Endpoint


def follows(seen: list[State], rule: list[State]) -> bool:
    """Return whether the states follow the rule in order; short states may be missed."""
    rest = iter(rule)
    return seen[0] == rule[0] and seen[-1] == rule[-1] and all(state in rest for state in seen)


@pytest.mark.parametrize(
    ("action", "state", "steps"),
    [*ACTIONS, *((action, before, [after]) for action, before, after in AT_ONCE)],
)
def test_an_action_leads_through_its_states(
    endpoint: Endpoint, action: str, state: State, steps: list[State]
) -> None:
    """They have this order and this end."""
    vm = endpoint.in_state(state)
    assert endpoint.ok("one.vm.action", action, vm) == vm
    seen = [state, *endpoint.path(vm, steps[-1])]
    assert follows(
        [state for state, last in zip(seen, [None, *seen], strict=False) if state != last],
        [state, *steps],
    )


@pytest.mark.parametrize(("state", "steps"), DEPLOYS)
@pytest.mark.parametrize("resume", [False, True])
def test_a_deployment_depends_on_the_previous_state(
    endpoint: Endpoint, state: State, steps: list[State], *, resume: bool
) -> None:
    """A stopped VM is restored, an undeployed one booted, also after a resume to PENDING."""
    vm = endpoint.in_state(state)
    if resume and state in {STOPPED, UNDEPLOYED}:
        endpoint.act(vm, "resume", PENDING)
    endpoint.ok("one.vm.deploy", vm, endpoint.hosts[2])
    seen = endpoint.path(vm, RUNNING)
    assert follows([steps[0], *(state for state in seen if state != steps[0])], steps), seen
    assert hosts_of(endpoint, vm)[-1] == endpoint.hosts[2]


def hosts_of(endpoint: Endpoint, vm: int) -> list[int]:
    """Return the hosts of a VM's history."""
    shown = endpoint.xml("one.vm.info", vm)
    return [int(row.text or "") for row in shown.iterfind("HISTORY_RECORDS/HISTORY/HID")]


@pytest.mark.parametrize(("state", "live", "kind", "steps"), MIGRATIONS)
def test_a_migration_leads_through_its_states(
    endpoint: Endpoint, state: State, live: bool, kind: int, steps: list[State]
) -> None:
    """The last history record names the target at once; state and charge follow."""
    vm = endpoint.in_state(state)
    endpoint.ok("one.vm.migrate", vm, endpoint.hosts[1], live, False, -1, kind)
    assert hosts_of(endpoint, vm) == endpoint.hosts[:2]
    seen = [state]

    def over() -> bool:
        now = endpoint.state(vm)
        if now != seen[-1]:
            seen.append(now)
        return now == state and endpoint.charged() == {1: (100, 512, 1)}

    endpoint.until(over, f"migration of VM {vm}")
    assert follows(seen, [state, *steps]), seen


def test_a_live_resize_passes_through_hotplug(endpoint: Endpoint) -> None:
    """Template and charge change; the state returns."""
    vm = endpoint.running()
    endpoint.ok("one.vm.resize", vm, "CPU=2\nMEMORY=1024\nVCPU=2", False)
    endpoint.until(lambda: endpoint.charged() == {0: (200, 1024, 1)}, "charge")
    endpoint.reaches(vm, RUNNING)
    shown = endpoint.xml("one.vm.info", vm)
    assert [shown.findtext(f"TEMPLATE/{name}") for name in ("CPU", "MEMORY", "VCPU")] == [
        "2", "1024", "2",
    ]  # fmt: skip


@pytest.mark.parametrize("state", [PENDING, OFF, UNDEPLOYED])
def test_a_vm_that_does_not_run_is_resized_at_once(endpoint: Endpoint, state: State) -> None:
    """The charge changes too, if there is one."""
    vm = endpoint.in_state(state)
    endpoint.ok("one.vm.resize", vm, "CPU=2.5\nMEMORY=1024", False)
    assert endpoint.state(vm) == state
    shown = endpoint.xml("one.vm.info", vm)
    assert shown.findtext("TEMPLATE/CPU") == "2.5"
    assert endpoint.charged() == ({0: (250, 1024, 1)} if state == OFF else {})


def test_a_resize_needs_a_suitable_state_and_size(endpoint: Endpoint) -> None:
    """Suspended VMs and negative sizes are refused, and enforced sizes beyond the host."""
    suspended, running = endpoint.in_state(SUSPENDED), endpoint.running()
    code, text = endpoint.refused("one.vm.resize", suspended, "CPU=2", False)
    assert code == 2048
    assert "SUSPENDED" in text
    assert endpoint.refused("one.vm.resize", running, "CPU=-1", False)[0] == 8192
    assert endpoint.refused("one.vm.resize", running, "CPU=99", True)[0] == 2048


# -- failures -----------------------------------------------------------------------------------


def test_a_failed_boot_can_be_retried(endpoint: Endpoint, drivers: Drivers) -> None:
    """The VM stays in BOOT_FAILURE, with its host charged, until a recovery."""
    vm = endpoint.new()
    drivers.fail("deploy")
    endpoint.ok("one.vm.deploy", vm, endpoint.hosts[0])
    endpoint.reaches(vm, (3, 36))
    assert endpoint.charged() == {0: (100, 512, 1)}
    drivers.mend()
    endpoint.ok("one.vm.recover", vm, 2)
    endpoint.reaches(vm, RUNNING)
    assert endpoint.charged() == {0: (100, 512, 1)}


def test_a_failed_boot_can_be_given_up(endpoint: Endpoint, drivers: Drivers) -> None:
    """Recreated it is pending without a charge; terminated it is done."""
    drivers.fail("deploy")
    again, over = endpoint.new(), endpoint.new()
    for vm in (again, over):
        endpoint.ok("one.vm.deploy", vm, endpoint.hosts[0])
        endpoint.reaches(vm, (3, 36))
    endpoint.ok("one.vm.recover", again, 4)
    endpoint.reaches(again, PENDING)
    endpoint.act(over, "terminate", DONE)
    assert endpoint.charged() == {}


def test_a_failed_live_migration_leaves_the_vm_on_its_source(
    endpoint: Endpoint, drivers: Drivers
) -> None:
    """It runs; only the source is charged and in the last history record."""
    vm = endpoint.running()
    drivers.fail("migrate")
    endpoint.ok("one.vm.migrate", vm, endpoint.hosts[1], True)
    endpoint.until(lambda: len(hosts_of(endpoint, vm)) == 3, "the return")
    endpoint.reaches(vm, RUNNING)
    first, second, *_ = endpoint.hosts
    assert hosts_of(endpoint, vm) == [first, second, first]
    assert endpoint.charged() == {0: (100, 512, 1)}


def test_a_failed_restore_leaves_the_vm_on_the_target(endpoint: Endpoint, drivers: Drivers) -> None:
    """A cold migration ends in BOOT_MIGRATE_FAILURE there; recreated the VM is pending."""
    vm = endpoint.running()
    drivers.fail("restore")
    endpoint.ok("one.vm.migrate", vm, endpoint.hosts[1], False)
    endpoint.reaches(vm, (3, 37))
    assert endpoint.charged() == {1: (100, 512, 1)}
    endpoint.ok("one.vm.recover", vm, 4)
    endpoint.reaches(vm, PENDING)
    assert endpoint.charged() == {}


@pytest.mark.parametrize(("action", "verb"), [("save", "suspend"), ("shutdown", "poweroff")])
def test_a_vm_whose_save_or_shutdown_fails_keeps_running(
    endpoint: Endpoint, drivers: Drivers, action: str, verb: str
) -> None:
    """The failure changes nothing."""
    vm = endpoint.running()
    drivers.fail(action)
    endpoint.ok("one.vm.action", verb, vm)
    endpoint.pause(1.5)
    endpoint.reaches(vm, RUNNING)
    assert endpoint.charged() == {0: (100, 512, 1)}


def test_a_failed_resume_leaves_the_vm_suspended(endpoint: Endpoint, drivers: Drivers) -> None:
    """It can be resumed later."""
    vm = endpoint.in_state(SUSPENDED)
    drivers.fail("restore")
    endpoint.ok("one.vm.action", "resume", vm)
    endpoint.pause(1.5)
    endpoint.reaches(vm, SUSPENDED)
    drivers.mend()
    endpoint.act(vm, "resume", RUNNING)


@pytest.mark.parametrize("state", [PENDING, RUNNING, SUSPENDED, OFF, STOPPED])
@pytest.mark.parametrize("operation", [3, 4, 5])
def test_a_vm_can_be_deleted_or_recreated_in_any_state(
    endpoint: Endpoint, state: State, operation: int
) -> None:
    """3 and 5 end it, 4 makes it pending again; no host is charged afterwards."""
    vm = endpoint.in_state(state)
    endpoint.ok("one.vm.recover", vm, operation)
    endpoint.reaches(vm, PENDING if operation == 4 else DONE)
    assert endpoint.charged() == {}


@pytest.mark.parametrize("operation", [0, 1, 2])
def test_a_stable_vm_cannot_be_recovered(endpoint: Endpoint, operation: int) -> None:
    """Pending and powered-off VMs answer 2048."""
    for state in (PENDING, OFF):
        code, text = endpoint.refused("one.vm.recover", endpoint.in_state(state), operation)
        assert code == 2048
        assert "wrong state" in text
