"""The life of a VM, compared with the observed states of a real server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from merkatd.embedded.model.settings import Delays, EmbeddedSettings
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
from tests.embedded.support import SMALL, Bench, in_state


@pytest.mark.parametrize(
    ("action", "state", "steps"), [*ACTIONS, ("reboot", RUNNING, []), ("resched", RUNNING, [])]
)
def test_an_action_passes_through_its_states(
    action: str, state: tuple[int, int], steps: list[tuple[int, int]]
) -> None:
    """All states between the answer and the end appear in order."""
    bench = Bench()
    vm_id = in_state(bench, state)
    assert bench.ok("one.vm.action", action, vm_id) == vm_id
    assert bench.path(vm_id) == [state, *steps]


@pytest.mark.parametrize(("action", "before", "after"), AT_ONCE)
def test_immediate_actions_are_done_with_their_answer(
    action: str, before: tuple[int, int], after: tuple[int, int]
) -> None:
    """If no host is involved, the state has changed with the answer."""
    bench = Bench()
    vm_id = in_state(bench, before)
    bench.ok("one.vm.action", action, vm_id)
    assert bench.state(vm_id) == after


@pytest.mark.parametrize(("state", "steps"), DEPLOYS)
@pytest.mark.parametrize("resume", [False, True])
def test_a_deployment_depends_on_the_earlier_state(
    state: tuple[int, int], steps: list[tuple[int, int]], *, resume: bool
) -> None:
    """A stopped VM is restored and an undeployed one started, with or without a resume before."""
    bench = Bench()
    vm_id = in_state(bench, state)
    if resume and state in {STOPPED, UNDEPLOYED}:
        bench.ok("one.vm.action", "resume", vm_id)
    bench.ok("one.vm.deploy", vm_id, 2)
    assert bench.path(vm_id) == steps
    assert bench.vm(vm_id).history[-1].host == 2


@pytest.mark.parametrize(("state", "live", "kind", "steps"), MIGRATIONS)
def test_a_migration_passes_through_its_states(
    state: tuple[int, int], live: bool, kind: int, steps: list[tuple[int, int]]
) -> None:
    """The target is the last history record at once, and the state follows."""
    bench = Bench()
    vm_id = in_state(bench, state)
    bench.ok("one.vm.migrate", vm_id, 1, live, False, -1, kind)
    assert bench.state(vm_id) == state
    assert bench.vm(vm_id).history[-1].host == 1
    assert bench.path(vm_id) == [state, *steps]
    assert bench.charged() == {1: (100, 512, 1)}


def test_a_live_resize_passes_through_hotplug() -> None:
    """Template and allocation change at once, and the state returns."""
    bench = Bench()
    vm_id = bench.running()
    bench.ok("one.vm.resize", vm_id, "CPU=2 MEMORY=1024 VCPU=2", False)
    assert bench.path(vm_id) == [(3, 66), RUNNING]
    assert bench.charged() == {0: (200, 1024, 1)}
    assert bench.vm(vm_id).template.get("VCPU") == "2"


def test_a_resize_is_allowed_in_some_states_only() -> None:
    """A suspended VM or a size beyond the host is rejected; the same size has no effect."""
    bench = Bench()
    suspended, running = in_state(bench, SUSPENDED), bench.running()
    assert bench.refused("one.vm.resize", suspended, "CPU=2", False) == (
        2048,
        "[one.vm.resize] Cannot resize a VM in state SUSPENDED",
    )
    bench.ok("one.vm.resize", running, "CPU=1", False)
    assert bench.state(running) == RUNNING
    assert bench.refused("one.vm.resize", running, "CPU=-1", False)[0] == 8192
    for enforce in (True, False):
        assert bench.refused("one.vm.resize", running, "CPU=99", enforce) == (
            2048,
            "[one.vm.resize] Not enough CPU: 9900/700",
        )
    for vm_id in (in_state(bench, PENDING), in_state(bench, OFF)):
        bench.ok("one.vm.resize", vm_id, "CPU=2.5 MEMORY=1024", False)
        assert (bench.vm(vm_id).cpu, bench.vm(vm_id).memory_mib) == (250, 1024)


WRONG = [
    *[(verb, PENDING) for verb in ("suspend", "resume", "stop", "undeploy", "poweroff", "resched",
                                   "unresched", "release", "reboot")],
    *[(verb, RUNNING) for verb in ("resume", "hold", "release")],
    *[(verb, SUSPENDED) for verb in ("suspend", "poweroff", "undeploy", "hold", "resched")],
    *[(verb, DONE) for verb in ("resume", "stop", "hold")],
    *[(verb, OFF) for verb in ("suspend", "stop", "poweroff", "hold")],
]  # fmt: skip
NAMES = {PENDING: "PENDING", RUNNING: "RUNNING", SUSPENDED: "SUSPENDED", DONE: "DONE",
         OFF: "POWEROFF"}  # fmt: skip


@pytest.mark.parametrize(("action", "state"), WRONG)
def test_a_wrong_state_fails_with_2048(action: str, state: tuple[int, int]) -> None:
    """The text names action and state as oned does."""
    bench = Bench()
    vm_id = in_state(bench, state)
    text = f"This action is not available for state {NAMES[state]}"
    assert bench.refused("one.vm.action", action, vm_id) == (
        2048,
        f'[one.vm.action] Error performing action "{action}": {text}',
    )


def test_the_resched_flag_lasts_until_the_vm_moves() -> None:
    """One action sets it, and the opposite action or any move clears it."""
    bench = Bench()
    vm_id = bench.running()
    bench.ok("one.vm.action", "resched", vm_id)
    assert "<RESCHED>1</RESCHED>" in bench.ok("one.vmpool.info", -2, -1, -1, -1)
    bench.ok("one.vm.action", "unresched", vm_id)
    assert "<RESCHED>0</RESCHED>" in bench.ok("one.vmpool.info", -2, -1, -1, -1)
    bench.ok("one.vm.action", "resched", vm_id)
    bench.ok("one.vm.migrate", vm_id, 1, True)
    bench.advance(0.5)
    assert bench.vm(vm_id).resched == 0


def test_unknown_actions_are_not_supported() -> None:
    """They fail as wrong actions in every state."""
    bench = Bench()
    assert bench.refused("one.vm.action", "frobnicate", bench.new()) == (
        2048, '[one.vm.action] Action "frobnicate" is not supported',
    )  # fmt: skip


def test_deploy_and_migrate_reject_wrong_states() -> None:
    """Running VMs are not deployed; pending or moving VMs, or to the same host, not migrated."""
    bench = Bench()
    pending, vm_id = bench.new(), bench.running()
    assert bench.refused("one.vm.deploy", vm_id, 1)[1].endswith("not available for state RUNNING")
    assert bench.refused("one.vm.migrate", pending, 1, True)[0] == 2048
    assert bench.refused("one.vm.migrate", vm_id, 0, True)[1] == (
        "[one.vm.migrate] VM is already running on host [0]"
    )
    bench.ok("one.vm.migrate", vm_id, 1, False)
    bench.advance(0.1)
    assert bench.refused("one.vm.migrate", vm_id, 2, True)[1].endswith("state SAVE_MIGRATE")


def test_an_action_before_the_start_of_a_migration_is_dropped() -> None:
    """An action between a migration's answer and its start is accepted without effect."""
    bench = Bench()
    vm_id = bench.running()
    bench.ok("one.vm.migrate", vm_id, 1, True)
    bench.ok("one.vm.action", "suspend", vm_id)
    assert bench.refused("one.vm.migrate", vm_id, 2, True)[0] == 2048
    assert bench.path(vm_id) == [RUNNING, (3, 4), RUNNING]


