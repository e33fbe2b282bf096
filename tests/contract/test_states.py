"""The life of a VM, row by row: the states that every action leads through."""

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
    """Whether the states seen are the rule's, in order, but for some that were over too soon."""
    rest = iter(rule)
    return seen[0] == rule[0] and seen[-1] == rule[-1] and all(state in rest for state in seen)


@pytest.mark.parametrize(
    ("action", "state", "steps"),
    [*ACTIONS, *((action, before, [after]) for action, before, after in AT_ONCE)],
)
def test_an_action_leads_through_its_states(
    endpoint: Endpoint, action: str, state: State, steps: list[State]
) -> None:
    """In this order, and to this end."""
    vm = endpoint.in_state(state)
    assert endpoint.ok("one.vm.action", action, vm) == vm
    seen = [state, *endpoint.path(vm, steps[-1])]
    assert follows(
        [one for one, last in zip(seen, [None, *seen], strict=False) if one != last],
        [state, *steps],
    )


@pytest.mark.parametrize(("state", "steps"), DEPLOYS)
@pytest.mark.parametrize("resume", [False, True])
def test_a_deployment_depends_on_where_the_vm_was(
    endpoint: Endpoint, state: State, steps: list[State], *, resume: bool
) -> None:
    """A stopped VM is restored, an undeployed one started anew, resumed to PENDING first or not."""
    vm = endpoint.in_state(state)
    if resume and state in {STOPPED, UNDEPLOYED}:
        endpoint.act(vm, "resume", PENDING)
    endpoint.ok("one.vm.deploy", vm, endpoint.hosts[2])
    seen = endpoint.path(vm, RUNNING)
    assert follows([steps[0], *(one for one in seen if one != steps[0])], steps), seen
    assert hosts_of(endpoint, vm)[-1] == endpoint.hosts[2]


def hosts_of(endpoint: Endpoint, vm: int) -> list[int]:
    """The hosts of a VM's history."""
    shown = endpoint.xml("one.vm.info", vm)
    return [int(row.text or "") for row in shown.iterfind("HISTORY_RECORDS/HISTORY/HID")]


@pytest.mark.parametrize(("state", "live", "kind", "steps"), MIGRATIONS)
def test_a_migration_leads_through_its_states(
    endpoint: Endpoint, state: State, live: bool, kind: int, steps: list[State]
) -> None:
    """The target is the last history record at once; state and charge follow."""
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
    """Template and charge change, the state comes back."""
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
    """Its charge too, where it has one."""
    vm = endpoint.in_state(state)
    endpoint.ok("one.vm.resize", vm, "CPU=2.5\nMEMORY=1024", False)
    assert endpoint.state(vm) == state
    shown = endpoint.xml("one.vm.info", vm)
    assert shown.findtext("TEMPLATE/CPU") == "2.5"
    assert endpoint.charged() == ({0: (250, 1024, 1)} if state == OFF else {})


def test_a_resize_is_for_some_states_and_sizes_only(endpoint: Endpoint) -> None:
    """Not for a suspended VM, nor to less than nothing, nor beyond the host where enforced."""
    suspended, running = endpoint.in_state(SUSPENDED), endpoint.running()
    code, text = endpoint.refused("one.vm.resize", suspended, "CPU=2", False)
    assert code == 2048
    assert "SUSPENDED" in text
    assert endpoint.refused("one.vm.resize", running, "CPU=-1", False)[0] == 8192
    assert endpoint.refused("one.vm.resize", running, "CPU=99", True)[0] == 2048


# -- failures -----------------------------------------------------------------------------------


