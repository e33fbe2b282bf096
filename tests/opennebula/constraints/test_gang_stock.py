"""Whether scarce resources suffice for VMs that start together, without all other VMs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.opennebula.constraints import judge_feasibility
from merkatd.opennebula.constraints.capacity_needs import CapacityNeed, Needs
from merkatd.opennebula.constraints.free_capacity import FreeCapacity
from merkatd.opennebula.constraints.gang_stock import GangStock
from merkatd.opennebula.pools.constraint_facts import (
    NicWant,
    NumaWant,
    PciDevice,
    PciWant,
    SiteFacts,
    VmRequirements,
)
from merkatd.scheduler.base.ports import CapacityPort
from tests.opennebula.constraints.clouds import Host, Vm, datastore, host, network
from tests.opennebula.constraints.test_equipment import node

GPU = PciDevice("10de", "1", "3", "01:00")
NIC = NicWant(0)


def stock_of(wants: Sequence[VmRequirements], hosts: Sequence[Host], **estate: Any) -> CapacityPort:
    """Return the scarce resources for VMs with these needs."""
    vms = [Vm(row, wants=want) for row, want in enumerate(wants)]
    stock = judge_feasibility(vms, hosts, SiteFacts(**estate)).constraints.stock
    assert stock is not None
    return stock()


def why(wants: Sequence[VmRequirements], hosts: Sequence[Host], **estate: Any) -> str | None:
    """Return why these VMs can't start together on any of the hosts."""
    stock = stock_of(wants, hosts, **estate)
    return stock.why_never([range(len(wants))], [host.id for host in hosts])[0]


@pytest.mark.parametrize(("count", "free"), [(2, 1), (3, 2)])
def test_leases_are_counted_for_all_vms(count: int, free: int) -> None:
    """VMs with other disks count, too."""
    wants = [VmRequirements(nics=(NIC,), system_mib=row) for row in range(count)]
    few = "network red has too few leases left for all of its VMs"
    assert why(wants, [host(0)], networks=[network(0, "red", free=free)]) == few
    assert why(wants[1:], [host(0)], networks=[network(0, "red", free=free)]) is None


def test_leases_of_all_clusters_count_together() -> None:
    """Each cluster has a network with one lease: two VMs can start, and three can't."""
    hosts, clusters = [host(0, 0), host(1, 1)], [frozenset({0}), frozenset({1})]
    nets = [network(row, f"n{row}", 1, clusters=clusters[row]) for row in range(2)]
    wants = [VmRequirements(nics=(NIC,))] * 3
    assert why(wants[1:], hosts, networks=nets) is None
    assert why(wants, hosts, networks=nets) == (
        "network n0, n1 has too few leases left for all of its VMs"
    )
    stock = stock_of(wants, hosts, networks=nets)
    assert stock.why_never([[0, 1]], [0]) != [None], "host 1 is in another market"


def test_a_network_that_vms_need_on_every_host_is_counted() -> None:
    """Network red is in both clusters; each has another network with many leases."""
    hosts, both = [host(0, 0), host(1, 1)], frozenset({0, 1})
    nets = [network(0, "red", 1, clusters=both), network(1, "blue", 5)]
    nets.append(network(2, "green", 5, clusters=frozenset({1})))
    wants = [VmRequirements(nics=(NIC, NicWant(1)))] * 2
    assert why(wants[1:], hosts, networks=nets) is None
    assert why(wants, hosts, networks=nets) == (
        "network red has too few leases left for all of its VMs"
    )


def test_a_vm_that_may_use_a_local_datastore_needs_no_shared_one() -> None:
    """The shared one has room for one of two VMs."""
    hosts = [host(0, 0), host(1, 1, disk_mib=100.0)]
    stores = [
        datastore(0, "nfs", 100.0),
        datastore(1, "ssh", shared=False, clusters=frozenset({1})),
    ]
    wants = [VmRequirements(system_mib=60)] * 2
    assert why(wants, hosts, datastores=stores) is None
    assert why(wants, hosts[:1], datastores=stores) == (
        "datastore nfs has too little room left for all of its VMs"
    )


def test_devices_and_nodes_of_all_hosts_are_counted() -> None:
    """Two hosts have one device, or cores for one VM, each."""
    wants = VmRequirements(pcis=(PciWant("10de"),))
    hosts = [host(row, pcis=[GPU, replace(GPU, vendor="8086")]) for row in range(2)]
    assert why([wants] * 2, hosts) is None
    assert why([wants, replace(wants, system_mib=1), wants], hosts) == (
        "the hosts have too few free PCI devices for all of its VMs (vendor 10de)"
    )
    pinned = VmRequirements(numa=NumaWant("CORE", ((2, 1024),)))
    hosts = [host(row, numa=[node(0, [2, 2, 2])]) for row in range(2)]
    assert why([pinned] * 2, hosts) is None
    assert why([pinned] * 3, hosts) == (
        "the hosts have too few free NUMA nodes for all of its VMs (PIN_POLICY CORE)"
    )


