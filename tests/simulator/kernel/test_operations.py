"""Operations take the measured times, move the computed volumes, and stop the guest or not."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from merkatd.cluster import (
    Deploy,
    FailureRates,
    Limit,
    Migrate,
    Plan,
    Resume,
    Sleep,
    Step,
    Stop,
    Suspend,
    Terminate,
    Wake,
)
from simulator.kernel.data_center import DataCenter, KernelRhythm, distances, tree_of_hosts
from simulator.kernel.event_queue import EventKind
from simulator.kernel.kernel_deciders import KernelMoment, KernelOrders
from simulator.kernel.kernel_run import KernelRun
from simulator.kernel.kernel_state import GuestPhase, check_conservation
from simulator.kernel.migration_volume import MIB_S_PER_MBPS, live_volume
from simulator.model.simulated_cloud import OperationCosts
from tests.simulator.kernel.small_centers import requests

COSTS = OperationCosts()
MEMORY = 1000.0
WORK_S = 500.0
BOOT_S = COSTS.boot_s
SAVE_S, CONTINUE_S = COSTS.suspend_s(MEMORY), COSTS.resume_s(MEMORY)
MOVE_S = COSTS.migrate_s(MEMORY)


class Script:
    """Orders these steps in these periods, counted from 0."""

    history_samples = 0

    def __init__(self, steps: Mapping[int, list[Step]]) -> None:
        self._steps = steps

    def decide(self, moment: KernelMoment) -> KernelOrders:
        """Return the steps of the period."""
        return KernelOrders(plan=Plan(tuple(self._steps.get(moment.period - 1, ()))))


def step(kind: type[Step], period: int, vm: int = 0, **fields: Any) -> Step:
    """Return a step with a reason."""
    if kind not in {Sleep, Wake}:
        fields["vm"] = vm
    return kind(period=period, reason="the script says so", **fields)


def center(**parts: Any) -> DataCenter:
    """Return three hosts of two groups, one VM's size each, with a period of 100 s."""
    given = {"rhythm": KernelRhythm(period_s=100.0, monitor_s=100.0), **parts}
    hosts = tree_of_hosts((2, 2), [100.0, 2.5 * MEMORY], link_mbps=8_000.0)
    return DataCenter(**{"hosts": hosts, **given})


def played(
    steps: Mapping[int, list[Step]], vms: int = 1, span_s: float = 3_000.0, **parts: Any
) -> tuple[KernelRun, list[tuple[float, EventKind, list[GuestPhase]]]]:
    """Run a script; return also the phases of VMs after each event of theirs."""
    asked = requests(np.zeros(vms), WORK_S, [50.0, MEMORY], **parts.pop("asked", {}))
    run = KernelRun(center(**parts), asked, Script(steps), span_s=span_s)
    seen: list[tuple[float, EventKind, list[GuestPhase]]] = []
    while (batch := run.step()) is not None:
        check_conservation(run.state)
        if batch.kind in {EventKind.VM_ENDS, EventKind.OPERATION_ENDS}:
            seen.append((batch.at_s, batch.kind, [GuestPhase(p) for p in run.state.phase.tolist()]))
    return run, seen


def end_s(run: KernelRun, vm: int = 0) -> float:
    """Return when a VM ended."""
    assert run.state.phase[vm] == GuestPhase.ENDED
    return float(run.state.since_s[vm])


def test_a_vm_boots_computes_and_ends() -> None:
    """After the boot it computes for its lifetime; it waited from its arrival to its start."""
    run, seen = played({1: [step(Deploy, 1, host=2)]})
    assert run.state.waited_s[0] == 100.0
    assert seen[0][0] == pytest.approx(100.0 + BOOT_S)
    assert seen[0][2] == [GuestPhase.RUNNING]
    assert end_s(run) == pytest.approx(100.0 + BOOT_S + WORK_S)


