"""Scarce resources are allocated to no more VMs than possible, in any order."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.opennebula.constraints import judge_feasibility
from merkatd.opennebula.pools.constraint_facts import (
    DatastoreFacts,
    DiskLocation,
    NetworkFacts,
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


def stock_of(vms: Sequence[Vm], hosts: Sequence[Host], **estate: Any) -> CapacityPort:
    """Return the scarce resources for these VMs."""
    stock = judge_feasibility(vms, hosts, SiteFacts(**estate)).constraints.stock
    assert stock is not None
    return stock()


def same(wants: VmRequirements, count: int, stay: DiskLocation | None = None) -> list[Vm]:
    """Return VMs with the same requirements."""
    return [Vm(row, wants=wants, stay=stay) for row in range(count)]


def test_local_space_is_counted_by_host() -> None:
    """Each host has its own space."""
    hosts = [host(row, disk_mib=100.0) for row in range(2)]
    stock = stock_of(
        same(VmRequirements(system_mib=60), 3),
        hosts,
        datastores=[datastore(0, "ssh", shared=False)],
    )
    assert stock.take(0, 0) is None
    assert stock.take(1, 0) == "datastore ssh has no room left in this period: other VMs come first"
    assert stock.take(1, 1) is None


def test_a_migrating_vm_takes_no_space_of_a_shared_datastore() -> None:
    """Its disks are already there."""
    vms = same(VmRequirements(system_mib=60), 2, DiskLocation(0, running=True))
    stock = stock_of(vms, [host(0)], datastores=[datastore(0, "nfs", 1.0)])
    assert stock.take(0, 0) is None
    assert stock.take(1, 0) is None


def test_image_space_is_counted() -> None:
    """It is the space of the datastore in which disks are cloned."""
    stores = [datastore(0, "s"), datastore(1, "images", 100.0, kind=0)]
    stock = stock_of(same(VmRequirements(image_mib=((1, 60),)), 2), [host(0)], datastores=stores)
    assert stock.take(0, 0) is None
    assert "datastore images has no room left" in (stock.take(1, 0) or "")


@pytest.mark.parametrize("running", [True, False])
def test_a_vm_with_disks_takes_no_more_image_space(running: bool) -> None:
    """They were cloned at its first deployment, before a migration or a stop."""
    stores = [datastore(0, "s"), datastore(1, "images", 100.0, kind=0)]
    vms = same(VmRequirements(image_mib=((1, 60),)), 2, DiskLocation(0, running=running))
    stock = stock_of(
        [*vms, Vm(2, wants=VmRequirements(image_mib=((1, 60),)))], [host(0)], datastores=stores
    )
    assert [stock.take(vm, 0) for vm in range(3)] == [None, None, None]


def test_a_vm_that_does_not_get_everything_takes_nothing() -> None:
    """The rest remains for others."""
    wants = VmRequirements(pcis=(PciWant("10de"),), nics=(NicWant(0),))
    hosts = [host(0, pcis=[PciDevice("10de", "1", "3", "01:00")])]
    vms = [*same(wants, 2), Vm(2, wants=VmRequirements(nics=(NicWant(0),)))]
    stock = stock_of(vms, hosts, networks=[network(0, "red", free=2)])
    assert stock.take(0, 0) is None
    assert "no PCI device left" in (stock.take(1, 0) or "")
    assert stock.take(2, 0) is None
    assert "no lease left" in (stock.take(2, 0) or "")


def test_cores_of_numa_nodes_are_counted() -> None:
    """Two VMs of two cores fit into four cores, and a third does not."""
    wants = VmRequirements(numa=NumaWant("CORE", ((2, 1024),)))
    stock = stock_of(same(wants, 3), [host(0, numa=[node(0, [2, 2, 2, 2])])])
    assert [stock.take(vm, 0) is None for vm in range(3)] == [True, True, False]


def test_unknown_vms_and_hosts_take_nothing() -> None:
    """VMs and hosts that were not judged are not limited."""
    assert stock_of([], []).take(1, 2) is None


@given(
    leases=st.integers(0, 4),
    devices=st.lists(st.integers(0, 3), min_size=2, max_size=2),
    free=st.integers(1, 300),
    vms=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 80), st.integers(0, 1)),
        max_size=12,
    ),
)
def test_no_more_is_taken_than_exists(
    leases: int, devices: list[int], free: int, vms: list[tuple[int, int, int, int]]
) -> None:
    """This holds for any VMs, orders and hosts."""
    nets: list[NetworkFacts] = [network(0, "red", free=leases)]
    stores: list[DatastoreFacts] = [datastore(0, "s", float(free))]
    hosts = [
        host(row, pcis=[PciDevice("10de", "1", "3", f"0{at}:00") for at in range(count)])
        for row, count in enumerate(devices)
    ]
    every = [
        Vm(row, wants=VmRequirements(
            nics=(NicWant(0),) * nic, pcis=(PciWant("10de"),) * pci, system_mib=size))
        for row, (nic, pci, size, _) in enumerate(vms)
    ]  # fmt: skip
    judged = judge_feasibility(every, hosts, SiteFacts(datastores=stores, networks=nets))
    assert judged.constraints.stock is not None
    stock = judged.constraints.stock()
    placed = [row for row, vm in enumerate(vms) if stock.take(row, vm[3]) is None]
    using = [row for row in placed if judged.networks_of(row, vms[row][3])]
    assert len(using) <= leases
    for row, count in enumerate(devices):
        assert sum(vms[vm][1] for vm in placed if vms[vm][3] == row) <= count
    stored = [row for row in placed if judged.datastore_of(row, vms[row][3]) == 0]
    taken = sum(vms[row][2] for row in stored)
    assert taken == 0 or taken < free
