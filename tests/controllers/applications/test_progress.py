"""The pace of an application with late, failed or missing looks."""

import pytest

from controllers.applications.application_progress import Progress

MOST_S = 20.0
"""The length of two periods."""


def seen(*looks: tuple[float, int], part: float = 1.0) -> Progress:
    """Return the progress after periods of ten seconds with a look at each end."""
    now = Progress().until(100.0, part, MOST_S)
    for at_s, done in looks:
        now = now.after(at_s, {"done": float(done)}, MOST_S).until(at_s, part, MOST_S)
    return now


def test_an_iteration_costs_the_same_with_half_of_the_maximum() -> None:
    """It takes twice as long, which is known before one has ended."""
    now = seen((110.0, 10), (120.0, 20))
    assert now.step_effort_s(0.0) == pytest.approx(1.0)
    assert now.until(120.0, 0.5, MOST_S).pace_s(0.0) == pytest.approx(2.0)


def test_a_failed_look_changes_no_pace() -> None:
    """Unreadable logs don't mean that no work was done."""
    now = seen((110.0, 10), (120.0, 20))
    after = now.after(125.0, {"load": 1.0}, MOST_S).until(130.0, 1.0, MOST_S)
    assert after.pace_s(0.0) == now.pace_s(0.0)
    assert after.after(130.0, {"done": 30.0}, MOST_S).pace_s(0.0) == pytest.approx(1.0)
    assert now.after(125.0, {"exit": 3.0}, MOST_S).exit == 3


def test_time_without_looks_changes_no_pace() -> None:
    """After a restart of the daemon neither its work nor its duration counts."""
    now = seen((110.0, 10), (120.0, 20)).after(620.0, {"done": 21.0}, MOST_S)
    assert now.pace_s(0.0) == pytest.approx(1.0)
    assert now.done == 21
    later = now.until(630.0, 1.0, MOST_S).after(630.0, {"done": 31.0}, MOST_S)
    assert later.pace_s(0.0) == pytest.approx(1.0)


def test_a_hanging_iteration_slows_only_the_pace() -> None:
    """The tenant reads the delay; one iteration is no reason to give up."""
    now = seen((110.0, 10), (120.0, 20), (130.0, 20))
    assert now.pace_s(0.0) == pytest.approx(10.0)
    assert now.work(100, None).ideal_s == pytest.approx(80.0, rel=0.02)


def test_the_start_is_no_part_of_an_iteration() -> None:
    """This is known once others were seen; until then the pace is uncertain."""
    first = seen((110.0, 0), (120.0, 1))
    assert first.step_effort_s(0.0) == pytest.approx(10.0)
    assert first.measured
    assert not first.sure
    later = first.after(130.0, {"done": 11.0}, MOST_S)
    assert later.step_effort_s(0.0) == pytest.approx(1.0)
    assert later.sure


def test_a_restarted_application_is_measured_again() -> None:
    """Its marks would show negative progress."""
    now = seen((110.0, 10), (120.0, 20), (130.0, 5))
    assert not now.measured
    assert now.done == 5


def test_progress_can_be_stored_as_json() -> None:
    """Tuples become lists."""
    now = seen((110.0, 10), (120.0, 20))
    assert Progress.of({**now.kept(), "marks": [list(mark) for mark in now.marks]}) == now


def test_a_clock_ahead_for_one_period_changes_no_pace() -> None:
    """Later work has the same effort, not an infinite pace."""
    progress, most_s = Progress().until(60.0, 1.0, 120.0), 120.0
    for period in range(1, 40):
        at_s = 60.0 + 60.0 * period + (1_500.0 if period == 10 else 0.0)
        progress = progress.until(at_s, 1.0, most_s).after(at_s, {"done": float(period)}, most_s)
    assert progress.done == 39
    assert progress.pace_s(60.0) == pytest.approx(60.0, rel=0.25)
