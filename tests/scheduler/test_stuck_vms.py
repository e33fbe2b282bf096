"""Displaced VMs of limit orders that can't be stopped: they have what their limit buys."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from merkatd.cluster import Stop
from merkatd.database.scheduler import journal
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.embedded.model.vm_states import Lcm
from tests.scheduler.test_ordered_vms import Site

LOW, HIGH = 2.0, 90.0


class FullSite(Site):
    """A cloud with one host, all of whose cores an order of LOW credits has."""

    def __init__(self) -> None:
        """Start the VMs of the order."""
        super().__init__()
        self.low = self.vms("ann", 4)
        self.state_order(self.low, LOW)
        self.periods(2)


@pytest.fixture
def site() -> Iterator[FullSite]:
    """Return such a cloud."""
    place = FullSite()
    yield place
    place.placed_again = set(place.cloud.world.vms.rows)
    place.agree()
    place.close()


def cores(site: Site, vm: int) -> float:
    """Return the part of a core that the VM's quota allows it."""
    return float(site.limits(vm).vcpu_quota) / 100_000


def stops(site: Site, vm: int) -> list[float]:
    """Return the times of all attempts to stop the VM."""
    rows = site.read(lambda c: journal.recent(c, journal.StepFilter(vm=vm), 1000))
    return sorted(row.planned_s for row in rows if row.step.kind == Stop.kind)


def test_a_vm_whose_owner_keeps_it_busy_gets_what_its_limit_buys(site: FullSite) -> None:
    """The dearer order has its cores; the VM pays no more than its part of its limit."""
    busy, *others = site.low
    site.set_duration(Lcm.HOTPLUG, 1e6)
    site.bench.ok("one.vm.updateconf", busy, 'CONTEXT=[X="1"]', 1)
    dearer = site.vms("bob", 4)
    order = site.state_order(dearer, HIGH)
    site.periods(3)
    before = site.balances()
    announcement = site.periods(3)
    assert site.state(busy) == "HOTPLUG"
    assert site.states(others) == ["PENDING"] * 3
    assert site.states(dearer) == ["RUNNING"] * 4
    assert site.limit_order(order).runs
    assert cores(site, busy) <= 0.02
    assert [cores(site, vm) for vm in dearer] == pytest.approx([1.0] * 4)
    assert before[site.ann] - site.balances()[site.ann] <= 3 * LOW / 4
    why = announcement.decided.decision.reasons[busy]
    assert why.endswith("; it runs with what its limit buys, because it is HOTPLUG")


def test_refused_stops_back_off_and_the_vm_gets_what_its_limit_buys(site: FullSite) -> None:
    """The reason has OpenNebula's words; once it stops the VM, the VM is stopped."""
    stuck = site.low[0]
    site.cloud.faults.add(Fault(FaultKind.REFUSE, method="one.vm.action", vm=stuck))
    dearer = site.vms("bob", 4)
    site.state_order(dearer, HIGH)
    announcement = site.periods(20)
    assert site.state(stuck) == "RUNNING"
    assert site.states(dearer) == ["RUNNING"] * 4
    assert cores(site, stuck) <= 0.02
    times = stops(site, stuck)
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert waits == pytest.approx([120.0, 240.0, 480.0], abs=5.0)
    why = announcement.decided.decision.reasons[stuck]
    assert f"stopping it failed {len(times)} times, most recently with" in why
    assert "refused" in why
    site.cloud.faults.clear()
    site.periods(20)
    assert site.state(stuck) == "PENDING"
