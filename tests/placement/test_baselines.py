"""Baselines: in which order VMs get hosts, and which of the hosts with room for their sizes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from merkatd.cluster import Decision, Snapshot
from merkatd.cluster.applications import Jobs, Stages
from merkatd.cluster.hosts import Requirements
from merkatd.placement.baselines.size_fitting import BaselineSettings
from merkatd.placement.registry import BASELINES, strategy_named
from tests.clouds import cloud, hosts_table, placed, vms_table

WAITS = -1


def market(
    capacities: Sequence[float], vms: Sequence[tuple[int, float]], jobs: Any = None
) -> Snapshot:
    """Return hosts of these cores, and VMs by host (-1: it waits) and cores; memory is ample.

    `jobs` has for each VM the work that its job still needs and its deadline, or None.
    """
    hosts = hosts_table(np.array([[cores, 1e6] for cores in capacities]))
    size = np.array([[cores, 1.0] for _, cores in vms])
    snapshot = cloud(hosts, vms_table([host for host, _ in vms], np.ones_like(size), size))
    if jobs is None:
        return snapshot
    known = [vm for vm, job in enumerate(jobs) if job is not None]
    application = np.array([-1 if job is None else vm for vm, job in enumerate(jobs)])
    return replace(
        snapshot,
        vms=replace(snapshot.vms, application=application),
        jobs=Jobs(
            application=np.array(known),
            submitted_s=np.zeros(len(known)),
            started_s=np.zeros(len(known)),
            goal_s=np.array([float(jobs[vm][1]) for vm in known]),
            work_done=np.full(len(known), 50.0),
        ),
        stages=Stages(
            job=np.repeat(np.arange(len(known)), 2),
            work=np.array([work for vm in known for work in (50.0, 2.0 * jobs[vm][0])]),
            least_speed=np.zeros(2 * len(known)),
            greatest_speed=np.full(2 * len(known), 2.0),
            memory_mib=np.ones(2 * len(known)),
        ),
    )


def decide(name: str, snapshot: Snapshot, **settings: Any) -> Decision:
    """Return the decision of a baseline."""
    return strategy_named(name).decide(snapshot, BaselineSettings(**settings))


def places(name: str, snapshot: Snapshot, **settings: Any) -> list[int]:
    """Return the hosts of all VMs after a baseline's decision; -1 of those that wait."""
    hosts: list[int] = placed(snapshot, decide(name, snapshot, **settings)).tolist()
    return hosts


@pytest.mark.parametrize(
    ("name", "host"), [("first-fit", 1), ("best-fit", 2), ("worst-fit", 3), ("fcfs", 1)]
)
def test_a_vm_gets_the_host_of_its_baseline(name: str, host: int) -> None:
    """Host 0 lacks room; of the others, 2 is the fullest and 3 the emptiest."""
    snapshot = market([400] * 4, [(0, 350), (1, 200), (2, 300), (3, 100), (WAITS, 100)])
    decision = decide(name, snapshot)
    assert placed(snapshot, decision).tolist() == [0, 1, 2, 3, host]
    (step,) = decision.plan
    assert step.reason.startswith(f"host{host} is the ")


def test_any_host_with_room_may_be_drawn() -> None:
    """The period's random numbers choose; a host without room is never chosen."""
    snapshot = market([400] * 3, [(0, 350), (WAITS, 100)])
    seen = {places("random-fit", replace(snapshot, period=at))[1] for at in range(30)}
    assert seen == {1, 2}


def test_the_largest_vm_goes_first_to_the_largest_host() -> None:
    """Paper IV, Eq. 19 and 20: in order of arrival, the large VM would find no room."""
    snapshot = market([200, 300], [(WAITS, 100), (WAITS, 300), (WAITS, 50)])
    assert places("ffd-sum", snapshot) == [0, 1, 0]
    assert places("best-fit", snapshot) == [0, 1, 0]
    assert places("first-fit", replace(snapshot, hosts=market([300, 200], []).hosts)) == [0, -1, 0]
    assert places("ffd-sum", replace(snapshot, hosts=market([300, 200], []).hosts)) == [1, 0, 1]


@pytest.mark.parametrize("name", BASELINES)
def test_sizes_are_not_overcommitted_unless_it_is_set(name: str) -> None:
    """Two of three VMs fill the host; with twice the capacity, all start."""
    snapshot = market([200], [(WAITS, 100)] * 3)
    assert sorted(places(name, snapshot)) == [-1, 0, 0]
    decision = decide(name, snapshot)
    assert len(decision.reasons) == 1
    assert places(name, snapshot, fill_part=2.0) == [0, 0, 0]


