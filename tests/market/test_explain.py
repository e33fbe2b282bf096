"""Explanations of shares: terms add up to the share, and the bid for the whole cap gets the cap."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.cluster import Decision, Plan, Snapshot, Terminate, VmState
from merkatd.market.explanation import LimitedBy, explain, hosts_after
from merkatd.market.market_view import market_view
from merkatd.placement import strategy_named
from tests.clouds import cloud, crowded, hosts_table, tangled, vms_table


def decide_without_moves(snapshot: Snapshot) -> Decision:
    """Return a decision without moves: each VM gets its share on its present host."""
    allocations = np.zeros_like(snapshot.vms.bid)
    for market in range(len(snapshot.markets)):
        view = market_view(snapshot, market)
        allocations[view.vms] = view.on_hosts(view.place).allocation
    prices = np.zeros((len(snapshot.markets), len(snapshot.resources)))
    return Decision(Plan(), allocations, prices)


def one_host(bids: list[float], caps: list[float], floors: list[float], size: float) -> Snapshot:
    """Return VMs that contend for one resource of one host."""
    return cloud(
        hosts_table(np.array([[size]])),
        vms_table(
            [0] * len(bids),
            np.array(bids)[:, np.newaxis],
            np.array(caps)[:, np.newaxis],
            floor=np.array(floors)[:, np.newaxis],
        ),
    )


@pytest.mark.parametrize("seed", range(6))
def test_terms_add_up_to_the_share(seed: int) -> None:
    """On clouds with all constraints, the terms of each share add up to what the plan allocates."""
    for snapshot in (tangled(seed), crowded(6, seed)):
        decision = strategy_named("tabu").decide(snapshot)
        host = hosts_after(snapshot, decision.plan)
        for row in range(len(snapshot.vms)):
            explained = explain(snapshot, decision, row)
            if explained is None:
                assert not decision.allocations[row].any()
                continue
            for column, part in enumerate(explained.parts):
                terms = part.by_bid + part.others + part.floor + part.cap + part.rest
                assert part.share == decision.allocations[row, column]
                assert terms == pytest.approx(part.share, rel=1e-9, abs=1e-9)
                assert part.limited_by is LimitedBy.OVERFULL or part.rest == pytest.approx(
                    0.0, abs=1e-6 * max(part.most, 1.0)
                )
                if explained.host >= 0:
                    assert explained.host == host[row]


numbers = st.floats(0.1, 100.0)


@given(st.lists(st.tuples(numbers, numbers, st.floats(0.0, 1.0)), min_size=2, max_size=6))
def test_bid_for_all_is_the_lowest_bid_that_gets_the_cap(
    vms: list[tuple[float, float, float]],
) -> None:
    """With other bids unchanged, the quoted bid gets the cap, and 1 % less does not."""
    bids, caps, parts = (list(column) for column in zip(*vms, strict=True))
    floors = [cap * part * 0.5 for cap, part in zip(caps, parts, strict=True)]
    snapshot = one_host(bids, caps, floors, sum(caps) * 0.7)
    explained = explain(snapshot, decide_without_moves(snapshot), 0)
    assert explained is not None
    wanted = explained.parts[0].bid_for_all
    assert explained.parts[0].limited_by in {LimitedBy.CAP, LimitedBy.BIDS, LimitedBy.FLOOR}
    if wanted is None:
        return

    def share_for(bid: float) -> float:
        changed = snapshot.vms.bid.copy()
        changed[0] = bid
        other = replace(snapshot, vms=replace(snapshot.vms, bid=changed))
        return float(decide_without_moves(other).allocations[0, 0])

    assert share_for(max(wanted * 1.000001, 1e-9)) == pytest.approx(caps[0], rel=1e-5)
    if wanted > 1e-6 and floors[0] < caps[0] * 0.99:
        assert share_for(wanted * 0.99) < caps[0]


def test_limited_by_names_what_limits_a_share() -> None:
    """Shares are limited by cap, bids, floor, a missing bid, or an overfull host."""
    snapshot = one_host([1, 1, 2, 0, 0.01], [10, 100, 100, 50, 50], [0, 0, 0, 5, 20], 100)
    decision = decide_without_moves(snapshot)
    limits = []
    for row in range(5):
        explained = explain(snapshot, decision, row)
        assert explained is not None
        limits.append(explained.parts[0].limited_by)
    assert limits == ["cap", "bids", "bids", "no bid", "floor"]
    overfull = one_host([1, 1], [100, 100], [80, 80], 100)
    explained = explain(overfull, decide_without_moves(overfull), 0)
    assert explained is not None
    assert (explained.parts[0].limited_by, explained.parts[0].share) == ("overfull", 50.0)
    assert explained.parts[0].rest == pytest.approx(-30.0)


def test_the_papers_example_is_explained_by_its_terms() -> None:
    """With C = 100, bids 1 1 2 and caps 100 10 100, the second VM's 15 spare units are shared."""
    snapshot = one_host([1, 1, 2], [100, 10, 100], [0, 0, 0], 100)
    parts = [explain(snapshot, decide_without_moves(snapshot), row) for row in range(3)]
    terms = [(p.parts[0].by_bid, p.parts[0].others, p.parts[0].cap) for p in parts if p]
    assert terms == [(25.0, 5.0, 0.0), (25.0, 5.0, -20.0), (50.0, 10.0, 0.0)]


def test_vms_outside_of_the_market_have_no_explanation() -> None:
    """VMs without a market and absent VMs have none; a suspended VM has its floor and no bid."""
    snapshot = one_host([1, 1, 2], [100, 10, 100], [30, 0, 0], 100)
    state = np.array([VmState.SUSPENDED, VmState.ABSENT, VmState.RUNNING])
    market = np.array([0, 0, -1])
    changed = replace(snapshot, vms=replace(snapshot.vms, state=state, market=market))
    decision = decide_without_moves(changed)
    assert explain(changed, decision, 1) is None
    assert explain(changed, decision, 2) is None
    kept = explain(changed, decision, 0)
    assert kept is not None
    assert (kept.parts[0].bid, kept.parts[0].bid_for_all) == (0.0, None)


def test_a_terminated_vm_has_no_host_after_the_plan() -> None:
    """After a plan that terminates a VM, the VM is on no host."""
    snapshot = one_host([1, 1], [100, 10], [0, 0], 100)
    plan = Plan((Terminate(period=1, vm=1, reason="its tenant says so"),))
    assert hosts_after(snapshot, plan).tolist() == [0, -1]
