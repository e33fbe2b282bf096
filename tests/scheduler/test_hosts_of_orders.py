"""Hosts with VMs of limit orders that are drained, emptied, disabled or fail."""

from collections.abc import Iterator

import pytest

from merkatd.cluster.columns import NO_HOST
from merkatd.database.scheduler.order_store import Order
from tests.scheduler.test_ordered_vms import RESERVE, Site

LIMIT = 9.0


@pytest.fixture
def site() -> Iterator[Site]:
    """Return a cloud with two hosts, on the first of which an order of 3 VMs runs."""
    place = Site(hosts=2)
    place.bench.ok("one.host.status", 1, 1)
    place.state_order(place.vms("ann"), LIMIT)
    place.periods(2)
    place.bench.ok("one.host.status", 1, 0)
    place.periods(1)
    yield place
    place.placed_again = set(place.cloud.world.vms.rows)
    place.agree()
    place.close()


def hosts(site: Site) -> list[int]:
    """Return the hosts of the VMs that run; NO_HOST for others."""
    vms = sorted(site.cloud.world.vms.rows)
    return [site.host_of(vm) if site.state(vm) == "RUNNING" else NO_HOST for vm in vms]


def test_vms_of_an_order_stay_while_all_hosts_are_drained(site: Site) -> None:
    """Nobody displaces them; they pay the reserve prices, and migrate once a host takes them."""
    site.order(Order.DRAIN, 0)
    site.order(Order.DRAIN, 1)
    site.periods(2)
    before = site.balances()[site.ann]
    site.periods(3)
    assert hosts(site) == [0] * 3
    least = 3 * (100 * RESERVE["cpu"] + 1024 * RESERVE["memory"])
    assert before - site.balances()[site.ann] == pytest.approx(3 * least)
    site.order(Order.UNDRAIN, 1)
    site.periods(8)
    assert hosts(site) == [1] * 3


def test_vms_of_an_order_leave_a_drained_host(site: Site) -> None:
    """They migrate, whatever their limit is."""
    site.order(Order.DRAIN, 0)
    site.periods(8)
    assert hosts(site) == [1] * 3


def test_vms_of_an_order_stay_on_a_drained_host_while_others_fill_the_rest(site: Site) -> None:
    """A dearer order has the other host, and can't use the room of the drained one."""
    site.order(Order.DRAIN, 0)
    site.bench.ok("one.host.status", 1, 1)
    site.periods(2)
    assert hosts(site) == [0] * 3
    order = site.state_order(site.vms("bob", 4), 90.0)
    site.bench.ok("one.host.status", 1, 0)
    site.periods(4)
    assert hosts(site) == [0] * 3 + [1] * 4
    assert site.limit_order(order).runs


def test_vms_of_an_order_leave_a_host_that_is_flushed(site: Site) -> None:
    """`onehost flush` disables the host and asks the scheduler to move its VMs."""
    site.bench.ok("one.host.status", 0, 1)
    for vm in sorted(site.cloud.world.vms.rows):
        site.bench.ok("one.vm.action", "resched", vm)
    site.periods(8)
    assert hosts(site) == [1] * 3


@pytest.mark.parametrize("count", [1, 2])
def test_vms_of_an_order_stay_on_disabled_hosts(site: Site, count: int) -> None:
    """They go on, and another order does not start there."""
    for host in range(count):
        site.bench.ok("one.host.status", host, 1)
    site.periods(2)
    assert hosts(site) == [0] * 3
    site.state_order(site.vms("bob", 4), 90.0)
    site.periods(3)
    assert hosts(site)[:3] == [0] * 3
