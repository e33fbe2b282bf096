"""Memory across a host: freed first, then allocated, and never more than the host has."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Balloon, Deploy, Migrate, Resume, Snapshot, VmState
from merkatd.cluster.plan import step_id
from merkatd.limits.balloon_steps import MemoryPool, MemorySource
from tests.clouds import cloud, hosts_table, vms_table
from tests.limits.hosts import (
    MEMORY,
    confirmed,
    decide_shares,
    limits_of,
    measured,
    one_host,
)
from tests.limits.hosts import make_decision as decided


def test_free_memory_is_taken_without_waiting() -> None:
    """Only larger amounts wait for the steps that free memory, in their order."""
    pool = MemoryPool(100)
    pool.add(MemorySource(50, "first"))
    pool.add(MemorySource(50, "second"))
    assert pool.take(100) == ()
    assert pool.take(40) == ("first",)
    assert pool.take(20) == ("first", "second")
    assert pool.left_mib == 40


def test_an_overfull_host_recovers_before_it_gives_memory() -> None:
    """A taker waits for every step that brings the host back within its capacity."""
    pool = MemoryPool(-60)
    for name in ("first", "second", "third"):
        pool.add(MemorySource(50, name))
    assert pool.left_mib == 90
    assert pool.take(30) == ("first", "second")
    assert pool.take(60) == ("first", "second", "third")


def test_each_taker_waits_only_for_its_own_sources() -> None:
    """The sources that the first taker used up do not delay the second one."""
    pool = MemoryPool(0)
    pool.add(MemorySource(50, "first"))
    pool.add(MemorySource(50, "second"))
    assert pool.take(50) == ("first",)
    assert pool.take(50) == ("second",)


def test_taking_nothing_waits_for_nothing() -> None:
    """A taker of zero does not wait if memory is free."""
    assert MemoryPool(10).take(0) == ()


def two_guests(capacity_mib: float, held: Sequence[float]) -> Snapshot:
    """Return two VMs of 4,096 MiB with floors of 512 on one host."""
    return one_host(
        [400.0, capacity_mib],
        bid=[[1.0, 1.0], [1.0, 3.0]],
        cap=np.tile([100.0, 4096.0], (2, 1)),
        floor=np.tile([0.0, 512.0], (2, 1)),
        held=[[np.nan, held[0]], [np.nan, held[1]]],
    )


def test_growing_waits_for_shrinking() -> None:
    """On a full host one VM shrinks, and the other grows after the confirmation."""
    snapshot = two_guests(4096.0, [2048.0, 2048.0])
    limits = limits_of(snapshot, decide_shares(snapshot), measured(snapshot, [0.0, 0.0]))
    shrink, grow = limits.plan.of(Balloon)
    assert (shrink.vm, shrink.memory_mib, shrink.after) == (0, 1024, ())
    assert (grow.vm, grow.memory_mib, grow.after) == (1, 3072, (shrink.id,))


def test_growing_into_free_memory_does_not_wait() -> None:
    """Free memory is given at once, beside a VM that shrinks."""
    snapshot = two_guests(5120.0, [2048.0, 2048.0])
    decision = decided(snapshot, np.array([[100.0, 1024.0], [100.0, 3072.0]]))
    limits = limits_of(snapshot, decision, measured(snapshot, [0.0, 0.0]))
    assert {step.vm: step.after for step in limits.plan.of(Balloon)} == {0: (), 1: ()}


def test_a_full_host_gives_nothing_until_memory_is_freed() -> None:
    """If no VM can shrink, no VM grows, whatever the shares are."""
    snapshot = two_guests(4096.0, [2048.0, 2048.0])
    limits = limits_of(snapshot, decide_shares(snapshot), measured(snapshot, [2000.0, 0.0]))
    assert not limits.plan.of(Balloon)


def test_guests_without_a_balloon_get_no_steps() -> None:
    """Their held memory is reported, and the others share the remaining memory."""
    snapshot = two_guests(4096.0, [3000.0, 1096.0])
    in_force = measured(snapshot, [0.0, 0.0], balloon=np.array([False, True]))
    limits = limits_of(snapshot, decide_shares(snapshot), in_force)
    assert not limits.plan.of(Balloon)
    assert limits.holding_mib == {0: 3000}


def test_floors_that_do_not_fit_are_kept_and_reported() -> None:
    """Shares are scaled below such floors, and balloons are not."""
    snapshot = two_guests(768.0, [4096.0, 4096.0])
    in_force = measured(snapshot, [0.0, 0.0])
    for _ in range(8):
        limits = limits_of(snapshot, decide_shares(snapshot), in_force)
        assert all(step.memory_mib >= 512 for step in limits.plan.of(Balloon))
        assert list(limits.overfull) == [0]
        snapshot, in_force = confirmed(snapshot, in_force, limits.plan.steps)
    assert snapshot.vms.held[:, MEMORY].tolist() == [512.0, 512.0]
    assert limits.overfull[0] == (
        "host0 is overfull: its VMs need at least 1,024 MiB of memory, and it has 768 for them"
    )


def test_a_vm_below_its_floor_is_raised_first_and_at_once() -> None:
    """It reaches its floor in one step or not yet, and other VMs wait for it."""
    snapshot = one_host(
        [400.0, 5000.0],
        bid=[[1.0, 1.0]] * 3,
        cap=np.tile([100.0, 4096.0], (3, 1)),
        floor=[[0.0, 0.0], [0.0, 2000.0], [0.0, 0.0]],
        held=[[np.nan, 4000.0], [np.nan, 500.0], [np.nan, 300.0]],
    )
    decision = decided(snapshot, np.array([[100.0, 3900.0], [100.0, 2000.0], [100.0, 1000.0]]))
    in_force = measured(snapshot, [2000.0, 0.0, 300.0])
    seen = []
    for _ in range(2):
        limits = limits_of(snapshot, decision, in_force)
        seen.append({step.vm: step.memory_mib for step in limits.plan.of(Balloon)})
        snapshot, in_force = confirmed(snapshot, in_force, limits.plan.steps)
    assert seen == [{0: 2976}, {0: 2554, 1: 2000, 2: 445}]


def deploying(held_mib: float) -> tuple[Snapshot, Deploy]:
    """Return VM 0 on a host of 4,096 MiB, and VM 1 to be deployed with a floor of 1,024."""
    snapshot = one_host(
        [400.0, 4096.0],
        bid=[[1.0, 1.0], [1.0, 1.0]],
        cap=np.tile([100.0, 4096.0], (2, 1)),
        floor=[[0.0, 512.0], [0.0, 1024.0]],
        held=[[np.nan, held_mib], [np.nan, np.nan]],
        host=np.array([0, -1]),
    )
    return snapshot, Deploy(period=1, vm=1, host=0, reason="new")


def test_a_deployment_waits_for_the_balloon_that_makes_room() -> None:
    """The deployment comes after the step that frees the VM's floor."""
    snapshot, deploy = deploying(4096.0)
    limits = limits_of(snapshot, decide_shares(snapshot, deploy), measured(snapshot, [0.0, np.nan]))
    shrink, begun = sorted(limits.plan.of(Balloon), key=lambda step: step.vm)
    assert (shrink.vm, shrink.memory_mib) == (0, 3072)
    assert limits.plan.of(Deploy)[0].after == (shrink.id,)
    # It boots with its full size, and its balloon goes at once to the least that fits.
    assert (begun.vm, begun.memory_mib, begun.after) == (1, 1024, (deploy.id,))
    assert not limits.postponed


