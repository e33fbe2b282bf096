"""Quotes equal a full recomputation, at the cost of a search."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import BIDDING, Floats, HostState, Ints, Snapshot, VmState
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.market.demand import Bidder, Demand, _Lines
from merkatd.market.market_view import market_view
from merkatd.market.price import PriceRule, charges, price
from merkatd.market.quote import LEAST_BID, Quotes
from merkatd.market.share import share
from tests.clouds import cloud, crowded, hosts_table, tangled, vms_table
from tests.lengths import shorten
from tests.market.test_share import BIDS, bidder

RESERVE = np.array([0.001, 0.0])


def bounded(snapshot: Snapshot) -> Snapshot:
    """Return the same cloud with reserve prices that bound what a bid buys."""
    reserve = np.tile(RESERVE, (len(snapshot.markets), 1))
    return replace(snapshot, markets=replace(snapshot.markets, reserve=reserve))


def recompute(
    snapshot: Snapshot, market: int, host: Ints, row: int, bid: Floats, rule: PriceRule
) -> tuple[Floats, Floats, Floats]:
    """Return shares, prices and costs with the bid really changed, as a period computes them."""
    column = snapshot.vms.bid.copy()
    column[row] = bid
    changed = replace(snapshot, vms=replace(snapshot.vms, bid=column))
    view = market_view(changed, market)
    among = np.full(len(snapshot.hosts) + 1, NO_ROW)
    among[view.hosts] = np.arange(len(view.hosts))
    place = among[host[view.vms]]
    at = int(np.flatnonzero(view.vms == row)[0])
    got = view.on_hosts(place).allocation[at]
    prices = price(view.price_level(rule, place), RESERVE)
    if snapshot.vms.state[row] not in BIDDING:
        bid = np.zeros_like(bid)
    floor = view.floor[at][np.newaxis]
    owed = charges(
        bid[np.newaxis],
        got[np.newaxis],
        prices[np.newaxis],
        1.0,
        floors=floor,
        reserve=RESERVE,
    )
    return got, prices, owed[0]


def agrees(actual: Any, expected: Any, capacity: Any) -> bool:
    """Compare to nine digits, or near zero to twelve digits of the capacity."""
    return bool(np.allclose(actual, expected, rtol=1e-9, atol=1e-12 * float(np.max(capacity))))


@pytest.mark.parametrize("rule", PriceRule)
@pytest.mark.parametrize("seed", [4, 18, 44, *range(6, shorten(12, 8))])
def test_quotes_on_disabled_hosts_equal_a_recomputation(seed: int, rule: PriceRule) -> None:
    """A bid changes what its VM can use of a disabled host, and so the market's capacity."""
    for snapshot in (tangled(seed), crowded(4, seed)):
        state = snapshot.hosts.state.copy()
        state[: max(1, len(state) // 2)] = HostState.DISABLED
        closed = bounded(replace(snapshot, hosts=replace(snapshot.hosts, state=state)))
        host = closed.vms.host
        for market in range(len(closed.markets)):
            quotes = Quotes.of(closed, market, host, rule, RESERVE)
            for row in range(len(closed.vms)):
                place = quotes.place_of(row)
                if place is None or place.now is None:
                    continue
                for bid in ([0.01, 0.01], [5.0, 5.0]):
                    quoted_now = quotes.quote(place, bid)
                    _, _, owed = recompute(closed, market, host, row, np.array(bid), rule)
                    assert agrees([quote.cost for quote in quoted_now], owed, closed.hosts.capacity)


@pytest.mark.parametrize("rule", PriceRule)
@pytest.mark.parametrize("seed", range(shorten(12, 5)))
def test_quotes_equal_a_recomputation(seed: int, rule: PriceRule) -> None:
    """Share, price and cost of each VM equal a recomputation on clouds with all constraints."""
    rng = np.random.default_rng(seed)
    clouds = (tangled(seed), crowded(4, seed))
    for snapshot in (*clouds, *map(bounded, clouds)):
        host = snapshot.vms.host
        for market in range(len(snapshot.markets)):
            quotes = Quotes.of(snapshot, market, host, rule, RESERVE)
            for row in range(len(snapshot.vms)):
                place = quotes.place_of(row)
                if place is None or place.now is None:
                    continue
                bid = 10 ** rng.uniform(-6, 6, 2) * rng.choice([0.0, 1.0, 1.0], 2)
                quoted = quotes.quote(place, bid.tolist())
                got, prices, owed = recompute(snapshot, market, host, row, bid, rule)
                assert agrees([quote.share for quote in quoted], got, snapshot.hosts.capacity)
                assert agrees([quote.price for quote in quoted], prices, 1.0)
                assert agrees([quote.cost for quote in quoted], owed, snapshot.hosts.capacity)


@settings(deadline=None, max_examples=shorten(300, 60))
@given(rows=st.lists(st.tuples(bidder(), bidder()), max_size=12))
def test_the_demand_for_goods_is_that_of_their_pools(
    rows: list[tuple[tuple[float, float, float], tuple[float, float, float]]],
) -> None:
    """Each good is sorted alone, and equal bends keep their order: all numbers equal to the bit."""
    numbers = np.array(rows).reshape(-1, 2, 3)
    bid, floor, cap = (numbers[:, :, column] for column in range(3))
    capacity, pool = np.array([50.0, 2e4]), np.tile([0, 1], len(numbers))
    alone = Demand.of_goods(bid, floor, cap, capacity)
    together = Demand.of(bid.ravel(), floor.ravel(), cap.ravel(), pool, capacity)
    assert alone.start.tolist() == together.start.tolist()
    assert alone.first_bend.tolist() == together.first_bend.tolist()
    pairs = zip(
        (alone.at, *alone.slope, *alone.fixed),
        (together.at, *together.slope, *together.fixed),
        strict=True,
    )
    assert all(one.tobytes() == other.tobytes() for one, other in pairs)


@settings(deadline=None, max_examples=shorten(300, 60))
@given(rows=st.lists(bidder(), min_size=1, max_size=12), capacity=st.floats(1, 1e6), bid=BIDS)
def test_one_changed_row_equals_a_full_division(
    rows: list[tuple[float, float, float]], capacity: float, bid: float
) -> None:
    """Changing the first row equals a full division, for equal bends and bids of any size."""
    numbers = np.array(rows)
    pool = np.zeros(len(rows), dtype=np.int64)
    bids, floors, caps = numbers[:, 0], numbers[:, 1], numbers[:, 2]
    demand = Demand.of(bids, floors, caps, pool, np.array([capacity]))
    old, new = Bidder(*rows[0]), Bidder(bid, *rows[0][1:])
    bids[0] = bid
    expected = share(bids, floors, caps, pool, np.array([capacity]))
    level = demand.level(0, capacity, old, new)
    assert demand.floors(0) == pytest.approx(floors.sum())
    if floors.sum() <= capacity:
        assert agrees(new.gets(level), expected.allocation[0], capacity)


@settings(max_examples=shorten(300, 60))
@given(rows=st.lists(bidder(), min_size=1, max_size=12), part=st.floats(0.0, 1.2))
def test_levels_of_many_capacities_are_those_of_each(
    rows: list[tuple[float, float, float]], part: float
) -> None:
    """Also for nearly all floors or tops, for less and more; and what is asked there adds up."""
    bid, floor, cap = np.array(rows).T.copy()
    pool = np.zeros(len(rows), dtype=np.int64)
    tops = np.where(bid > 0, cap, floor).sum()
    floors = floor.sum()
    capacities = np.array(
        [floors * 0.999, floors * 1.001, tops * 0.999, tops, tops * 1.001, tops * part, 0.0]
    )
    demand = Demand.of(bid, floor, cap, pool, np.array([tops]))
    levels = demand.levels(0, capacities)
    for level, capacity in zip(levels.tolist(), capacities.tolist(), strict=True):
        assert level == pytest.approx(demand.level(0, capacity), rel=1e-6)
        asked = demand.asked(0, np.array([level]))[0]
        assert asked == pytest.approx(min(max(capacity, floors), tops), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("seed", range(shorten(12, 5)))
def test_bid_for_a_share_gets_that_share(seed: int) -> None:
    """The returned bid gets any usable share; if no bid is returned, no bid gets it."""
    rng = np.random.default_rng(seed)
    counts = [0, 0]
    clouds = (tangled(seed), crowded(4, seed))
    for snapshot in (*clouds, *map(bounded, clouds)):
        quotes = Quotes.of(snapshot, 0, snapshot.vms.host, PriceRule.PAPER, RESERVE)
        for row in range(len(snapshot.vms)):
            place = quotes.place_of(row)
            if place is None:
                continue
            wanted = np.array(place.cap) * rng.uniform(0, 1, 2)
            bids = quotes.bid_for(place, wanted.tolist())
            for column, bid in enumerate(bids):
                other = 1.0 if bid is None else bid
                most = quotes.quote(place, [1e12, 1e12])[column].share
                got = quotes.quote(place, [other, other])[column].share
                if bid is None:
                    assert most <= wanted[column] * (1 + 1e-6)
                elif bid > LEAST_BID:
                    assert got == pytest.approx(wanted[column], rel=1e-9)
                    assert quotes.quote(place, [bid * 0.9] * 2)[column].share < wanted[column]
                else:
                    assert got >= wanted[column] * (1 - 1e-9)
                counts[bid is None] += 1
    assert counts[0] > 50


def test_unobtainable_shares_have_no_bid_and_free_ones_cost_nothing() -> None:
    """More than the VM can use or the host has, has no bid; the VM's floor needs no bid."""
    snapshot = cloud(
        hosts_table(np.array([[100.0, 100.0]])),
        vms_table(
            [0, 0],
            [[1.0, 1.0]] * 2,
            [[80.0, 300.0]] * 2,
            floor=np.array([[0.0, 20.0]] * 2),
        ),
    )
    quotes = Quotes.of(snapshot, 0, snapshot.vms.host, PriceRule.PAPER, RESERVE)
    place = quotes.place_of(0)
    assert place is not None
    assert quotes.bid_for(place, [81.0, 101.0]) == (None, None)
    assert quotes.bid_for(place, [0.0, 20.0]) == (0.0, 0.0)
    assert quotes.bid_for(place, [50.0, 81.0])[0] == pytest.approx(1.0)
    assert quotes.bid_for(place, [50.0, 81.0])[1] is None
    assert quotes.bid_for(place, [10.0, 80.0])[1] is None, "the other VM keeps its floor"


class TestNewcomers:
    def test_a_newcomer_is_quoted_on_the_least_loaded_host_with_room(self) -> None:
        """The quote uses Algorithm 1's first host, and holds once the VM runs there."""
        snapshot = crowded(40, 3)
        quotes = Quotes.of(snapshot, 0, snapshot.vms.host, PriceRule.CLEARING, RESERVE)
        place = quotes.place_for((0.0, 2048.0), (400.0, 8192.0))
        loads = [
            (snapshot.vms.bid[snapshot.vms.host == row].sum(axis=0) / capacity).max()
            for row, capacity in enumerate(snapshot.hosts.capacity)
        ]
        assert place.host == int(np.argmin(loads))
        quoted = quotes.quote(place, [3.0, 2.0])
        vms = snapshot.vms
        joined = cloud(
            snapshot.hosts,
            vms_table(
                [*vms.host, place.host],
                [*vms.bid, [3.0, 2.0]],
                [*vms.cap, [400.0, 8192.0]],
                floor=np.array([*vms.floor, [0.0, 2048.0]]),
            ),
        )
        row, host = len(vms), joined.vms.host
        bid = np.array([3.0, 2.0])
        got, prices, owed = recompute(joined, 0, host, row, bid, PriceRule.CLEARING)
        assert [quote.share for quote in quoted] == pytest.approx(got.tolist(), rel=1e-9)
        assert [quote.price for quote in quoted] == pytest.approx(prices.tolist(), rel=1e-9)
        assert [quote.cost for quote in quoted] == pytest.approx(owed.tolist(), rel=1e-9)

    def test_a_floor_that_fits_on_no_host_is_quoted_for_the_market(self) -> None:
        """The quote names no host, and hosts that take no VMs do not count."""
        snapshot = crowded(6, 1)
        quotes = Quotes.of(snapshot, 0, snapshot.vms.host, PriceRule.PAPER, RESERVE)
        place = quotes.place_for((0.0, 1e9), (400.0, 1e9))
        assert (place.host, place.pool) == (NO_HOST, NO_HOST)
        cpu = quotes.quote(place, [1.0, 1.0])[0]
        view = market_view(snapshot, 0)
        level = view.first(np.ones(len(view.vms), dtype=bool)).level[0, 0]
        assert cpu.share == pytest.approx(min(level, 400.0), rel=0.05)

    def test_a_pending_vm_is_quoted_as_a_newcomer(self) -> None:
        """A pending VM counts on no host until it is placed."""
        snapshot = cloud(
            hosts_table(np.array([[100.0, 100.0]])),
            vms_table([0, -1], [[1.0, 1.0], [3.0, 3.0]], [[100.0, 100.0]] * 2),
        )
        quotes = Quotes.of(snapshot, 0, snapshot.vms.host, PriceRule.PAPER, RESERVE)
        place = quotes.place_of(1)
        assert place is not None
        assert place.now is None
        assert place.host == 0
        assert [quote.share for quote in quotes.quote(place, [3.0, 1.0])] == pytest.approx(
            [75.0, 50.0]
        )


def test_vms_outside_of_the_market_have_no_quote() -> None:
    """VMs without a market and stopped VMs have no quote; a market may be empty."""
    snapshot = cloud(
        hosts_table(np.array([[100.0, 100.0]])),
        vms_table(
            [0, 0],
            [[1.0, 1.0]] * 2,
            [[100.0, 100.0]] * 2,
            market=np.array([-1, 0]),
            state=np.array([int(VmState.RUNNING), int(VmState.ABSENT)]),
        ),
    )
    quotes = Quotes.of(snapshot, 0, snapshot.vms.host, PriceRule.PAPER, RESERVE)
    assert [quotes.place_of(row) for row in range(2)] == [None, None]
    alone = quotes.quote(quotes.place_for((0.0, 0.0), (50.0, 50.0)), [1.0, 0.0])
    assert [quote.share for quote in alone] == [0.0, 0.0], "VMs without a market reserve their size"


def test_search_steps_grow_with_the_logarithm_of_the_vms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With 64 times as many VMs on a host, a search takes six more steps."""
    looks = []
    real_line = _Lines._line

    def count_step(self: _Lines, *arguments: Any) -> Any:
        looks.append(1)
        return real_line(self, *arguments)

    monkeypatch.setattr(_Lines, "_line", count_step)
    taken = {}
    for vms in (1_000, 64_000):
        rng = np.random.default_rng(vms)
        bid, cap = rng.lognormal(0.0, 1.0, vms), rng.uniform(100, 800, vms)
        pool = np.zeros(vms, dtype=np.int64)
        demand = Demand.of(bid, cap * 0.1, cap, pool, np.array([vms * 100.0]))
        looks.clear()
        for row in range(100):
            own = Bidder(bid[row], cap[row] * 0.1, cap[row])
            assert np.isfinite(demand.level(0, vms * 100.0, own, own._replace(bid=2.0)))
        taken[vms] = len(looks) / 100
    assert 4 < taken[1_000] < 10, "the search starts at the present level"
    assert taken[64_000] - taken[1_000] < 8
