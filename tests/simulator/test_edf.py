"""EDF on cases computed by hand."""

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
    """Return an application of 100 MiB a task in which only these values matter."""
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


def ends(
    applications: list[Application], procs: int, costs: OperationCosts = FREE, *, held: bool = False
) -> list[float]:
    """Return the time at which each application ended."""
    return [outcome.end_s for outcome in edf(applications, procs, costs, held=held).outcomes]


def test_an_earlier_deadline_interrupts_a_later_one() -> None:
    """The interrupted application continues afterwards."""
    both = [application(0, 10, 2, 100), application(3, 4, 2, 10)]
    assert ends(both, 2) == [14, 7]
    assert edf(both, 2, FREE).vm_suspensions == 2


def test_a_later_deadline_waits() -> None:
    """It waits however short it is."""
    assert ends([application(0, 10, 2, 11), application(3, 1, 2, 50)], 2) == [10, 11]


def test_an_application_that_does_not_fit_is_skipped() -> None:
    """The second waits for the first; the third, with a later deadline, uses the free cores."""
    three = [application(0, 10, 3, 12), application(1, 5, 2, 20), application(2, 3, 1, 30)]
    assert ends(three, 4) == [10, 15, 5]


def test_only_as_many_as_needed_are_suspended_the_latest_first() -> None:
    """Of two running applications, the one with the later deadline is suspended."""
    three = [application(0, 10, 2, 40), application(0, 10, 2, 50), application(1, 2, 2, 5)]
    assert ends(three, 4) == [10, 12, 3]


def test_no_application_is_suspended_in_favour_of_one_that_cannot_start() -> None:
    """An application that needs all cores cannot take those of an earlier deadline."""
    three = [application(0, 10, 2, 11), application(0, 10, 2, 50), application(1, 2, 4, 20)]
    assert ends(three, 4) == [10, 10, 12]


def test_hopeless_applications_are_dropped_at_once() -> None:
    """They make no others wait."""
    inf = float("inf")
    assert ends([application(0, 10, 1, 9), application(0, 5, 1, 30)], 1) == [inf, 5]
    assert ends([application(0, 8, 1, 9), application(1, 6, 1, 14)], 1) == [8, 14]
    assert ends([application(0, 8, 1, 9), application(1, 7, 1, 14)], 1) == [8, inf]


def test_operations_take_their_time() -> None:
    """Boot and resume take time, and an application cannot resume while it is being saved."""
    two = [application(0, 10, 1, 100), application(4, 4, 1, 11)]
    assert ends(two, 1, DEAR) == [10 + 5 + 8, 10]
    short = [application(0, 10, 1, 100), application(4, 0.5, 1, 7)]
    assert ends(short, 1, DEAR) == [pytest.approx(7 + 5 + 8), 6.5]


def test_a_suspended_application_is_dropped_if_its_resumption_takes_too_long() -> None:
    """It could work in time, but not also load its memory; so the third need not wait for it."""
    three = [application(0, 10, 1, 20), application(4, 4, 1, 11), application(5, 3, 1, 40)]
    assert ends(three, 1, DEAR) == [float("inf"), 10, 15]
    assert ends(three, 1, FREE) == [14, 8, 17]


def test_an_application_larger_than_the_cloud_is_an_error() -> None:
    """The error names the needed and the existing cores."""
    with pytest.raises(TooLargeError, match="needs 5 of 4"):
        edf([application(0, 1, 5, 9)], 4, FREE)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 20), st.integers(1, 60)), max_size=12
    ).map(sorted)
)
def test_on_one_processor_edf_meets_every_feasible_deadline(
    rows: list[tuple[int, int, int]],
) -> None:
    """It drops applications only if they really cannot all be met."""
    applications = [application(s, r, 1, s + r + slack) for s, r, slack in rows]
    run = edf(applications, 1, FREE)
    assert all(outcome.met or outcome.end_s == float("inf") for outcome in run.outcomes)
    dropped = [outcome for outcome in run.outcomes if not outcome.met]
    feasible = all(
        sum(
            application.run_s
            for application in applications
            if begin.submit_s <= application.submit_s and application.due_s <= end.due_s
        )
        <= end.due_s - begin.submit_s
        for begin in applications
        for end in applications
        if end.due_s > begin.submit_s
    )
    assert bool(dropped) == (not feasible)


class TestHeldProcessors:
    def test_they_are_free_once_the_application_is_on_disk(self) -> None:
        """Saving takes 3 s, a boot 2 s, a resumption 5 s."""
        two = [application(0, 10, 1, 100), application(4, 4, 1, 13)]
        assert ends(two, 1, DEAR, held=True) == [13 + 5 + 8, 13]

    def test_nobody_is_suspended_for_an_application_that_would_be_late(self) -> None:
        """Alone it would meet its deadline."""
        two = [application(0, 10, 1, 100), application(4, 4, 1, 12.5)]
        assert ends(two, 1, DEAR, held=True) == [12, float("inf")]

    def test_processors_are_kept_for_an_application_that_waits_for_more(self) -> None:
        """The third has a later deadline, and could use the free one at once."""
        three = [application(0, 10, 2, 100), application(4, 3, 3, 20), application(5, 1, 1, 50)]
        assert ends(three, 3, DEAR, held=True) == [12 + 5 + 8, 7 + 2 + 3, 12 + 2 + 1]

    def test_those_that_are_not_needed_are_not_kept(self) -> None:
        """The third takes one of two that are free while the second waits for its own."""
        three = [application(0, 10, 3, 100), application(4, 3, 4, 20), application(5, 1, 1, 50)]
        assert ends(three, 5, DEAR, held=True) == [12 + 5 + 8, 12, 5 + 2 + 1]
