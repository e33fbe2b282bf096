"""Ranks, priorities and VMs that must leave: what OpenNebula lets users and administrators say."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from merkatd.cluster import Deploy, HostState, Migrate, Requirements, Snapshot
from merkatd.cluster.snapshot import SnapshotError, checked_snapshot
from merkatd.cluster.snapshot_json import dumps, loads
from merkatd.cluster.snapshot_npz import from_npz, to_npz
from merkatd.placement import STRATEGIES, strategy_named
from merkatd.placement.tabu.tabu import Objective, TabuSettings
from tests.clouds import cloud, hosts_table, tangled, vms_table

RNG = np.random.default_rng(0)
TWO = np.tile([100.0, 1000.0], (2, 1))


def pending(count: int, hosts: int = 2, **columns: Any) -> Snapshot:
    """VMs that all bid 1 and need half of a host's memory, for empty hosts."""
    sizes = np.tile([50.0, 500.0], (count, 1))
    return cloud(
        hosts_table(np.tile([100.0, 1000.0], (hosts, 1))),
        vms_table([-1] * count, np.ones((count, 2)), sizes, floor=sizes * [0, 1], **columns),
    )


def places(snapshot: Snapshot, strategy: str = "paper") -> dict[int, int]:
    """By VM: where the decision puts it."""
    plan = strategy_named(strategy).decide(snapshot, RNG).plan
    return {step.vm: step.host for step in plan if isinstance(step, Deploy | Migrate)}


@pytest.mark.parametrize("strategy", ["paper", "tabu"])
class TestRank:
    def test_breaks_ties_and_nothing_else(self, strategy: str) -> None:
        """Of two empty hosts the higher rank; of two loads the smaller."""
        rules = Requirements(
            name=("any",), allowed=np.ones((1, 2), dtype=bool), rank=np.array([[1.0, 2.0]])
        )
        snapshot = replace(pending(2, requirement=np.zeros(2, dtype=np.int64)), requirements=rules)
        assert places(snapshot, strategy) == {0: 1, 1: 0}

    def test_without_one_the_lowest_id_is_taken(self, strategy: str) -> None:
        """As before there were ranks."""
        assert places(pending(2), strategy) == {0: 0, 1: 1}


@pytest.mark.parametrize("strategy", ["paper", "tabu"])
def test_the_highest_priority_is_placed_first(strategy: str) -> None:
    """Where there is room for four of six, it is for those."""
    priority = np.array([0.0, 5.0, 1.0, 5.0, -1.0, 0.0])
    assert sorted(places(pending(6, priority=priority), strategy)) == [0, 1, 2, 3]
    assert sorted(places(pending(6), strategy)) == [0, 1, 2, 3]
    priority = np.array([0.0, 5.0, 1.0, 5.0, 1.0, 0.0])
    assert sorted(places(pending(6, priority=priority), strategy)) == [1, 2, 3, 4]


EVERY_STRATEGY = pytest.mark.parametrize(
    "decide",
    [
        *(partial(entry.decide, rng=RNG) for entry in STRATEGIES.values()),
        partial(
            STRATEGIES["tabu"].decide, rng=RNG, settings=TabuSettings(objective=Objective.ERROR)
        ),
    ],
    ids=[*STRATEGIES, "tabu-error"],
)


