"""Workers are emptied before they go; queues are judged by their tenant's aim."""

from hypothesis import given
from hypothesis import strategies as st

from merkatd.policies.batch_queue import QueueAim, QueueLoad, queue_performance, workers_to_release


def load(waiting: int = 0, wanted: int = 0, longest_s: float = 0.0, busy: int = 0) -> QueueLoad:
    """A queue."""
    return QueueLoad(waiting=waiting, wanted=wanted, longest_s=longest_s, busy=busy, slots=2)


NONE: frozenset[int] = frozenset()


class TestDraining:
    def test_the_idle_go_first_and_the_newest_of_them(self) -> None:
        """No job is touched where some have none; what is drained goes when it is seen idle."""
        plan = workers_to_release({1: 0, 2: 2, 3: 0, 4: 1}, NONE, 1, {}, 100.0, 600.0)
        assert (plan.drain, plan.release) == ((3,), ())
        plan = workers_to_release({1: 0, 2: 2, 3: 0, 4: 1}, {3}, 1, plan.since_s, 160.0, 600.0)
        assert (plan.drain, plan.release, plan.since_s) == ((), (3,), {})

    def test_one_that_was_idle_before_it_was_drained_may_have_got_a_job(self) -> None:
        """It stays until the batch system itself shows it closed and idle."""
        plan = workers_to_release({1: 0}, NONE, 1, {}, 100.0, 600.0)
        assert workers_to_release({1: 0}, NONE, 1, plan.since_s, 160.0, 600.0).release == ()
        assert workers_to_release({1: 1}, {1}, 1, plan.since_s, 220.0, 600.0).release == ()
        assert workers_to_release({1: 0}, {1}, 1, plan.since_s, 280.0, 600.0).release == (1,)

    def test_a_busy_one_goes_when_its_last_job_has_ended(self) -> None:
        """Or, where it can't be paid for, when it has had long enough."""
        plan = workers_to_release({1: 2, 2: 1}, NONE, 1, {}, 0.0, 600.0)
        assert plan.drain == (2,)
        assert workers_to_release({1: 2, 2: 1}, {2}, 1, plan.since_s, 500.0, 600.0).release == ()
        assert workers_to_release({1: 2, 2: 0}, {2}, 1, plan.since_s, 500.0, 600.0).release == (2,)
        assert workers_to_release({1: 2, 2: 1}, {2}, 1, plan.since_s, 600.0, 600.0).release == ()
        late = workers_to_release({1: 2, 2: 1}, {2}, 1, plan.since_s, 600.0, 600.0, forced=1)
        assert late.release == (2,)

    def test_one_that_got_a_job_at_the_last_moment_is_spared_where_another_is_idle(self) -> None:
        """Only while nothing waits: a job that waits is given to whatever looks idle."""
        busy = {1: 0, 2: 1}
        plan = workers_to_release(busy, {2}, 1, {2: 0.0}, 60.0, 600.0)
        assert (plan.drain, plan.restore, plan.since_s) == ((1,), (2,), {1: 60.0})
        plan = workers_to_release(busy, {2}, 1, {2: 0.0}, 60.0, 600.0, forced=1, waiting=5)
        assert (plan.drain, plan.restore, plan.since_s) == ((), (), {2: 0.0})

    def test_one_that_somebody_closed_goes_before_others_that_are_idle(self) -> None:
        """It is of no use; its clock starts now, as a job may have begun since the look."""
        plan = workers_to_release({1: 0, 2: 0, 3: 0}, {1}, 1, {}, 60.0, 600.0)
        assert (plan.drain, plan.release, plan.since_s) == ((1,), (), {1: 60.0})

    def test_who_is_wanted_again_takes_jobs_again(self) -> None:
        """Before any new one is asked for."""
        plan = workers_to_release({1: 2, 2: 1}, {2}, 0, {2: 0.0}, 100.0, 600.0)
        assert (plan.restore, plan.release, plan.since_s) == ((2,), (), {})

    def test_a_worker_that_has_not_joined_is_drained_when_it_has(self) -> None:
        """Its clock starts then: until that the batch system knows no such worker."""
        plan = workers_to_release({1: 2, 2: None}, NONE, 1, {}, 0.0, 600.0)
        assert (plan.drain, plan.release, plan.since_s) == ((), (), {})
        plan = workers_to_release({1: 2, 2: 0}, NONE, 1, plan.since_s, 900.0, 600.0)
        assert (plan.drain, plan.release, plan.since_s) == ((2,), (), {2: 900.0})

    def test_workers_that_are_being_made_are_the_first_that_are_not_wanted(self) -> None:
        """They count, and none that works is drained in their place; who leaves goes on leaving."""
        assert workers_to_release({1: 0, 2: 1}, NONE, 2, {}, 0.0, 600.0, coming=2).drain == ()
        plan = workers_to_release({1: 0, 2: 1}, NONE, 1, {2: 0.0}, 60.0, 600.0, coming=2)
        assert (plan.drain, plan.restore, plan.since_s) == ((1,), (2,), {1: 60.0})
        plan = workers_to_release({1: 1, 2: 1}, NONE, 1, {2: 0.0}, 60.0, 600.0, coming=2)
        assert (plan.drain, plan.restore, plan.since_s) == ((), (), {2: 0.0})
        assert workers_to_release({1: 0, 2: 1}, NONE, 2, {}, 0.0, 600.0, coming=1).drain == (1,)

    def test_a_worker_without_a_host_goes_first_and_at_once(self) -> None:
        """No job can be on it; one that is being drained takes jobs again in its place."""
        jobs = {1: 2, 2: 0, 3: None, 4: None}
        plan = workers_to_release(jobs, NONE, 1, {}, 0.0, 600.0, roomless={3})
        assert (plan.drain, plan.release, plan.since_s) == ((), (3,), {})
        plan = workers_to_release(
            jobs, {1}, 1, {1: 0.0}, 900.0, 600.0, forced=1, waiting=5, roomless={3}
        )
        assert (plan.restore, plan.release, plan.since_s) == ((1,), (3,), {})
        plan = workers_to_release(
            jobs, {1}, 2, {1: 0.0}, 900.0, 600.0, forced=1, waiting=5, roomless={3}
        )
        assert (plan.restore, plan.release, plan.since_s) == ((), (3,), {1: 0.0})

    def test_who_is_gone_is_forgotten(self) -> None:
        """Whoever ended it."""
        assert workers_to_release({1: 0}, NONE, 0, {2: 0.0}, 100.0, 600.0).since_s == {}

    @given(
        st.dictionaries(st.integers(0, 20), st.integers(0, 4)),
        st.frozensets(st.integers(0, 20)),
        st.integers(-3, 25),
        st.dictionaries(st.integers(0, 20), st.floats(0, 100)),
        st.floats(100, 1000),
        st.integers(0, 3),
        st.integers(0, 3),
    )
    def test_never_more_than_asked_for_and_never_unasked(
        self,
        jobs: dict[int, int],
        closed: frozenset[int],
        surplus: int,
        since: dict[int, float],
        now_s: float,
        forced: int,
        waiting: int,
    ) -> None:
        """Each that leaves is there, was drained before, and is seen closed and idle, or late.

        No more leave late than can't be paid for, and none with a job while one without stays.
        """
        plan = workers_to_release(
            jobs, closed, surplus, since, now_s, 300.0, forced=forced, waiting=waiting
        )
        leaving = {*plan.since_s, *plan.release}
        assert len(leaving) == min(max(surplus, 0), len(jobs))
        assert set(plan.release) <= since.keys() & jobs.keys()
        assert not {*plan.drain, *plan.restore} & set(plan.release)
        for vm in plan.release:
            assert (jobs[vm] == 0 and vm in closed) or now_s - since[vm] >= 300.0
        late = [vm for vm in plan.release if jobs[vm] or vm not in closed]
        assert len(late) <= forced
        if not waiting and any(jobs[vm] for vm in leaving):
            assert all(jobs[vm] for vm in jobs.keys() - leaving)


