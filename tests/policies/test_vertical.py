"""Algorithm 2: each branch, its bounds, and that it settles."""

from math import inf

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from merkatd.policies.vertical import BidTrace, Performance, SpendingLimit, VmPosition, adapt
from tests.policies.markets import Constant

MEANS = SpendingLimit(bid_min=0.1, bid_max=1000.0)


def standing(
    bid: tuple[float, float] = (4.0, 4.0),
    allocation: tuple[float, float] = (50.0, 500.0),
    keeping: tuple[float, float] = (20.0, 20.0),
) -> VmPosition:
    """A VM with half of what it could use."""
    return VmPosition(
        bid=bid, allocation=allocation, least=(10.0, 100.0), most=(100.0, 1000.0), keeping=keeping
    )


def at(value: float) -> Performance:
    """An application whose iterations take so long, of one second that they should."""
    return Performance(value=value, reference=1.0, low=0.75, high=0.95)


@pytest.mark.parametrize("value", [0.0, 1.0, 1e300, inf])
@pytest.mark.parametrize("reference", [0.0, 5e-324, 1.0, 1e300, inf])
@pytest.mark.parametrize("bid_max", [0.0, 1000.0])
def test_any_times_come_to_bids(value: float, reference: float, bid_max: float) -> None:
    """No time is left, or no work; an application may say that an iteration takes any time."""
    performance = Performance(
        value=value, reference=reference, low=0.75 * reference, high=0.95 * reference
    )
    for bid in (0.0, 4.0):
        means = SpendingLimit(bid_min=0.0, bid_max=bid_max)
        bids = adapt(standing(bid=(bid, bid)), performance, means).bid
        assert all(0.0 <= amount <= max(bid_max, bid) for amount in bids)


