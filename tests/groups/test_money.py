"""Users pay their spending rate for the cores that they really use, and nothing else."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from merkatd.cluster import VmState
from merkatd.groups.group_orders import GroupError
from merkatd.scheduler.charging.used_cpu import CpuCounters, NewlyLimited, core_periods
from merkatd.scheduler.observation.looks import missing_guests
from merkatd.scheduler.observation.running_time import RestartedCounters
from tests.groups.site import CREDITS, Site, template


def spent(site: Site, owner: int) -> float:
    """Return the spent credits of an owner."""
    return CREDITS - site.balances()[owner]


def test_a_charge_is_the_rate_times_the_used_cores(site: Site) -> None:
    """SR x sum of U: two VMs use six cores in all, at 60 credits a core."""
    site.create(60.0, 2)
    site.periods(5)
    before = spent(site, site.ann)
    site.periods(4)
    assert spent(site, site.ann) - before == pytest.approx(4 * 60.0 * 6, rel=1e-6)


def test_an_idle_user_pays_nothing(site: Site) -> None:
    """The size of the allocation does not matter."""
    idle = template().replace('DEMAND="1"', 'DEMAND="0"')
    site.create(60.0, 1, template=idle)
    site.create(30.0, 1, site.bob)
    site.periods(2)
    before = spent(site, site.ann), spent(site, site.bob)
    site.periods(6)
    assert spent(site, site.ann) == before[0]
    assert spent(site, site.bob) > before[1]


def test_shared_hosts_are_charged_by_use(site: Site) -> None:
    """Two users on one host of four cores each pay their own rate for their own share."""
    site.bench.ok("one.host.status", 1, 1)
    site.bench.ok("one.host.status", 2, 1)
    site.create(90.0, 1, template=template(4))
    site.create(30.0, 1, site.bob, template=template(4))
    site.periods(6)
    before = spent(site, site.ann), spent(site, site.bob)
    site.periods(4)
    assert spent(site, site.ann) - before[0] == pytest.approx(4 * 90 * 3.0, rel=0.01)
    assert spent(site, site.bob) - before[1] == pytest.approx(4 * 30 * 1.0, rel=0.01)


def test_a_new_owner_of_a_group_cannot_spend_the_former_owners_credits(site: Site) -> None:
    """The former owner pays for the existing VMs, so their rate may only fall until they end."""
    group = site.create(60.0, 2)
    site.periods(3)
    site.wait(site.keeper.change(group, owner=site.bob))
    with pytest.raises(GroupError, match=f"VMs of user {site.ann}, who pays for them"):
        site.edit(group, spending_rate=61.0)
    assert site.edit(group, spending_rate=50.0).spending_rate == 50.0
    site.edit(group, nvm=0)
    site.periods(3)
    assert site.edit(group, spending_rate=90.0).spending_rate == 90.0


def test_a_user_without_credits_gets_almost_nothing() -> None:
    """Rates fall to what can be paid, and the other user gets the host."""
    site = Site(hosts=1)
    try:
        site.create(CREDITS / 10, 1, template=template(4))
        vm = site.create(100.0, 1, site.bob, template=template(4))
        site.periods(24)
        assert 0 < site.balances()[site.ann] < CREDITS / 10
        assert site.quota(site.vms(vm)[0]) > 300
        site.agree()
    finally:
        site.close()


@pytest.mark.parametrize("away", ["suspend", "poweroff-hard"])
def test_a_vm_restarted_before_each_observation_pays_for_its_use(away: str) -> None:
    """Its counter restarts each time and is small at each observation."""
    site = Site(hosts=1)
    try:
        group = site.create(60.0, 1)
        site.periods(3)
        (vm,) = site.vms(group)
        before, used = spent(site, site.ann), -site.cloud.guests.read()[vm].cpu_s
        for _ in range(5):
            site.clock.advance(40)
            used += site.cloud.guests.read()[vm].cpu_s
            site.bench.ok("one.vm.action", away, vm)
            site.clock.advance(5)
            site.bench.ok("one.vm.action", "resume", vm)
            site.clock.advance(15)
            site.period()
        paid = spent(site, site.ann) - before
        assert used > 5 * 60
        assert paid >= 0.95 * used
    finally:
        site.close()


def test_restarted_and_unread_counters_are_handled() -> None:
    """After a migration a counter starts at zero; missed use is charged later."""
    arrays = {
        "vm": np.array([1, 2, 3, 4, 5]),
        "cpu_s": np.array([100.0, 100.0, np.nan, 100.0, 100.0]),
        "vcpus": np.array([2, 2, 2, 2, 2]),
    }
    now = CpuCounters(np.array([1, 2, 3, 4]), np.array([160.0, 30.0, 50.0, 9_999.0]))
    used = core_periods(arrays, np.arange(5), now, np.ones(5), 60.0)
    assert used == pytest.approx([1.0, 0.5, 0.0, 2.0, 0.0])


def test_unread_use_before_a_guests_end_is_charged() -> None:
    """An ended guest is charged its share for that time, and a running one by its counter."""
    arrays = {
        "vm": np.array([1, 2]),
        "cpu_s": np.full(2, 100.0),
        "vcpus": np.full(2, 4),
        "allocation": np.full((2, 2), 200.0),
    }
    now = CpuCounters(np.array([2]), np.array([400.0]))
    over, unread_s = np.array([True, False]), np.full(2, 50.0)
    used = core_periods(arrays, np.arange(2), now, np.full(2, 0.5), 60.0, over, unread_s=unread_s)
    assert used == pytest.approx([2 * 80 / 60, 300 / 60])


def test_another_hosts_slowness_makes_no_replaced_domain_cheaper() -> None:
    """A VM was started, then reverted right before the observation; another host was slow."""
    arrays = {
        "vm": np.array([1]),
        "host": np.array([7]),
        "cpu_s": np.full(1, 100.0),
        "vcpus": np.full(1, 4),
        "allocation": np.full((1, 2), 200.0),
    }
    now = CpuCounters(arrays["vm"], np.array([3.0]))
    anew = RestartedCounters(np.full(1, 2.0), np.full(1, 58.0), np.array([False]))
    limited = NewlyLimited(gap_s={7: 5.0, 8: 60.0}, age_s={1: 1.0})
    used = core_periods(arrays, np.arange(1), now, np.ones(1), 60.0, anew=anew, limited=limited)
    assert used == pytest.approx([(3 + 2 * (60 - 1 - 7)) / 60])


def test_a_guest_that_hides_at_each_observation_pays_for_its_share() -> None:
    """Once is allowed; and a guest that is not missing where its host answers pays later."""
    arrays = {
        "vm": np.array([1, 2, 3, 4]),
        "cpu_s": np.full(4, 100.0),
        "vcpus": np.full(4, 4),
        "allocation": np.full((4, 2), 200.0),
    }
    now = CpuCounters(np.array([4]), np.array([160.0]))
    missing, unread_s = np.array([True, True, False, False]), np.array([60.0, 0.0, 60.0, 60.0])
    used = core_periods(
        arrays, np.arange(4), now, np.ones(4), 60.0, unread_s=unread_s, missing=missing
    )
    assert used == pytest.approx([2.0, 0.0, 0.0, 1.0])


def test_only_guests_that_should_be_on_a_host_that_answers_are_missing() -> None:
    """Not those of hosts that are away, nor those on their way to another host."""
    running, busy = VmState.RUNNING, VmState.BUSY
    look: Any = SimpleNamespace(
        vm_id=np.arange(6),
        vm_state=np.array([running, running, running, busy, busy, running]),
        vm_host=np.array([0, 0, 1, 0, 0, 0]),
        vm_stays=np.array([False, False, False, True, False, False]),
        vm_coming=np.array([-1, -1, -1, -1, -1, 1]),
    )
    use: Any = SimpleNamespace(run=np.array([7]), vm_id=np.array([1]), away={1: "no answer"})
    assert missing_guests(look, use).tolist() == [0, 3]
    use.run = None
    assert missing_guests(look, use).tolist() == []


def test_use_before_a_migration_is_estimated_by_the_use_after_it() -> None:
    """It is at most the share; before a restart by the owner it is the share."""
    arrays = {
        "vm": np.array([1, 2, 3]),
        "cpu_s": np.full(3, 100.0),
        "vcpus": np.full(3, 4),
        "allocation": np.full((3, 2), 200.0),
    }
    now = CpuCounters(arrays["vm"], np.array([3.0, 90.0, 3.0]))
    anew = RestartedCounters(np.full(3, 30.0), np.full(3, 30.0), np.array([True, True, False]))
    used = core_periods(arrays, np.arange(3), now, np.ones(3), 60.0, None, anew)
    assert used == pytest.approx([6 / 60, (90 + 30 * 2) / 60, (3 + 30 * 2) / 60])


def test_a_guest_that_started_and_ended_unseen_is_charged_all_its_cores() -> None:
    """A guest of the decision is charged its share; a counter may exceed the old size."""
    arrays = {
        "vm": np.array([1, 2, 3]),
        "cpu_s": np.full(3, np.nan),
        "vcpus": np.full(3, 4),
        "allocation": np.full((3, 2), 200.0),
        "runs": np.zeros(3, dtype=bool),
        "rests": np.array([True, False, True]),
        "rate": np.ones(3),
    }
    now = CpuCounters(np.array([3]), np.array([9_999.0]))
    over = np.array([True, True, False])
    anew = RestartedCounters(np.zeros(3), np.zeros(3), np.zeros(3, dtype=bool))
    used = core_periods(arrays, np.arange(3), now, np.full(3, 0.5), 60.0, over, anew, 16.0)
    assert used == pytest.approx([4 / 2, 2 / 2, 16 / 2])
