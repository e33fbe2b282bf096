"""The proportional share: the design's examples and the promised properties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Floats, Ints
from merkatd.market import share as share_module
from merkatd.market.share import Share, ascending, share
from tests.lengths import EXAMPLES

EPSILON = 1e-9


def one_pool(capacity: float, bids: list[float], caps: list[float], floors: list[float]) -> Share:
    """Return the shares of one resource of one host."""
    rows = len(bids)
    return share(
        np.array(bids, dtype=float),
        np.array(floors, dtype=float),
        np.array(caps, dtype=float),
        np.zeros(rows, dtype=np.int64),
        np.array([capacity]),
    )


AMOUNTS = st.one_of(st.sampled_from([0.0, 1.0, 100.0, 4096.0]), st.floats(0.0, 1e6))
BIDS = st.one_of(
    st.sampled_from([0.0, 1.0, 2.0, 30.0]),
    st.floats(-6.0, 6.0).map(lambda exponent: 10.0**exponent),
)


@st.composite
def bidder(draw: st.DrawFn) -> tuple[float, float, float]:
    """Draw bid, floor and cap, often in the ratios of other bidders so that bends coincide."""
    bid = draw(BIDS)
    cap = draw(st.one_of(AMOUNTS, st.just(bid * 10.0)))
    floor = draw(st.one_of(st.just(0.0), st.just(cap), st.floats(0.0, 1.0).map(cap.__mul__)))
    return bid, min(floor, cap), cap


@st.composite
def pools(draw: st.DrawFn) -> tuple[Floats, Floats, Floats, Ints, Floats]:
    """Draw several pools, some of them empty, some without capacity."""
    count = draw(st.integers(1, 5))
    rows = draw(st.lists(st.tuples(bidder(), st.integers(0, count - 1)), max_size=30))
    capacity = np.array(draw(st.lists(AMOUNTS, min_size=count, max_size=count)))
    numbers = np.array([row for row, _ in rows], dtype=float).reshape(-1, 3)
    pool = np.array([at for _, at in rows], dtype=np.int64)
    return numbers[:, 0], numbers[:, 1], numbers[:, 2], pool, capacity


class TestVectors:
    def test_the_papers_figure_3_as_one_market(self) -> None:
        """Five VMs share 300 units in proportion to their bids."""
        got = one_pool(300, [12, 12, 12, 30, 30], [100] * 5, [0] * 5)
        assert got.allocation == pytest.approx([37.5, 37.5, 37.5, 93.75, 93.75])

    def test_the_papers_figure_3_on_its_nodes(self) -> None:
        """Three VMs share one node of 100; each of the other two has a node alone."""
        got = share(
            np.array([12.0, 12, 12, 30, 30]),
            np.zeros(5),
            np.full(5, 100.0),
            np.array([0, 0, 0, 1, 2]),
            np.full(3, 100.0),
        )
        assert got.allocation == pytest.approx([100 / 3] * 3 + [100, 100])
        assert got.level[1:] == pytest.approx([np.inf, np.inf])

    def test_capacity_above_a_cap_goes_to_the_others(self) -> None:
        """With C = 100, bids 1 1 2 and caps 100 10 100, the others share what the cap leaves."""
        got = one_pool(100, [1, 1, 2], [100, 10, 100], [0, 0, 0])
        assert got.allocation == pytest.approx([30, 10, 60])

    def test_floors_that_do_not_fit_are_scaled_equally(self) -> None:
        """The level is 0, and each VM gets the same fraction of its floor."""
        got = one_pool(100, [1, 9], [300, 300], [50, 150])
        assert got.allocation == pytest.approx([25, 75])
        assert got.level == [0.0]

    def test_a_vm_without_a_bid_keeps_only_its_floor(self) -> None:
        """A VM without a bid gets its floor and nothing more."""
        got = one_pool(100, [0, 5], [100, 60], [20, 0])
        assert got.allocation == pytest.approx([20, 60])
        assert got.level == [np.inf]

    def test_on_a_plateau_the_level_is_the_lowest_that_fits(self) -> None:
        """Between levels 10 and 50 no allocation changes, so the level is 10."""
        got = one_pool(110, [1, 1, 1], [10, 100, 100], [0, 50, 50])
        assert got.level == pytest.approx([10.0])

    def test_an_empty_pool_has_no_contention(self) -> None:
        """A host without VMs has an infinite level."""
        got = share(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0, int), np.array([5.0, 0.0]))
        assert got.level.tolist() == [np.inf, np.inf]


class TestProperties:
    @settings(max_examples=EXAMPLES)
    @given(pools())
    def test_allocations_stay_between_floor_and_cap(
        self, drawn: tuple[Floats, Floats, Floats, Ints, Floats]
    ) -> None:
        """Each allocation is between floor and cap, unless the floors do not fit."""
        _, floor, cap, pool, capacity = drawn
        got = share(*drawn).allocation
        fits = (np.bincount(pool, floor, len(capacity)) <= capacity)[pool]
        assert (got <= cap).all()
        assert (got >= 0).all()
        assert (got[fits] >= floor[fits]).all()

    @settings(max_examples=EXAMPLES)
    @given(pools())
    def test_a_pool_is_used_as_far_as_caps_allow(
        self, drawn: tuple[Floats, Floats, Floats, Ints, Floats]
    ) -> None:
        """The sum is the capacity, or all that bidders and holders of floors can use."""
        bid, floor, cap, pool, capacity = drawn
        got = np.bincount(pool, share(*drawn).allocation, len(capacity))
        most = np.bincount(pool, np.where(bid > 0, cap, floor), len(capacity))
        assert got == pytest.approx(np.minimum(capacity, most), rel=EPSILON, abs=1e-12)

    @settings(max_examples=EXAMPLES)
    @given(pools())
    def test_between_floor_and_cap_all_vms_pay_the_same_price(
        self, drawn: tuple[Floats, Floats, Floats, Ints, Floats]
    ) -> None:
        """All bids of a pool have the same level, which defines the proportional share."""
        bid, floor, cap, pool, _ = drawn
        got = share(*drawn)
        contended = (got.level > 0) & np.isfinite(got.level)
        free = contended[pool] & (got.allocation > floor) & (got.allocation < cap) & (bid > 0)
        assert got.allocation[free] == pytest.approx(bid[free] * got.level[pool[free]], rel=EPSILON)

    @settings(max_examples=EXAMPLES)
    @given(pools(), st.floats(0.1, 1000.0))
    def test_scaling_all_bids_changes_nothing(
        self, drawn: tuple[Floats, Floats, Floats, Ints, Floats], factor: float
    ) -> None:
        """Only the proportions of bids count."""
        bid, floor, cap, pool, capacity = drawn
        allocation = share(*drawn).allocation
        other = share(bid * factor, floor, cap, pool, capacity).allocation
        assert other == pytest.approx(allocation, rel=1e-6, abs=1e-9)

    @settings(max_examples=EXAMPLES)
    @given(pools(), st.integers(0, 29), st.floats(1.0, 1e6))
    def test_a_higher_bid_never_gets_less(
        self, drawn: tuple[Floats, Floats, Floats, Ints, Floats], at: int, factor: float
    ) -> None:
        """The allocation is monotone in the VM's own bid."""
        bid, floor, cap, pool, capacity = drawn
        if len(bid) == 0:
            return
        row = at % len(bid)
        more = bid.copy()
        more[row] *= factor
        allocation = share(*drawn).allocation[row]
        other = share(more, floor, cap, pool, capacity).allocation[row]
        assert other >= allocation * (1 - EPSILON) - 1e-300

    @settings(max_examples=EXAMPLES)
    @given(pools())
    def test_pools_are_independent(
        self, drawn: tuple[Floats, Floats, Floats, Ints, Floats]
    ) -> None:
        """Each pool alone gives the same bits as all pools together."""
        bid, floor, cap, pool, capacity = drawn
        together = share(*drawn)
        for at in range(len(capacity)):
            here = pool == at
            alone = share(
                bid[here],
                floor[here],
                cap[here],
                np.zeros(here.sum(), dtype=np.int64),
                capacity[at : at + 1],
            )
            assert alone.allocation.tolist() == together.allocation[here].tolist()
            assert alone.level[0] == together.level[at]

    @settings(max_examples=20)
    @given(st.integers(0, 1000))
    def test_sums_are_exact_beside_a_pool_twelve_orders_larger(self, seed: int) -> None:
        """The sum of a small pool loses no precision beside a very large pool."""
        rng = np.random.default_rng(seed)
        bid = np.concatenate([rng.uniform(1e9, 1e12, 50), rng.uniform(1e-3, 1e-2, 50)])
        cap = np.concatenate([np.full(50, 1e12), np.full(50, 1.0)])
        pool = np.repeat([0, 1], 50)
        got = share(bid, np.zeros(100), cap, pool, np.array([1e13, 7.0])).allocation
        assert got[pool == 1].sum() == pytest.approx(7.0, rel=1e-12)


