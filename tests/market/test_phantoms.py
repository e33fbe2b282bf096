"""Under every price rule a bid counts only as far as its VM can use it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Decision, Floats, Snapshot
from merkatd.cluster.columns import NO_HOST
from merkatd.market.price import PriceRule, charges, price
from merkatd.market.share import share
from merkatd.placement.contract import Pricing
from merkatd.placement.registry import strategy_named
from merkatd.placement.tabu.paper import MarketSettings, paper
from merkatd.scheduler.base.settings import MarketRules
from tests.clouds import cloud, hosts_table, vms_table
from tests.lengths import EXAMPLES

HOST = 400.0
RESERVE = {"cpu": 0.001, "memory": 0.0}

SEEDS = st.integers(0, 2**32 - 1)


def ten_neighbours() -> Snapshot:
    """Return one host with ten VMs that each bid ten credits."""
    hosts = hosts_table(np.array([[HOST, 8192.0]]))
    return cloud(hosts, vms_table([0] * 10, [[10.0, 0.0]] * 10, [[200.0, 1.0]] * 10))


def market_of(seed: int, *, hosts: int = 3, vms: int = 12) -> Snapshot:
    """Return hosts of four cores with VMs of all sizes, some with floors, some without bids."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, hosts, vms)
    cap = np.stack([rng.choice([1.0, 50.0, 200.0, 800.0], vms), np.full(vms, 100.0)], axis=1)
    bid = 10 ** rng.uniform(-3, 3, (vms, 2)) * rng.choice([0.0, 1.0, 1.0], (vms, 2))
    floor = cap * rng.choice([0.0, 0.0, 0.5], (vms, 1))
    return cloud(
        hosts_table(np.array([[HOST, 8192.0]] * hosts)), vms_table(place, bid, cap, floor=floor)
    )


def join_vm(snapshot: Snapshot, bid: float, cap: float, host: int = 0) -> Snapshot:
    """Return the same market with another VM that uses almost no memory."""
    vms = snapshot.vms
    table = vms_table(
        [*vms.host, host],
        [*vms.bid, [bid, 0.0]],
        [*vms.cap, [cap, 1.0]],
        floor=np.array([*vms.floor, [0.0, 0.0]]),
    )
    return cloud(snapshot.hosts, table)


def decided(snapshot: Snapshot, rule: PriceRule, **settings_: Any) -> Decision:
    """Return a decision in which all VMs stay, so that only the price matters."""
    pricing = Pricing(rule=rule, reserve=RESERVE, **settings_)
    held = replace(
        snapshot, vms=replace(snapshot.vms, movable=np.zeros(len(snapshot.vms), dtype=bool))
    )
    return paper(held, MarketSettings(pricing=pricing), {}, np.random.default_rng(0))


def charge_cpu(snapshot: Snapshot, decision: Decision) -> Floats:
    """Return the CPU charge of each VM."""
    prices = np.tile(decision.prices[0], (len(snapshot.vms), 1))
    return charges(
        snapshot.vms.bid,
        decision.allocations,
        prices,
        1.0,
        floors=snapshot.vms.floor,
        reserve=np.array(list(RESERVE.values())),
    )[:, 0]


def test_clearing_is_the_default() -> None:
    """Markets and strategies that sell shares use the clearing rule by default."""
    assert MarketRules().pricing.rule is PriceRule.CLEARING
    assert strategy_named("tabu").defaults.pricing.rule is PriceRule.CLEARING
    assert strategy_named("paper").defaults.pricing.rule is PriceRule.CLEARING


@pytest.mark.parametrize("rule", PriceRule)
def test_an_unusable_bid_does_not_raise_the_neighbours_charges(rule: PriceRule) -> None:
    """A VM that bids 9,000 for one usable unit leaves ten neighbours' charges unchanged."""
    honest = ten_neighbours()
    before = charge_cpu(honest, decided(honest, rule))
    crowd = join_vm(honest, 9000.0, 1.0)
    after = charge_cpu(crowd, decided(crowd, rule))
    assert after[:10] == pytest.approx(before, rel=0.01)
    assert (after[:10] <= 10.0 + 1e-9).all()
    assert after[10] == pytest.approx(100 / 399, rel=0.01)