def test_a_coarse_clock_gives_the_same_result() -> None:
    """Every step happens at its own time, for any jump of the clock."""
    fine, coarse = Bench(), Bench()
    for bench in (fine, coarse):
        vm_id = bench.new()
        bench.ok("one.vm.deploy", vm_id, 0)
    for _ in range(2000):
        fine.advance(0.005)
    coarse.advance(10)
    assert fine.vm(0) == coarse.vm(0)
    assert fine.cloud.guests.read([0])[0].cpu_s == pytest.approx(
        coarse.cloud.guests.read([0])[0].cpu_s
    )


@pytest.mark.parametrize(
    "template",
    ["MEMORY=64", "CPU=1", "CPU=0 MEMORY=64", "CPU=-1 MEMORY=64", "CPU=inf MEMORY=64",
     "CPU=nan MEMORY=64", "CPU=1 MEMORY=-64", "CPU=1 MEMORY=64 VCPU=0", "CPU=x MEMORY=64"],
)  # fmt: skip
def test_invalid_sizes_are_rejected(template: str) -> None:
    """The creation fails with 8192 and uses no id."""
    bench = Bench()
    code, text = bench.refused("one.vm.allocate", template)
    assert (code, "must be a positive" in text) == (8192, True)
    assert bench.new() == 0


