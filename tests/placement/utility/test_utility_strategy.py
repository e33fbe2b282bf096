"""The strategy `utility` on whole clouds: the paper's first experiment, and the order of starts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from merkatd.cluster import Decision, Deploy, Ints, Migrate, Resume, Snapshot, Stop, VmState
from merkatd.cluster.applications import Jobs, Services, Stages
from merkatd.placement import strategy_named
from merkatd.placement.utility.application_words import explain_application
from merkatd.placement.utility.utility_strategy import UtilitySettings, decide_market
from tests.clouds import cloud, hosts_table, vms_table

ENTRY = strategy_named("utility")
NOTHING: Ints = np.zeros(0, dtype=np.int64)


def jobs_cloud(
    hosts: list[tuple[float, float]],
    jobs: list[dict[str, float]],
    place: list[int],
    now_s: float,
    **parts: Any,
) -> Snapshot:
    """Return a cloud of jobs, as `job` makes them, with one VM each."""
    size = np.array([[job["speed"], job["memory"]] for job in jobs])
    count = np.arange(len(jobs))
    column = {name: np.array([job[name] for job in jobs]) for name in jobs[0]}
    snapshot = cloud(
        hosts_table(np.array(hosts)),
        vms_table(
            place,
            np.zeros_like(size),
            size,
            floor=size * [0.0, 1.0],
            application=count + 10,
            **parts,
        ),
        jobs=Jobs(
            application=count + 10,
            submitted_s=column["start"],
            started_s=column["start"],
            goal_s=column["goal"],
            work_done=column["done"],
        ),
        stages=Stages(
            job=count,
            work=column["work"],
            least_speed=np.zeros(len(jobs)),
            greatest_speed=column["speed"],
            memory_mib=np.zeros(len(jobs)),
        ),
    )
    return replace(snapshot, now_s=now_s)


def job(**values: float) -> dict[str, float]:
    """Return a job with these values."""
    return {"memory": 750.0, "done": 0.0, "start": 0.0, **values}


def decide(snapshot: Snapshot, **settings: Any) -> Decision:
    """Return the decision with these settings."""
    return ENTRY.decide(snapshot, settings=UtilitySettings(**settings))


class TestFirstExperiment:
    """Table 2 of the paper: a host of 1,000 with memory for two of three jobs; cycles of 1 s."""

    def moment(self, goal_s: float) -> Snapshot:
        """| Return the cloud at 1 s: J1 has run alone for a second, J2 arrives."""
        jobs = [
            job(speed=1000.0, work=4000.0, done=1000.0, goal=20.0),
            job(speed=500.0, work=2000.0, start=1.0, goal=goal_s),
        ]
        return jobs_cloud([(1000.0, 2000.0)], jobs, [0, -1], 1.0)

    def test_j1_runs_alone_in_the_first_scenario(self) -> None:
        """J2 would gain less than the least gain, so nothing changes."""
        decision = decide(self.moment(17.0), cycle_s=1.0)
        assert not decision.plan.steps
        assert decision.allocations[:, 0].tolist() == [1000.0, 0.0]
        assert 1 in decision.reasons

    def test_j2_starts_in_the_second_scenario(self) -> None:
        """With its tighter goal it needs to start now."""
        decision = decide(self.moment(13.0), cycle_s=1.0)
        assert [step.vm for step in decision.plan.of(Deploy)] == [1]
        assert decision.allocations[:, 0] == pytest.approx([500.0, 500.0])

    @pytest.mark.parametrize(
        ("goal_s", "utilities"), [(17.0, (0.700, 0.6875)), (13.0, (0.658, 0.658))]
    )
    def test_the_utilities_are_those_of_the_paper(
        self, goal_s: float, utilities: tuple[float, float]
    ) -> None:
        """Of the chosen placement, to three digits."""
        settings = UtilitySettings(cycle_s=1.0)
        outcome = decide_market(self.moment(goal_s), 0, settings, NOTHING)
        assert outcome.judged.utility == pytest.approx(utilities, abs=5e-4)


class TestExchanges:
    """A job gives way to another one only for a gain."""

    def crowd(self, **waiting: float) -> Snapshot:
        """| Return a host with room for one job: a long one runs there, and another one waits."""
        jobs = [
            job(speed=100.0, memory=1500.0, work=4e6, done=4e5, goal=200_000.0),
            job(**{"speed": 100.0, "memory": 1500.0, "work": 4e5, "start": 5000.0, **waiting}),
        ]
        return jobs_cloud([(400.0, 2000.0)], jobs, [0, -1], 5000.0)

    def test_a_loose_job_gives_way_to_a_tight_one(self) -> None:
        """It is saved, and the other one starts after that."""
        decision = decide(self.crowd(goal=9_200.0))
        (stop,) = decision.plan.of(Stop)
        (start,) = decision.plan.of(Deploy)
        assert (stop.vm, start.vm, start.after) == (0, 1, (stop.id,))

    def test_a_saved_job_waits_for_a_host_again(self) -> None:
        """The strategy remembers it, and resumes no VM that others have saved."""
        first = decide(self.crowd(goal=9_200.0))
        later = self.crowd(goal=9_200.0)
        state, host = later.vms.state.copy(), later.vms.host.copy()
        state[0], host[0] = VmState.ABSENT, -1
        later = replace(later, vms=replace(later.vms, state=state, host=host))
        resumed = ENTRY.decide(later, memory=first.memory).plan.of(Resume)
        assert [step.vm for step in resumed] == [0]
        assert not ENTRY.decide(later).plan.of(Resume)

    def test_a_job_with_time_waits(self) -> None:
        """It has a reason in words."""
        decision = decide(self.crowd(goal=300_000.0))
        assert not decision.plan.steps
        assert decision.reasons[1]

    def test_identical_jobs_never_take_turns(self) -> None:
        """However long the other one has waited."""
        jobs = [
            job(speed=100.0, memory=1500.0, work=1e6, done=1e5, start=start, goal=start + 30_000.0)
            for start in (4000.0, 0.0)
        ]
        snapshot = jobs_cloud([(400.0, 2000.0)], jobs, [0, -1], 5000.0)
        assert not decide(snapshot).plan.steps

    def test_a_late_job_comes_last(self) -> None:
        """Of two jobs that wait, only one of which can reach its goal; or by utility alone."""
        jobs = [
            job(speed=100.0, memory=1500.0, work=1e6, goal=goal) for goal in (9_000.0, 40_000.0)
        ]
        snapshot = jobs_cloud([(400.0, 2000.0)], jobs, [-1, -1], 0.0)
        assert [step.vm for step in decide(snapshot).plan.of(Deploy)] == [1]
        plain = decide(snapshot, late_last=False)
        assert [step.vm for step in plain.plan.of(Deploy)] == [0]

    def crowded(self, hosts: int = 1) -> list[dict[str, float]]:
        """| Return jobs of 10 h with time to their goals, one for each host with room for one."""
        goals = [200_000.0 + 1000.0 * host for host in range(hosts)]
        return [job(speed=100.0, memory=1500.0, work=36e5, goal=goal) for goal in goals]

    @pytest.mark.parametrize(("goal_s", "given"), [(1000.0, 1), (36_500.0, 1), (40_000.0, 0)])
    def test_a_job_gives_way_only_where_that_saves_a_goal(self, goal_s: float, given: int) -> None:
        """The other job would miss its goal if it waited for the first end, after ten hours."""
        short = job(speed=100.0, memory=1500.0, work=6e4, goal=goal_s)
        snapshot = jobs_cloud([(400.0, 2000.0)], [*self.crowded(), short], [0, -1], 0.0)
        assert len(decide(snapshot).plan.of(Stop)) == given

    def test_no_job_gives_way_that_would_then_miss_its_goal(self) -> None:
        """Nor for a job that comes too late in any case."""
        short = job(speed=100.0, memory=1500.0, work=6e4, goal=1000.0)
        tight = job(speed=100.0, memory=1500.0, work=36e5, goal=36_700.0)
        assert not decide(jobs_cloud([(400.0, 2000.0)], [tight, short], [0, -1], 0.0)).plan.steps
        late = {**short, "goal": 650.0}
        snapshot = jobs_cloud([(400.0, 2000.0)], [*self.crowded(), late], [0, -1], 0.0)
        assert not decide(snapshot).plan.steps

    def test_a_job_that_ends_before_the_next_decision_keeps_its_place(self) -> None:
        """To save it would take longer than its rest."""
        short = job(speed=100.0, memory=1500.0, work=6e4, goal=700.0)
        for work, given in ((5e3, 0), (9e3, 1)):
            other = job(speed=100.0, memory=1500.0, work=work, goal=200_000.0)
            snapshot = jobs_cloud([(400.0, 2000.0)], [other, short], [0, -1], 0.0)
            assert len(decide(snapshot).plan.of(Stop)) == given

    def test_a_goal_is_saved_however_many_others_wait(self) -> None:
        """Twenty others have time. The running job with the longest rest gives way."""
        jobs = self.crowded(3)
        jobs[1] = {**jobs[1], "work": 40e5}
        waits = [job(speed=100.0, memory=1500.0, work=36e5, goal=90_000.0) for _ in range(20)]
        short = job(speed=100.0, memory=1500.0, work=6e4, goal=1000.0)
        place = [0, 1, 2, *[-1] * 21]
        decision = decide(jobs_cloud([(400.0, 2000.0)] * 3, [*jobs, *waits, short], place, 0.0))
        assert [step.vm for step in decision.plan.of(Stop)] == [1]
        assert [step.vm for step in decision.plan.of(Deploy)] == [23]

    def test_two_jobs_give_way_where_one_place_is_too_small(self) -> None:
        """No other job does."""
        small = [{**each, "memory": 900.0} for each in self.crowded(3)]
        large = job(speed=100.0, memory=1800.0, work=6e4, goal=1000.0)
        hosts = [(400.0, 2000.0), (400.0, 1000.0)]
        decision = decide(jobs_cloud(hosts, [*small, large], [0, 0, 1, -1], 0.0))
        assert sorted(step.vm for step in decision.plan.of(Stop)) == [0, 1]
        assert [step.vm for step in decision.plan.of(Deploy)] == [3]

    def test_a_vm_that_lacks_power_moves_to_an_idle_host(self) -> None:
        """Unless it has just moved there."""
        jobs = [job(speed=400.0, work=4e6, goal=30_000.0) for _ in range(2)]
        snapshot = jobs_cloud([(400.0, 2000.0), (400.0, 2000.0)], jobs, [0, 0], 100.0)
        assert len(decide(snapshot).plan.of(Migrate)) == 1
        held = replace(snapshot, vms=replace(snapshot.vms, moved_at_s=np.full(2, 50.0)))
        assert not decide(held).plan.steps
        assert not decide(snapshot, most_moves=0).plan.steps


class TestServices:
    """A service beside jobs: equal utilities, and wishes for other numbers of VMs."""

    def beside_jobs(self, arrivals: float, vms: int = 1, goal_s: float = 0.1) -> Snapshot:
        """| Return a host of 1,000 with two jobs, and a service with VMs of 600 each."""
        jobs = [job(speed=400.0, memory=100.0, work=4e6, goal=16_000.0) for _ in range(2)]
        snapshot = jobs_cloud([(1000.0, 9000.0)], jobs, [0, 0], 100.0)
        size = np.concatenate([snapshot.vms.cap, np.tile([600.0, 100.0], (vms, 1))])
        return replace(
            snapshot,
            vms=vms_table(
                np.zeros(2 + vms),
                np.zeros_like(size),
                size,
                floor=size * [0.0, 1.0],
                application=np.array([10, 11, *[20] * vms]),
            ),
            services=Services(
                application=np.array([20]),
                response_goal_s=np.array([goal_s]),
                arrivals_per_s=np.array([arrivals]),
                work_per_request=np.array([2.0]),
            ),
        )

    def test_the_service_and_the_jobs_are_equally_satisfied(self) -> None:
        """All power is used."""
        snapshot = self.beside_jobs(arrivals=150.0, goal_s=0.02)
        outcome = decide_market(snapshot, 0, UtilitySettings(), NOTHING)
        assert outcome.judged.power.sum() == pytest.approx(1000.0)
        assert np.ptp(outcome.judged.utility) < 0.01

    def test_a_service_with_all_it_can_use_wishes_another_vm(self) -> None:
        """If it is less satisfied than the jobs."""
        (wish,) = decide(self.beside_jobs(arrivals=295.0)).wishes
        assert (wish.application, wish.replicas) == (20, 2)

    def test_a_service_with_a_spare_vm_wishes_one_less(self) -> None:
        """The others can do its work."""
        snapshot = self.beside_jobs(arrivals=10.0, vms=4, goal_s=2.0)
        hosts = hosts_table(np.array([[9000.0, 9000.0]]))
        assert not decide(replace(snapshot, hosts=hosts)).wishes
        (wish,) = decide(snapshot).wishes
        assert (wish.application, wish.replicas) == (20, 3)

    @pytest.mark.parametrize("arrivals", [np.nan, 1e6])
    def test_a_service_without_a_utility_keeps_its_place_and_size(self, arrivals: float) -> None:
        """Its monitor is silent, or no allocation serves its requests: it is plain."""
        decision = decide(self.beside_jobs(arrivals), plain_part=1.0)
        assert not decision.plan.steps
        assert decision.allocations[2, 0] == pytest.approx(600.0)
        assert decision.allocations[:2, 0].sum() == pytest.approx(400.0)
        assert len(decision.wishes) == (arrivals > 0)


class TestBadInput:
    """Strange numbers of jobs change no place, and never fail."""

    @pytest.mark.parametrize(
        ("column", "value"),
        [("goal_s", np.nan), ("submitted_s", np.nan), ("goal_s", -5.0), ("work_done", 1e12)],
    )
    def test_a_job_without_a_utility_keeps_its_place_and_size(
        self, column: str, value: float
    ) -> None:
        """It gets a part of its size before all others."""
        jobs = [job(speed=300.0, work=1e6, goal=30_000.0) for _ in range(2)]
        snapshot = jobs_cloud([(400.0, 2000.0)], jobs, [0, 0], 100.0)
        values = getattr(snapshot.jobs, column).copy()
        values[0] = value
        strange = replace(snapshot, jobs=replace(snapshot.jobs, **{column: values}))
        decision = decide(strange, plain_part=1.0)
        assert not decision.plan.steps
        assert decision.allocations[:, 0] == pytest.approx([300.0, 100.0])

    def test_a_least_speed_above_the_greatest_counts_as_the_greatest(self) -> None:
        """The job runs at its greatest speed or not at all."""
        jobs = [job(speed=300.0, work=1e6, goal=30_000.0) for _ in range(2)]
        snapshot = jobs_cloud([(400.0, 2000.0)], jobs, [0, -1], 100.0)
        stages = replace(snapshot.stages, least_speed=np.array([900.0, 900.0]))
        larger = replace(snapshot.vms, cap=snapshot.vms.cap + np.array([100.0, 0.0]))
        decision = decide(replace(snapshot, stages=stages, vms=larger))
        assert decision.allocations[:, 0].tolist() == [300.0, 0.0]
        assert not decision.plan.steps


class TestWords:
    """What a decision means for an application."""

    def words(self, snapshot: Snapshot, number: int) -> str:
        """| Return the words of an application."""
        outcome = decide_market(snapshot, 0, UtilitySettings(), NOTHING)
        its = explain_application(outcome.market, outcome.trial, outcome.judged, number)
        return "" if its is None else its.words

    def contended(self, goal_s: float) -> Snapshot:
        """| Return a host of 400 with two jobs that could use 300 each."""
        jobs = [job(speed=300.0, work=3e6, goal=goal) for goal in (goal_s, 30_000.0)]
        return jobs_cloud([(400.0, 2000.0)], jobs, [0, 0], 100.0)

    def test_a_satisfied_job_knows_its_end(self) -> None:
        """It needs nothing more."""
        words = self.words(self.contended(30_000.0), 10)
        assert "it ends in about" in words
        assert "Its goal takes" not in words

    def test_a_late_job_knows_what_its_goal_takes_and_from_whom(self) -> None:
        """In percent of a core."""
        jobs = [job(speed=300.0, work=3e6, goal=13_000.0) for _ in range(2)]
        words = self.words(jobs_cloud([(400.0, 2000.0)], jobs, [0, 0], 100.0), 11)
        assert (
            "Its goal takes 233 % of a core, 133 more than it has. 1 other application on" in words
        )

    def test_a_job_that_can_not_reach_its_goal_knows_it(self) -> None:
        """Even at full speed."""
        assert "can't reach its goal any more" in self.words(self.contended(5_000.0), 10)

    def test_an_application_without_a_utility_knows_why(self) -> None:
        """And one of another market has no words."""
        snapshot = self.contended(np.nan)
        assert "no goal after its start" in self.words(snapshot, 10)
        assert self.words(snapshot, 99) == ""