class TestBranches:
    def test_slow_doubles(self) -> None:
        """Just above the upper threshold."""
        assert adapt(standing(), at(1.2), MEANS).bid == (8.0, 8.0)

    def test_very_slow_is_raised_by_the_gap(self) -> None:
        """Four times, where an iteration takes four times as long."""
        assert adapt(standing(), at(4.0), MEANS).bid == (16.0, 16.0)

    def test_fast_halves(self) -> None:
        """Just below the lower threshold."""
        assert adapt(standing(), at(0.7), MEANS).bid == (2.0, 2.0)

    def test_very_fast_is_lowered_by_the_gap(self) -> None:
        """To a quarter, where an iteration takes a quarter."""
        assert adapt(standing(), at(0.25), MEANS).bid == (1.0, 1.0)

    def test_between_the_thresholds_nothing_changes(self) -> None:
        """There it is as it should be."""
        assert adapt(standing(), at(0.85), MEANS).bid == (4.0, 4.0)

    def test_below_its_least_a_resource_is_raised_however_fast_all_goes(self) -> None:
        """The other is judged by speed."""
        poor = standing(allocation=(5.0, 500.0))
        assert adapt(poor, at(0.85), MEANS).bid == (8.0, 4.0)
        assert adapt(poor, at(0.5), MEANS).bid == (8.0, 2.0)

    def test_at_its_least_a_resource_is_not_lowered(self) -> None:
        """The other one is."""
        assert adapt(standing(allocation=(10.0, 500.0)), at(0.5), MEANS).bid == (4.0, 2.0)

    def test_at_its_most_a_bid_falls_to_what_keeps_it(self) -> None:
        """More would buy nothing."""
        full = standing(bid=(50.0, 4.0), allocation=(100.0, 500.0))
        assert adapt(full, at(0.85), MEANS).bid == (20.0, 4.0)
        assert adapt(full, at(1.2), MEANS).bid == (20.0, 8.0)

    def test_at_its_most_and_fast_it_falls_at_least_that_far(self) -> None:
        """Half of 50 would still be too much."""
        full = standing(bid=(50.0, 4.0), allocation=(100.0, 500.0))
        assert adapt(full, at(0.7), MEANS).bid == (20.0, 2.0)

    def test_a_change_back_is_at_most_half_as_large(self) -> None:
        """So that bids settle."""
        up = (BidTrace(change=2.0, run=1, market=20.0),) * 2
        assert adapt(standing(), at(0.7), MEANS, up).bid == (3.0, 3.0)
        down = (BidTrace(change=-4.0, run=1, market=20.0),) * 2
        assert adapt(standing(), at(1.2), MEANS, down).bid == (6.0, 6.0)

    def test_a_third_change_in_one_direction_is_at_most_twice_the_limit(self) -> None:
        """The second one is not larger than the limit, and one in each direction settles."""
        for run, bid in ((1, 5.0), (2, 6.0)):
            up = (BidTrace(change=1.0, limit=1.0, run=run, market=20.0),) * 2
            adapted = adapt(standing(), at(1.2), MEANS, up)
            assert adapted.bid == (bid, bid)
            assert {trace.run for trace in adapted.traces} == {run + 1}

    def test_a_market_that_swings_to_and_fro_has_not_turned(self) -> None:
        """Only a price that is far from both of the last two is another market's."""
        for before, bid in ((20.0, 3.0), (None, 2.0), (80.0, 2.0)):
            up = (BidTrace(change=2.0, run=1, market=40.0, market_before=before),) * 2
            assert adapt(standing(), at(0.7), MEANS, up).bid == (bid, bid)

    def test_in_a_market_that_has_turned_steps_are_as_large_as_at_first(self) -> None:
        """Small ones were right for another one."""
        up = (BidTrace(change=0.01, limit=0.01, run=1, market=40.0),) * 2
        assert adapt(standing(), at(0.7), MEANS, up).bid == (2.0, 2.0)
        assert adapt(standing(), at(1.2), MEANS, up).bid == (8.0, 8.0)

    def test_too_small_a_budget_goes_where_most_is_lacking(self) -> None:
        """Two thirds to the one that lacks twice the part."""
        position = standing(allocation=(50.0, 750.0), bid=(6.0, 6.0))
        assert adapt(
            position, at(1.2), SpendingLimit(bid_min=0.1, bid_max=9.0)
        ).bid == pytest.approx((6, 3))

    def test_who_has_the_most_leaves_the_rest_of_the_budget_to_the_other(self) -> None:
        """All of it."""
        position = standing(bid=(4.0, 6.0), allocation=(100.0, 500.0), keeping=(3.0, 50.0))
        bids = adapt(position, at(1.2), SpendingLimit(bid_min=0.1, bid_max=11.0)).bid
        assert bids == pytest.approx((3.0, 8.0))

    def test_what_a_slow_lowering_has_not_freed_yet_is_not_bid_elsewhere(self) -> None:
        """The first bid falls by 5 of 30; of the 4 that the second lacks 2 are left."""
        position = standing(bid=(50.0, 4.0), allocation=(100.0, 500.0))
        seen = (BidTrace(change=10.0, run=1, market=20.0), BidTrace(market=20.0))
        adapted = adapt(position, at(1.2), SpendingLimit(bid_min=0.1, bid_max=51.0), seen)
        assert adapted.bid == pytest.approx((45.0, 6.0))

    def test_who_makes_no_progress_at_all_bids_what_there_is(self) -> None:
        """Even from nothing."""
        bids = adapt(
            standing(bid=(0.0, 0.0)), at(inf), SpendingLimit(bid_min=0.1, bid_max=10.0)
        ).bid
        assert sum(bids) == pytest.approx(10.0)


positive = st.floats(1e-6, 1e6)
pair = st.tuples(positive, positive)
traces = st.tuples(
    *[
        st.builds(
            BidTrace,
            st.floats(-1e6, 1e6),
            positive,
            st.integers(0, 5),
            positive,
            positive,
            positive,
        )
    ]
    * 2
)


