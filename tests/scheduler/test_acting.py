"""Changes between a decision and its actions are detected and reported."""

from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred

from merkatd.base.clock import Inline
from merkatd.cluster import Step
from merkatd.database.scheduler import journal, period_store
from merkatd.opennebula import Client, OpenNebulaCloud
from merkatd.opennebula.current_state import HostChecks, start_again
from merkatd.scheduler.base.ports import CloudUnreachableError, StepReply
from merkatd.scheduler.base.settings import Rhythm
from tests.scheduler.frontend import SESSION, Frontend


def careful(rhythm: Rhythm | None = None, timeout_s: float = 30.0) -> Frontend:
    """Return a frontend whose daemon checks hosts before it uses them."""
    frontend = Frontend()
    frontend.world_settings = careful_settings(frontend, rhythm or Rhythm(), timeout_s)
    frontend.start_daemon()
    return frontend


def careful_settings(frontend: Frontend, rhythm: Rhythm, timeout_s: float = 30.0) -> dict[str, Any]:
    """Return the settings of such a daemon, over the frontend's current transport."""
    client = Client(frontend.transport, SESSION, frontend.clock, timeout_s=timeout_s)

    async def retry(step: Any) -> Any:
        return await start_again(client, step)

    cloud = OpenNebulaCloud(client, frontend.clock, frontend.scheduler.world.executor)
    return {
        "cloud": cloud,
        "why_not_on": HostChecks(client, Inline(), frontend.clock.seconds).why_not,
        "retry": retry,
        "rhythm": rhythm,
    }


def before(frontend: Frontend, method: str, what: Any) -> None:
    """Do something once, just before the first call of this method."""
    call = frontend.transport.call
    left = [what]

    async def watched(name: str, *arguments: Any) -> Any:
        if name == method and left:
            left.pop()()
        return await call(name, *arguments)

    frontend.transport.call = watched  # type: ignore[method-assign, assignment]


def slow(frontend: Frontend, method: str, seconds: float) -> None:
    """Delay the first call of this method by some seconds before it is carried out."""
    call = frontend.transport.call
    left = [seconds]

    async def watched(name: str, *arguments: Any) -> Any:
        if name == method and left:
            passed: Deferred[None] = Deferred()
            frontend.clock.callLater(left.pop(), passed.callback, None)
            await passed
        return await call(name, *arguments)

    frontend.transport.call = watched  # type: ignore[method-assign, assignment]


def replies(frontend: Frontend, kind: str = "deploy") -> list[tuple[int, str, str | None]]:
    """Return the VM, state and reply of all steps of a kind, oldest first."""
    rows = frontend.read(lambda c: journal.recent(c, journal.StepFilter(kind=kind), 100))
    return [(row.step.vm, str(row.state), row.reply) for row in reversed(rows)]


@pytest.fixture
def frontend() -> Any:
    """Return a frontend with three hosts and a daemon that checks before it acts."""
    made = careful()
    yield made
    made.close()


