"""Claims beside limit orders: they hold as far as bids pay for them beside the orders."""

from collections.abc import Iterator

import pytest

from tests.scheduler.frontend import PASSWORD
from tests.scheduler.test_ordered_vms import Site

BOB = f"bob:{PASSWORD}"
LIMIT = 90.0


@pytest.fixture(params=[1, 3])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """Return a cloud with these hosts of four cores."""
    place = Site(hosts=request.param)
    yield place
    place.placed_again = set(place.cloud.world.vms.rows)
    place.close()


def claiming(site: Site, bid: float) -> list[int]:
    """Return a VM for each host that claims all of it, once they run."""
    hosts = len(site.cloud.world.hosts.rows)
    size = {"CPU": 0.1, "VCPU": 4, "MEMORY": 512}
    vms = [
        site.vm(bid, BOB, **size, MERKAT_MIN_CPU=400, SCHED_REQUIREMENTS=f"ID = {host}")
        for host in range(hosts)
    ]
    site.periods(4)
    assert site.states(vms) == ["RUNNING"] * hosts
    return vms


def test_a_claim_keeps_out_no_order_that_pays_more(site: Site) -> None:
    """The order offers 0.3 credits a unit. The bids pay 0.05 beside it, and 0.001 without it."""
    claiming(site, 5.0)
    order = site.state_order(vms := site.vms("ann"), LIMIT)
    site.periods(6)
    assert site.states(vms) == ["RUNNING"] * 3
    assert site.limit_order(order).runs


def test_a_claim_displaces_no_order_that_pays_more(site: Site) -> None:
    """Not even while the order pays little, because no bid competes with it."""
    order = site.state_order(vms := site.vms("ann"), LIMIT)
    site.periods(4)
    host = site.host_of(vms[0])
    needs = {"CPU": 0.1, "VCPU": 4, "MEMORY": 512, "SCHED_REQUIREMENTS": f"ID = {host}"}
    vm = site.vm(0.5, BOB, **needs)
    site.periods(3)
    more = 'MERKAT_MIN_CPU="400"\nMERKAT_BID_CPU="5"'
    site.bench.ok("one.vm.update", vm, more, 1, session=BOB)
    for _ in range(6):
        site.periods(1)
        assert site.states(vms) == ["RUNNING"] * 3
        assert site.limit_order(order).runs


def test_a_claim_that_pays_more_keeps_an_order_out() -> None:
    """The bid pays half a credit for a unit, and the order a third."""
    site = Site()
    claiming(site, 200.0)
    order = site.state_order(vms := site.vms("ann"), LIMIT)
    site.periods(6)
    assert site.states(vms) == ["PENDING"] * 3
    assert not site.limit_order(order).runs
    site.close()
