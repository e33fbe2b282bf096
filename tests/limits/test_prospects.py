"""VMs that wait for memory: which of them have prospects of getting it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from merkatd.cluster import Balloon, Deploy, HostState, Migrate, Snapshot, Terminate, VmState
from merkatd.limits import EnforcedLimits, LimitsSettings, plan_limits
from tests.clouds import cloud, hosts_table, vms_table
from tests.limits.hosts import confirmed, decide_shares, limits_of, make_decision, measured


def guests(
    host: Sequence[int], held: Sequence[float], hosts: Sequence[float], floor: float = 0.0
) -> Snapshot:
    """Return guests of 8,192 MiB that hold given amounts, on hosts of given memory."""
    count = len(host)
    return cloud(
        hosts_table(np.array([[400.0, memory] for memory in hosts])),
        vms_table(
            host,
            np.ones((count, 2)),
            np.tile([100.0, 8192.0], (count, 1)),
            floor=np.tile([0.0, floor], (count, 1)),
            held=np.array([[np.nan, amount] for amount in held]),
        ),
    )


def move(vm: int, source: int, host: int) -> Migrate:
    """Return a migration in period 1 that waits for no other one."""
    return Migrate(period=1, vm=vm, source=source, host=host, reason="")


def test_a_vm_that_leaves_by_the_same_plan_makes_room_later() -> None:
    """If a VM is about to leave a full host, the VM that comes has prospects."""
    snapshot = guests([0, 1], [2048.0, 2048.0], [2048.0, 2048.0, 4096.0])
    decision = make_decision(snapshot, np.full((2, 2), 2048.0), move(0, 0, 1), move(1, 1, 2))
    limits = limits_of(snapshot, decision, measured(snapshot, [2000.0, 2000.0]))
    assert limits.postponed.keys() == {0}
    assert not limits.hopeless


def test_a_waiting_vm_makes_room_for_the_next_one() -> None:
    """In a chain of VMs that wait for each other, all have prospects if the first one has."""
    snapshot = guests([0, 1, 2], [2048.0, 2500.0, 4096.0], [2048.0, 2500.0, 4096.0])
    decision = make_decision(snapshot, np.full((3, 2), 1024.0), move(0, 0, 1), move(1, 1, 2))
    limits = limits_of(snapshot, decision, measured(snapshot, [2000.0, 2490.0, 10.0]))
    assert limits.postponed.keys() == {0, 1}
    assert not limits.hopeless


def test_vms_that_change_places_need_room_beside_each_other() -> None:
    """If two VMs are to change places and no balloon can give enough, neither has prospects."""
    snapshot = guests([0, 1], [2000.0, 2000.0], [2048.0, 2048.0])
    decision = make_decision(snapshot, np.full((2, 2), 2048.0), move(0, 0, 1), move(1, 1, 0))
    limits = limits_of(snapshot, decision, measured(snapshot, [1900.0, 1900.0]))
    assert limits.hopeless == {0: frozenset({1}), 1: frozenset({0})}
    assert limits.postponed[0] == (
        "needs at least 2,000 MiB on host1, and balloons can't free that:"
        " the other VMs there keep their floors and the memory they use"
    )


def test_a_vm_without_prospects_gets_all_hosts_without_room() -> None:
    """All hosts that can never take a VM are known at once, not one in each attempt."""
    snapshot = guests([0, 1, 2, 3], [2000.0] * 4, [2048.0, 2048.0, 2048.0, 8192.0])
    decision = make_decision(snapshot, np.full((4, 2), 2048.0), move(0, 0, 1))
    limits = limits_of(snapshot, decision, measured(snapshot, [1900.0] * 4))
    assert limits.hopeless == {0: frozenset({1, 2})}


def test_vms_that_wait_for_each_other_both_get_their_places() -> None:
    """While VMs wait to change places, balloons make room for each beside the other."""
    snapshot = guests([0, 1, 0, 1], [3000.0, 3000.0, 1000.0, 1000.0], [4096.0, 4096.0])
    in_force: EnforcedLimits = measured(snapshot, [10.0] * 4)
    for _ in range(8):
        limits = plan_limits(
            snapshot, decide_shares(snapshot), in_force, {}, LimitsSettings(), coming={0: 1, 1: 0}
        )
        snapshot, in_force = confirmed(snapshot, in_force, limits.plan.of(Balloon))
    held = snapshot.vms.held[:, 1]
    assert held[0] + held[1] + held[3] <= 4096


@pytest.mark.parametrize("free", [2048.0, 1000.0])
def test_a_vm_that_starts_and_ends_in_one_plan_needs_room_on_its_own_host(free: float) -> None:
    """Room is reserved on the host of the deployment, not on another host."""
    snapshot = cloud(
        hosts_table(
            np.array([[400.0, free], [400.0, 2048.0]]), state=np.full(2, int(HostState.ON))
        ),
        vms_table(
            [-1, 1],
            np.ones((2, 2)),
            np.tile([100.0, 2048.0], (2, 1)),
            floor=np.array([[0.0, 1500.0], [0.0, 0.0]]),
            held=np.array([[np.nan, np.nan], [np.nan, 2048.0]]),
            state=np.array([int(VmState.PENDING), int(VmState.RUNNING)]),
        ),
    )
    plan = (
        Deploy(period=1, vm=0, host=0, reason=""),
        Terminate(period=1, vm=0, reason=""),
    )
    decision = make_decision(snapshot, np.full((2, 2), 2048.0), *plan)
    limits = limits_of(snapshot, decision, measured(snapshot, [np.nan, 2000.0]))
    assert bool(limits.plan.of(Deploy)) == (free >= 1500.0)
    assert all("host0" in why for why in limits.postponed.values())


def test_a_vm_that_must_leave_its_host_gets_room_first() -> None:
    """A migration for gain takes no room that a VM of a drained host needs."""
    snapshot = guests([0, 1], [2048.0, 2048.0], [4096.0, 4096.0, 3000.0])
    state = np.array([int(HostState.ON), int(HostState.DRAINED), int(HostState.ON)])
    snapshot = replace(snapshot, hosts=replace(snapshot.hosts, state=state))
    decision = make_decision(snapshot, np.full((2, 2), 2048.0), move(0, 0, 2), move(1, 1, 2))
    limits = limits_of(snapshot, decision, measured(snapshot, [2000.0, 2000.0]))
    assert [step.vm for step in limits.plan.of(Migrate)] == [1]
    assert limits.postponed.keys() == {0}
