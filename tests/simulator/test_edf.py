"""EDF, on cases worked out by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.baselines.edf import edf
from simulator.baselines.queue_baselines import TooLargeError
from simulator.model.simulated_cloud import OperationCosts
from simulator.workloads.job_applications import Application

FREE = OperationCosts(boot_s=0.0, suspend_s_per_mib=0.0, resume_s_per_mib=0.0)
DEAR = OperationCosts(boot_s=2.0, suspend_s_per_mib=0.03, resume_s_per_mib=0.05)


def application(submit_s: float, run_s: float, tasks: int, due_s: float) -> Application:
    """One of which only these things matter; 100 MiB a task."""
    return Application(
        number=0,
        submit_s=submit_s,
        run_s=run_s,
        tasks=tasks,
        memory_mib=100.0,
        ideal_s=run_s,
        deadline_s=due_s - submit_s,
        budget=1.0,
    )


def ends(applications: list[Application], procs: int, costs: OperationCosts = FREE) -> list[float]:
    """When each was done."""
    return [one.end_s for one in edf(applications, procs, costs).outcomes]


def test_an_earlier_deadline_interrupts_a_later_one() -> None:
    """Which goes on where it was."""
    both = [application(0, 10, 2, 100), application(3, 4, 2, 10)]
    assert ends(both, 2) == [14, 7]
    assert edf(both, 2, FREE).vm_suspensions == 2


def test_a_later_deadline_waits() -> None:
    """However short it is."""
    assert ends([application(0, 10, 2, 11), application(3, 1, 2, 50)], 2) == [10, 11]


def test_what_does_not_fit_is_passed_over() -> None:
    """The second has to wait for the first; the third, later than both, takes what is left."""
    three = [application(0, 10, 3, 12), application(1, 5, 2, 20), application(2, 3, 1, 30)]
    assert ends(three, 4) == [10, 15, 5]


def test_no_more_are_suspended_than_is_needed_and_the_latest_first() -> None:
    """Of two running ones the one with the later deadline."""
    three = [application(0, 10, 2, 40), application(0, 10, 2, 50), application(1, 2, 2, 5)]
    assert ends(three, 4) == [10, 12, 3]


def test_nobody_is_suspended_for_somebody_who_still_could_not_start() -> None:
    """One that needs all cannot have those of an earlier deadline."""
    three = [application(0, 10, 2, 11), application(0, 10, 2, 50), application(1, 2, 4, 20)]
    assert ends(three, 4) == [10, 10, 12]


def test_the_hopeless_are_dropped_at_once() -> None:
    """They keep nobody waiting."""
    inf = float("inf")
    assert ends([application(0, 10, 1, 9), application(0, 5, 1, 30)], 1) == [inf, 5]
    assert ends([application(0, 8, 1, 9), application(1, 6, 1, 14)], 1) == [8, 14]
    assert ends([application(0, 8, 1, 9), application(1, 7, 1, 14)], 1) == [8, inf]


def test_operations_cost_what_they_cost() -> None:
    """A boot, three seconds to disk, five back; who is on its way to disk can't be resumed."""
    two = [application(0, 10, 1, 100), application(4, 4, 1, 11)]
    assert ends(two, 1, DEAR) == [10 + 5 + 8, 10]
    short = [application(0, 10, 1, 100), application(4, 0.5, 1, 7)]
    assert ends(short, 1, DEAR) == [pytest.approx(7 + 5 + 8), 6.5]


def test_one_larger_than_everything() -> None:
    """Is named at once."""
    with pytest.raises(TooLargeError, match="needs 5 of 4"):
        edf([application(0, 1, 5, 9)], 4, FREE)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 20), st.integers(1, 60)), max_size=12
    ).map(sorted)
)
def test_on_one_processor_it_misses_nothing_that_can_be_met(
    rows: list[tuple[int, int, int]],
) -> None:
    """If nothing is dropped all meet their deadlines; what is dropped really made too much."""
    applications = [application(s, r, 1, s + r + slack) for s, r, slack in rows]
    run = edf(applications, 1, FREE)
    assert all(one.met or one.end_s == float("inf") for one in run.outcomes)
    dropped = [one for one in run.outcomes if not one.met]
    feasible = all(
        sum(
            one.run_s
            for one in applications
            if begin.submit_s <= one.submit_s and one.due_s <= end.due_s
        )
        <= end.due_s - begin.submit_s
        for begin in applications
        for end in applications
        if end.due_s > begin.submit_s
    )
    assert bool(dropped) == (not feasible)
