"""A VM that waits goes to no host on which it could have a claim that its bid does not pay for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.cluster import Snapshot, VmState
from merkatd.market.share import share
from merkatd.scheduler.claims_there import MOST_CLAIMS, claims_on_hosts
from tests.clouds import cloud, hosts_table, vms_table

CORES = 800.0
BOUND = np.array([True])


def waiting(
    bids: list[float], claims: list[float], on_first: list[float], claimed: float = 0.0
) -> Snapshot:
    """Two hosts; VMs with bids for all cores of the first one, then those that wait."""
    count = len(on_first) + len(bids)
    floor = np.zeros((count, 2))
    floor[: len(on_first), 0] = claimed
    floor[len(on_first) :, 0] = claims
    return cloud(
        hosts_table(np.tile([CORES, 8192.0], (2, 1))),
        vms_table(
            [0] * len(on_first) + [-1] * len(bids),
            np.column_stack([[*on_first, *bids], np.ones(count)]),
            np.tile([CORES, 100.0], (count, 1)),
            floor=floor,
            owner=np.zeros(count, dtype=np.int64),
            state=np.array([VmState.RUNNING] * len(on_first) + [VmState.PENDING] * len(bids)),
        ),
    )


def hosts_of(snapshot: Snapshot, vm: int) -> list[bool]:
    """Which hosts remain for a VM."""
    found = claims_on_hosts(snapshot, np.zeros_like(snapshot.vms.bid), BOUND)
    required = int(found.vms.requirement[vm])
    if required < 0:
        return [True, True]
    return [bool(one) for one in found.requirements.allowed[required]]


@given(st.floats(0.1, 200.0), st.floats(1.0, CORES), st.lists(st.floats(0.1, 100.0), min_size=1))
def test_a_host_remains_exactly_where_its_share_would_be_the_claim(
    bid: float, claim: float, others: list[float]
) -> None:
    """Of bids that divide the first host if nobody claims anything; the second one is empty."""
    rows = np.array([*others, bid])
    none, caps = np.zeros_like(rows), np.full_like(rows, CORES)
    pool = np.zeros(len(rows), dtype=np.int64)
    has = float(share(rows, none, caps, pool, np.array([CORES])).allocation[-1])
    first, second = hosts_of(waiting([bid], [claim], others), len(others))
    assert second
    if abs(has - claim) > 1e-4 * claim:
        assert first == (has >= claim)


def test_a_host_without_room_for_the_claim_remains() -> None:
    """The VM waits there for room, and is told so."""
    assert hosts_of(waiting([1.0], [500.0], [50.0], claimed=400.0), 1) == [True, True]
    assert hosts_of(waiting([1.0], [500.0], [50.0], claimed=200.0), 1) == [False, True]


@pytest.mark.parametrize("same", [True, False])
def test_only_so_many_different_claims_of_an_owner_are_considered(same: bool) -> None:
    """Those that are alike count once; the others have no host in this period."""
    count = MOST_CLAIMS + 5
    claims = [100.0 if same else 100.0 + number for number in range(count)]
    snapshot = waiting([100.0] * count, claims, [1.0])
    found = [any(hosts_of(snapshot, vm)) for vm in range(1, count + 1)]
    assert sum(found) == (count if same else MOST_CLAIMS)