@pytest.mark.parametrize(
    ("free", "expected"), [(1024, 1024), (1500, 1488), (3596, 2048), (6000, 2048)]
)
def test_a_starting_vm_gets_free_memory_up_to_its_share(free: int, expected: int) -> None:
    """The balloon waits for no step; the rest is added in later periods."""
    snapshot, deploy = deploying(500.0)
    snapshot = replace(snapshot, hosts=hosts_table(np.array([[400.0, 500.0 + free]])))
    decision = decided(snapshot, np.array([[100.0, 500.0], [100.0, 2048.0]]), deploy)
    limits = limits_of(snapshot, decision, measured(snapshot, [0.0, np.nan]))
    assert [step.memory_mib for step in limits.plan.of(Balloon) if step.vm == 1] == [expected]


def test_a_starting_vm_whose_full_size_fits_gets_no_balloon_step() -> None:
    """The host has room for its full size."""
    snapshot, deploy = deploying(500.0)
    snapshot = replace(snapshot, hosts=hosts_table(np.array([[400.0, 8192.0]])))
    decision = decided(snapshot, np.array([[100.0, 500.0], [100.0, 4096.0]]), deploy)
    limits = limits_of(snapshot, decision, measured(snapshot, [0.0, np.nan]))
    assert not [step for step in limits.plan.of(Balloon) if step.vm == 1]