def test_a_live_migration_slows_the_guest_and_takes_its_time() -> None:
    """The guest keeps most of its speed while its memory is copied, and has room on both hosts."""
    steps = {0: [step(Deploy, 0, host=0)], 1: [step(Migrate, 1, source=0, host=3)]}
    run, seen = played(steps)
    assert seen[1][0] == pytest.approx(100.0 + MOVE_S)
    lost = (1.0 - COSTS.migrating_speed) * MOVE_S
    assert end_s(run) == pytest.approx(BOOT_S + WORK_S + lost)
    totals = run.operations.totals
    assert (totals.live_migrations, totals.cold_migrations) == (1, 0)
    assert totals.live_volume_mib == MEMORY
    assert totals.by_distance == {2: 1}
    assert run.state.moved_at_s[0] == 200.0, "the next period sees it"


def test_a_live_migration_sends_what_the_guest_writes() -> None:
    """By the equations, over half of the link; a slow link makes it last longer. Disks go too."""
    hosts = tree_of_hosts((2,), [100.0, 2.5 * MEMORY], link_mbps=800.0)
    link = 400.0 * MIB_S_PER_MBPS
    asked = {"dirty_mib_s": np.array([0.5 * link]), "disk_mib": np.array([300.0])}
    steps = {0: [step(Deploy, 0, host=0)], 1: [step(Migrate, 1, source=0, host=1)]}
    run, seen = played(steps, hosts=hosts, asked=asked)
    volume = 300.0 + float(live_volume(np.array(MEMORY), np.array(0.5 * link), np.array(link)))
    assert run.operations.volumes == [pytest.approx(volume)]
    assert seen[1][0] == pytest.approx(100.0 + volume / link)


def test_a_cold_migration_stops_the_guest() -> None:
    """It is saved, moved and continued; the memory is sent once."""
    steps = {0: [step(Deploy, 0, host=0)], 1: [step(Migrate, 1, source=0, host=1, live=False)]}
    run, seen = played(steps, asked={"dirty_mib_s": np.array([90.0])})
    takes_s = SAVE_S + MOVE_S + CONTINUE_S
    assert seen[1][0] == pytest.approx(100.0 + takes_s)
    assert end_s(run) == pytest.approx(BOOT_S + WORK_S + takes_s)
    assert run.operations.totals.cold_volume_mib == MEMORY
    assert run.operations.totals.by_distance == {1: 1}


def test_a_suspended_vm_keeps_its_room_and_continues_there() -> None:
    """While it is saved its host has no room for it again."""
    steps = {
        0: [step(Deploy, 0, host=0), step(Deploy, 0, vm=1, host=0)],
        1: [step(Suspend, 1)],
        2: [step(Deploy, 2, vm=2, host=0)],
        4: [step(Resume, 4)],
    }
    run, seen = played(steps, vms=3)
    assert seen[1][0] == pytest.approx(100.0 + SAVE_S)
    assert seen[1][2][0] is GuestPhase.SUSPENDED
    assert run.operations.totals.refused == 1
    assert end_s(run) == pytest.approx(400.0 + CONTINUE_S + WORK_S - (100.0 - BOOT_S))


def test_a_stopped_vm_waits_for_another_host() -> None:
    """It frees its room, and continues from its saved memory instead of booting."""
    steps = {
        0: [step(Deploy, 0, host=0)],
        1: [step(Stop, 1)],
        3: [step(Deploy, 3, host=2)],
    }
    run, seen = played(steps)
    assert seen[1][0] == pytest.approx(100.0 + SAVE_S)
    assert seen[1][2][0] is GuestPhase.PENDING
    assert run.state.waited_s[0] == pytest.approx(200.0 - SAVE_S)
    assert end_s(run) == pytest.approx(300.0 + CONTINUE_S + WORK_S - (100.0 - BOOT_S))


def test_a_step_that_waits_for_another_is_postponed() -> None:
    """As in the daemon: the next period decides again, when the room is free."""
    leaves = step(Migrate, 1, source=0, host=1)
    follows = step(Deploy, 1, vm=2, host=0, after=(leaves.id,))
    steps = {
        0: [step(Deploy, 0, host=0), step(Deploy, 0, vm=1, host=0)],
        1: [leaves, follows],
        2: [step(Deploy, 2, vm=2, host=0)],
    }
    run, _ = played(steps, vms=3)
    assert run.operations.totals.refused == 0
    assert run.operations.totals.postponed == 1
    assert run.state.waited_s[2] == 200.0