class TestQueues:
    """Two hosts, of which 100 cores of the second one are free."""

    vms = ((0, 400), (1, 300), (WAITS, 200), (WAITS, 100), (WAITS, 50))

    def test_fcfs_lets_all_wait_behind_the_first(self) -> None:
        """No VM passes another one."""
        snapshot = market([400, 400], self.vms)
        assert places("fcfs", snapshot) == [0, 1, -1, -1, -1]
        reasons = decide("fcfs", snapshot).reasons
        assert "no host that it may use has room" in reasons[2]
        assert "came before" in reasons[3]

    @pytest.mark.parametrize(
        ("jobs", "starts"),
        [
            # The first that waits gets host 1 in 60 s: what ends before passes it.
            ([(600, 1e3), (60, 1e3), (9, 1e3), (50, 1e3), (50, 1e3)], [1, -1]),
            # What takes longer would delay it; the next fits beside it.
            ([(600, 1e3), (60, 1e3), (9, 1e3), (90, 1e3), (90, 1e3)], [1, -1]),
            # It gets host 0 first, and 200 cores are left there.
            ([(20, 1e3), (60, 1e3), (9, 1e3), None, None], [1, -1]),
            # No end is known: nothing can be reserved.
            ([None, None, (9, 1e3), None, None], [1, -1]),
        ],
    )
    def test_easy_passes_what_delays_nothing(self, jobs: Any, starts: list[int]) -> None:
        """By the work that jobs still need, at twice the speed of a unit a second."""
        snapshot = market([400, 400], self.vms, jobs)
        assert places("easy", snapshot) == [0, 1, -1, *starts]

    def test_easy_keeps_the_reserved_host_free(self) -> None:
        """The whole host is reserved in 60 s: a longer job waits, a shorter one starts."""
        vms = ((0, 300), (WAITS, 400), (WAITS, 100), (WAITS, 100))
        jobs = [(60, 1e3), (9, 1e3), (61, 1e3), (60, 1e3)]
        snapshot = market([400], vms, jobs)
        assert places("easy", snapshot) == [0, -1, -1, 0]
        assert places("fcfs", snapshot) == [0, -1, -1, -1]

    @pytest.mark.parametrize("hopeless", ["size", "floor", "requirement", "held"])
    def test_a_vm_that_can_never_start_keeps_none_waiting(self, hopeless: str) -> None:
        """It fits on no empty host, may use none, or may not start in this period."""
        size = 500 if hopeless == "size" else 50
        snapshot = market([400, 400], ((0, 400), (WAITS, size), (WAITS, 100)))
        vms = snapshot.vms
        if hopeless == "floor":
            floor = vms.floor.copy()
            floor[1, 1] = 2e6
            cap = np.maximum(vms.cap, floor)
            snapshot = replace(snapshot, vms=replace(vms, floor=floor, cap=cap))
        if hopeless == "held":
            placeable = vms.id != 1
            snapshot = replace(snapshot, vms=replace(vms, placeable=placeable))
        if hopeless == "requirement":
            allowed = Requirements(("none",), np.zeros((1, 2), dtype=bool), np.zeros((1, 0)))
            requirement = np.where(vms.id == 1, 0, -1)
            snapshot = replace(
                snapshot, requirements=allowed, vms=replace(vms, requirement=requirement)
            )
        for name in ("fcfs", "easy", "edf"):
            assert places(name, snapshot) == [0, -1, 1]

    def test_a_vm_that_waits_for_room_keeps_later_ones_waiting(self) -> None:
        """Its floor lacks room as well: other VMs hold theirs for now."""
        snapshot = market([400], ((0, 300), (WAITS, 400), (WAITS, 50)))
        floor = snapshot.vms.floor.copy()
        floor[:2, 0] = (300, 200)
        snapshot = replace(snapshot, vms=replace(snapshot.vms, floor=floor))
        assert places("fcfs", snapshot) == [0, -1, -1]

    def test_the_earliest_deadline_goes_first(self) -> None:
        """A VM of no job comes last, and one without room is passed over."""
        vms = ((0, 300), (WAITS, 100), (WAITS, 50), (WAITS, 50), (WAITS, 200))
        jobs = [(9, 1e3), None, (9, 900), (9, 800), (9, 100)]
        assert places("edf", market([400], vms, jobs)) == [0, -1, 0, 0, -1]
        assert places("first-fit", market([400], vms, jobs)) == [0, 0, -1, -1, -1]


@pytest.mark.parametrize("name", BASELINES)
def test_nothing_migrates_for_gain(name: str) -> None:
    """VMs that run stay where they are, however uneven that is."""
    snapshot = market([400, 400], [(0, 200), (0, 200), (0, 100)])
    assert len(decide(name, snapshot).plan) == 0
