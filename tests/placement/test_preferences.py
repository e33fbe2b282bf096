"""Ranks, priorities and VMs that must leave a host: preferences of OpenNebula's users."""

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
    """Return VMs for empty hosts that all bid 1 and need half of a host's memory."""
    sizes = np.tile([50.0, 500.0], (count, 1))
    return cloud(
        hosts_table(np.tile([100.0, 1000.0], (hosts, 1))),
        vms_table([-1] * count, np.ones((count, 2)), sizes, floor=sizes * [0, 1], **columns),
    )


def places(snapshot: Snapshot, strategy: str = "paper") -> dict[int, int]:
    """Return the host of each VM in the plan."""
    plan = strategy_named(strategy).decide(snapshot).plan
    return {step.vm: step.host for step in plan if isinstance(step, Deploy | Migrate)}


@pytest.mark.parametrize("strategy", ["paper", "tabu"])
class TestRank:
    def test_breaks_ties_only(self, strategy: str) -> None:
        """Of two empty hosts the VM takes the higher rank; of two loads the smaller."""
        rules = Requirements(
            name=("any",), allowed=np.ones((1, 2), dtype=bool), rank=np.array([[1.0, 2.0]])
        )
        snapshot = replace(pending(2, requirement=np.zeros(2, dtype=np.int64)), requirements=rules)
        assert places(snapshot, strategy) == {0: 1, 1: 0}

    def test_without_ranks_the_lowest_id_is_taken(self, strategy: str) -> None:
        """Equal hosts without ranks are used in the order of their ids."""
        assert places(pending(2), strategy) == {0: 0, 1: 1}


@pytest.mark.parametrize("strategy", ["paper", "tabu"])
def test_the_highest_priorities_are_placed_first(strategy: str) -> None:
    """If only four of six VMs fit, the four with the highest priorities are placed."""
    priority = np.array([0.0, 5.0, 1.0, 5.0, -1.0, 0.0])
    assert sorted(places(pending(6, priority=priority), strategy)) == [0, 1, 2, 3]
    assert sorted(places(pending(6), strategy)) == [0, 1, 2, 3]
    priority = np.array([0.0, 5.0, 1.0, 5.0, 1.0, 0.0])
    assert sorted(places(pending(6, priority=priority), strategy)) == [1, 2, 3, 4]


EVERY_STRATEGY = pytest.mark.parametrize(
    "decide",
    [
        *(entry.decide for entry in STRATEGIES.values()),
        partial(STRATEGIES["tabu"].decide, settings=TabuSettings(objective=Objective.ERROR)),
    ],
    ids=[*STRATEGIES, "tabu-error"],
)


class TestLeaving:
    def snapshot(self, **columns: Any) -> Snapshot:
        """Return one VM on the first of two hosts, without any constraint against its place."""
        sizes = np.array([[50.0, 500.0]])
        values = {"host": np.array([0]), "leaves": np.array([True]), **columns}
        vms = vms_table(values.pop("host"), np.ones((1, 2)), sizes, **values)
        return cloud(hosts_table(TWO), vms)

    @EVERY_STRATEGY
    def test_an_ordered_vm_is_moved_with_a_reason(self, decide: Any) -> None:
        """Every strategy moves a VM that must leave its host, without any gain."""
        (step,) = decide(self.snapshot()).plan
        assert isinstance(step, Migrate)
        assert step.host == 1
        assert step.reason == "it must leave host0"

    @EVERY_STRATEGY
    def test_a_drained_host_is_emptied(self, decide: Any) -> None:
        """Every strategy empties a drained host, without any gain."""
        snapshot = self.snapshot(leaves=np.array([False]))
        state = np.array([HostState.DRAINED, HostState.ON])
        (step,) = decide(replace(snapshot, hosts=replace(snapshot.hosts, state=state))).plan
        assert (step.host, step.reason) == (1, "host0 is drained")

    @EVERY_STRATEGY
    def test_an_unmovable_vm_stays(self, decide: Any) -> None:
        """An order to leave a host does not move a VM that may not move."""
        assert len(decide(self.snapshot(movable=np.array([False]))).plan) == 0

    def test_a_group_does_not_return_a_vm(self) -> None:
        """After the order has ended, the VM stays on the host that it moved to."""
        groups = strategy_named("groups")
        sent = groups.decide(self.snapshot())
        later = self.snapshot(leaves=np.array([False]), host=np.array([1]))
        assert len(groups.decide(later, memory=sent.memory).plan) == 0

    def test_an_order_overrides_the_hold_time(self) -> None:
        """A VM that must leave its host moves even shortly after a migration."""
        tabu = strategy_named("tabu")
        back = self.snapshot(host=np.array([1]), moved_at_s=np.array([50.0]))
        (step,) = tabu.decide(replace(back, now_s=60.0)).plan
        assert isinstance(step, Migrate)
        assert step.host == 0

    @pytest.mark.parametrize("strategy", ["paper", "tabu"])
    def test_orders_respect_the_limit_of_migrations(self, strategy: str) -> None:
        """A period moves at most five VMs off a host; the others follow in later periods."""
        sizes = np.tile([1.0, 10.0], (9, 1))
        vms = vms_table([0] * 9, np.ones((9, 2)), sizes, leaves=np.ones(9, dtype=bool))
        assert len(places(cloud(hosts_table(TWO), vms), strategy)) == 5

    @pytest.mark.parametrize("strategy", STRATEGIES)
    @pytest.mark.parametrize("seed", range(20))
    def test_no_vm_is_sent_to_the_host_that_it_must_leave(self, strategy: str, seed: int) -> None:
        """No plan sends a VM to its own host, also with many constraints."""
        snapshot = tangled(seed)
        vms = snapshot.vms
        leaving = replace(vms, leaves=np.arange(len(vms)) % 3 == 0)
        for step in strategy_named(strategy).decide(replace(snapshot, vms=leaving)).plan:
            if isinstance(step, Migrate):
                assert step.host != step.source


class TestForms:
    def test_ranks_priorities_and_orders_survive_both_forms(self) -> None:
        """JSON and npz keep ranks, priorities and orders to leave."""
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

    def test_a_table_without_ranks_is_stored_without(self) -> None:
        """A table without ranks is written as null and read with no ranks."""
        rules = Requirements(name=("a",), allowed=np.ones((1, 2), dtype=bool))
        text = dumps(replace(pending(1), requirements=rules))
        assert '"rank": null' in text
        assert loads(text).requirements.rank.shape == (1, 0)

    def test_a_rank_that_is_not_a_number_is_rejected(self) -> None:
        """The snapshot's check rejects a NaN rank and names its row."""
        rules = Requirements(
            name=("a",), allowed=np.ones((1, 2), dtype=bool), rank=np.array([[np.nan, 1.0]])
        )
        with pytest.raises(SnapshotError, match=r"requirements.rank, row 0"):
            checked_snapshot(replace(pending(1), requirements=rules))