@pytest.mark.parametrize("numbers", [1, 5, 200, 10**9])
@pytest.mark.parametrize("count", [0, 1, 7, 400])
def test_ascending_rows_keep_equal_numbers_in_their_order(count: int, numbers: int) -> None:
    """The result is that of a stable sort: with many equal numbers, with few, and with none."""
    rng = np.random.default_rng(count)
    for _ in range(20):
        values = rng.integers(0, numbers, count) * (rng.random(count) < rng.random())
        expected = np.argsort(values, kind="stable")
        assert ascending(values.astype(float)).tolist() == expected.tolist()


@pytest.mark.parametrize("spread", [0.1, 1.0, 20.0])
def test_the_guessed_level_of_a_large_pool_is_that_of_the_halving(
    spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal to the bit, also if the sums of the guess lose their digits among huge bids."""
    rng = np.random.default_rng(0)
    for pools in (1, 2, 3) * 10:
        rows = 2000
        bid = rng.lognormal(0.0, spread, rows) * (rng.random(rows) < 0.9)
        cap = rng.uniform(1.0, 100.0, rows)
        floor = cap * rng.uniform(0.0, 0.3, rows) * (rng.random(rows) < 0.5)
        pool = rng.integers(0, pools, rows)
        capacity: Floats = np.bincount(pool, cap, pools).astype(np.float64) * rng.uniform(0.1, 1.0)
        results = []
        for many in (0, rows * 2):
            monkeypatch.setattr(share_module, "_MANY", many)
            results.append(share(bid, floor, cap, pool, capacity))
        assert results[0].level.tolist() == results[1].level.tolist()
        assert results[0].allocation.tolist() == results[1].allocation.tolist()
