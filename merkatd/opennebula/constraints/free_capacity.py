"""Free capacity of limited resources, counted down with each placement of a period.

Placements are decided on the state at the start of a period. So several VMs may count on the same
last device, lease or gigabyte. Here each placed VM takes its part, and a VM for which none is left
waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from merkatd.opennebula.constraints.candidates import Candidates, VmClass
from merkatd.opennebula.constraints.datastores import LET_ONED_CHOOSE, fits, free_on
from merkatd.opennebula.constraints.hardware import (
    NodePlace,
    assigned_devices,
    device_text,
    nodes_after,
    numa_placements,
)
from merkatd.opennebula.constraints.networks import Chosen
from merkatd.opennebula.pools.constraint_facts import HostFacts


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

    def of(self, vm: int, host: int) -> CapacityNeed:
        """Return the resources that the VM takes on the host."""
        sort, row = self.sorts[vm], self.rows[host]
        cluster = self.scene.facts[row].cluster
        return CapacityNeed(
            self.every[sort],
            int(self.datastore[sort][row]),
            self.networks[sort].get(cluster, ()),
        )


class FreeCapacity:
    """Implements `merkatd.scheduler.base.ports.CapacityPort`."""

    def __init__(self, needs: Needs) -> None:
        self._needs = needs
        estate = needs.scene.estate
        self._stores = {datastore.id: datastore for datastore in estate.datastores}
        self._nets = {network.id: network for network in estate.networks}
        self._space: dict[tuple[int, int], float] = {}
        """Space taken, by datastore and host; the host is -1 for shared datastores."""
        self._leases: dict[int, int] = {}
        """Leases taken, by network."""
        self._devices: dict[int, set[str]] = {}
        """Addresses of PCI devices taken, by host."""
        self._nodes = {host: list(needs.scene.facts[row].numa) for host, row in needs.rows.items()}

    def take(self, vm: int, host: int) -> str | None:
        """Reserve what the VM needs on the host, or return why that fails and reserve nothing."""
        if vm not in self._needs.sorts or host not in self._needs.rows:
            return None
        need = self._needs.of(vm, host)
        facts = self._needs.scene.facts[self._needs.rows[host]]
        space = self._wanted_space(need, host)
        why = self._no_space(space, facts) or self._no_lease(need)
        devices, why_no_device = self._wanted_devices(need, host, facts)
        placed, why_no_node = self._wanted_nodes(need, host)
        why = why or why_no_device or why_no_node
        if why:
            return f"{why} in this period: other VMs come first"
        for shelf, wanted_mib in space.items():
            self._space[shelf] = self._space.get(shelf, 0.0) + wanted_mib
        for _, network in need.networks:
            self._leases[network] = self._leases.get(network, 0) + 1
        self._devices.setdefault(host, set()).update(devices)
        self._nodes[host] = nodes_after(self._nodes[host], placed)
        return None

    def _wanted_space(self, need: CapacityNeed, host: int) -> dict[tuple[int, int], float]:
        wants, stay = need.sort.wants, need.sort.stay
        wanted_space: dict[tuple[int, int], float] = {}
        store = self._stores.get(need.datastore)
        if store is not None and need.datastore != LET_ONED_CHOOSE:
            if not store.shared:
                wanted_space[store.id, host] = wants.system_mib
            elif stay is None:
                wanted_space[store.id, -1] = wants.system_mib
        if stay is None:
            for image, wanted_mib in wants.image_mib:
                wanted_space[image, -1] = wanted_space.get((image, -1), 0.0) + wanted_mib
        return wanted_space

    def _no_space(self, space: Mapping[tuple[int, int], float], facts: HostFacts) -> str:
        for (datastore, host), wanted_mib in space.items():
            store = self._stores.get(datastore)
            if store is None:
                continue
            free = store.free_mib if host < 0 else free_on(facts, datastore)
            if not fits(wanted_mib, free - self._space.get((datastore, host), 0.0)):
                return f"datastore {store.name} has no room left"
        return ""

    def _no_lease(self, need: CapacityNeed) -> str:
        for _, network in need.networks:
            net = self._nets[network]
            if net.free_leases <= self._leases.get(network, 0):
                return f"network {net.name} has no lease left"
        return ""

    def _wanted_devices(
        self, need: CapacityNeed, host: int, facts: HostFacts
    ) -> tuple[list[str], str]:
        wants = need.sort.wants.pcis
        if not wants:
            return [], ""
        used = self._devices.get(host, set())
        devices = assigned_devices(
            wants, [device for device in facts.pcis if device.address not in used]
        )
        if devices is None:
            return [], f"the host has no PCI device left ({device_text(wants[0])})"
        return devices, ""

    def _wanted_nodes(self, need: CapacityNeed, host: int) -> tuple[tuple[NodePlace, ...], str]:
        numa = need.sort.wants.numa
        if numa is None:
            return (), ""
        places = numa_placements(numa, self._nodes[host])
        if places is None:
            return (), "the host has no NUMA node left for the VM"
        return places, ""