def test_a_boot_that_fails_can_be_retried(endpoint: Endpoint, drivers: Drivers) -> None:
    """It stays in BOOT_FAILURE with its host charged until somebody helps."""
    vm = endpoint.new()
    drivers.fail("deploy")
    endpoint.ok("one.vm.deploy", vm, endpoint.hosts[0])
    endpoint.reaches(vm, (3, 36))
    assert endpoint.charged() == {0: (100, 512, 1)}
    drivers.mend()
    endpoint.ok("one.vm.recover", vm, 2)
    endpoint.reaches(vm, RUNNING)
    assert endpoint.charged() == {0: (100, 512, 1)}


def test_a_boot_that_fails_can_be_given_up(endpoint: Endpoint, drivers: Drivers) -> None:
    """Recreated it is pending again and charged nowhere; terminated it is done."""
    drivers.fail("deploy")
    again, over = endpoint.new(), endpoint.new()
    for vm in (again, over):
        endpoint.ok("one.vm.deploy", vm, endpoint.hosts[0])
        endpoint.reaches(vm, (3, 36))
    endpoint.ok("one.vm.recover", again, 4)
    endpoint.reaches(again, PENDING)
    endpoint.act(over, "terminate", DONE)
    assert endpoint.charged() == {}


def test_a_live_migration_that_fails_leaves_the_vm_where_it_was(
    endpoint: Endpoint, drivers: Drivers
) -> None:
    """Running, with the old host alone charged and as the last history record."""
    vm = endpoint.running()
    drivers.fail("migrate")
    endpoint.ok("one.vm.migrate", vm, endpoint.hosts[1], True)
    endpoint.until(lambda: len(hosts_of(endpoint, vm)) == 3, "the return")
    endpoint.reaches(vm, RUNNING)
    first, second, *_ = endpoint.hosts
    assert hosts_of(endpoint, vm) == [first, second, first]
    assert endpoint.charged() == {0: (100, 512, 1)}


def test_a_restore_that_fails_leaves_the_vm_at_the_target(
    endpoint: Endpoint, drivers: Drivers
) -> None:
    """A cold migration: BOOT_MIGRATE_FAILURE there, and recreated it is pending."""
    vm = endpoint.running()
    drivers.fail("restore")
    endpoint.ok("one.vm.migrate", vm, endpoint.hosts[1], False)
    endpoint.reaches(vm, (3, 37))
    assert endpoint.charged() == {1: (100, 512, 1)}
    endpoint.ok("one.vm.recover", vm, 4)
    endpoint.reaches(vm, PENDING)
    assert endpoint.charged() == {}


@pytest.mark.parametrize(("action", "verb"), [("save", "suspend"), ("shutdown", "poweroff")])
def test_what_fails_on_the_way_down_goes_on_running(
    endpoint: Endpoint, drivers: Drivers, action: str, verb: str
) -> None:
    """A save or a shutdown that fails changes nothing."""
    vm = endpoint.running()
    drivers.fail(action)
    endpoint.ok("one.vm.action", verb, vm)
    endpoint.pause(1.5)
    endpoint.reaches(vm, RUNNING)
    assert endpoint.charged() == {0: (100, 512, 1)}


def test_a_resume_that_fails_leaves_the_vm_suspended(endpoint: Endpoint, drivers: Drivers) -> None:
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
def test_a_vm_is_deleted_or_recreated_wherever_it_is(
    endpoint: Endpoint, state: State, operation: int
) -> None:
    """3 and 5 end it, 4 makes it pending anew; in each case no host is charged any more."""
    vm = endpoint.in_state(state)
    endpoint.ok("one.vm.recover", vm, operation)
    endpoint.reaches(vm, PENDING if operation == 4 else DONE)
    assert endpoint.charged() == {}


@pytest.mark.parametrize("operation", [0, 1, 2])
def test_there_is_nothing_to_recover_from_in_a_settled_state(
    endpoint: Endpoint, operation: int
) -> None:
    """2048: neither of a pending VM nor of one that is off."""
    for state in (PENDING, OFF):
        code, text = endpoint.refused("one.vm.recover", endpoint.in_state(state), operation)
        assert code == 2048
        assert "wrong state" in text
