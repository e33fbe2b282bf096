"""The limited resources that VMs take on hosts: space, leases, devices and nodes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from merkatd.cluster import Bools
from merkatd.opennebula.constraints.candidates import Candidates, VmClass
from merkatd.opennebula.constraints.datastores import LET_ONED_CHOOSE
from merkatd.opennebula.constraints.networks import Chosen
from merkatd.opennebula.pools.constraint_facts import DatastoreFacts

ANY_HOST = -1
"""Placeholder for the host of a shared datastore."""


@dataclass(frozen=True, slots=True)
class CapacityNeed:
    """The resources that a VM takes on a host."""

    sort: VmClass
    datastore: int
    networks: Chosen


@dataclass(frozen=True, slots=True, eq=False)
class Needs:
    """The resources that each VM would take on each host, by ids."""

    scene: Candidates
    sorts: Mapping[int, int]
    """Rows of VM classes by VM id."""
    rows: Mapping[int, int]
    """Rows of hosts by host id."""
    every: Sequence[VmClass]
    """All VM classes."""
    datastore: Sequence[Sequence[int]]
    """[classes, hosts]: ids of system datastores."""
    networks: Sequence[Mapping[int, Chosen]]
    """[classes]: chosen networks by cluster."""

    allowed: Sequence[Bools]
    """[classes], [hosts]: whether the host may take a VM of the class."""

    def of(self, vm: int, host: int) -> CapacityNeed:
        """Return the resources that the VM takes on the host."""
        return self.of_class(self.sorts[vm], self.rows[host])

    def of_class(self, sort: int, row: int) -> CapacityNeed:
        """Return the resources that a VM of this class takes on the host in this row."""
        cluster = self.scene.facts[row].cluster
        return CapacityNeed(
            self.every[sort],
            int(self.datastore[sort][row]),
            self.networks[sort].get(cluster, ()),
        )


def wanted_leases(need: CapacityNeed) -> Counter[int]:
    """Return the number of leases that a VM takes in each network."""
    return Counter(network for _, network in need.networks)


def wanted_space(
    stores: Mapping[int, DatastoreFacts], need: CapacityNeed, host: int
) -> dict[tuple[int, int], float]:
    """Return the MiB that a VM takes, by datastore and host; ANY_HOST for shared datastores."""
    wants, stay = need.sort.wants, need.sort.stay
    wanted_mib: dict[tuple[int, int], float] = {}
    store = stores.get(need.datastore)
    if store is not None and need.datastore != LET_ONED_CHOOSE:
        if not store.shared:
            wanted_mib[store.id, host] = wants.system_mib
        elif stay is None:
            wanted_mib[store.id, ANY_HOST] = wants.system_mib
    if stay is None:
        for image, mib in wants.image_mib:
            wanted_mib[image, ANY_HOST] = wanted_mib.get((image, ANY_HOST), 0.0) + mib
    return wanted_mib
