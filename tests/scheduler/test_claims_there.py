"""A VM goes to no host where its claim would exceed what its bid pays for."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.cluster import Requirements, Snapshot, VmState
from merkatd.database.scheduler.order_store import Order
from merkatd.market.share import share
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.terms.waiting_claims import MOST_CLAIMS, claims_of_waiting_vms
from tests.clouds import cloud, hosts_table, vms_table
from tests.scheduler.frontend import Frontend

CORES = 800.0
BOUND = np.array([True])


def waiting(
    bids: list[float],
    claims: list[float],
    on_first: list[float],
    claimed: float = 0.0,
    owners: Sequence[int] = (),
    *,
    bound: bool = False,
) -> Snapshot:
    """Return two hosts with VMs that bid for all cores of the first, and waiting VMs."""
    count = len(on_first) + len(bids)
    floor = np.zeros((count, 2))
    floor[: len(on_first), 0] = claimed
    floor[len(on_first) :, 0] = claims
    first_alone = Requirements(("the first",), np.array([[True, False]]), np.zeros((1, 2)))
    return cloud(
        hosts_table(np.tile([CORES, 8192.0], (2, 1))),
        vms_table(
            [0] * len(on_first) + [-1] * len(bids),
            np.column_stack([[*on_first, *bids], np.ones(count)]),
            np.tile([CORES, 100.0], (count, 1)),
            floor=floor,
            owner=np.array([0] * len(on_first) + list(owners or [0] * len(bids))),
            state=np.array([VmState.RUNNING] * len(on_first) + [VmState.PENDING] * len(bids)),
            requirement=np.array([-1] * len(on_first) + [0 if bound else -1] * len(bids)),
        ),
        requirements=first_alone,
    )


def judged(snapshot: Snapshot, vm: int) -> tuple[float, list[bool]]:
    """Return the VM's claim to the cores and the hosts that remain for it."""
    considered = claims_of_waiting_vms(snapshot, np.zeros_like(snapshot.vms.bid), BOUND)
    required = int(considered.vms.requirement[vm])
    allowed = [True, True] if required < 0 else considered.requirements.allowed[required].tolist()
    return float(considered.vms.floor[vm, 0]), allowed


@given(st.floats(0.1, 200.0), st.floats(1.0, CORES), st.lists(st.floats(0.1, 100.0), min_size=1))
def test_a_host_remains_only_if_the_vms_share_covers_its_claim(
    bid: float, claim: float, others: list[float]
) -> None:
    """The bids divide the first host as if no VM had a claim; the second host is empty."""
    rows = np.array([*others, bid])
    none, caps = np.zeros_like(rows), np.full_like(rows, CORES)
    pool = np.zeros(len(rows), dtype=np.int64)
    has = float(share(rows, none, caps, pool, np.array([CORES])).allocation[-1])
    claims, (first, second) = judged(waiting([bid], [claim], others), len(others))
    assert second
    assert claims == claim
    if abs(has - claim) > 1e-4 * claim:
        assert first == (has >= claim)


@given(st.floats(0.1, 200.0), st.floats(1.0, CORES), st.lists(st.floats(0.1, 100.0), min_size=1))
def test_a_vm_without_a_suitable_host_claims_only_its_share(
    bid: float, claim: float, others: list[float]
) -> None:
    """The VM requires the first host, whose other VMs use all that they bid for."""
    claims, hosts = judged(waiting([bid], [claim], others, bound=True), len(others))
    assert hosts[0]
    has = CORES * bid / (bid + sum(others))
    assert claims == pytest.approx(min(has, claim), rel=1e-4)


def test_a_host_without_room_for_the_claim_remains() -> None:
    """The VM waits for room on this host, and its owner is told."""
    full = waiting([1.0], [500.0], [50.0], claimed=400.0)
    assert judged(full, 1) == (500.0, [True, True])
    assert judged(waiting([1.0], [500.0], [50.0], claimed=200.0), 1) == (500.0, [False, True])
    full = waiting([1.0], [500.0], [50.0], claimed=400.0, bound=True)
    assert judged(full, 1)[0] == 500.0


@pytest.mark.parametrize("same", [True, False])
def test_only_a_limited_number_of_claims_of_an_owner_is_considered(same: bool) -> None:
    """Equal claims count once; VMs with further claims claim nothing until they run."""
    count = MOST_CLAIMS + 5
    claims = [100.0 if same else 100.0 + number for number in range(count)]
    snapshot = waiting([100.0] * count, claims, [1.0])
    judgements = [judged(snapshot, vm)[0] > 0 for vm in range(1, count + 1)]
    assert sum(judgements) == (count if same else MOST_CLAIMS)


def test_many_claims_of_an_owner_leave_other_owners_unaffected() -> None:
    """Another owner's VM with the same bid and claim keeps the claim that its bid covers."""
    count = MOST_CLAIMS + 1
    claims = [100.0 + number for number in range(count)]
    snapshot = waiting(
        [100.0] * (count + 1), [*claims, claims[-1]], [1.0], owners=[7] * count + [8]
    )
    assert judged(snapshot, count)[0] == 0
    assert judged(snapshot, count + 1)[0] == claims[-1]


def test_a_running_vm_stays_where_its_bid_pays_for_its_claim() -> None:
    """The other host has memory for it and dear cores: it moved there and back for ever.

    From a drained host it moves all the same.
    """
    frontend = Frontend(hosts=2, markets=(MarketRules(strategy="paper"),))
    dear = {"VCPU": 4, "MEMORY": 512}
    beside = {"VCPU": 3, "MEMORY": 6144, "MERKAT_BID_MEMORY": 100, "MERKAT_MIN_MEMORY": 6144}
    mine = {"VCPU": 1, "MEMORY": 4096, "MERKAT_BID_MEMORY": 0.1, "MERKAT_MIN_CPU": 100}
    sizes = (1, 100.0, dear), (0, 1.0, beside), (0, 1.0, mine)
    for host, bid, more in sizes:
        vm = frontend.vm(bid, **more)
        frontend.bench.ok("one.vm.deploy", vm, host)
    frontend.clock.advance(60)
    frontend.periods(2)
    assert [len(frontend.bench.vm(vm).history) for vm in range(3)] == [1, 1, 1]
    frontend.order(Order.DRAIN, 0)
    frontend.periods(2)
    assert frontend.host_of(vm) == 1
    frontend.close()