def test_a_configuration_changes_by_hotplug_or_at_once() -> None:
    """Protected attributes and the UUID stay unchanged."""
    bench = Bench()
    running, off = bench.running(), bench.running()
    bench.ok("one.vm.action", "poweroff", off)
    bench.advance(5)
    uuid = bench.vm(running).template.vector("OS")["UUID"]
    change = 'CPU=7 FEATURES=[ACPI="no"] OS=[BOOT="disk0"]'
    bench.ok("one.vm.updateconf", running, change)
    assert bench.path(running) == [(3, 17), RUNNING]
    assert bench.vm(running).template.vector("OS") == {"BOOT": "disk0", "UUID": uuid}
    assert bench.vm(running).template.get("CPU") == "1"
    bench.ok("one.vm.updateconf", off, change)
    assert bench.state(off) == OFF
    bench.ok("one.vm.action", "terminate", off)
    bench.advance(5)
    assert bench.refused("one.vm.updateconf", off, change)[0] == 8192


def test_a_busy_reactor_gets_its_turns() -> None:
    """Due events are processed a few at a time, in order, and none is lost."""
    bench = Bench(settings=EmbeddedSettings(events_per_turn=3))
    vm_ids = [bench.new() for _ in range(20)]
    for vm_id in vm_ids:
        bench.ok("one.vm.deploy", vm_id, 0)
    turns: list[float] = []
    bench.cloud.world.agenda.after_turn = lambda: turns.append(bench.clock.seconds())
    bench.advance(1.5)
    assert {bench.state(vm_id) for vm_id in vm_ids} == {RUNNING}
    assert len(turns) >= 20


def test_delays_can_be_configured() -> None:
    """A factor lengthens every state, and memory lengthens those that transfer it."""
    delays = Delays(factor=2.0, memory_mib_s=256)
    bench = Bench(settings=EmbeddedSettings(delays=delays))
    vm_id = bench.new(SMALL)
    bench.ok("one.vm.deploy", vm_id, 0)
    bench.advance(2.0)
    assert bench.state(vm_id) == (3, 2)
    bench.advance(1.0)
    bench.ok("one.vm.migrate", vm_id, 1, True)
    bench.advance(6.0)
    assert bench.state(vm_id) == (3, 4)
    bench.advance(0.3)
    assert bench.state(vm_id) == RUNNING


def test_jitter_comes_only_from_the_generator() -> None:
    """The same seed gives the same times, and other seeds give others."""

    def times(seed: int) -> list[tuple[int, int]]:
        settings = replace(EmbeddedSettings(), delays=Delays(jitter=0.5))
        bench = Bench(settings=settings, seed=seed)
        vm_ids = [bench.new() for _ in range(8)]
        for vm_id in vm_ids:
            bench.ok("one.vm.deploy", vm_id, 0)
        bench.advance(1.0)
        return [bench.state(vm_id) for vm_id in vm_ids]

    assert times(1) == times(1)
    assert len({tuple(times(seed)) for seed in range(5)}) > 1


def test_a_resize_keeps_the_resched_flag() -> None:
    """A resize moves nothing, and a migration clears the flag."""
    bench = Bench()
    vm_id = bench.running()
    bench.ok("one.vm.action", "resched", vm_id)
    bench.ok("one.vm.resize", vm_id, "CPU=2 MEMORY=1024 VCPU=2", False)
    bench.advance(10)
    assert bench.vm(vm_id).resched == 1
    bench.ok("one.vm.migrate", vm_id, 1, True)
    bench.advance(10)
    assert bench.vm(vm_id).resched == 0
