"""How fast an application goes: from looks that come late, in vain, or while it hangs."""

import pytest

from controllers.applications.application_progress import Progress

MOST_S = 20.0
"""Two periods."""


def seen(*looks: tuple[float, int], part: float = 1.0) -> Progress:
    """After periods of ten seconds, each with a look at its end."""
    now = Progress().until(100.0, part, MOST_S)
    for at_s, done in looks:
        now = now.after(at_s, {"done": float(done)}, MOST_S).until(at_s, part, MOST_S)
    return now


def test_an_iteration_costs_the_same_with_half_of_what_its_vms_can_use() -> None:
    """It takes twice as long, as is known before one has ended."""
    now = seen((110.0, 10), (120.0, 20))
    assert now.step_effort_s(0.0) == pytest.approx(1.0)
    assert now.until(120.0, 0.5, MOST_S).pace_s(0.0) == pytest.approx(2.0)


def test_a_look_in_vain_says_nothing() -> None:
    """Logs could not be read: what was done since is not known to be nothing."""
    now = seen((110.0, 10), (120.0, 20))
    after = now.after(125.0, {"load": 1.0}, MOST_S).until(130.0, 1.0, MOST_S)
    assert after.pace_s(0.0) == now.pace_s(0.0)
    assert after.after(130.0, {"done": 30.0}, MOST_S).pace_s(0.0) == pytest.approx(1.0)
    assert now.after(125.0, {"exit": 3.0}, MOST_S).exit == 3


def test_time_in_which_nobody_counted_leaves_the_pace_as_it_was() -> None:
    """As after a restart of the daemon: neither what was done then counts nor what it took."""
    now = seen((110.0, 10), (120.0, 20)).after(620.0, {"done": 21.0}, MOST_S)
    assert now.pace_s(0.0) == pytest.approx(1.0)
    assert now.done == 21
    later = now.until(630.0, 1.0, MOST_S).after(630.0, {"done": 31.0}, MOST_S)
    assert later.pace_s(0.0) == pytest.approx(1.0)


def test_an_iteration_that_hangs_slows_the_pace_and_not_the_rest_of_the_work() -> None:
    """A tenant reads that it is late; nobody gives up for one iteration's sake."""
    now = seen((110.0, 10), (120.0, 20), (130.0, 20))
    assert now.pace_s(0.0) == pytest.approx(10.0)
    assert now.work(100, None).ideal_s == pytest.approx(80.0, rel=0.02)


def test_a_start_is_no_part_of_an_iteration() -> None:
    """As soon as others were seen; until then nobody is sure of the pace."""
    first = seen((110.0, 0), (120.0, 1))
    assert first.step_effort_s(0.0) == pytest.approx(10.0)
    assert first.measured
    assert not first.sure
    later = first.after(130.0, {"done": 11.0}, MOST_S)
    assert later.step_effort_s(0.0) == pytest.approx(1.0)
    assert later.sure


def test_one_that_was_begun_anew_is_judged_anew() -> None:
    """Its marks would say that it goes backwards."""
    now = seen((110.0, 10), (120.0, 20), (130.0, 5))
    assert not now.measured
    assert now.done == 5


def test_it_is_kept_as_json_keeps_it() -> None:
    """Tuples come back as lists."""
    now = seen((110.0, 10), (120.0, 20))
    assert Progress.of({**now.kept(), "marks": [list(one) for one in now.marks]}) == now


def test_a_clock_that_was_ahead_for_one_period_leaves_the_pace_as_it_was() -> None:
    """What is done afterwards costs effort as before, and is not infinitely fast."""
    progress, most_s = Progress().until(60.0, 1.0, 120.0), 120.0
    for period in range(1, 40):
        at_s = 60.0 + 60.0 * period + (1_500.0 if period == 10 else 0.0)
        progress = progress.until(at_s, 1.0, most_s).after(at_s, {"done": float(period)}, most_s)
    assert progress.done == 39
    assert progress.pace_s(60.0) == pytest.approx(60.0, rel=0.25)
