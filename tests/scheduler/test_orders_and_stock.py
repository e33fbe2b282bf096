"""Limit orders that wait, and the network leases, devices and room for images that are left."""

from collections.abc import Sequence
from typing import Any

import pytest

from merkatd.cluster import Decision
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.opennebula.constraints import judge_feasibility
from merkatd.opennebula.pools.constraint_facts import NicWant, SiteFacts, VmRequirements
from merkatd.scheduler.phases.scarcity import within_capacity
from tests.opennebula.constraints.clouds import Vm, datastore, host, network
from tests.placement.test_order_clearing import decided, halls
from tests.scheduler.frontend import PASSWORD
from tests.scheduler.test_ordered_vms import Site

NIC = VmRequirements(nics=(NicWant(0),))
IMAGE = VmRequirements(image_mib=((1, 60),))
LEAST = 0.001
"""The reserve price."""


def decided_with(wants: Sequence[VmRequirements], limit: float, **estate: Any) -> Decision:
    """Return the decision about an order of VMs of 30 units, beside a bid for 50 of 100 units."""
    vms = [(NO_HOST, limit / len(wants), 30.0, 0)] * len(wants)
    asking = [Vm(row + 1, wants=want) for row, want in enumerate(wants)]
    stock = judge_feasibility(asking, [host(0)], SiteFacts(**estate)).constraints.stock
    return within_capacity(halls(1, [(0, 50.0, 50.0, NO_ROW), *vms]), decided, stock)


@pytest.mark.parametrize(("free", "price"), [(1, LEAST), (2, 0.5)])
def test_an_order_without_leases_for_all_vms_raises_no_price(free: int, price: float) -> None:
    """It lacks room in the market, and no limit could start it."""
    decision = decided_with([NIC] * 2, 30.0, networks=[network(0, "red", free=free)])
    assert decision.prices[0, 0] == pytest.approx(price)
    if free == 1:
        assert (
            decision.reasons[1]
            == decision.reasons[2]
            == ("limit order 10 waits: network red has too few leases left for all of its VMs")
        )


@pytest.mark.parametrize(("free_mib", "price"), [(100.0, LEAST), (121.0, 0.5)])
def test_an_order_without_room_for_all_images_raises_no_price(
    free_mib: float, price: float
) -> None:
    """One image of 60 MiB fits, and two do not."""
    stores = [datastore(0, "s"), datastore(1, "images", free_mib, kind=0)]
    assert decided_with([IMAGE] * 2, 30.0, datastores=stores).prices[0, 0] == pytest.approx(price)


def test_an_order_that_has_all_it_needs_starts() -> None:
    """Its limit pays for the room that the bid leaves."""
    decision = decided_with([NIC] * 2, 300.0, networks=[network(0, "red", free=2)])
    assert sorted(step.vm for step in decision.plan) == [1, 2]


@pytest.mark.parametrize(("leases", "held"), [(1, 400.0), (3, 100.0)])
def test_an_order_without_leases_for_all_vms_leaves_claims_alone(leases: int, held: float) -> None:
    """A claim holds as far as its bid pays for it beside the orders that could run."""
    site = Site()
    lan = f'NAME="lan"\nVN_MAD="dummy"\nBRIDGE="br0"\nAR=[TYPE="IP4",IP="10.0.0.1",SIZE="{leases}"]'
    site.bench.ok("one.vn.allocate", lan, -1)
    site.vm(5.0, VCPU=4, MEMORY=1024, MERKAT_MIN_CPU=400)
    site.periods(2)
    owner = f"ann:{PASSWORD}"
    wants = 'CPU="1"\nVCPU="1"\nMEMORY="1024"\nNIC=[NETWORK_MODE="auto"]'
    vms = [site.bench.new(wants, session=owner) for _ in range(3)]
    site.state_order(vms, 90.0)
    announcement = site.periods(1)
    assert announcement.seen.snapshot.vms.floor[0, 0] == pytest.approx(held, rel=0.01)
    site.close()
