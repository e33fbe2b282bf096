"""A wall clock that jumps ahead is believed only after it has held."""

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.scheduler.base.believed_time import (
    LONGEST_S,
    MOMENT_EACH_S,
    MOMENT_S,
    SLEWED,
    Belief,
    first_belief,
    next_belief,
    patience_s,
)

INTERVAL_S = 60.0
HELD_S = 600.0
BEGUN_S = 1.8e9
HOUR_S = 3_600.0

STEPS = st.floats(1.0, 120.0)
JUMPS = st.one_of(st.just(0.0), st.floats(-1e7, 1e7))


def played(steps: list[tuple[float, float]]) -> list[tuple[float, float, Belief]]:
    """Return the time passed, the clock's time and the belief of each look."""
    steady = list(accumulate((step for step, _ in steps), initial=0.0))
    off = list(accumulate((jump for _, jump in steps), initial=0.0))
    belief, found = None, []
    for steady_s, off_s in zip(steady, off, strict=True):
        wall_s = BEGUN_S + steady_s + off_s
        belief = next_belief(belief, wall_s, steady_s, HELD_S)
        found.append((steady_s, wall_s, belief))
    return found


def test_a_new_time_must_hold_for_ten_intervals_or_half_an_hour() -> None:
    """The shorter of the two applies."""
    assert patience_s(INTERVAL_S) == HELD_S
    assert patience_s(1_000.0) == LONGEST_S == 1_800.0


def test_a_clock_that_is_ahead_for_a_while_is_not_believed() -> None:
    """The believed time continues as before, and the jump leaves no trace."""
    steps = [(60.0, 0.0), (60.0, 200 * HOUR_S), *[(60.0, 0.0)] * 5, (60.0, -200 * HOUR_S)]
    for steady_s, _, belief in played(steps):
        assert belief.time_s == BEGUN_S + steady_s
    assert belief.ahead_s == 0.0


def test_a_clock_that_stays_ahead_is_believed_after_the_patience() -> None:
    """The belief changes in exactly the look in which the patience ends."""
    beliefs = played([(60.0, 200 * HOUR_S), *[(60.0, 0.0)] * 10])
    assert [belief.ahead_s > 0 for _, _, belief in beliefs] == [False] + [True] * 10 + [False]
    assert beliefs[-1][2].time_s == beliefs[-1][1]


def test_a_second_jump_starts_the_patience_again() -> None:
    """The clock jumps further ahead before the first jump is believed."""
    steps = [(60.0, HOUR_S), *[(60.0, 0.0)] * 8, (60.0, HOUR_S), *[(60.0, 0.0)] * 9]
    assert all(belief.ahead_s > 0 for _, _, belief in played(steps)[1:])
    assert played([*steps, (60.0, 0.0)])[-1][2].ahead_s == 0.0


@given(st.lists(st.tuples(STEPS, JUMPS), max_size=60))
def test_the_believed_time_lies_between_the_time_passed_and_the_clock(
    steps: list[tuple[float, float]],
) -> None:
    """It is never later than the clock, and at most slightly slower than real time."""
    looks = played(steps)
    for steady_s, wall_s, belief in looks:
        assert belief.time_s <= wall_s
        assert belief.ahead_s == pytest.approx(wall_s - belief.time_s, abs=1e-5)
        assert belief.steady_s == steady_s
    for (before_s, _, before), (after_s, wall_s, after) in pairwise(looks):
        went_s = after.time_s - before.time_s
        assert went_s >= 0.9 * (after_s - before_s) - MOMENT_S - 1e-5 or after.time_s == wall_s


@given(st.lists(st.tuples(STEPS, JUMPS), max_size=40), st.lists(STEPS, min_size=1, max_size=60))
def test_a_clock_that_runs_correctly_is_believed_after_the_patience(
    steps: list[tuple[float, float]], right: list[float]
) -> None:
    """This holds after any earlier jumps."""
    looks = played([*steps, *((step, 0.0) for step in right)])
    since_s = looks[len(steps)][0]
    for steady_s, _, belief in looks[len(steps) :]:
        if steady_s - since_s >= HELD_S:
            assert belief.ahead_s == 0.0


