"""Cold migrations, and resumptions on another host, as a strategy may decide them."""

from collections.abc import Iterator, Sequence

import pytest

from merkatd.cluster import Migrate, Resume, Snapshot, Suspend, VmState
from merkatd.cluster.plan import Kind, Step
from merkatd.database.scheduler import journal
from merkatd.database.scheduler.step_store import StepState
from merkatd.embedded.model.vm_states import Lcm
from tests.scheduler.frontend import Frontend
from tests.scheduler.scripted_strategy import Script


@pytest.fixture
def frontend(script: Script) -> Iterator[Frontend]:  # noqa: ARG001 - the strategy comes first
    """Yield two hosts."""
    made = Frontend(hosts=2)
    yield made
    made.agree()
    made.close()


def only(kind: type[Kind], frontend: Frontend) -> tuple[Kind, StepState]:
    """Return the only recorded step of a kind, and its state."""
    rows = frontend.read(lambda c: journal.recent(c, journal.StepFilter(), 9999))
    ((step, state),) = [(row.step, row.state) for row in rows if isinstance(row.step, kind)]
    return step, state


def at(snapshot: Snapshot, vm: int) -> tuple[VmState, int]:
    """Return the VM's state and its host."""
    row = snapshot.vm_row(vm)
    return VmState(int(snapshot.vms.state[row])), int(snapshot.vms.host[row])


def test_a_running_vm_is_moved_cold(script: Script, frontend: Frontend) -> None:
    """It is saved, moved and continued; the step is confirmed where it runs, and charged so."""
    vm = frontend.vm()
    frontend.periods(3)
    source = frontend.host_of(vm)

    def once(snapshot: Snapshot) -> Sequence[Step]:
        state, host = at(snapshot, vm)
        if state is not VmState.RUNNING or host != source:
            return ()
        return [
            Migrate(
                period=snapshot.period,
                vm=vm,
                reason="to move it",
                source=source,
                host=1 - source,
                live=False,
            )
        ]

    script.steps = once
    seen = set[str]()
    frontend.period()
    for _ in range(30):
        seen.add(Lcm(frontend.cloud.world.vms.rows[vm].lcm).name)
        frontend.clock.advance(2.0)
    script.steps = lambda _snapshot: ()
    frontend.periods(3)
    assert "BOOT_MIGRATE" in seen
    assert (frontend.state(vm), frontend.host_of(vm)) == ("RUNNING", 1 - source)
    step, how = only(Migrate, frontend)
    assert (how, step.live) == (StepState.CONFIRMED, False)


def test_a_saved_vm_continues_on_another_host(script: Script, frontend: Frontend) -> None:
    """It is moved there while it is suspended, and resumed in a period after that."""
    vm = frontend.vm()
    frontend.periods(3)
    source = frontend.host_of(vm)
    script.steps = lambda snapshot: (
        [Suspend(period=snapshot.period, vm=vm, reason="to save it")]
        if at(snapshot, vm)[0] is VmState.RUNNING
        else ()
    )
    frontend.periods(3)
    assert frontend.state(vm) == "SUSPENDED"
    script.steps = lambda snapshot: (
        [Resume(period=snapshot.period, vm=vm, reason="to go on", host=1 - source)]
        if at(snapshot, vm)[0] is VmState.SUSPENDED
        else ()
    )
    frontend.periods(5)
    assert (frontend.state(vm), frontend.host_of(vm)) == ("RUNNING", 1 - source)
    move, how = only(Migrate, frontend)
    assert (how, move.live) == (StepState.CONFIRMED, False)
    assert move.reason == "to be resumed there: to go on"
    back, how = only(Resume, frontend)
    assert (how, back.host) == (StepState.CONFIRMED, 1 - source)


def test_a_vm_that_is_off_is_moved(script: Script, frontend: Frontend) -> None:
    """It stays off on its new host."""
    vm = frontend.vm()
    frontend.periods(3)
    source = frontend.host_of(vm)
    frontend.bench.ok("one.vm.action", "poweroff", vm)
    frontend.periods(2)
    assert frontend.state(vm) == "POWEROFF"
    script.steps = lambda snapshot: (
        [
            Migrate(
                period=snapshot.period,
                vm=vm,
                reason="to empty it",
                source=source,
                host=1 - source,
                live=False,
            )
        ]
        if at(snapshot, vm) == (VmState.POWERED_OFF, source)
        else ()
    )
    frontend.periods(3)
    assert (frontend.state(vm), frontend.host_of(vm)) == ("POWEROFF", 1 - source)
    assert only(Migrate, frontend)[1] == StepState.CONFIRMED