def test_limits_of_guests_hold_up_no_step() -> None:
    """Hosts answer at once: a step that comes after a new limit begins in the same period."""
    quota: dict[str, Any] = {
        "vcpu_quota_us": 1000,
        "global_quota_us": None,
        "quota_period_us": 5000,
        "shares": 1,
    }
    limit = step(Limit, 0, **quota)
    run, _ = played({0: [limit, step(Deploy, 0, host=0, after=(limit.id,))]})
    assert run.operations.totals.deploys == 1
    assert run.operations.totals.postponed == 0


def test_a_vm_that_ends_during_its_migration_ends_on_arrival() -> None:
    """OpenNebula ends no VM meanwhile; it holds its room on both hosts until then."""
    begun_s = WORK_S + BOOT_S - MOVE_S / 2
    steps = {0: [step(Deploy, 0, host=0)], 1: [step(Migrate, 1, source=0, host=1)]}
    run, seen = played(steps, rhythm=KernelRhythm(period_s=begun_s, monitor_s=100.0))
    assert end_s(run) == pytest.approx(begun_s + MOVE_S)
    assert [kind for _, kind, _ in seen][-2:] == [EventKind.OPERATION_ENDS, EventKind.VM_ENDS]
    assert run.operations.totals.live_migrations == 1


def test_of_a_batch_those_start_that_fit_one_after_the_other() -> None:
    """A host takes two VMs, not a third; and no VM starts twice."""
    run, _ = played({}, vms=4, span_s=50.0)
    rows = np.array([0, 1, 1, 2, 3])
    started = run.operations.deploy(rows, np.array([0, 0, 1, 0, 2]))
    assert started.tolist() == [0, 1, 3]
    assert run.state.host.tolist() == [0, 0, -1, 2]
    assert run.operations.totals.refused == 2
    check_conservation(run.state)


def test_a_terminated_vm_is_gone_at_once() -> None:
    """And what was expected of it does not happen."""
    run, seen = played({0: [step(Deploy, 0, host=0)], 1: [step(Terminate, 1)]})
    assert end_s(run) == 100.0
    assert len(seen) == 2
    assert seen[-1][1] is EventKind.VM_ENDS  # the expected end, without an effect
    assert run.state.left_s[0] > 0


def test_a_host_sleeps_and_wakes() -> None:
    """Only without VMs; asleep and while it wakes it takes none."""
    steps = {
        0: [step(Sleep, 0, host=1), step(Deploy, 0, host=0)],
        1: [step(Sleep, 1, host=0), step(Deploy, 1, vm=1, host=1)],
        2: [step(Wake, 2, host=1), step(Wake, 2, host=2)],
        3: [step(Deploy, 3, vm=1, host=1)],
        5: [step(Deploy, 5, vm=1, host=1)],
    }
    run, _ = played(steps, vms=2, wake_s=150.0)
    totals = run.operations.totals
    assert (totals.sleeps, totals.wakes, totals.refused) == (1, 1, 4)
    assert run.state.waited_s[1] == 500.0
    asleep = run.result().columns["asleep_hosts"][:5].tolist()
    assert asleep == [0.0, 1.0, 1.0, 0.0, 0.0]


