"""A claimed floor holds only as far as the VM's bid pays for it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Floats, Snapshot
from merkatd.market.floors import bids_that_buy, bids_that_buy_there, paid_floors
from merkatd.market.price import PriceRule
from merkatd.market.share import share
from tests.clouds import cloud, hosts_table, vms_table
from tests.lengths import EXAMPLES
from tests.market.test_phantoms import RESERVE, SEEDS, decided, market_of

AMOUNTS = st.floats(0, 1e6)


def paid(floor: float, bid: float, price: float, reserve: float) -> float:
    """Return the paid floor of one VM and one good."""
    columns = (np.array([[float(value)]]) for value in (floor, bid, price, reserve))
    return float(paid_floors(*columns)[0, 0])


def test_where_others_bid_a_claim_holds_only_as_far_as_its_bid_pays() -> None:
    """At 0.1 credits a unit, 20 credits pay for 200 of 300 units, and no credits for none."""
    assert paid(300, 0, 0.1, 0.01) == 0
    assert paid(300, 20, 0.1, 0.01) == pytest.approx(200, rel=2e-6)
    assert paid(100, 20, 0.1, 0.01) == 100
    assert paid(300, 20, np.inf, 0.01) == 0


def test_without_scarcity_a_claim_costs_the_reserve_price() -> None:
    """A claim costs the reserve price; without a reserve price it costs nothing."""
    assert paid(300, 0, 0.01, 0.01) == 0
    assert paid(300, 2, 0.01, 0.01) == pytest.approx(200, rel=2e-6)
    assert paid(300, 4, 0.01, 0.01) == 300
    assert paid(300, 0, 0.0, 0.0) == 300


def prices_over_time(claimed: Snapshot, periods: int) -> list[Floats]:
    """Return the prices of an unchanged cloud over periods, as prices and paid claims interact."""
    reserve = np.array(list(RESERVE.values()))
    prices, past = reserve, []
    for _ in range(periods):
        vms = claimed.vms
        each = (np.tile(of, (len(vms), 1)) for of in (prices, reserve))
        held = replace(claimed, vms=replace(vms, floor=paid_floors(vms.floor, vms.bid, *each)))
        prices = decided(held, PriceRule.CLEARING).prices[0]
        past.append(prices)
    return past


@settings(max_examples=EXAMPLES)
@given(SEEDS)
def test_prices_settle(seed: int) -> None:
    """Paid claims raise the price and a higher price lowers them: both converge at once."""
    past = prices_over_time(market_of(seed), 8)
    assert np.allclose(past[3:], past[3], rtol=1e-9)


def test_prices_settle_where_a_neighbour_reaches_its_cap() -> None:
    """The neighbour leaves exactly what the other VM pays for: any price up to 9/256 clears."""
    host = hosts_table(np.array([[464.0, 464.0]]))
    claims = np.array([[0.0, 220.0], [0.0, 0.0]])
    vms = vms_table([0, 0], [[1.0, 1.0], [9.0, 9.0]], [[100.0, 256.0]] * 2, floor=claims)
    past = [float(prices[1]) for prices in prices_over_time(cloud(host, vms), 12)]
    assert past[1:] == [past[1]] * 11
    assert past[1] == pytest.approx(1 / 208)


@settings(max_examples=EXAMPLES)
@given(floor=AMOUNTS, bid=AMOUNTS, price=st.floats(1e-9, 1e6), reserve=st.floats(0, 1e6))
def test_a_paid_floor_never_exceeds_claim_or_bid(
    floor: float, bid: float, price: float, reserve: float
) -> None:
    """The paid floor never exceeds the claim or the bid's worth; higher bids never lower it."""
    floor_paid = paid(floor, bid, price, reserve)
    assert 0 <= floor_paid <= floor
    assert floor_paid * max(price, reserve) <= bid * (1 + 1e-9) + 1e-300
    assert paid(floor, bid * 2, price, reserve) >= floor_paid


@settings(max_examples=EXAMPLES)
@given(SEEDS)
def test_bids_that_buy_an_amount_get_it(seed: int) -> None:
    """Without claims, the computed bid gets the amount, and a lower bid does not."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 30))
    bids = rng.lognormal(0, 2, count) * (rng.random(count) < 0.8)
    caps = rng.uniform(1, 100, count)
    capacity, reserve = float(rng.uniform(50, 2_000)), 0.01
    rows = np.arange(count)
    amounts = rng.uniform(0.01, 1, count) * np.minimum(caps, capacity)
    bids_needed = bids_that_buy(rows, amounts, bids, caps, capacity, reserve)
    for row in rows.tolist():
        for part, enough in ((1.0, True), (0.99, False)):
            asked = bids.copy()
            asked[row] = bids_needed[row] * part
            full = np.minimum(caps, np.where(asked > 0, asked / reserve, 0.0))
            given_ = share(asked, np.zeros(count), full, np.zeros(count, int), np.array([capacity]))
            # A VM with nearly everything hardly loses anything by a 1 % lower bid.
            least = amounts[row] * (1 - 1e-5 if enough else 1 - 1e-7)
            assert (given_.allocation[row] >= least) == enough


@settings(max_examples=EXAMPLES)
@given(SEEDS)
def test_bids_that_buy_an_amount_get_it_on_one_host(seed: int) -> None:
    """Beside the VMs of the same host the computed bid gets the amount; a lower bid does not."""
    rng = np.random.default_rng(seed)
    count, hosts = int(rng.integers(1, 30)), int(rng.integers(1, 5))
    bids = rng.lognormal(0, 2, count) * (rng.random(count) < 0.8)
    caps, host = rng.uniform(1, 100, count), rng.integers(0, hosts, count)
    capacity, reserve = rng.uniform(50, 500, hosts), 0.01
    rows = rng.permutation(count)[: int(rng.integers(1, count + 1))]
    amounts = rng.uniform(0.01, 1, len(rows)) * np.minimum(caps, capacity[host])[rows]
    bids_needed = bids_that_buy_there(rows, amounts, bids, caps, host, capacity, reserve)
    for at, row in enumerate(rows.tolist()):
        for part, enough in ((1.0, True), (0.99, False)):
            asked = bids.copy()
            asked[row] = bids_needed[at] * part
            full = np.minimum(caps, np.where(asked > 0, asked / reserve, 0.0))
            full[host != host[row]] = 0.0
            given_ = share(asked, np.zeros(count), full, host, capacity)
            # A VM with nearly everything hardly loses anything by a 1 % lower bid.
            least = amounts[at] * (1 - 1e-5 if enough else 1 - 1e-7)
            assert (given_.allocation[row] >= least) == enough


def test_no_bid_buys_more_than_the_capacity() -> None:
    """No bid buys the whole capacity beside another bid, nor more than the capacity."""
    bids_needed = bids_that_buy(
        np.array([0, 0]), np.array([100.0, 200.0]), np.ones(2), np.full(2, 300.0), 100.0, 0.0
    )
    assert np.isinf(bids_needed).all()