@pytest.mark.parametrize(
    "error",
    [CloudUnreachableError("no answer"), CancelledError(), RuntimeError("a fault of this code")],
    ids=lambda error: type(error).__name__,
)
def test_a_step_with_an_unknown_outcome_is_not_refused(
    frontend: Frontend, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """It counts as sent until an observation judges it."""

    async def send(_step: Step) -> StepReply:
        raise error

    vm = frontend.vm()
    monkeypatch.setattr(frontend.scheduler.world.cloud, "send", send)
    assert frontend.period().acted.refused == 0
    assert replies(frontend) == [(vm, "sent", None)]


def test_a_host_disabled_after_the_decision_receives_no_vm(frontend: Frontend) -> None:
    """OpenNebula would deploy there; the VM goes to another host in the next period."""
    frontend.vm()
    before(frontend, "one.host.info", lambda: frontend.bench.ok("one.host.status", 0, 1))
    frontend.period()
    [(vm, state, reply)] = replies(frontend)
    assert state == "refused"
    assert reply == "look again: host 0 no longer accepts VMs"
    frontend.clock.advance(60)
    frontend.periods(2)
    assert frontend.state(vm) == "RUNNING"
    assert frontend.host_of(vm) != 0
    frontend.agree()


def test_capacity_taken_after_the_decision_is_not_used_twice(
    frontend: Frontend,
) -> None:
    """A VM outside the plan took the host; the next period counts this VM."""
    stranger = frontend.bench.new("CPU=4\nMEMORY=8000")
    frontend.bench.ok("one.vm.action", "hold", stranger)
    vm = frontend.vm()

    def take() -> None:
        frontend.bench.ok("one.vm.deploy", stranger, 0)
        frontend.clock.advance(1)

    before(frontend, "one.host.info", take)
    frontend.period()
    assert replies(frontend) == [
        (vm, "refused", f"look again: VM {stranger} has arrived on host 0 in the meantime")
    ]
    frontend.clock.advance(60)
    frontend.periods(2)
    assert frontend.state(vm) == "RUNNING"
    assert frontend.host_of(vm) != frontend.host_of(stranger)
    frontend.agree()


def test_a_vm_deleted_after_the_decision_affects_no_other_vm(frontend: Frontend) -> None:
    """The step of the deleted VM is refused; the other VMs start."""
    vms = [frontend.vm() for _ in range(3)]
    before(
        frontend,
        "one.host.info",
        lambda: frontend.bench.ok("one.vm.action", "terminate-hard", vms[1]),
    )
    frontend.period()
    assert [state for _, state, _ in replies(frontend)].count("refused") == 1
    frontend.clock.advance(60)
    frontend.period()
    assert [frontend.state(vm) for vm in vms] == ["RUNNING", "DONE", "RUNNING"]
    assert frontend.outstanding() == 0
    frontend.agree()


def test_a_vm_held_by_its_owner_after_the_decision_is_reconsidered(frontend: Frontend) -> None:
    """The held VM is not deployed; after its release a later period places it."""
    vm = frontend.vm()
    before(frontend, "one.vm.info", lambda: frontend.bench.ok("one.vm.action", "hold", vm))
    frontend.period()
    [(_, state, reply)] = replies(frontend)
    assert state == "refused"
    assert (reply or "").startswith("look again")
    frontend.bench.ok("one.vm.action", "release", vm)
    frontend.clock.advance(60)
    frontend.periods(2)
    assert frontend.state(vm) == "RUNNING"
    frontend.agree()


def test_the_owner_reads_why_opennebula_refused_to_deploy(frontend: Frontend) -> None:
    """The message holds until the VM runs; a refusal that only needs a retry sets none."""
    fault = {"kind": "refuse", "method": "one.vm.deploy"}
    refusal = "Image Datastore does not support transfer mode: ssh"
    vm = frontend.vm()
    refused = frontend.bench.ok("embedded.fault.add", {**fault, "text": refusal})
    frontend.period()
    message = frontend.bench.vm(vm).user_template.get("SCHED_MESSAGE")
    assert message.startswith("OpenNebula does not deploy it; refused: ")
    assert refusal in message
    frontend.cloud.faults.remove(refused)
    again = frontend.bench.ok("embedded.fault.add", {**fault, "code": 2048})
    other = frontend.vm()
    frontend.periods(1)
    assert (frontend.state(vm), frontend.state(other)) == ("PENDING", "PENDING")
    message = frontend.bench.vm(vm).user_template.get("SCHED_MESSAGE")
    assert message.startswith("OpenNebula did not deploy it; refused: ")
    assert message.endswith("it is retried later")
    assert frontend.bench.vm(other).user_template.get("SCHED_MESSAGE", "") == ""
    frontend.cloud.faults.remove(again)
    frontend.periods(3)
    assert (frontend.state(vm), frontend.state(other)) == ("RUNNING", "RUNNING")
    assert frontend.bench.vm(vm).user_template.get("SCHED_MESSAGE") == ""


def test_a_deploy_that_takes_minutes_delays_no_other_vm_and_no_period() -> None:
    """The period ends with its time limit for actions; a late reply is still recorded."""
    frontend = careful(Rhythm(act_limit_s=30.0), timeout_s=1000.0)
    vms = [frontend.vm() for _ in range(4)]
    slow(frontend, "one.vm.deploy", 150.0)
    begin_s = frontend.clock.seconds()
    frontend.period()
    assert frontend.clock.seconds() - begin_s == pytest.approx(30, abs=2)
    running = [vm for vm in vms if frontend.state(vm) == "RUNNING"]
    assert len(running) == 3
    frontend.clock.advance(30)
    for _ in range(5):
        frontend.period()
        frontend.clock.advance(30)
    assert {frontend.state(vm) for vm in vms} == {"RUNNING"}
    assert all(len(frontend.bench.vm(vm).history) == 1 for vm in vms)
    frontend.agree()
    frontend.close()


def test_a_late_refusal_ends_its_step() -> None:
    """The step ends with the refusal and does not wait for its time limit."""
    frontend = careful(Rhythm(act_limit_s=10.0, settle_s=100.0), timeout_s=1000.0)
    vm = frontend.vm()
    slow(frontend, "one.vm.deploy", 40.0)
    frontend.period()
    assert frontend.outstanding() == 1
    frontend.bench.ok("one.vm.action", "hold", vm)
    frontend.bench.ok("one.vm.deploy", vm, 1)
    frontend.clock.pump([1.0] * 45)
    [(_, state, _)] = replies(frontend)
    assert state == "refused"
    frontend.close()


def test_steps_without_a_turn_in_time_are_recorded_as_not_sent() -> None:
    """Slow calls take all turns; the other steps are given up and decided again."""
    rhythm = Rhythm(act_limit_s=20.0, in_flight=2, in_flight_per_host=2)
    frontend = careful(rhythm, timeout_s=1000.0)
    vms = [frontend.vm() for _ in range(6)]
    number = frontend.bench.ok(
        "embedded.fault.add", {"kind": "delay", "method": "one.vm.deploy", "seconds": 25.0}
    )
    announcement = frontend.period()
    assert announcement.acted.postponed == 4
    never = [reply for _, state, reply in replies(frontend) if state == "expired"]
    assert len(never) == 4
    assert all((reply or "").startswith("never sent") for reply in never)
    frontend.cloud.faults.remove(number)
    frontend.clock.pump([1.0] * 40)
    frontend.periods(4)
    assert {frontend.state(vm) for vm in vms} == {"RUNNING"}
    assert all(len(frontend.bench.vm(vm).history) == 1 for vm in vms)
    frontend.agree()
    frontend.close()


def test_replies_delayed_by_minutes_lose_and_duplicate_no_step() -> None:
    """Every call takes three minutes; periods fail or take long, then all VMs run."""
    frontend = careful(timeout_s=30.0)
    vms = [frontend.vm() for _ in range(4)]
    number = frontend.bench.ok(
        "embedded.fault.add", {"kind": "delay", "method": "one.*", "seconds": 180.0}
    )
    for _ in range(2):
        with pytest.raises(CloudUnreachableError):
            frontend.period()
    frontend.cloud.faults.remove(number)
    frontend.clock.pump([10.0] * 30)
    frontend.periods(3)
    assert {frontend.state(vm) for vm in vms} == {"RUNNING"}
    frontend.agree()
    frontend.close()


class TestBootFailures:
    def test_a_boot_failure_is_retried_once_on_the_same_host(self, frontend: Frontend) -> None:
        """The VM runs if the cause has passed."""
        vm = frontend.vm()
        frontend.bench.ok("embedded.fault.add", {"kind": "fail", "lcm": "BOOT", "count": 1})
        frontend.periods(2)
        assert "it is retried" in message_of(frontend, vm)
        frontend.periods(2)
        assert frontend.state(vm) == "RUNNING"
        assert [state for _, state, _ in replies(frontend)] == ["expired", "confirmed"]
        assert len(frontend.bench.vm(vm).history) == 1
        frontend.agree()

    def test_a_second_boot_failure_is_left_to_an_administrator(self, frontend: Frontend) -> None:
        """The owner is told; Merkat doesn't recreate the VM, which would lose its disks."""
        vm = frontend.vm()
        frontend.bench.ok("embedded.fault.add", {"kind": "fail", "lcm": "BOOT"})
        frontend.periods(6)
        assert frontend.state(vm) == "BOOT_FAILURE"
        assert len(replies(frontend)) == 2
        assert f"an administrator must recover it (onevm recover {vm})" in message_of(frontend, vm)
        frontend.cloud.faults.clear()
        frontend.bench.ok("one.vm.recover", vm, 2)
        frontend.periods(2)
        assert frontend.state(vm) == "RUNNING"
        frontend.agree()

    def test_a_vm_deployed_by_hand_is_not_retried(self, frontend: Frontend) -> None:
        """Merkat retries only its own deployments."""
        vm = frontend.bench.new("CPU=1\nMEMORY=512")
        frontend.bench.ok("one.vm.action", "hold", vm)
        frontend.bench.ok("embedded.fault.add", {"kind": "fail", "lcm": "BOOT", "count": 1})
        frontend.bench.ok("one.vm.deploy", vm, 0)
        frontend.clock.advance(60)
        frontend.periods(2)
        assert frontend.state(vm) == "BOOT_FAILURE"
        assert replies(frontend) == []


def message_of(frontend: Frontend, vm: int) -> str:
    """Return the VM's text, as its owner reads it."""
    text: str = frontend.bench.ok("one.vm.info", vm)
    return text


def test_a_period_interrupted_by_a_cloud_failure_is_charged(
    frontend: Frontend,
) -> None:
    """The allocations were decided, so the tenants received them."""
    for _ in range(2):
        frontend.vm()
    frontend.periods(2)
    frontend.vm()
    frontend.bench.ok("embedded.fault.add", {"kind": "hang", "method": "one.vm.*"})
    running = ensureDeferred(frontend.scheduler.period())
    frontend.clock.pump([1.0] * 80)
    frontend.cloud.faults.clear()
    frontend.result(running)
    frontend.periods(2)
    states = [row.state for row in frontend.read(lambda c: period_store.recent(c, 10))]
    assert states[1:].count("charged") == len(states) - 1
    frontend.agree()
