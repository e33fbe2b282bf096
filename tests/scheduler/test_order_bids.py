"""The VMs of limit orders in a snapshot: which take part, with what bids, floors and states."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.cluster import Decision, Markets, Plan, Snapshot, Vms, VmState
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.cluster.orders import LimitOrder, OrderOutcome, StatedOrders
from merkatd.market.price import PriceRule
from merkatd.placement.contract import Pricing
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.terms.ordered_vms import (
    as_bids,
    funded_periods,
    outcomes_of_all,
    takes_orders,
    with_stated_orders,
)
from tests.clouds import cloud, hosts_table, vms_table

CLEARING = MarketRules(pricing=Pricing(rule=PriceRule.CLEARING))
MARKETS = (CLEARING, replace(CLEARING, name="other"))
WORDS = ("RUNNING", "PENDING", "BOOT", "STOPPED", "POWEROFF", "RUNNING")
STATES = [
    *(VmState.RUNNING, VmState.PENDING, VmState.POWERED_OFF),
    *(VmState.ABSENT, VmState.POWERED_OFF, VmState.RUNNING),
]


def six_vms(market: tuple[int, ...] = (0,) * 6) -> Snapshot:
    """Return VMs that run, wait, boot, are saved, are off, and run; sizes 10 to 60."""
    size = np.array([[10.0, 100.0], [20.0, 100.0], [30.0, 0.0]] + [[40.0, 0.0]] * 3)
    return cloud(
        hosts_table(np.array([[900.0, 900.0]])),
        vms_table(
            [0, NO_HOST, 0, NO_HOST, 0, 0],
            np.full((6, 2), 7.0),
            size,
            floor=np.full((6, 2), 5.0),
            state=np.array(STATES, dtype=np.int64),
            market=np.array(market),
        ),
        markets=Markets(name=("default", "other")),
    )


def stated(*orders: LimitOrder, **parts: object) -> StatedOrders:
    """Return these orders, with announced prices of one market and an infinite one."""
    prices = {"default": {"cpu": 0.5, "memory": np.inf}}
    return replace(StatedOrders(orders=orders, prices=prices), **parts)  # type: ignore[arg-type]


def order_of(*vms: int, limit: float = 60.0, **parts: float) -> LimitOrder:
    """Return an order of these VMs."""
    return LimitOrder(id=9, owner=1, vms=vms, limit=limit, stated_s=0.0, **parts)  # type: ignore[arg-type]


def with_orders(
    snapshot: Snapshot, orders: StatedOrders, grouped: tuple[int, ...] = ()
) -> Snapshot:
    """Return the cloud with these orders."""
    return with_stated_orders(snapshot, WORDS, orders, MARKETS, grouped)


def test_vms_that_run_wait_or_start_share_the_limit_by_their_size() -> None:
    """Half of the limit is divided by CPU, half by memory; a VM that is off gets none."""
    orders = stated(order_of(0, 1, 2, 4))
    vms = with_orders(six_vms(), orders).vms
    assert vms.order.tolist() == [0, 0, 0, NO_ROW, 0, NO_ROW]
    assert vms.bid[:3].tolist() == [[5.0, 15.0], [10.0, 15.0], [15.0, 0.0]]
    assert vms.bid[3:].tolist() == [[7.0, 7.0]] * 3
    assert vms.floor[:3].tolist() == [[0.0, 0.0]] * 3
    assert vms.floor[3:].tolist() == [[5.0, 5.0]] * 3
    assert vms.starts.tolist() == [False, False, True, False, False, False]
    assert not vms.saved.any()


def left_out(vms: Vms) -> list[int]:
    """Return the rows of pending VMs that may get no host."""
    return np.flatnonzero((vms.state == VmState.PENDING) & ~vms.waiting).tolist()


def test_vms_wait_until_none_of_their_order_is_saved() -> None:
    """A saved VM has a part of the limit, and so have those that wait for it."""
    orders = stated(order_of(0, 1, 2, 3, 4), saved=frozenset({3}))
    vms = with_orders(six_vms(), orders).vms
    assert vms.order.tolist() == [0, 0, 0, 0, 0, NO_ROW]
    assert vms.state.tolist() == list(STATES)
    assert left_out(vms) == [1]
    assert vms.bid[[0, 2]].tolist() == [[3.0, 15.0], [9.0, 0.0]]
    assert vms.bid[[1, 3, 4, 5]].tolist() == [[7.0, 7.0]] * 4
    assert vms.saved.tolist() == [False, False, False, True, False, False]


@pytest.mark.parametrize("word", ["SAVE_STOP", "EPILOG_STOP"])
def test_vms_wait_until_none_of_their_order_is_being_saved(word: str) -> None:
    """Those of other orders do not."""
    snapshot = six_vms()
    state = snapshot.vms.state.copy()
    state[[0, 5]] = VmState.BUSY, VmState.PENDING
    snapshot = replace(snapshot, vms=replace(snapshot.vms, state=state))
    words = (word, *WORDS[1:5], "PENDING")
    orders = stated(order_of(0, 1), replace(order_of(5), id=10))
    vms = with_stated_orders(snapshot, words, orders, MARKETS, ()).vms
    assert left_out(vms) == [1]
    assert vms.bid[[0, 5]].tolist() == [[10.0, 15.0], [60.0, 0.0]]


def test_only_finite_prices_are_announced() -> None:
    """Where floors use up the capacity, a price is infinite."""
    announced = with_orders(six_vms(), stated(order_of(0))).markets.announced
    assert np.array_equal(announced, [[0.5, np.nan], [np.nan, np.nan]], equal_nan=True)


def test_a_bundle_of_one_good_has_the_whole_limit_there() -> None:
    """The VMs need no memory."""
    vms = with_orders(six_vms(), stated(order_of(2, 3, 5))).vms
    assert vms.bid[[2, 5]].sum(axis=0) == pytest.approx([60.0, 0.0])


def test_a_vm_that_boots_in_no_order_does_not_start() -> None:
    """It takes part like any VM that is off."""
    assert not with_orders(six_vms(), stated(order_of(0))).vms.starts.any()


def test_vms_of_groups_are_in_no_order() -> None:
    """They bid for their group."""
    vms = with_orders(six_vms(), stated(order_of(0, 1)), grouped=(1,)).vms
    assert vms.order.tolist() == [0, *[NO_ROW] * 5]
    assert vms.bid[:2].tolist() == [[30.0, 30.0], [7.0, 7.0]]


@pytest.mark.parametrize("market", [(0, 1, 0, 0, 0, 0), (-1,) * 6])
def test_an_order_in_several_markets_or_none_takes_no_part(market: tuple[int, ...]) -> None:
    """Its VMs keep their bids."""
    vms = with_orders(six_vms(market), stated(order_of(0, 1))).vms
    assert (vms.order == NO_ROW).all()
    assert (vms.bid == 7.0).all()


def test_an_order_whose_vms_may_have_nothing_takes_no_part() -> None:
    """Its bundle is empty, and has no price."""
    snapshot = six_vms()
    snapshot = replace(snapshot, vms=replace(snapshot.vms, cap=np.zeros((6, 2))))
    assert (with_orders(snapshot, stated(order_of(0, 1))).vms.order == NO_ROW).all()


def test_only_clearing_markets_that_charge_for_shares_take_orders() -> None:
    """`groups` charges for use."""
    assert takes_orders(CLEARING)
    assert not takes_orders(replace(CLEARING, pricing=Pricing(rule=PriceRule.PAPER)))
    assert not takes_orders(replace(CLEARING, strategy="groups"))


def test_pending_vms_whose_order_is_not_stated_yet_are_hidden() -> None:
    """Those that run stay."""
    vms = with_orders(six_vms(), stated(unordered=frozenset({0, 1}))).vms
    assert left_out(vms) == [1]


def test_orders_count_in_other_vms_prices_by_what_they_pay() -> None:
    """At most the announced price of their size; those that wait do not count."""
    snapshot = with_orders(six_vms(), stated(order_of(0, 1, limit=600.0)))
    vms = as_bids(snapshot).vms
    assert vms.bid[0].tolist() == [5.0, snapshot.vms.bid[0, 1]]
    assert vms.bid[5].tolist() == [7.0, 7.0]
    assert left_out(vms) == [1]
    plain = six_vms()
    assert as_bids(plain) is plain


def test_a_payer_must_have_the_credits_for_the_least_run() -> None:
    """A run of 600 s before it is ten periods, of which two are charged at once."""
    orders = stated(order_of(0, 1, least_run_s=600.0, factor=2.0), order_of(5))
    times = funded_periods(with_orders(six_vms(), orders), interval_s=60.0, most=2.0)
    assert times.tolist() == [5.0, 5.0, 1.0, 1.0, 1.0, 1.0]


def test_every_stated_order_has_an_outcome() -> None:
    """Those that took part in no market say why, in the order of their ids."""
    runs = OrderOutcome(4, True, 2.0, "")
    orders = stated(replace(order_of(5), id=3), replace(order_of(0, 1), id=4))
    snapshot = with_orders(six_vms(), orders)
    decision = Decision(Plan(()), np.zeros((6, 2)), np.zeros((2, 2)), orders={4: runs})
    other, same = outcomes_of_all(snapshot, np.zeros(0, dtype=np.int64), decision)
    assert (other.id, other.runs, other.cost) == (3, False, None)
    assert "none of its VMs runs or waits" in other.why
    assert same is runs


@given(data=st.data())
def test_each_of_several_orders_is_as_it_would_be_alone(data: st.DataObject) -> None:
    """VMs of any state, size and market, some of groups, in up to four orders or none."""
    row = data.draw(st.lists(st.integers(-1, 3), min_size=12, max_size=12))
    markets = data.draw(st.lists(st.integers(-1, 1), min_size=12, max_size=12))
    kinds = data.draw(st.lists(st.integers(0, 5), min_size=12, max_size=12))
    size = data.draw(st.lists(st.sampled_from([0.0, 10.0, 30.0]), min_size=24, max_size=24))
    grouped = tuple(data.draw(st.frozensets(st.integers(0, 11), max_size=3)))
    snapshot = cloud(
        hosts_table(np.array([[900.0, 900.0]])),
        vms_table(
            [0] * 12,
            np.full((12, 2), 7.0),
            np.array(size).reshape(12, 2),
            state=np.array([STATES[kind] for kind in kinds], dtype=np.int64),
            market=np.array(markets),
        ),
        markets=Markets(name=("default", "other")),
    )
    words = [WORDS[kind] for kind in kinds]
    saved = frozenset(np.flatnonzero(np.array(kinds) == 3).tolist())
    orders = [
        replace(order_of(*np.flatnonzero(np.array(row) == number).tolist()), id=number)
        for number in range(4)
        if number in row
    ]

    def seen(*some: LimitOrder) -> Snapshot:
        return with_stated_orders(snapshot, words, stated(*some, saved=saved), MARKETS, grouped)

    together = seen(*orders).vms
    for order in orders:
        alone, mine = seen(order).vms, list(order.vms)
        assert (together.order[mine] != NO_ROW).tolist() == (alone.order[mine] == 0).tolist()
        assert together.bid[mine].tolist() == alone.bid[mine].tolist()
        assert together.floor[mine].tolist() == alone.floor[mine].tolist()
        assert together.starts[mine].tolist() == alone.starts[mine].tolist()