def test_a_starting_vm_above_its_cap_gets_a_balloon_step() -> None:
    """A guest boots with all its memory, and its balloon goes at once to its cap."""
    snapshot, deploy = deploying(500.0)
    snapshot = replace(snapshot, hosts=hosts_table(np.array([[400.0, 8192.0]])))
    decision = decided(snapshot, np.array([[100.0, 500.0], [100.0, 4096.0]]), deploy)
    in_force = measured(snapshot, [0.0, np.nan], size_mib=np.array([4096.0, 8192.0]))
    limits = limits_of(snapshot, decision, in_force)
    assert [step.memory_mib for step in limits.plan.of(Balloon) if step.vm == 1] == [4096]


def test_a_deployment_is_postponed_until_enough_can_be_freed() -> None:
    """It is left out with a reason while other VMs shrink, and it follows later."""
    snapshot, deploy = deploying(4096.0)
    snapshot = replace(snapshot, hosts=hosts_table(np.array([[400.0, 3500.0]])))
    in_force = measured(snapshot, [0.0, np.nan])
    limits = limits_of(snapshot, decide_shares(snapshot, deploy), in_force)
    assert limits.postponed == {
        1: "needs 1,024 MiB on host0, 596 MiB more than this period can free there"
    }
    assert not limits.plan.of(Deploy)
    assert not [step for step in limits.plan if step.vm == 1]
    snapshot, in_force = confirmed(snapshot, in_force, limits.plan.steps)
    deploy = replace(deploy, period=snapshot.period)
    limits = limits_of(snapshot, decide_shares(snapshot, deploy), in_force)
    assert limits.plan.of(Deploy)
    assert not limits.postponed


@pytest.mark.parametrize(
    ("floor", "held", "least"),
    [(512.0, 3072.0, 2048), (512.0, 2100.0, 2048), (3000.0, 3072.0, 3000)],
)
def test_a_resumed_vm_waits_for_the_memory_it_returns_with(
    floor: float, held: float, least: int
) -> None:
    """The host frees its floor of 1,024 MiB, and as much of the rest as others can give.

    Steps of any size make room, but no floor is broken.
    """
    snapshot = one_host(
        [400.0, 4096.0],
        bid=[[1.0, 1.0], [1.0, 1.0]],
        cap=[[100.0, 4096.0], [100.0, 2048.0]],
        floor=[[0.0, floor], [0.0, 1024.0]],
        held=[[np.nan, held], [np.nan, np.nan]],
        state=[int(VmState.RUNNING), int(VmState.SUSPENDED)],
    )
    resume = Resume(period=1, vm=1, reason="its owner asked for it")
    shares = np.array([[100.0, 3072.0], [100.0, 1024.0]])
    limits = limits_of(
        snapshot, decided(snapshot, shares, resume), measured(snapshot, [0.0, np.nan])
    )
    (shrink,) = limits.plan.of(Balloon)
    assert (shrink.vm, shrink.memory_mib) == (0, least)
    assert limits.plan.of(Resume)[0].after == (shrink.id,)
    assert not limits.postponed


def test_small_balloon_steps_are_sent_if_they_make_room() -> None:
    """A step that is too small by itself is sent for a VM that needs the memory."""
    snapshot, deploy = deploying(3100.0)
    decision = decided(snapshot, np.array([[100.0, 3072.0], [100.0, 1024.0]]), deploy)
    limits = limits_of(snapshot, decision, measured(snapshot, [0.0, np.nan]))
    (shrink,) = [step for step in limits.plan.of(Balloon) if step.vm == 0]
    assert shrink.memory_mib == 3072
    assert limits.plan.of(Deploy)[0].after == (shrink.id,)


@settings(deadline=None)
@given(st.integers(1, 63))
def test_small_balloon_steps_are_sent_if_they_keep_a_floor(missing_mib: int) -> None:
    """A VM below its floor on a full host is raised to it, however small the step is."""
    snapshot = one_host(
        [400.0, 4096.0],
        bid=[[1.0, 1.0], [1.0, 1.0]],
        cap=np.tile([100.0, 4096.0], (2, 1)),
        floor=[[0.0, 2048.0], [0.0, 0.0]],
        held=[[np.nan, 2048.0 - missing_mib], [np.nan, 2048.0 + missing_mib]],
    )
    limits = limits_of(snapshot, decide_shares(snapshot), measured(snapshot, [0.0, 0.0]))
    shrink, lift = limits.plan.of(Balloon)
    assert (shrink.vm, shrink.memory_mib) == (1, 2048)
    assert (lift.vm, lift.memory_mib, lift.after) == (0, 2048, (shrink.id,))


