"""The odds of a limit, against numbers worked by hand and against small steps of time."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.market.odds.limit_odds import (
    NeededLimits,
    limits_around,
    odds_of,
    past_of,
    rounded_up,
)

HOUR_S = 3600.0


def past(*needed: float, hours: float = 1.0) -> NeededLimits:
    """Return a past of stretches of so many hours that needed these limits."""
    return NeededLimits(np.full(len(needed), hours * HOUR_S), np.array(needed))


class TestByHand:
    def test_the_example_of_the_note(self) -> None:
        """Six hours; a limit of 4 runs in three of them, and is done from two of six moments."""
        six = past(5, 5, 3, 3, 5, 3)
        odds = odds_of(six, 4.0, 2 * HOUR_S, 3 * HOUR_S)
        assert (odds.part, odds.cost, odds.stops_per_day) == (0.5, 3.0, 2 * 4.0)
        assert odds.chance == pytest.approx(1 / 3, abs=1e-8)
        assert odds_of(six, 5.0, 2 * HOUR_S, 3 * HOUR_S).chance == 1.0
        assert odds_of(six, 2.9, 2 * HOUR_S, 3 * HOUR_S).chance == 0.0

    def test_a_part_of_a_stretch_counts(self) -> None:
        """The second of two hours runs: from 0:45 to 1:15 it has 45 minutes within the next 60."""
        assert past(2, 1).chance(1.0, 0.75 * HOUR_S, HOUR_S) == pytest.approx(0.25, abs=1e-8)

    def test_time_counts_and_not_the_number_of_stretches(self) -> None:
        """Ten records within a minute are a minute."""
        lasted = np.array([*np.full(10, 6.0), 59 * 60.0])
        both = NeededLimits(lasted, np.array([*np.full(10, 1.0), 9.0]))
        assert both.part(1.0) == pytest.approx(1 / 60)
        assert both.cost(9.0) == pytest.approx((1 + 9 * 59) / 60)

    def test_a_deadline_longer_than_the_history_goes_round(self) -> None:
        """Two of four hours run: five hours always have at least two and at most three of work."""
        four = past(1, 9, 1, 9)
        assert four.chance(1.0, 2 * HOUR_S, 5 * HOUR_S) == 1.0
        assert four.chance(1.0, 3.01 * HOUR_S, 5 * HOUR_S) == 0.0
        assert four.windows(2 * HOUR_S) == 2.0

    def test_all_of_the_time_is_just_enough(self) -> None:
        """Work as long as its deadline is done if the limit always runs."""
        assert past(1, 1, 1, hours=1 / 3).chance(1.0, HOUR_S, HOUR_S) == 1.0
        assert past(1, 1, 1, hours=1 / 3).chance(1.0, 1.01 * HOUR_S, HOUR_S) == 0.0

    def test_where_no_limit_was_enough_none_runs(self) -> None:
        """An infinite need is met by no limit, and no average contains it."""
        half = past(np.inf, 2)
        assert (half.part(1e12), half.cost(1e12), half.cost(1.0)) == (0.5, 2.0, None)

    def test_limits_to_show(self) -> None:
        """They lie around the present need, or around the average one if nothing is enough now."""
        assert limits_around(4.0, None) == [2.0, 3.0, 4.0, 6.0, 8.0]
        assert limits_around(None, past(1, 3, np.inf)) == [1.0, 1.5, 2.001, 3.0, 4.0]
        assert limits_around(None, None) == limits_around(None, past(np.inf)) == []

    def test_a_limit_is_rounded_up(self) -> None:
        """The limit that a text shows is enough, also beside an equal order."""
        given = [1.23401, 1.234, 0.00012345, 123456.0, 7.0, 0.0, np.inf, 9.9999]
        shown = [1.235, 1.235, 0.0001235, 123500.0, 7.001, 1e-6, np.inf, 10.0]
        assert [rounded_up(limit) for limit in given] == shown

    def test_gaps_between_records_are_left_out(self) -> None:
        """A record says something of five minutes at most, and nothing if a clock was set back."""
        known = past_of(
            [0.0, 300.0, 4_000.0, 3_900.0], np.array([1.0, 2.0, 3.0, 4.0]), 4_000.0, 600
        )
        assert known.lasted_s.tolist() == [300.0, 600.0, 100.0]
        assert known.needed.tolist() == [1.0, 2.0, 4.0]


NEEDS = st.lists(
    st.tuples(st.floats(1.0, 1e4), st.sampled_from([1.0, 2.0, 3.0, np.inf])),
    min_size=1,
    max_size=12,
)


def of(rows: list[tuple[float, float]]) -> NeededLimits:
    """Return the past of these lengths and needs."""
    table = np.array(rows)
    return NeededLimits(table[:, 0], table[:, 1])


@given(NEEDS, st.floats(1.0, 2e4), st.floats(1.0, 5e4))
def test_small_steps_of_time_agree(
    rows: list[tuple[float, float]], work_s: float, within_s: float
) -> None:
    """Counting moments finds the same chance as the straight lines."""
    history = of(rows)
    ends = np.cumsum(history.lasted_s)
    count = 4_000
    starts = (np.arange(count) + 0.5) / count * ends[-1]
    steps = (np.arange(count) + 0.5) / count * within_s
    at = np.mod(starts[::20, np.newaxis] + steps, ends[-1])
    runs = history.needed[np.minimum(np.searchsorted(ends, at, side="right"), len(ends) - 1)] <= 2
    done = runs.mean(axis=1) * within_s
    near = np.abs(done - work_s) < within_s * 5e-3
    counted, unsure = float((done >= work_s).mean()), float(near.mean())
    chance = history.chance(2.0, work_s, within_s)
    assert abs(chance - counted) <= unsure + 0.06


@given(NEEDS, st.floats(1.0, 2e4), st.floats(1.0, 5e4), st.floats(1.0, 3.0))
def test_a_higher_limit_and_a_later_deadline_never_lower_the_chance(
    rows: list[tuple[float, float]], work_s: float, within_s: float, more: float
) -> None:
    """More work never raises it."""
    history = of(rows)
    chances = [history.chance(limit, work_s, within_s) for limit in (0.5, 1.0, 2.0, 3.0)]
    assert all(a <= b + 1e-9 for a, b in pairwise(chances))
    assert all(-1e-12 <= chance <= 1 + 1e-12 for chance in chances)
    assert history.chance(2.0, work_s, within_s * more) >= chances[2] - 1e-6
    assert history.chance(2.0, work_s * more, within_s) <= chances[2] + 1e-9