class TestFailures:
    """What a failure does to VMs."""

    def cut(
        self, steps: Mapping[int, list[Step]], host: int, at_s: float, **parts: Any
    ) -> KernelRun:
        """| Run a script in which a host fails."""
        asked = requests(np.zeros(1), WORK_S, [50.0, MEMORY])
        run = KernelRun(center(**parts), asked, Script(steps), span_s=3_000.0)
        run.queue.prepare(EventKind.UNIT_FAILS, np.array([at_s]), np.array([host]))
        while run.step() is not None:
            check_conservation(run.state)
        return run

    def test_its_vms_begin_again_elsewhere(self) -> None:
        """The work is lost, and the wait counts."""
        steps = {0: [step(Deploy, 0, host=0)], 3: [step(Deploy, 3, host=1)]}
        run = self.cut(steps, 0, 250.0)
        assert run.operations.totals.restarts == 1
        assert run.state.waited_s[0] == 50.0
        assert end_s(run) == pytest.approx(300.0 + BOOT_S + WORK_S)

    def test_a_live_migration_to_it_is_cancelled(self) -> None:
        """The guest goes on at its source, at full speed."""
        steps = {0: [step(Deploy, 0, host=0)], 1: [step(Migrate, 1, source=0, host=1)]}
        run = self.cut(steps, 1, 105.0)
        assert run.operations.totals.restarts == 0
        lost = (1.0 - COSTS.migrating_speed) * 5.0
        assert end_s(run) == pytest.approx(BOOT_S + WORK_S + lost)

    def test_a_cold_migration_to_it_returns(self) -> None:
        """The guest continues at its source."""
        move = step(Migrate, 1, source=0, host=1, live=False)
        run = self.cut({0: [step(Deploy, 0, host=0)], 1: [move]}, 1, 105.0)
        assert run.operations.totals.restarts == 0
        assert end_s(run) == pytest.approx(BOOT_S + WORK_S + 5.0 + CONTINUE_S)

    def test_a_migration_from_it_fails(self) -> None:
        """Without its source there is nothing to copy: the VM begins again."""
        steps = {0: [step(Deploy, 0, host=0)], 1: [step(Migrate, 1, source=0, host=1)]}
        run = self.cut(steps, 0, 105.0)
        assert run.operations.totals.restarts == 1
        assert run.state.phase[0] == GuestPhase.PENDING

    def test_a_repaired_host_takes_vms_again(self) -> None:
        """And not before."""
        rates = FailureRates(kind=("host",), per_year=np.array([0.0]))
        steps: Mapping[int, list[Step]] = {n: [step(Deploy, n, host=0)] for n in range(10)}
        asked = requests([60.0], WORK_S, [50.0, MEMORY])
        run = KernelRun(center(rates=rates), asked, Script(steps), span_s=3_000.0)
        run.queue.prepare(EventKind.UNIT_FAILS, np.array([50.0]), np.array([0]))
        run.queue.prepare(EventKind.UNIT_REPAIRED, np.array([350.0]), np.array([0]))
        run.run()
        assert run.state.waited_s[0] == 340.0


def test_requests_that_fit_nowhere_or_lose_patience_are_rejected() -> None:
    """The first at once, the others after the time that they would wait; lost VMs wait on."""
    asked = requests([0.0, 0.0, 10.0], WORK_S, [[101.0, 1.0], [50.0, MEMORY], [50.0, MEMORY]])
    rhythm = KernelRhythm(period_s=100.0, monitor_s=50.0, patience_s=150.0)
    run = KernelRun(
        center(rhythm=rhythm), asked, Script({0: [step(Deploy, 0, vm=1, host=0)]}), span_s=900.0
    )
    run.queue.prepare(EventKind.UNIT_FAILS, np.array([20.0]), np.array([0]))
    rejected = run.run().columns["rejected"]
    assert rejected[:5].tolist() == [1.0, 1.0, 1.0, 1.0, 2.0]
    assert run.state.phase.tolist() == [
        GuestPhase.REJECTED,
        GuestPhase.PENDING,
        GuestPhase.REJECTED,
    ]


def test_distances_are_the_levels_that_a_message_climbs() -> None:
    """One within a group, two within a cluster, three between clusters (Paper IV, 4.3.1)."""
    topology = tree_of_hosts((2, 2, 2), [1.0]).topology
    rows = np.arange(8)
    assert distances(topology, np.zeros(8, dtype=np.int64), rows).tolist() == [
        1,
        1,
        2,
        2,
        3,
        3,
        3,
        3,
    ]
    flat = tree_of_hosts((3,), [1.0]).topology
    assert distances(flat, np.array([0]), np.array([2])).tolist() == [1]