def test_local_space_of_all_hosts_is_counted() -> None:
    """60 MiB fit once on each host of 100 MiB."""
    wants, local = VmRequirements(system_mib=60), [datastore(0, "ssh", shared=False)]
    hosts = [host(row, disk_mib=100.0) for row in range(2)]
    assert why([wants] * 2, hosts, datastores=local) is None
    few = "datastore ssh has too little room left for all of its VMs"
    assert why([wants] * 3, hosts, datastores=local) == few
    mixed = [replace(wants, system_mib=size) for size in (70, 71, 72)]
    assert why(mixed, hosts, datastores=local) == few


def test_unknown_vms_and_hosts_need_nothing() -> None:
    """They were not judged."""
    stock = stock_of([], [host(0)])
    assert stock.why_never([[5]], [0]) == [None]
    assert stock_of([VmRequirements(nics=(NIC,))], []).why_never([[0]], [3]) == [None]


def test_two_nics_in_the_same_network_take_two_leases() -> None:
    """One lease is not enough for both."""
    vms = [Vm(0, wants=VmRequirements(nics=(NIC, NicWant(1))))]
    nets = [network(0, "red", free=1), network(1, "blue", free=1)]
    stock = judge_feasibility(vms, [host(0)], SiteFacts(networks=nets)).constraints.stock
    needs, gangs = stock.args  # type: ignore[union-attr]
    same = replace(needs, networks=[{0: ((0, 0), (1, 0))}])
    assert "network red has no lease left" in (FreeCapacity(same, GangStock(same)).take(0, 0) or "")
    assert FreeCapacity(same, GangStock(same)).why_never([[0]], [0]) != [None]
    assert FreeCapacity(needs, gangs).take(0, 0) is None


@given(
    leases=st.lists(st.integers(0, 3), min_size=2, max_size=2),
    devices=st.lists(st.integers(0, 2), min_size=3, max_size=3),
    free=st.integers(50, 300),
    local=st.booleans(),
    vms=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 80)), max_size=5),
    place=st.lists(st.integers(0, 2), min_size=5, max_size=5),
)
def test_vms_that_can_start_together_are_never_refused(
    leases: list[int],
    devices: list[int],
    free: int,
    local: bool,
    vms: list[tuple[int, int, int]],
    place: list[int],
) -> None:
    """If there is a place for each of them, no reason is given."""
    clusters = [frozenset({0}), frozenset({1})]
    nets = [network(row, f"n{row}", leases[row], clusters=clusters[row]) for row in range(2)]
    store = datastore(0, "s", float(free), shared=not local, clusters=frozenset({0, 1}))
    images = datastore(1, "images", float(free), kind=0)
    hosts = [
        host(
            row,
            row % 2,
            pcis=[replace(GPU, address=f"0{at}:00") for at in range(count)],
            disk_mib=float(free),
        )
        for row, count in enumerate(devices)
    ]
    wants = [
        VmRequirements(
            nics=(NIC,) * nic,
            pcis=(PciWant("10de"),) * pci,
            system_mib=size,
            image_mib=((1, size),),
        )
        for nic, pci, size in vms
    ]
    estate: dict[str, Any] = {"datastores": [store, images], "networks": nets}
    stock = stock_of(wants, hosts, **estate)
    judged = judge_feasibility(
        [Vm(row, wants=want) for row, want in enumerate(wants)], hosts, SiteFacts(**estate)
    ).constraints
    rows = zip(judged.vm_class.tolist(), place, strict=False)
    allowed = all(sort < 0 or judged.allowed[sort, at] for sort, at in rows)
    fresh = stock_of(wants, hosts, **estate)
    answers = [fresh.take(row, at) for row, at in zip(range(len(wants)), place, strict=False)]
    if allowed and not any(answers):
        assert stock.why_never([range(len(wants))], [0, 1, 2]) == [None]


def test_hosts_of_a_cluster_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class took 0.1 s with 10,000 hosts, and a tenant chooses the number of its classes."""
    looked: list[int] = []
    of_class = Needs.of_class

    def counted(needs: Needs, sort: int, row: int) -> CapacityNeed:
        looked.append(row)
        return of_class(needs, sort, row)

    monkeypatch.setattr(Needs, "of_class", counted)
    hosts = [host(row, row % 2) for row in range(50)]
    nets = [network(row, f"n{row}", 1, clusters=frozenset({row})) for row in range(2)]
    few = "network n0, n1 has too few leases left for all of its VMs"
    assert why([VmRequirements(nics=(NIC,))] * 3, hosts, networks=nets) == few
    assert sorted(looked) == [0, 1]
