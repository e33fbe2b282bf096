"""Free capacity of limited resources, counted down with each placement of a period.

Placements are decided on the state at the start of a period. So several VMs may count on the same
last device, lease or gigabyte. Here each placed VM takes its part, and a VM for which none is left
waits.
"""

from collections.abc import Collection, Mapping, Sequence

from merkatd.opennebula.constraints.capacity_needs import (
    ANY_HOST,
    CapacityNeed,
    Needs,
    wanted_leases,
    wanted_space,
)
from merkatd.opennebula.constraints.datastores import fits, free_on
from merkatd.opennebula.constraints.gang_stock import GangStock
from merkatd.opennebula.constraints.hardware import (
    NodePlace,
    assigned_devices,
    device_text,
    nodes_after,
    numa_placements,
)
from merkatd.opennebula.pools.constraint_facts import HostFacts


class FreeCapacity:
    """Implements `merkatd.scheduler.base.ports.CapacityPort`."""

    def __init__(self, needs: Needs, gangs: GangStock) -> None:
        """`gangs` are the same resources, before any is taken."""
        self._needs, self._gangs = needs, gangs
        estate = needs.scene.estate
        self._stores = {datastore.id: datastore for datastore in estate.datastores}
        self._nets = {network.id: network for network in estate.networks}
        self._space: dict[tuple[int, int], float] = {}
        """Space taken, by datastore and host; ANY_HOST for shared datastores."""
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
        space = wanted_space(self._stores, need, host)
        why = self._no_space(space, facts) or self._no_lease(need)
        devices, why_no_device = self._wanted_devices(need, host, facts)
        placed, why_no_node = self._wanted_nodes(need, host)
        why = why or why_no_device or why_no_node
        if why:
            return f"{why} in this period: other VMs come first"
        for shelf, wanted_mib in space.items():
            self._space[shelf] = self._space.get(shelf, 0.0) + wanted_mib
        for network, count in wanted_leases(need).items():
            self._leases[network] = self._leases.get(network, 0) + count
        self._devices.setdefault(host, set()).update(devices)
        self._nodes[host] = nodes_after(self._nodes[host], placed)
        return None

    def why_never(
        self, gangs: Sequence[Collection[int]], hosts: Collection[int]
    ) -> list[str | None]:
        """Return why the VMs of each gang can't start together on these hosts; None if they may."""
        return self._gangs.why_never(gangs, hosts)

    def _no_space(self, space: Mapping[tuple[int, int], float], facts: HostFacts) -> str:
        for (datastore, host), wanted_mib in space.items():
            store = self._stores.get(datastore)
            if store is None:
                continue
            free = store.free_mib if host == ANY_HOST else free_on(facts, datastore)
            if not fits(wanted_mib, free - self._space.get((datastore, host), 0.0)):
                return f"datastore {store.name} has no room left"
        return ""

    def _no_lease(self, need: CapacityNeed) -> str:
        for network, count in wanted_leases(need).items():
            net = self._nets[network]
            if net.free_leases < self._leases.get(network, 0) + count:
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
