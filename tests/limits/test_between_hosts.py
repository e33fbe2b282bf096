"""A migrating VM keeps its memory on both hosts, and none of it is allocated to others."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from merkatd.cluster import Balloon, Deploy, Migrate, Snapshot, VmState
from tests.clouds import cloud, hosts_table, vms_table
from tests.limits.hosts import limits_of, make_decision, measured

SIZE, FLOOR, HOST = 8192.0, 1024.0, 12_288.0
LEAVES, STAYS, NEW = 0, 1, 2


def between(holds: float = 6144.0, stays: float = 4096.0, **columns: Any) -> Snapshot:
    """Return a cloud in which VM 0 migrates from host 0 to host 1.

    VM 1 runs on host 0, VM 2 is new, and the floor of VM 0 is reserved on host 0.
    """
    state = [int(VmState.BUSY), int(VmState.RUNNING), int(VmState.PENDING)]
    return cloud(
        hosts_table(np.array([[800.0, HOST - FLOOR], [800.0, HOST]])),
        vms_table(
            [1, 0, -1],
            np.ones((3, 2)),
            np.tile([100.0, SIZE], (3, 1)),
            **{
                "floor": np.tile([0.0, FLOOR], (3, 1)),
                "held": np.array([[np.nan, amount] for amount in (holds, stays, np.nan)]),
                "state": np.array(state),
                "source": np.array([0, -1, -1]),
                **columns,
            },
        ),
    )


def on_host_0(snapshot: Snapshot, *steps: Deploy, used: float = 500.0) -> Any:
    """Return the limits when host 0's VMs are due all its memory except for the leaving VM's."""
    decision = make_decision(snapshot, np.full((3, 2), SIZE), *steps)
    return limits_of(snapshot, decision, measured(snapshot, [500.0, used, np.nan]))


def balloon_targets(limits: Any) -> dict[int, int]:
    """Return the balloon target of each VM that gets one."""
    return {step.vm: step.memory_mib for step in limits.plan.of(Balloon)}


COMES = Deploy(period=1, vm=NEW, host=0, reason="")


def test_balloons_leave_the_memory_of_a_leaving_vm_alone() -> None:
    """VM 1 grows only into the memory beside VM 0's 6,144 MiB until VM 0 has left."""
    assert balloon_targets(on_host_0(between())) == {STAYS: HOST - 6144}
    assert balloon_targets(on_host_0(between(holds=HOST - 4096))) == {}
    assert balloon_targets(on_host_0(between(holds=FLOOR))) == {STAYS: 4096 + SIZE / 4}


def test_a_new_vm_gets_only_free_memory_beside_a_leaving_vm() -> None:
    """It starts with 12,288 - 6,144 - 4,096 = 2,048 MiB, and VM 1 gives it more later."""
    assert balloon_targets(on_host_0(between(), COMES)) == {NEW: 2048, STAYS: 4096 - 1024}


def test_a_new_vm_waits_for_the_memory_of_a_leaving_vm() -> None:
    """VM 1 uses all its memory; VM 2 starts once VM 0 has left, so it is not hopeless."""
    snapshot = between(holds=HOST - 4096 - 100)
    limits = on_host_0(snapshot, COMES, used=4096)
    assert limits.postponed.keys() == {NEW}
    assert not limits.plan.of(Deploy)
    assert limits.hopeless == {}


def test_a_host_that_a_vm_leaves_is_not_overfull() -> None:
    """The floors fit, because VM 0 frees its memory on the host when it has left."""
    limits = on_host_0(between(holds=SIZE), COMES, used=4096)
    assert limits.overfull == {}


def test_an_overfull_host_has_the_memory_of_a_leaving_vm_too() -> None:
    """VM 0 holds 2,048 MiB beyond its reserve: the 512 of the host are all there for VM 1."""
    snapshot = between(holds=FLOOR + 2048)
    capacity = snapshot.hosts.capacity.copy()
    capacity[0, 1] = 512.0
    limits = on_host_0(replace(snapshot, hosts=hosts_table(capacity)))
    assert limits.overfull.keys() == {0}
    assert limits.overfull[0].endswith("and it has 512 for them")


@pytest.mark.parametrize("holds", [SIZE, np.nan])
def test_a_migrating_vm_outside_of_markets_reserves_its_size_once(holds: float) -> None:
    """Its size is reserved on both hosts, so VM 1 gets the remaining 4,096 MiB of host 0."""
    snapshot = between(
        holds,
        stays=2048.0,
        floor=np.array([[0.0, SIZE], [0.0, FLOOR], [0.0, FLOOR]]),
        market=np.array([-1, 0, 0]),
    )
    capacity = snapshot.hosts.capacity.copy()
    capacity[0, 1] = HOST - SIZE
    hosts = hosts_table(capacity)
    limits = on_host_0(cloud(hosts, snapshot.vms))
    assert balloon_targets(limits) == {STAYS: 4096}


def test_arrivals_leave_each_other_the_room_of_vms_that_leave() -> None:
    """VM 2 comes after both departures, VM 3 only after the larger one, which leaves it half."""
    held = np.array([[100.0, 2048.0], [100.0, 1024.0], [100.0, 2048.0], [100.0, 2048.0]])
    hosts = hosts_table(np.array([[400.0, 65536.0], [400.0, 4096.0], [400.0, 65536.0]]))
    snapshot = cloud(hosts, vms_table([1, 1, 0, 0], np.ones((4, 2)), held, held=held))
    large, small = (Migrate(period=1, vm=vm, source=1, host=2, reason="") for vm in (0, 1))
    moves = [
        Migrate(period=1, vm=vm, source=0, host=1, reason="", after=after)
        for vm, after in ((2, (large.id, small.id)), (3, (large.id,)))
    ]
    decision = make_decision(snapshot, held, large, small, *moves)
    limits = limits_of(snapshot, decision, measured(snapshot, held[:, 1].tolist()))
    assert {step.vm for step in limits.plan.of(Migrate)} == {0, 1, 2, 3}