class TestLeaving:
    def snapshot(self, **columns: Any) -> Snapshot:
        """One VM on the first of two hosts, with nothing against its place."""
        sizes = np.array([[50.0, 500.0]])
        said = {"host": np.array([0]), "leaves": np.array([True]), **columns}
        vms = vms_table(said.pop("host"), np.ones((1, 2)), sizes, **said)
        return cloud(hosts_table(TWO), vms)

    @EVERY_STRATEGY
    def test_it_is_moved_and_told_why(self, decide: Any) -> None:
        """Though it gains nothing, whoever decides."""
        (step,) = decide(self.snapshot()).plan
        assert isinstance(step, Migrate)
        assert step.host == 1
        assert step.reason == "it must leave host0"

    @EVERY_STRATEGY
    def test_a_drained_host_is_emptied(self, decide: Any) -> None:
        """Though nobody gains anything, whoever decides."""
        snapshot = self.snapshot(leaves=np.array([False]))
        state = np.array([HostState.DRAINED, HostState.ON])
        (step,) = decide(replace(snapshot, hosts=replace(snapshot.hosts, state=state))).plan
        assert (step.host, step.reason) == (1, "host0 is drained")

    @EVERY_STRATEGY
    def test_not_if_it_may_not_move(self, decide: Any) -> None:
        """Whatever somebody asked for."""
        assert len(decide(self.snapshot(movable=np.array([False]))).plan) == 0

    def test_a_group_does_not_call_it_back(self) -> None:
        """Once it is elsewhere nobody asks any more, and the group stays where it went."""
        groups = strategy_named("groups")
        sent = groups.decide(self.snapshot(), RNG)
        later = self.snapshot(leaves=np.array([False]), host=np.array([1]))
        assert len(groups.decide(later, RNG, sent.memory).plan) == 0

    def test_an_order_counts_before_the_time_that_a_migrated_vm_is_held(self) -> None:
        """Somebody wants the host, now."""
        tabu = strategy_named("tabu")
        back = self.snapshot(host=np.array([1]), moved_at_s=np.array([50.0]))
        (step,) = tabu.decide(replace(back, now_s=60.0), RNG).plan
        assert isinstance(step, Migrate)
        assert step.host == 0

    @pytest.mark.parametrize("strategy", ["paper", "tabu"])
    def test_as_many_as_may_be_migrated_in_a_period(self, strategy: str) -> None:
        """The others have their turn in the next."""
        sizes = np.tile([1.0, 10.0], (9, 1))
        vms = vms_table([0] * 9, np.ones((9, 2)), sizes, leaves=np.ones(9, dtype=bool))
        assert len(places(cloud(hosts_table(TWO), vms), strategy)) == 5

    @pytest.mark.parametrize("strategy", STRATEGIES)
    @pytest.mark.parametrize("seed", range(20))
    def test_nobody_is_sent_to_the_host_that_it_must_leave(self, strategy: str, seed: int) -> None:
        """Nor does the rest of the plan break."""
        snapshot = tangled(seed)
        vms = snapshot.vms
        leaving = replace(vms, leaves=np.arange(len(vms)) % 3 == 0)
        for step in strategy_named(strategy).decide(replace(snapshot, vms=leaving), RNG).plan:
            if isinstance(step, Migrate):
                assert step.host != step.source


class TestForms:
    def test_they_survive(self) -> None:
        """In both forms."""
        rules = Requirements(
            name=("a", "b"),
            allowed=np.ones((2, 2), dtype=bool),
            rank=np.array([[0.0, -2.5], [0.0, 0.0]]),
        )
        snapshot = replace(
            pending(2, priority=np.array([1.0, 0.0]), leaves=np.array([True, False])),
            requirements=rules,
        )
        text = dumps(checked_snapshot(snapshot))
        assert dumps(loads(text)) == text
        assert dumps(from_npz(to_npz(snapshot))) == text
        assert loads(text).requirements.rank.tolist() == rules.rank.tolist()

    def test_a_table_without_ranks_has_none(self) -> None:
        """And is written as such."""
        rules = Requirements(name=("a",), allowed=np.ones((1, 2), dtype=bool))
        text = dumps(replace(pending(1), requirements=rules))
        assert '"rank": null' in text
        assert loads(text).requirements.rank.shape == (1, 0)

    def test_a_rank_that_is_no_number_is_refused(self) -> None:
        """As everywhere."""
        rules = Requirements(
            name=("a",), allowed=np.ones((1, 2), dtype=bool), rank=np.array([[np.nan, 1.0]])
        )
        with pytest.raises(SnapshotError, match=r"requirements.rank, row 0"):
            checked_snapshot(replace(pending(1), requirements=rules))
