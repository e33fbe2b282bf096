"""Limit orders with a VM that can't be deployed, fails, or is changed while the others run."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from merkatd.cluster import VmState
from merkatd.cluster.columns import is_one_of
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.scheduler.execution.delegation import HandoverRequest, restricted_to_request
from tests.scheduler.test_ordered_vms import RESERVE, Site

PART = 100 * RESERVE["cpu"] + 1024 * RESERVE["memory"]
"""The cost of a VM at the reserve prices."""


@pytest.fixture
def site() -> Iterator[Site]:
    """Return a cloud with one host."""
    place = Site()
    yield place
    place.placed_again = set(place.cloud.world.vms.rows)
    place.agree()
    place.close()


def test_an_order_waits_while_one_of_its_waiting_vms_rests_after_a_refusal(site: Site) -> None:
    """All start together at the next attempt."""
    vms = site.vms("ann")
    site.cloud.faults.add(Fault(FaultKind.REFUSE, method="one.vm.deploy", vm=vms[0]))
    others = [site.bench.ok("one.vm.action", "hold", vm) for vm in vms[1:]]
    site.periods(1)
    site.cloud.faults.clear()
    for vm in others:
        site.bench.ok("one.vm.action", "release", vm)
    site.state_order(vms, 9.0)
    site.periods(1)
    assert site.states(vms) == ["PENDING"] * 3
    site.periods(3)
    assert site.states(vms) == ["RUNNING"] * 3


def test_opennebula_that_asks_for_a_part_of_an_order_starts_none_of_it(site: Site) -> None:
    """In mode driver OpenNebula may ask for some VMs only."""
    vms = site.vms("ann")
    site.state_order(vms, 0.001)
    seen = site.periods(1).seen
    waits, free = np.full(len(vms), int(VmState.PENDING)), np.ones(len(vms), dtype=bool)
    snapshot = replace(seen.snapshot, vms=replace(seen.snapshot.vms, state=waits, placeable=free))
    seen = replace(seen, snapshot=snapshot)
    (host,) = seen.snapshot.hosts.id.tolist()
    for asked, waiting in ((vms[:2], False), (vms, True)):
        wanted = HandoverRequest(hosts=dict.fromkeys(asked, frozenset({host})))
        scene = restricted_to_request(seen, wanted).snapshot.vms
        assert (scene.waiting[is_one_of(scene.id, vms)] == waiting).all()


def test_an_order_goes_on_without_a_vm_that_fails_or_ends(site: Site) -> None:
    """It pays for the VMs that take part; the failed VM keeps its memory at the reserve price."""
    vms = site.vms("ann")
    order = site.state_order(vms, 9.0)
    site.periods(2)
    site.bench.ok("one.vm.action", "terminate-hard", vms[0])
    site.periods(1)
    before = site.balances()[site.ann]
    site.periods(2)
    assert site.states(vms[1:]) == ["RUNNING"] * 2
    assert site.limit_order(order).runs
    assert before - site.balances()[site.ann] == pytest.approx(2 * 2 * PART, rel=0.1)


def test_an_order_goes_on_while_a_vm_of_it_fails_to_boot(site: Site) -> None:
    """The others run, and the order is whole again when the VM boots."""
    vms = site.vms("ann")
    site.cloud.faults.add(Fault(FaultKind.FAIL, lcm="BOOT", vm=vms[0]))
    order = site.state_order(vms, 9.0)
    site.periods(3)
    assert site.states(vms)[1:] == ["RUNNING"] * 2
    assert site.limit_order(order).runs
    site.cloud.faults.clear()
    site.bench.ok("one.vm.recover", vms[0], 2)
    site.periods(3)
    assert site.states(vms) == ["RUNNING"] * 3


def test_an_order_whose_vm_grows_pays_for_its_new_size(site: Site) -> None:
    """It goes on, and so does the lower order beside it."""
    first, second = site.vms("ann"), site.vms("bob", 1)
    order = site.state_order(first, 30.0)
    site.state_order(second, 1.0)
    site.periods(2)
    site.bench.ok("one.vm.resize", first[0], 'MEMORY="4096"', False)
    site.periods(3)
    assert site.states([*first, *second]) == ["RUNNING"] * 4
    assert site.limit_order(order).cost == pytest.approx(3 * PART + 3072 * RESERVE["memory"])


def test_an_order_whose_vms_are_in_two_markets_takes_part_in_none(site: Site) -> None:
    """Its VMs bid again; nothing is stopped."""
    vms = site.vms("ann")
    order = site.state_order(vms, 9.0)
    site.periods(2)
    cluster = site.bench.ok("one.cluster.allocate", "other")
    site.bench.ok("one.cluster.addhost", cluster, 0)
    site.periods(2)
    assert site.states(vms) == ["RUNNING"] * 3
    assert site.limit_order(order).runs
