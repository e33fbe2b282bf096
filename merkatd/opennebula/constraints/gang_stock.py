"""Whether limited resources suffice for VMs that start together, without all other VMs.

# Note [Resources of a gang]

A limit order raises prices only if it could run. It never can if its VMs need more leases, devices
or gigabytes than the cloud has left. The test must not refuse VMs that could start together, so it
compares the least that they need with the most that they can get:

- The VMs whose leases come from the same networks, wherever they are, need at least their smallest
  number of leases. If these networks together have fewer, the VMs can't start. The same holds for
  each network that a VM needs on every host, and for space in datastores.
- VMs that need the same devices, nodes or local space: each host takes a number of them, computed
  without all others. If these numbers add up to less than the number of VMs, the VMs can't start.

Example: each of two clusters has a network with one lease left. Three VMs of an order may be in
both. They need three leases of these two networks, which have two.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from merkatd.opennebula.constraints.capacity_needs import (
    ANY_HOST,
    Needs,
    wanted_leases,
    wanted_space,
)
from merkatd.opennebula.constraints.datastores import fits, free_on
from merkatd.opennebula.constraints.hardware import (
    device_text,
    nodes_after,
    numa_placements,
    suitable_devices,
)
from merkatd.opennebula.constraints.host_requirements import listed
from merkatd.opennebula.pools.constraint_facts import HostFacts, NumaWant, PciWant

_Counts = Mapping[int, int]
"""The number of VMs by class."""
_Amounts = Mapping[int, float]
"""Leases by network, or space by datastore."""


@dataclass(frozen=True, slots=True)
class _Pools:
    """Networks, or datastores of a kind, from which the VMs of a class take a part."""

    any: frozenset[int]
    """Those that a VM uses on some host."""
    least: float
    """The least that a VM needs of all together."""
    surely: _Amounts
    """What a VM needs on every host."""


@dataclass(frozen=True, slots=True, eq=False)
class _ClassNeeds:
    """The needs of a class of VMs on certain hosts."""

    hosts: Sequence[int]
    """Rows of the hosts that may take a VM."""
    networks: _Pools
    images: _Pools
    """Datastores of images."""
    systems: _Pools
    """Shared system datastores."""
    local: Mapping[int, tuple[int, float]]
    """The datastore and the space on each host with a local datastore."""


class GangStock:
    """The resources that are left for the VMs of one limit order."""

    def __init__(self, needs: Needs) -> None:
        self._needs = needs
        estate = needs.scene.estate
        self._stores = {datastore.id: datastore for datastore in estate.datastores}
        self._nets = {network.id: network for network in estate.networks}
        self._cluster = np.array([facts.cluster for facts in needs.scene.facts], dtype=np.int64)
        self._known: dict[tuple[int, tuple[int, ...]], _ClassNeeds] = {}
        self._answers: dict[tuple[int, ...], dict[object, str | None]] = {}
        """By rows of hosts, and by the numbers of VMs of each class."""

    def why_never(
        self, gangs: Sequence[Collection[int]], hosts: Collection[int]
    ) -> list[str | None]:
        """Return why the VMs of each gang can't start together on these hosts; None if they may."""
        if not all(host in self._needs.rows for host in hosts):
            return [None] * len(gangs)
        rows = tuple(self._needs.rows[host] for host in hosts)
        answers, found = self._answers.setdefault(rows, {}), list[str | None]()
        for vms in gangs:
            counts = Counter(self._needs.sorts[vm] for vm in vms if vm in self._needs.sorts)
            key = tuple(sorted(counts.items()))
            if key not in answers:
                answers[key] = self._why(counts, rows)
            found.append(answers[key])
        return found

    def _why(self, counts: _Counts, rows: tuple[int, ...]) -> str | None:
        needs = {sort: self._of_class(sort, rows) for sort in counts}
        if not all(its.hosts for its in needs.values()):
            return None  # a requirement keeps it from all hosts
        networks = {sort: its.networks for sort, its in needs.items()}
        few = _lacking(counts, networks, lambda wanted, net: wanted <= self._leases(net))
        if few:
            names = listed([self._nets[network].name for network in sorted(few)])
            return f"network {names} has too few leases left for all of its VMs"
        images = {sort: its.images for sort, its in needs.items()}
        systems = {sort: its.systems for sort, its in needs.items()}
        few = (
            _lacking(counts, images, self._have_space)
            or _lacking(counts, systems, self._have_space)
            or self._lacking_local(counts, needs)
        )
        if few:
            names = listed([self._stores[store].name for store in sorted(few)])
            return f"datastore {names} has too little room left for all of its VMs"
        return self._lacking_hardware(counts, needs)

    def _leases(self, networks: Iterable[int]) -> int:
        return sum(self._nets[network].free_leases for network in networks)

    def _have_space(self, wanted_mib: float, stores: Iterable[int]) -> bool:
        return fits(wanted_mib, sum(self._stores[store].free_mib for store in stores))

    def _of_class(self, sort: int, rows: tuple[int, ...]) -> _ClassNeeds:
        if (sort, rows) not in self._known:
            self._known[sort, rows] = self._needs_of_class(sort, rows)
        return self._known[sort, rows]

    def _needs_of_class(self, sort: int, rows: tuple[int, ...]) -> _ClassNeeds:
        at = np.array(rows, dtype=np.int64)
        at = at[self._needs.allowed[sort][at]]
        # Hosts of a cluster with the same datastore differ only in local space.
        kinds = np.stack([self._cluster[at], np.array(self._needs.datastore[sort])[at]], axis=1)
        _, first, kind = np.unique(kinds, axis=0, return_index=True, return_inverse=True)
        leases: dict[object, _Amounts] = {}
        images: _Amounts = {}
        systems: dict[int, _Amounts] = {}
        local: dict[int, tuple[int, float]] = {}
        for number, row in enumerate(at[first].tolist()):
            need = self._needs.of_class(sort, row)
            space = wanted_space(self._stores, need, row)
            shared = {store: mib for (store, where), mib in space.items() if where == ANY_HOST}
            leases[need.networks] = wanted_leases(need)
            images = {store: mib for store, mib in shared.items() if store != need.datastore}
            systems[need.datastore] = {
                store: mib for store, mib in shared.items() if store == need.datastore
            }
            for (store, where), mib in space.items():
                if where != ANY_HOST and mib > 0:
                    local |= dict.fromkeys(at[kind.ravel() == number].tolist(), (store, mib))
        hosts = at.tolist()
        known = {store: mib for store, mib in images.items() if store in self._stores}
        return _ClassNeeds(
            hosts, _pools([*leases.values()]), _pools([known]), _pools([*systems.values()]), local
        )

    def _lacking_local(
        self, counts: _Counts, needs: Mapping[int, _ClassNeeds]
    ) -> frozenset[int] | None:
        """Return the local datastores that lack room for all VMs that need some of them."""
        always = [sort for sort, its in needs.items() if len(its.local) == len(its.hosts)]
        for sort in always:
            here = needs[sort].local
            smaller = [
                other
                for other in always
                if needs[other].local.keys() <= here.keys()
                and all(needs[other].local[row][1] >= here[row][1] for row in needs[other].local)
            ]
            takes = (self._places(row, store, mib) for row, (store, mib) in here.items())
            if not _reaches(takes, sum(counts[other] for other in smaller)):
                return frozenset(store for store, _ in here.values())
        return None

    def _places(self, row: int, store: int, wanted_mib: float) -> int:
        return max(int(free_on(self._needs.scene.facts[row], store) // wanted_mib), 0)

    def _lacking_hardware(self, counts: _Counts, needs: Mapping[int, _ClassNeeds]) -> str | None:
        """Return why there are too few devices or nodes for all VMs that need the same."""
        every, facts = self._needs.every, self._needs.scene.facts
        devices: dict[Sequence[PciWant], list[int]] = {}
        nodes: dict[NumaWant, list[int]] = {}
        for sort in needs:
            wants = every[sort].wants
            if wants.pcis:
                devices.setdefault(wants.pcis, []).append(sort)
            if wants.numa is not None:
                nodes.setdefault(wants.numa, []).append(sort)
        for pcis, sorts in devices.items():
            rows, count = _together(counts, needs, sorts)
            takes = (suitable_devices(pcis, facts[row].pcis) // len(pcis) for row in rows)
            if not _reaches(takes, count):
                text = device_text(pcis[0])
                return f"the hosts have too few free PCI devices for all of its VMs ({text})"
        for numa, sorts in nodes.items():
            rows, count = _together(counts, needs, sorts)
            if not _reaches((_vms_on_nodes(numa, facts[row], count) for row in rows), count):
                return (
                    "the hosts have too few free NUMA nodes for all of its VMs"
                    f" (PIN_POLICY {numa.policy})"
                )
        return None


def _pools(choices: Sequence[_Amounts]) -> _Pools:
    """Return what a VM needs if it takes one of these amounts."""
    every = frozenset(pool for choice in choices for pool in choice)
    return _Pools(
        every,
        min((sum(choice.values()) for choice in choices), default=0.0),
        {pool: min(choice.get(pool, 0.0) for choice in choices) for pool in every},
    )


def _lacking(
    counts: _Counts,
    pools: Mapping[int, _Pools],
    suffice: Callable[[float, frozenset[int]], bool],
) -> frozenset[int] | None:
    """Return pools that together have less than the VMs need of them at least; None if none do."""
    for every in {its.any for its in pools.values()}:
        inside = (sort for sort, its in pools.items() if its.any <= every)
        if not suffice(sum(counts[sort] * pools[sort].least for sort in inside), every):
            return every
    surely: dict[int, float] = {}
    for sort, its in pools.items():
        for pool, amount in its.surely.items():
            surely[pool] = surely.get(pool, 0.0) + amount * counts[sort]
    few = (pool for pool, wanted in surely.items() if not suffice(wanted, frozenset({pool})))
    first = next(few, None)
    return None if first is None else frozenset({first})


def _together(
    counts: _Counts, needs: Mapping[int, _ClassNeeds], sorts: Sequence[int]
) -> tuple[list[int], int]:
    """Return the rows of hosts that may take VMs of these classes, and the number of the VMs."""
    rows = {row for sort in sorts for row in needs[sort].hosts}
    return sorted(rows), sum(counts[sort] for sort in sorts)


def _reaches(numbers: Iterable[int], count: int) -> bool:
    """Return whether these numbers add up to the count; later ones are not computed then."""
    total = 0
    return count <= 0 or any((total := total + number) >= count for number in numbers)


def _vms_on_nodes(numa: NumaWant, facts: HostFacts, most: int) -> int:
    """Return the number of such VMs that fit on the nodes of a host, at most `most`."""
    nodes = list(facts.numa)
    for count in range(most):
        places = numa_placements(numa, nodes)
        if places is None:
            return count
        nodes = nodes_after(nodes, places)
    return most