@example(
    bid=(32769.0, 1.0),
    part=(0.0, 1.0),
    most=(1.0, 1.0),
    value=0.0,
    bid_max=0.001953125,
    seen=(BidTrace(), BidTrace()),
)
@given(
    bid=pair,
    part=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    most=pair,
    value=st.floats(0, 1e3),
    bid_max=positive,
    seen=traces,
)
def test_bids_stay_within_the_budget_and_above_nothing(
    bid: tuple[float, float],
    part: tuple[float, float],
    most: tuple[float, float],
    value: float,
    bid_max: float,
    seen: tuple[BidTrace, BidTrace],
) -> None:
    """Whatever there was before."""
    now = VmPosition(
        bid=bid,
        allocation=(part[0] * most[0], part[1] * most[1]),
        least=(0.1 * most[0], 0.1 * most[1]),
        most=most,
        keeping=bid,
    )
    new = adapt(now, at(value), SpendingLimit(bid_min=1e-9, bid_max=bid_max), seen).bid
    assert sum(new) <= bid_max * (1 + 1e-9)
    assert min(new) >= 0


STEPS = 40
"""Within so many periods bids settle when nothing else changes."""


@given(
    others=st.tuples(st.floats(0.1, 1e4), st.floats(0.1, 1e4)),
    need=st.floats(0.1, 1.0),
    start=st.tuples(st.floats(0.1, 1e3), st.floats(0.1, 1e3)),
    bid_max=st.floats(1.0, 1e5),
    memory_counts=st.booleans(),
)
def test_settles_under_constant_conditions(
    others: tuple[float, float],
    need: float,
    start: tuple[float, float],
    bid_max: float,
    memory_counts: bool,
) -> None:
    """Also where what is needed is nearly all that there can be."""
    market = Constant(
        others=others,
        capacity=(800.0, 16384.0),
        most=(100.0, 2048.0),
        least=(10.0, 204.8),
        reference_s=1.0 / (need * 0.85),
        share_needed=(1.0, 0.5 if memory_counts else 0.0),
    )
    bids = market.played(start, SpendingLimit(bid_min=0.01, bid_max=bid_max), STEPS + 20)
    late = bids[STEPS:]
    for row in range(2):
        values = [bid[row] for bid in late]
        assert max(values) - min(values) <= 0.02 * max(values)


@given(st.floats(0.5, 100.0), st.floats(0.2, 0.9))
def test_meets_what_it_can_afford(others: float, need: float) -> None:
    """With enough money the application is not slow once its bids have settled."""
    market = Constant(
        others=(others, others),
        capacity=(800.0, 16384.0),
        most=(100.0, 2048.0),
        least=(10.0, 204.8),
        reference_s=1.0 / (need * 0.9),
    )
    last = market.played((1.0, 1.0), SpendingLimit(bid_min=0.01, bid_max=1e6), STEPS)[-1]
    assert not market.performance(last).slow


OTHERS_BID = 5.0


@example(start=(5.473846001918723, 10.160984198292848), need=27.19185703661981)
@given(start=st.tuples(st.floats(0.5, 20.0), st.floats(0.5, 20.0)), need=st.floats(20.0, 36.0))
def test_two_who_only_care_for_themselves_do_not_spiral(
    start: tuple[float, float], need: float
) -> None:
    """Both want up to 36 % of the cloud, beside another, and could pay any price for it.

    In the example each one's bid halves and doubles the market of the other, in turns.
    """
    bids: list[tuple[float, ...]] = [(bid,) for bid in start]
    known: list[tuple[BidTrace, ...]] = [(), ()]
    sums, slow = [], []
    for _ in range(100):
        total = bids[0][0] + bids[1][0] + OTHERS_BID
        new = []
        for row, own in enumerate(bids):
            got = min(90.0, 100.0 * own[0] / total)
            keeping = (total - own[0]) * 9.0
            now = VmPosition(
                bid=own, allocation=(got,), least=(1.0,), most=(90.0,), keeping=(keeping,)
            )
            seen = at(need / got)
            slow.append(seen.slow)
            adapted = adapt(now, seen, SpendingLimit(bid_min=0.01, bid_max=1e5), known[row])
            known[row] = adapted.traces
            new.append(adapted.bid)
        bids = new
        sums.append(bids[0][0] + bids[1][0])
    assert max(sums) <= 20.0 * max(sum(start), OTHERS_BID)
    assert max(sums[70:]) - min(sums[70:]) <= 0.01 * max(sums[70:])
    assert not any(slow[-40:])
