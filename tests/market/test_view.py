"""Which VMs take part in a market, and how much of its hosts the market may allocate."""

import numpy as np
import pytest

from merkatd.cluster import HostState, Snapshot, VmState
from merkatd.cluster.columns import NO_HOST
from merkatd.market.error import assess_placement
from merkatd.market.market_view import market_view
from tests.clouds import cloud, hosts_table, tangled, vms_table


def small(**columns: object) -> Snapshot:
    """Return two hosts of 100, with VMs 0 and 1 on the first and VM 2 on the second."""
    return cloud(
        hosts_table(np.full((2, 1), 100.0), **columns.pop("hosts", {})),  # type: ignore[arg-type]
        vms_table(
            np.array([0, 0, 1]),
            np.full((3, 1), 5.0),
            np.full((3, 1), 80.0),
            floor=np.full((3, 1), 10.0),
            **columns,
        ),
    )


def test_vms_without_a_market_reserve_their_full_size() -> None:
    """They neither bid nor shrink, and the market divides the remaining capacity."""
    view = market_view(small(market=np.array([0, -1, 0])), 0)
    assert view.capacity[:, 0].tolist() == [20.0, 100.0]
    assert view.vms.tolist() == [0, 2]


@pytest.mark.parametrize("state", [VmState.SUSPENDED, VmState.POWERED_OFF])
def test_a_vm_that_does_not_run_keeps_its_floor_and_bids_nothing(state: VmState) -> None:
    """A suspended or powered-off VM keeps its floor, because oned still counts it on the host."""
    view = market_view(small(state=np.array([state, VmState.RUNNING, VmState.RUNNING])), 0)
    assert view.bid[:, 0].tolist() == [0.0, 5.0, 5.0]
    assert view.on_hosts(view.place).allocation[:, 0].tolist() == [10.0, 80.0, 80.0]
    assert not view.movable[0]


def test_a_drained_host_serves_its_vms_without_counting_as_capacity() -> None:
    """The VMs of a drained host get their shares until they have left."""
    view = market_view(small(hosts={"state": np.array([HostState.DRAINED, HostState.ON])}), 0)
    assert view.total.tolist() == [100.0]
    assert view.on_hosts(view.place).allocation[:, 0].tolist() == [50.0, 50.0, 80.0]


def test_a_disabled_host_counts_as_far_as_its_vms_can_use_it() -> None:
    """Its VMs stay and bid; its free capacity is available to no VM."""
    view = market_view(small(hosts={"state": np.array([HostState.DISABLED, HostState.ON])}), 0)
    caps = view.cap[view.place == 0].sum()
    assert view.total.tolist() == [100.0 + min(caps, 100.0)]
    alone = market_view(
        small(
            state=np.array([VmState.ABSENT, VmState.SUSPENDED, VmState.RUNNING]),
            hosts={"state": np.array([HostState.DISABLED, HostState.ON])},
        ),
        0,
    )
    assert alone.total.tolist() == [100.0 + 10.0]


def test_vms_of_a_host_that_is_off_leave_the_market() -> None:
    """The VMs of a host that is off take no part in the market."""
    view = market_view(small(hosts={"state": np.array([HostState.OFF, HostState.ON])}), 0)
    assert view.vms.tolist() == [2]


def test_absent_vms_keep_nothing() -> None:
    """Held, stopped and failed VMs take no part in the market."""
    view = market_view(small(state=np.array([VmState.ABSENT, VmState.RUNNING, VmState.RUNNING])), 0)
    assert view.vms.tolist() == [1, 2]


def test_busy_vms_bid_but_may_not_move() -> None:
    """A VM with an operation in progress bids and stays on its host."""
    view = market_view(small(state=np.array([VmState.BUSY, VmState.RUNNING, VmState.RUNNING])), 0)
    assert view.bid[0, 0] == 5.0
    assert view.movable.tolist() == [False, True, True]


def test_pending_vms_count_once_they_are_placed() -> None:
    """First allocation and price include the VMs that are deployed, not those that still wait."""
    snapshot = cloud(
        hosts_table(np.full((1, 1), 100.0)),
        vms_table(np.array([0, -1]), np.full((2, 1), 5.0), np.full((2, 1), 80.0)),
    )
    view = market_view(snapshot, 0)
    assert view.place.tolist() == [0, NO_HOST]
    assert view.first(np.array([True, False])).allocation[:, 0].tolist() == [80.0, 0.0]
    assert view.first(np.array([True, True])).allocation[:, 0].tolist() == [50.0, 50.0]


@pytest.mark.parametrize("seed", range(40))
def test_no_host_allocates_more_than_its_capacity(seed: int) -> None:
    """This holds in any cloud, with any states, floors and markets."""
    snapshot = tangled(seed)
    assessment = assess_placement(snapshot, snapshot.vms.host)
    for host in range(len(snapshot.hosts)):
        here = snapshot.vms.host == host
        given = assessment.shares[here].sum(axis=0)
        assert (given <= snapshot.hosts.capacity[host] * (1 + 1e-9)).all()