@given(st.lists(st.tuples(STEPS, st.floats(-1.0, 1 / 12)), max_size=60))
def test_a_clock_that_is_adjusted_is_always_believed(parts: list[tuple[float, float]]) -> None:
    """A time server makes it slightly faster, or sets it by a moment or back."""
    looks = played(
        [
            (step, step * part + (MOMENT_S / 2 * min(step / MOMENT_EACH_S, 1.0) if part > 0 else 0))
            for step, part in parts
        ]
    )
    for _, wall_s, belief in looks:
        assert belief == Belief(belief.steady_s, wall_s)


def test_many_observations_believe_no_more_than_few() -> None:
    """A clock that gains four seconds in each second is doubted, with an observation in each."""
    looks = played([(1.0, 4.0)] * 60)
    believed = [belief.time_s for _, _, belief in looks]
    assert believed[-1] - believed[0] <= 59.0 * (1 + SLEWED) + 2 * MOMENT_S


@given(st.lists(st.tuples(STEPS, st.floats(0.0, 1e7)), min_size=1, max_size=30), STEPS)
def test_a_jump_is_never_followed_at_once(steps: list[tuple[float, float]], last_s: float) -> None:
    """The believed time exceeds the time passed by at most a moment."""
    looks = played([*steps, (last_s, 1e6)])
    before, after = looks[-2][2], looks[-1][2]
    assert after.time_s - before.time_s <= last_s * 1.1 + MOMENT_S


class TestAtTheFirstLook:
    """The observations of earlier periods replace the steady clock."""

    @staticmethod
    def past(count: int, end_s: float = BEGUN_S) -> list[float]:
        """Return the times of earlier observations, one each interval until the end."""
        return [end_s - INTERVAL_S * (count - one - 1) for one in range(count)]

    @pytest.mark.parametrize("gap_s", [-HOUR_S, 0.0, 10.0, HELD_S])
    def test_a_short_stop_is_believed(self, gap_s: float) -> None:
        """So is a stop after which the clock was set back."""
        belief = first_belief(self.past(5), BEGUN_S + gap_s, 7.0, HELD_S)
        assert belief == Belief(7.0, BEGUN_S + gap_s)

    def test_without_earlier_periods_the_clock_is_believed(self) -> None:
        """Without earlier periods no deadline can end too early."""
        assert first_belief([], BEGUN_S, 7.0, HELD_S) == Belief(7.0, BEGUN_S)

    def test_a_long_gap_is_doubted_for_as_long_as_a_jump(self) -> None:
        """A deadline that passed during the gap counts after the patience."""
        belief = first_belief(self.past(5), BEGUN_S + HOUR_S, 7.0, HELD_S)
        assert (belief.time_s, belief.ahead_s) == (BEGUN_S, HOUR_S)
        for passed_s in range(60, 600, 60):
            wall_s = BEGUN_S + HOUR_S + passed_s
            belief = next_belief(belief, wall_s, 7.0 + passed_s, HELD_S)
            assert belief.time_s == BEGUN_S + passed_s
        wall_s = BEGUN_S + HOUR_S + HELD_S
        assert next_belief(belief, wall_s, 7.0 + HELD_S, HELD_S) == Belief(7.0 + HELD_S, wall_s)

    @pytest.mark.parametrize("count", [1, 5, 9])
    def test_a_restart_during_doubt_leaves_its_length_unchanged(self, count: int) -> None:
        """The periods since the gap count."""
        since_s = BEGUN_S + 200 * HOUR_S
        there = self.past(count, since_s + INTERVAL_S * (count - 1))
        belief = first_belief([*self.past(20), *there], there[-1] + 5.0, 7.0, HELD_S)
        assert belief.ahead_s == pytest.approx(200 * HOUR_S)
        left_s = HELD_S - INTERVAL_S * (count - 1) - 5.0
        for later_s, doubted in ((left_s - 1.0, True), (left_s + 1.0, False)):
            wall_s = there[-1] + 5.0 + later_s
            after = next_belief(belief, wall_s, 7.0 + later_s, HELD_S)
            assert (after.ahead_s > 0.0) is doubted

    def test_a_jump_that_held_before_the_restart_is_believed(self) -> None:
        """Only the last minutes are doubted."""
        there = self.past(12, BEGUN_S + HOUR_S + 11 * INTERVAL_S)
        belief = first_belief([*self.past(20), *there], there[-1] + 5.0, 7.0, HELD_S)
        assert belief == Belief(7.0, there[-1] + 5.0)
