"""The strategy `utility` on whole clouds: the paper's first experiment, and who gets a place."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from merkatd.cluster import Decision, Deploy, Ints, Snapshot
from merkatd.cluster.applications import Jobs, Stages
from merkatd.placement import strategy_named
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