def exchange(held: Sequence[float]) -> Snapshot:
    """Return two full hosts of 2,048 MiB with a VM each, and a third one, empty and large."""
    return cloud(
        hosts_table(np.array([[400.0, 2048.0], [400.0, 2048.0], [400.0, 65536.0]])),
        vms_table(
            [0, 1],
            np.ones((2, 2)),
            np.tile([100.0, 2048.0], (2, 1)),
            held=np.array([[np.nan, held[0]], [np.nan, held[1]]]),
        ),
    )


def test_a_leaving_vm_makes_room_for_the_next_one() -> None:
    """A migration that waits for the target to empty needs no balloon step."""
    snapshot = exchange([2048.0, 2048.0])
    leave = Migrate(period=1, vm=1, source=1, host=2, reason="")
    come = Migrate(period=1, vm=0, source=0, host=1, reason="", after=(leave.id,))
    decision = decided(snapshot, np.full((2, 2), 2048.0), leave, come)
    limits = limits_of(snapshot, decision, measured(snapshot, [2000.0, 2000.0]))
    assert [step.vm for step in limits.plan.of(Migrate)] == [1, 0]
    assert not limits.postponed


def test_a_leaving_vm_makes_room_only_once_and_on_its_own_host() -> None:
    """Neither a second VM nor a VM for another full host can use the same memory."""
    snapshot = cloud(
        hosts_table(np.array([[400.0, 2048.0], [400.0, 2048.0], [400.0, 65536.0]])),
        vms_table(
            [0, 1, 2, 2],
            np.ones((4, 2)),
            np.tile([100.0, 2048.0], (4, 1)),
            held=np.array([[np.nan, 2048.0], [np.nan, 2048.0], [np.nan, 1500.0], [np.nan, 1500.0]]),
        ),
    )
    in_force = measured(snapshot, [2000.0, 2000.0, 1500.0, 1500.0])
    leave = Migrate(period=1, vm=1, source=1, host=2, reason="")
    for hosts, kept in (((1, 1), [1, 2]), ((0, 1), [1, 3])):
        moves = [
            Migrate(period=1, vm=vm, source=2, host=host, reason="", after=(leave.id,))
            for vm, host in zip((2, 3), hosts, strict=True)
        ]
        decision = decided(snapshot, np.full((4, 2), 2048.0), leave, *moves)
        limits = limits_of(snapshot, decision, in_force)
        assert [step.vm for step in limits.plan.of(Migrate)] == kept
        assert len(limits.postponed) == 1


def test_a_step_that_waits_for_a_postponed_step_is_postponed() -> None:
    """The reason names the VM that it waits for."""
    snapshot = exchange([2048.0, 2048.0])
    stuck = Migrate(period=1, vm=1, source=1, host=0, reason="")
    behind = Migrate(period=1, vm=0, source=0, host=1, reason="", after=(stuck.id,))
    decision = decided(snapshot, np.full((2, 2), 2048.0), stuck, behind)
    limits = limits_of(snapshot, decision, measured(snapshot, [2000.0, 2000.0]))
    assert not limits.plan.of(Migrate)
    assert limits.postponed[0] == "waits for VM 1, which can't make room yet"


def test_a_migrating_guest_shrinks_before_it_leaves() -> None:
    """It takes along no more memory than its new host has for it."""
    snapshot = exchange([2048.0, 1024.0])
    move = Migrate(period=1, vm=0, source=0, host=1, reason="")
    decision = decided(snapshot, np.array([[100.0, 1024.0], [100.0, 1024.0]]), move)
    in_force = measured(snapshot, [0.0, 0.0])
    first = limits_of(snapshot, decision, in_force)
    assert list(first.postponed) == [0]
    snapshot, in_force = confirmed(snapshot, in_force, first.plan.steps)
    move = replace(move, period=2)
    decision = decided(snapshot, decision.allocations, move)
    second = limits_of(snapshot, decision, in_force)
    assert second.plan.of(Migrate)[0].after == (step_id(2, "balloon", 0),)
