"""A VM that is being migrated holds its memory on both hosts, and nothing of it is given away."""

from typing import Any

import numpy as np
import pytest

from merkatd.cluster import Balloon, Deploy, Snapshot, VmState
from tests.clouds import cloud, hosts_table, vms_table
from tests.limits.hosts import given, limits_of, measured

SIZE, FLOOR, HOST = 8192.0, 1024.0, 12_288.0
LEAVES, STAYS, NEW = 0, 1, 2


def between(holds: float = 6144.0, stays: float = 4096.0, **columns: Any) -> Snapshot:
    """VM 0 goes from host 0 to host 1 and holds so much; VM 1 is on host 0, and VM 2 is new.

    The floor of VM 0 is reserved on host 0.
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
    """The limits where the VMs on host 0 are due its whole memory less that of the leaving VM."""
    decision = given(snapshot, np.full((3, 2), SIZE), *steps)
    return limits_of(snapshot, decision, measured(snapshot, [500.0, used, np.nan]))


def told(limits: Any) -> dict[int, int]:
    """By VM id: what its balloon is told."""
    return {step.vm: step.memory_mib for step in limits.plan.of(Balloon)}


COMES = Deploy(period=1, vm=NEW, host=0, reason="")


def test_a_balloon_takes_nothing_of_what_a_vm_that_leaves_still_holds() -> None:
    """VM 1 grows to what is free beside the 6,144 MiB: it could have 8,192 once VM 0 has gone."""
    assert told(on_host_0(between())) == {STAYS: HOST - 6144}
    assert told(on_host_0(between(holds=HOST - 4096))) == {}
    assert told(on_host_0(between(holds=FLOOR))) == {STAYS: 4096 + SIZE / 4}


def test_a_new_vm_has_only_what_is_free_beside_it() -> None:
    """It starts with its floor and the rest: 12,288 - 6,144 - 4,096. VM 1 gives it more later."""
    assert told(on_host_0(between(), COMES)) == {NEW: 2048, STAYS: 4096 - 1024}


def test_a_new_vm_waits_for_what_a_vm_that_leaves_holds_and_has_prospects() -> None:
    """VM 1 uses all that it holds. VM 2 comes once VM 0 has gone: that is not called never."""
    snapshot = between(holds=HOST - 4096 - 100)
    limits = on_host_0(snapshot, COMES, used=4096)
    assert limits.postponed.keys() == {NEW}
    assert not limits.plan.of(Deploy)
    assert limits.hopeless == {}


def test_a_host_from_which_a_vm_goes_is_not_overfull() -> None:
    """The floors fit the host, and VM 0 frees its memory there when it has left."""
    limits = on_host_0(between(holds=SIZE), COMES, used=4096)
    assert limits.overfull == {}


@pytest.mark.parametrize("holds", [SIZE, np.nan])
def test_all_of_a_vm_outside_every_market_is_reserved_once(holds: float) -> None:
    """Its size is reserved on both hosts: 4,096 are left on host 0, and VM 1 has them."""
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
    assert told(limits) == {STAYS: 4096}
