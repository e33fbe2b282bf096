"""The compiled rule for one host equals the market's rule, to the bit."""

import numpy as np
import pytest

from merkatd.cluster import Floats
from merkatd.market.error import errors, shortfalls
from merkatd.market.share import Share, breakpoints, share
from merkatd.placement.base.host_shares import (
    LARGEST_ERROR,
    SUM_OF_SHORTFALLS,
    VmTerms,
    host_score,
    host_shares,
)


def random_host(seed: int) -> tuple[VmTerms, float, Share]:
    """Return one host with up to 60 VMs, one resource, bids over twelve orders of magnitude."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0, 60))
    wide = rng.random() < 0.5
    bid = 10 ** rng.uniform(-6, 6, count) if wide else rng.integers(0, 4, count).astype(float)
    bid[rng.random(count) < 0.1] = 0.0
    cap = (
        rng.choice([0.0, 50.0, 100.0, 400.0], count)
        if rng.random() < 0.5
        else 100 * rng.random(count)
    )
    floor = cap * rng.choice([0.0, 0.0, 0.2, 1.0], count)
    capacity = float(rng.choice([0.0, 50.0, 300.0, 1000.0, floor.sum(), cap.sum()]))
    bend = breakpoints(bid, floor, cap)
    columns = [
        x[:, np.newaxis] for x in (bid, floor, bend.top, bend.leaves_floor, bend.reaches_top)
    ]
    first = rng.uniform(0.0, 100.0, (count, 1)) * rng.choice([0.0, 1.0], (count, 1), p=[0.1, 0.9])
    stakes = VmTerms(columns[0], columns[1], columns[2], columns[3], columns[4], first, bid)
    known = share(bid, floor, cap, np.zeros(count, dtype=np.int64), np.array([capacity]))
    return stakes, capacity, known


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_one_host_alone_gets_the_same_bits(first: int) -> None:
    """Allocations and level equal the market's for any bids, floors and caps."""
    for seed in range(first, first + 50):
        stakes, capacity, known = random_host(seed)
        count = len(stakes.weight)
        out: Floats = np.empty(count)
        level = host_shares(np.arange(count), count, 0, capacity, stakes, out)
        assert out.tolist() == known.allocation.tolist(), seed
        assert level == known.level[0], seed


@pytest.mark.parametrize("seed", range(50))
def test_scores_are_the_markets_errors(seed: int) -> None:
    """Scores equal the sum of bid times shortfall, and the largest error."""
    stakes, capacity, known = random_host(seed)
    count = len(stakes.weight)
    given = known.allocation[:, np.newaxis]
    rows, room, work = np.arange(count), np.array([capacity]), np.empty((2, count + 1))
    expected = float((stakes.weight * shortfalls(stakes.first, given)).sum())
    assert host_score(rows, count, room, stakes, SUM_OF_SHORTFALLS, work) == pytest.approx(expected)
    largest = float(errors(stakes.first, given).max(initial=0.0))
    assert host_score(rows, count, room, stakes, LARGEST_ERROR, work) == largest


@pytest.mark.parametrize("count", [60, 200])
@pytest.mark.parametrize("part", [0.3, 0.9, 0.999])
def test_bids_over_many_powers_of_two_get_the_same_bits(count: int, part: float) -> None:
    """Bids so different that no linear interpolation approaches the level give the same bits."""
    bid: Floats = np.exp2(-np.arange(count, dtype=np.float64))
    floor, cap = np.zeros(count), np.full(count, 100.0)
    bend, none = breakpoints(bid, floor, cap), np.ones((count, 1))
    columns = [
        x[:, np.newaxis] for x in (bid, floor, bend.top, bend.leaves_floor, bend.reaches_top)
    ]
    stakes = VmTerms(columns[0], columns[1], columns[2], columns[3], columns[4], none, bid)
    capacity = part * float(cap.sum())
    known = share(bid, floor, cap, np.zeros(count, dtype=np.int64), np.array([capacity]))
    out: Floats = np.empty(count)
    assert host_shares(np.arange(count), count, 0, capacity, stakes, out) == known.level[0]
    assert out.tolist() == known.allocation.tolist()