class TestQueues:
    def test_throughput_is_slow_while_anything_waits(self) -> None:
        """And fast when a worker has nothing to do."""
        assert queue_performance(
            load(waiting=1, wanted=1, busy=3), QueueAim.THROUGHPUT, 3, 60.0
        ).slow
        assert queue_performance(load(busy=2), QueueAim.THROUGHPUT, 3, 60.0).fast
        fine = queue_performance(load(busy=3), QueueAim.THROUGHPUT, 3, 60.0)
        assert not fine.slow
        assert not fine.fast

    def test_a_wait_is_long_only_against_its_target(self) -> None:
        """While anything waits nobody is sent away."""
        waiting = load(waiting=4, wanted=8, longest_s=30.0, busy=3)
        assert not queue_performance(waiting, QueueAim.WAIT, 3, 60.0).slow
        assert not queue_performance(waiting, QueueAim.WAIT, 30, 60.0).fast
        assert queue_performance(waiting, QueueAim.WAIT, 3, 20.0).slow
        assert queue_performance(load(busy=2), QueueAim.WAIT, 3, 60.0).fast

    def test_useful_workers(self) -> None:
        """Those with jobs, and as many as the waiting jobs' processors fill."""
        assert load(waiting=3, wanted=5, busy=2).useful == 5
