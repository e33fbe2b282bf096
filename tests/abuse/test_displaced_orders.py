"""Displaced limit orders keep neither room nor shares for less than they are worth."""

from collections.abc import Iterator

import pytest

from merkatd.database.scheduler import limit_order_store
from merkatd.embedded.model.vm_states import Lcm
from merkatd.service.base.period_view import present
from tests.scheduler.frontend import PASSWORD
from tests.scheduler.test_ordered_vms import Site

BOB = f"bob:{PASSWORD}"
LOW = 0.7
"""A limit near the reserve price: no bid that wants the cores is lower."""


@pytest.fixture(params=[1, 2])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """Return a cloud with these hosts of four cores; their VMs boot for five minutes."""
    place = Site(hosts=request.param)
    yield place
    place.placed_again = set(place.cloud.world.vms.rows)
    place.close()


def share(site: Site, vm: int) -> float:
    """Return the units of CPU that a VM gets by the next decision."""
    view = present(site.period(), site.scheduler.world.markets)
    return float(view.decision.allocations[view.snapshot.vm_row(vm), 0])


def everywhere(site: Site, bid: float) -> list[int]:
    """Return a VM of bob for each host that wants all of its cores, once they run."""
    vms = [
        site.vm(bid, BOB, CPU=0.1, VCPU=4, MEMORY=512, SCHED_REQUIREMENTS=f"ID = {host}")
        for host in range(len(site.cloud.world.hosts.rows))
    ]
    site.periods(3)
    assert site.states(vms) == ["RUNNING"] * len(vms)
    return vms


def test_vms_that_boot_keep_no_cores_for_a_limit_near_zero(site: Site) -> None:
    """A tenant could let its image be copied for an hour, and keep a host for nothing."""
    site.set_duration(Lcm.BOOT, 3600.0)
    vms = site.vms("ann")
    order = site.state_order(vms, LOW)
    site.periods(2)
    assert site.states(vms) == ["BOOT"] * 3
    site.set_duration(Lcm.BOOT, 1.0)
    others = everywhere(site, 5.0)
    assert site.states(vms) == ["BOOT"] * 3
    assert not site.limit_order(order).runs
    for vm in others:
        assert share(site, vm) > 0.95 * 400.0


def test_a_limit_that_is_lowered_during_a_migration_applies_after_it() -> None:
    """The VM has its share until it arrives; otherwise it would cost 0.7 credits instead of 3."""
    site = Site(hosts=2)
    (vm,) = site.vms("ann", 1)
    order = site.state_order([vm], 3.0)
    site.periods(3)
    host = site.host_of(vm)
    site.set_duration(Lcm.MIGRATE, 7200.0)
    site.bench.ok("one.host.status", host, 1)
    site.periods(1)
    drained = 1 - host
    site.bench.ok("one.vm.migrate", vm, drained, True, False, -1, 0)
    site.periods(1)
    assert site.states([vm]) == ["MIGRATE"]
    site.vm(9.0, BOB, CPU=0.1, VCPU=4, MEMORY=512, SCHED_REQUIREMENTS=f"ID = {drained}")
    site.periods(3)
    site.read(lambda connection: limit_order_store.withdraw(connection, [order]))
    order = site.state_order([vm], LOW)
    site.periods(1)
    before = site.balances()[site.ann]
    site.periods(3)
    assert site.states([vm]) == ["MIGRATE"]
    price = site.period().decided.decision.prices[0, 0]
    paid = (before - site.balances()[site.ann]) / 4
    assert paid >= 0.9 * min(3.0, 100 * price), (paid, price)
    site.placed_again = {vm}
    site.close()
