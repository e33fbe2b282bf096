"""Strategy `pack` fills one host after the other, within its limits."""

from dataclasses import replace

import numpy as np
import pytest

from merkatd.cluster import Deploy, HostState, Migrate, Snapshot
from merkatd.placement import strategy_named
from merkatd.placement.pack.pack import PackSettings
from tests.clouds import cloud, hosts_table, placed, vms_table

PACK = strategy_named("pack")


def waiting(vms: int, running: list[int], hosts: int = 4) -> Snapshot:
    """Return hosts of 400 units; VMs of 100 units run on these hosts, and more wait."""
    place = [*running, *[-1] * vms]
    size = np.full((len(place), 2), 100.0)
    return cloud(
        hosts_table(np.full((hosts, 2), 400.0)), vms_table(place, size / 100.0, size, floor=size)
    )


def hosts_of(snapshot: Snapshot, settings: PackSettings) -> list[int]:
    """Return the host of each VM after the plan."""
    hosts: list[int] = placed(snapshot, PACK.decide(snapshot, settings)).tolist()
    return hosts


def test_new_vms_start_on_the_fullest_host_that_has_room() -> None:
    """The host with two VMs is filled first, then the one with one, and no idle one is used."""
    whole = PackSettings(fill_part=1.0)
    assert hosts_of(waiting(2, [1, 2, 2]), whole) == [1, 2, 2, 2, 2]
    assert hosts_of(waiting(4, [1, 2, 2]), whole) == [1, 2, 2, 2, 2, 1, 1]


@pytest.mark.parametrize(("part", "most"), [(1.0, 4), (0.9, 3), (0.5, 2), (0.25, 1)])
def test_a_host_is_filled_up_to_a_part(part: float, most: int) -> None:
    """Sizes count, not floors or use."""
    hosts = hosts_of(waiting(4, []), PackSettings(fill_part=part))
    assert max(np.bincount(hosts)) == most


def test_a_vm_that_exceeds_the_part_everywhere_starts_all_the_same() -> None:
    """It takes the emptiest host."""
    snapshot = waiting(1, [0, 0, 0, 1, 1], hosts=2)
    assert hosts_of(snapshot, PackSettings(fill_part=0.5))[-1] == 1


def test_only_vms_that_must_leave_are_migrated() -> None:
    """At most `m_max` of them; no VM moves for gain."""
    snapshot = waiting(0, [0, 0, 0, 1])
    assert not PACK.decide(snapshot).plan.steps
    state = np.full(4, int(HostState.ON))
    state[0] = int(HostState.DRAINED)
    drained = replace(snapshot, hosts=replace(snapshot.hosts, state=state))
    for most in (0, 1, 2, 5):
        plan = PACK.decide(drained, PackSettings(m_max=most)).plan
        assert len(plan.of(Migrate)) == min(most, 3)
        assert not plan.of(Deploy)


def test_reasons_say_why_this_host() -> None:
    """They name the rule of `pack`, not that of the least load."""
    snapshot = waiting(2, [1], hosts=2)
    plan = PACK.decide(snapshot, PackSettings(fill_part=0.5)).plan
    assert [step.reason for step in plan] == [
        "host1 is the fullest host with room for it",
        "host0 is the fullest host with room for it",
    ]
    over = PACK.decide(waiting(1, [0, 0, 1], hosts=2), PackSettings(fill_part=0.1)).plan
    assert [step.reason for step in over] == [
        "host1 is the emptiest host: with it, each is over its limit"
    ]
