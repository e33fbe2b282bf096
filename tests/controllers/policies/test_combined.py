"""Algorithms 2 and 4 together."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.policies.bound import Prices
from controllers.policies.combined import Combined, combine
from controllers.policies.horizontal import Fleet
from controllers.policies.vertical import Means, Performance, Standing, Trace

PRICES = Prices(others=(1.0, 0.1), capacity=(7000.0, 235520.0))
SIZE = (100.0, 900.0)
LEAST = (10.0, 90.0)


def standing(part: float, bid: float = 50.0) -> Standing:
    """A VM with that part of all it can use."""
    return Standing(
        bid=(bid, bid),
        allocation=(SIZE[0] * part, SIZE[1] * part),
        least=LEAST,
        most=SIZE,
        keeping=(101.5, 90.3),
    )


def step(
    value: float, vms: int, part: float, bid_max: float = 1e6, waiting: int = 0, least: int = 0
) -> Combined:
    """One step of an application of which a second an iteration is wanted."""
    fleet = Fleet(vms=vms, least=least, most=50, size=SIZE, waiting=waiting)
    performance = Performance(value=value, reference=1.0, low=0.75, high=0.95)
    standings = {vm: standing(part) for vm in range(vms)}
    return combine(fleet, standings, performance, Means(bid_min=0.1, bid_max=bid_max), PRICES, {})


def test_slow_with_small_vms_bids_more_and_asks_for_none() -> None:
    """They can still grow."""
    combined = step(2.0, vms=4, part=0.5)
    assert (combined.vms, combined.request, combined.release) == (4, 0, 0)
    assert all(one.bid == (100.0, 100.0) for one in combined.adapted.values())


def test_slow_with_full_vms_asks_for_one_more() -> None:
    """But not right after a forced release."""
    assert step(2.0, vms=4, part=1.0).request == 1
    assert step(2.0, vms=4, part=1.0, waiting=1).request == 0


def test_fast_lowers_bids_first_and_releases_when_the_rest_can_do_it() -> None:
    """Four VMs at nine tenths can't be three; at four tenths they can."""
    assert step(0.7, vms=4, part=0.9).release == 0
    assert step(0.7, vms=4, part=0.4).release == 1
    assert step(0.7, vms=4, part=0.4, least=4).release == 0
    assert step(0.1, vms=1, part=0.4).release == 0


def test_as_it_should_be_nothing_changes() -> None:
    """Neither number nor bids."""
    combined = step(0.85, vms=3, part=0.5)
    assert combined.vms == 3
    assert all(one.bid == (50.0, 50.0) for one in combined.adapted.values())


def test_those_that_could_not_hold_their_least_are_released_at_once() -> None:
    """And none is asked for in the next period."""
    combined = step(2.0, vms=30, part=0.1, bid_max=200.0)
    assert 0 < combined.vms < 30
    assert combined.forced == 30 - combined.vms
    assert combined.waiting == 1


@given(
    st.floats(0.05, 10.0),
    st.integers(0, 40),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1e5),
    st.integers(0, 3),
    st.integers(0, 5),
)
def test_bids_of_all_stay_within_the_budget_and_the_number_in_its_limits(
    value: float, vms: int, part: float, bid_max: float, waiting: int, least: int
) -> None:
    """Whatever there is."""
    combined = step(value, vms, part, bid_max, waiting, least)
    spent = sum(sum(one.bid) for one in combined.adapted.values())
    assert spent <= bid_max * (1 + 1e-9)
    assert least <= combined.vms <= max(50, least)
    assert combined.vms == vms + combined.request - combined.release


@pytest.mark.parametrize("need", [1.3, 2.6, 4.9])
def test_settles_where_vms_and_bids_both_can_move(need: float) -> None:
    """Work for so many whole VMs: their number comes to rest, and the work is done in time."""
    vms, waiting = 1, 0
    bids: dict[int, tuple[float, ...]] = {0: (1.0, 1.0)}
    traces: Mapping[int, tuple[Trace, ...]] = {}
    numbers, late = [], []
    for _ in range(160):
        got = {
            vm: tuple(
                min(size, capacity * bid / (price * capacity + sum(b[row] for b in bids.values())))
                for row, (size, capacity, price, bid) in enumerate(
                    zip(SIZE, PRICES.capacity, PRICES.others, own, strict=True)
                )
            )
            for vm, own in bids.items()
        }
        value = need / sum(one[0] / SIZE[0] for one in got.values())
        standings = {
            vm: Standing(bid=own, allocation=got[vm], least=LEAST, most=SIZE, keeping=(103.0, 92.0))
            for vm, own in bids.items()
        }
        combined = combine(
            Fleet(vms=vms, least=1, most=50, size=SIZE, waiting=waiting),
            standings,
            Performance(value=value, reference=1.0, low=0.75, high=0.95),
            Means(bid_min=0.1, bid_max=1e5),
            PRICES,
            traces,
        )
        bids = {vm: one.bid for vm, one in combined.adapted.items()}
        traces = {vm: one.traces for vm, one in combined.adapted.items()}
        vms, waiting = combined.vms, combined.waiting
        while len(bids) < vms:
            bids[max(bids) + 1] = (1.0, 1.0)
        bids = dict(sorted(bids.items())[:vms])
        numbers.append(vms)
        late.append(value)
    assert len(set(numbers[120:])) == 1
    assert max(late[120:]) <= 0.95 * (1 + 1e-6)