@settings(max_examples=EXAMPLES)
@given(seed=SEEDS, rule=st.sampled_from(PriceRule), bid=st.floats(0, 1e9), cap=st.floats(0.1, 1e5))
def test_a_bid_adds_only_what_its_vm_can_use_at_the_price(
    seed: int, rule: PriceRule, bid: float, cap: float
) -> None:
    """However high the bid, the price is at most that of the capacity left to the others."""
    snapshot = market_of(seed)
    price_now = decided(join_vm(snapshot, bid, cap), rule).prices[0, 0]
    vms = snapshot.vms
    caps = np.minimum(vms.cap[:, 0], HOST)
    floors = np.minimum(vms.floor[:, 0], caps) * (rule is PriceRule.CLEARING)
    left = HOST * len(snapshot.hosts) - min(cap, HOST)
    level = share(
        vms.bid[:, 0], floors, caps, np.zeros(len(vms), dtype=np.int64), np.array([left])
    ).level
    assert price_now <= price(level, np.array([RESERVE["cpu"]]))[0] * (1 + 1e-9)


@settings(max_examples=EXAMPLES)
@given(seed=SEEDS)
def test_clearing_never_charges_more_than_bid_or_floor(
    seed: int,
) -> None:
    """A charge never exceeds the bid, or the floor at the reserve price, on any crowded host."""
    snapshot = market_of(seed)
    vms = snapshot.vms
    got = charge_cpu(snapshot, decided(snapshot, PriceRule.CLEARING))
    most = np.maximum(vms.bid[:, 0], RESERVE["cpu"] * vms.floor[:, 0])
    assert (got <= most * (1 + 1e-12)).all()


@settings(max_examples=EXAMPLES)
@given(seed=SEEDS, rule=st.sampled_from(PriceRule))
def test_the_price_is_covered_by_usable_bids(seed: int, rule: PriceRule) -> None:
    """Price x capacity never exceeds the sum of bids, each counted as far as its VM can use it."""
    snapshot = market_of(seed)
    price_now = decided(snapshot, rule).prices[0, 0]
    if price_now <= RESERVE["cpu"] or np.isinf(price_now):
        return
    there = snapshot.vms.host != NO_HOST
    cap = np.minimum(snapshot.vms.cap[there, 0], HOST)
    floor = snapshot.vms.floor[there, 0] if rule is PriceRule.CLEARING else np.zeros(len(cap))
    counted = np.clip(
        snapshot.vms.bid[there, 0], price_now * np.minimum(floor, cap), price_now * cap
    )
    total = HOST * len(snapshot.hosts)
    assert price_now * total <= counted.sum() * (1 + 1e-9)


def test_the_papers_experiments_count_whole_bids() -> None:
    """Simulations of the paper count whole bids, so that their figures are comparable."""
    honest = ten_neighbours()
    crowd = join_vm(honest, 9000.0, 1.0)
    price_now = decided(crowd, PriceRule.PAPER, whole_bids=True).prices[0, 0]
    assert price_now == pytest.approx(9100 / HOST)


@settings(max_examples=EXAMPLES)
@given(SEEDS)
def test_no_unit_sells_below_the_reserve_price(seed: int) -> None:
    """A VM pays at least the reserve price, and at most its bid or its floor's reserve price."""
    snapshot = market_of(seed)
    reserve = np.array(list(RESERVE.values()))
    bounded = replace(snapshot, markets=replace(snapshot.markets, reserve=reserve[np.newaxis]))
    decision = decided(bounded, PriceRule.CLEARING)
    paid, given_ = charge_cpu(bounded, decision), decision.allocations[:, 0]
    assert (paid >= given_ * reserve[0] * (1 - 1e-9)).all()
    most = np.maximum(snapshot.vms.bid, snapshot.vms.floor * reserve)[:, 0]
    assert (paid <= most * (1 + 1e-9)).all()


@settings(max_examples=EXAMPLES)
@given(SEEDS)
def test_vms_that_pay_for_their_sizes_lose_nothing_by_the_reserve_price(seed: int) -> None:
    """When low bids buy less, VMs whose bids pay for their sizes get at least as much as before."""
    snapshot = market_of(seed)
    reserve = np.array(list(RESERVE.values()))
    bounded = replace(snapshot, markets=replace(snapshot.markets, reserve=reserve[np.newaxis]))
    before, after = (decided(scene, PriceRule.CLEARING) for scene in (snapshot, bounded))
    pays = (snapshot.vms.bid >= snapshot.vms.cap * reserve)[:, 0]
    gained = after.allocations[pays, 0] - before.allocations[pays, 0]
    assert (gained >= -1e-9 * HOST).all()
