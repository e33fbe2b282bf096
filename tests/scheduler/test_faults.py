"""After any fault of the cloud, the next good periods repair everything."""

import contextlib
from typing import Any

import pytest
from twisted.internet.defer import FirstError

from merkatd.database.scheduler import journal
from merkatd.scheduler.base.ports import CloudUnreachableError
from tests.lengths import shorten
from tests.scheduler.frontend import Frontend

BAD_PERIODS = shorten(4, 3)


def live(frontend: Frontend, count: int) -> None:
    """Run periods; each may fail to reach the cloud."""
    for _ in range(count):
        with contextlib.suppress(CloudUnreachableError):
            frontend.period()
        frontend.clock.advance(60)


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "refuse", "method": "one.vm.deploy", "code": 2048, "text": "not now"},
        {"kind": "refuse", "method": "one.vm.deploy", "code": 8192, "text": "broken"},
        {"kind": "refuse", "method": "*", "code": 256, "text": "who?", "probability": 0.5},
        {"kind": "lose", "method": "one.vm.deploy"},
        {"kind": "lose", "method": "*", "probability": 0.4},
        {"kind": "garbage", "method": "one.*", "probability": 0.4},
        {"kind": "truncate", "method": "one.vmpool.*", "probability": 0.7},
        {"kind": "hang", "method": "one.vm.deploy"},
        {"kind": "hang", "method": "*", "probability": 0.2},
        {"kind": "delay", "method": "*", "seconds": 45.0, "probability": 0.3},
        {"kind": "fail", "lcm": "BOOT", "probability": 0.5},
    ],
    ids=lambda fault: "-".join(str(value) for value in fault.values()),
)
def test_the_cloud_recovers_after_any_fault(frontend: Frontend, fault: dict[str, Any]) -> None:
    """All bootable VMs run, none was deployed twice, and no credit is lost."""
    vms = [frontend.vm(1.0 + at) for at in range(6)]
    number = frontend.bench.ok("embedded.fault.add", fault)
    live(frontend, BAD_PERIODS)
    frontend.cloud.faults.remove(number)
    for vm in vms:
        if frontend.state(vm) == "BOOT_FAILURE":
            frontend.bench.ok("one.vm.recover", vm, 2)
    # VMs whose deployment was refused several times wait some periods before a retry.
    live(frontend, 12 if fault.get("code") == 8192 else 3)
    assert {frontend.state(vm) for vm in vms} == {"RUNNING"}
    assert all(len(frontend.bench.vm(vm).history) == 1 for vm in vms)
    assert frontend.outstanding() == 0
    frontend.agree()


def test_outdated_answers_of_a_pool_cause_no_second_deployment(frontend: Frontend) -> None:
    """The server shows VMs as pending; they are deployed again only after the time limit."""
    vms = [frontend.vm() for _ in range(3)]
    for vm in vms:
        frontend.bench.ok("embedded.fault.lie", "vm", vm, 400)
    live(frontend, 9)
    assert {frontend.state(vm) for vm in vms} == {"RUNNING"}
    assert all(len(frontend.bench.vm(vm).history) == 1 for vm in vms)
    frontend.agree()


def test_a_failed_host_is_excluded_and_its_vms_are_placed_again(
    frontend: Frontend,
) -> None:
    """The other VMs are placed meanwhile."""
    vms = [frontend.vm() for _ in range(6)]
    live(frontend, 3)
    lost = [vm for vm in vms if frontend.host_of(vm) == 1]
    frontend.cloud.host_down(1)
    new = frontend.vm()
    live(frontend, 3)
    assert frontend.host_of(new) != 1
    frontend.cloud.host_up(1)
    for vm in lost:
        frontend.bench.ok("one.vm.action", "resume", vm)
    live(frontend, 3)
    assert {frontend.state(vm) for vm in vms} == {"RUNNING"}
    frontend.agree()


def test_a_failed_migration_leaves_the_vm_on_its_source_and_is_reported(frontend: Frontend) -> None:
    """It is retried after its hold time if it is still worthwhile."""
    vms = [frontend.vm(1.0, VCPU=4, MEMORY=1024) for _ in range(3)]
    live(frontend, 3)
    for vm in vms[1:]:
        if frontend.host_of(vm) != frontend.host_of(vms[0]):
            frontend.bench.ok("one.vm.migrate", vm, frontend.host_of(vms[0]), True)
    frontend.bench.ok("embedded.fault.add", {"kind": "fail", "lcm": "MIGRATE", "count": 10})
    frontend.clock.advance(60)
    live(frontend, 3)
    moves = frontend.read(lambda c: journal.recent(c, journal.StepFilter(kind="migrate"), 50))
    assert {str(move.state) for move in moves} <= {"expired", "sent"}
    frontend.cloud.faults.clear()
    live(frontend, 15)
    assert len({frontend.host_of(vm) for vm in vms}) == 3
    frontend.agree()


def test_a_daemon_killed_between_any_two_calls_continues(frontend: Frontend) -> None:
    """The daemon is killed at every call in turn; no step is lost or duplicated."""
    vms = [frontend.vm(1.0 + at) for at in range(4)]
    call = frontend.transport.call
    left, deadline = [0], 0
    while left[0] <= 0:
        deadline += 1
        left = [deadline]

        async def counted(method: str, *arguments: Any, left: list[int] = left) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise SystemExit("killed")
            return await call(method, *arguments)

        frontend.transport.call = counted  # type: ignore[method-assign]
        try:
            frontend.period()
        except (SystemExit, FirstError):
            frontend.start_daemon()
        frontend.clock.advance(20)
    frontend.transport.call = call  # type: ignore[method-assign]
    frontend.start_daemon()
    live(frontend, 3)
    assert {frontend.state(vm) for vm in vms} == {"RUNNING"}
    assert all(len(frontend.bench.vm(vm).history) == 1 for vm in vms)
    frontend.agree()
