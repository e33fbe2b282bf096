"""The builder of observations from pools: columns, and the true host of each VM."""

from collections.abc import Iterable, Mapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from merkatd.cluster import Floats, Ints, VmState
from merkatd.cluster.columns import NO_HOST
from merkatd.opennebula.constraints import LET_ONED_CHOOSE, Feasibility, judge_feasibility
from merkatd.opennebula.host_traits import host_traits_of
from merkatd.opennebula.pools.constraint_facts import SiteFacts
from merkatd.opennebula.pools.estate_pools import AUTOMATION
from merkatd.opennebula.pools.estate_reader import EstateReading
from merkatd.opennebula.pools.host_pool import HostLoad, HostRow, with_facts
from merkatd.opennebula.pools.one_states import TROUBLED, StateMeaning, host_state, state_meaning
from merkatd.opennebula.pools.unread_vms import located
from merkatd.opennebula.pools.vm_pool import KEY, VmRow
from merkatd.opennebula.scheduled_actions import Scheduled
from merkatd.opennebula.sleep_marks import MarkedState, marked_states, sleeps_quietly
from merkatd.scheduler.base.ports import Observation, OwnedKey, Records
from merkatd.scheduler.base.settings import FURTHER

_UNITS_PER_CORE = 100
_STILL = frozenset({VmState.RUNNING, VmState.SUSPENDED, VmState.POWERED_OFF})
_NEVER = HostLoad(np.nan, np.nan)
_LONGEST_ERROR = 300
_FREED_AT_ONCE = 1000
_BALANCES = frozenset({"partial", "full"})
"""The cluster automation levels at which OneDRS migrates VMs by itself."""
_BY_ID = attrgetter("id")
_NONE_CREATED: Mapping[OwnedKey, int] = {}
_GOODS = {f"MERKAT_{name.upper()}": name for name in FURTHER}


@dataclass(frozen=True, slots=True)
class Pools:
    """All data of an observation. The hosts were read after the VMs."""

    vms: MutableSequence[VmRow]
    done: Sequence[VmRow]
    """The most recent DONE VMs."""
    ailing: Mapping[int, str]
    hosts: Sequence[HostRow]
    load: Mapping[int, HostLoad]
    known: EstateReading = field(default_factory=EstateReading)


class Destination(NamedTuple):
    """The choices for a VM besides its host."""

    datastore: int = LET_ONED_CHOOSE
    """The VM's system datastore."""
    networks: tuple[tuple[int, int], ...] = ()
    """Pairs of NIC id and network id, one for each automatic NIC."""


@dataclass(frozen=True, slots=True, eq=False)
class LatestPools:
    """The data of the latest observation that sending a step needs."""

    newest: int
    """The highest VM id of the observation."""
    keys: Mapping[OwnedKey, int]
    """VM ids by creation key and owner."""
    written_keys: AbstractSet[OwnedKey]
    """The creation keys in VMs' texts, each with the VM's owner."""
    ailing: AbstractSet[int]
    """VMs that exist and can't be read."""
    messages: Mapping[int, str]
    """Messages to owners by VM id, without empty ones."""
    judged: Feasibility
    vm_rows: Mapping[int, int]
    host_rows: Mapping[int, int]
    host_names: Mapping[int, str]
    marked: Mapping[int, MarkedState] = field(default_factory=dict)
    """The states of hosts with a mark of sleep, by id."""
    scheduled: Sequence[Scheduled] = ()

    def destination(self, vm: int, host: int) -> Destination:
        """Return the datastore and networks for deploying this VM to this host."""
        if vm not in self.vm_rows or host not in self.host_rows:
            return Destination()
        rows = self.vm_rows[vm], self.host_rows[host]
        return Destination(self.judged.datastore_of(*rows), self.judged.networks_of(*rows))


class AdapterObservation(NamedTuple):
    """An observation, and the data of it that the adapter keeps."""

    observation: Observation
    shown: LatestPools


def observed(
    pools: Pools,
    at_s: float,
    before: LatestPools | None = None,
    created: Mapping[OwnedKey, int] = _NONE_CREATED,
) -> AdapterObservation:
    """Build an observation; `before` is the data kept from the previous one.

    `created` are VMs by key and owner that exist even if their texts don't show the key.
    """
    vms = sorted(pools.vms, key=_BY_ID)
    hosts = with_facts(sorted(pools.hosts, key=_BY_ID), pools.load, pools.known.cluster_words)
    charged_on = _charges(hosts)
    vms = [located(vm, charged_on) for vm in vms]
    places = [_place(vm, charged_on.get(vm.id, ())) for vm in vms]
    written = _keys(vms, pools.done)
    there = {vm.id for vm in vms} | pools.ailing.keys()
    keys = {**written, **{key: vm for key, vm in created.items() if vm in there}}
    messages = {vm.id: vm.message for vm in vms if vm.message}
    tables = None if before is None else before.judged.tables
    judged = judge_feasibility(vms, hosts, pools.known.estate, tables)
    return AdapterObservation(
        _observation(pools, vms, hosts, places, keys, messages, judged, at_s),
        LatestPools(
            newest=max((vm.id for vm in (*pools.vms, *pools.done)), default=-1),
            keys=keys,
            written_keys=written.keys(),
            ailing=pools.ailing.keys(),
            messages=messages,
            judged=judged,
            vm_rows={vm.id: row for row, vm in enumerate(vms)},
            host_rows={host.id: row for row, host in enumerate(hosts)},
            host_names={host.id: host.name for host in hosts},
            marked=marked_states(hosts),
            scheduled=[
                Scheduled(vm.id, vm.owner, vm.made_s, vm.actions) for vm in vms if vm.actions
            ],
        ),
    )


def observed_once(
    pools: Pools,
    at_s: float,
    before: LatestPools | None = None,
    created: Mapping[OwnedKey, int] = _NONE_CREATED,
) -> AdapterObservation:
    """Build an observation and free the VMs of `pools` in portions.

    Freeing 100,000 VMs at once stops every thread for 0.05 s.
    """
    observation = observed(pools, at_s, before, created)
    while pools.vms:
        del pools.vms[-_FREED_AT_ONCE:]
    return observation


class _Place(NamedTuple):
    state: VmState
    words: str
    host: int
    stays: bool = False
    idle: bool = False
    coming: int = NO_HOST
    """The host to which the VM is moving."""


def _place(vm: VmRow, charged_on: Sequence[int]) -> _Place:
    """Return the VM's state and its host.

    A pool shows a VM's last history record only. As soon as a migration is requested, that is the
    record of the target host, while the state stays RUNNING for some time. But the source host
    counts the VM until the VM has left. As hosts are read after VMs, a VM that only the host of its
    record counts has arrived, or is not migrating at all.
    """
    seen: StateMeaning = state_meaning(vm.state, vm.life)
    if vm.by_record and (not seen.charged or vm.host == NO_HOST):
        return _Place(VmState.ABSENT, seen.words, NO_HOST)
    if vm.locked and seen.state is VmState.PENDING:
        return _Place(VmState.ABSENT, "locked", NO_HOST)
    if not seen.charged:
        return _Place(seen.state, seen.words, NO_HOST)
    sources = [host for host in charged_on if host != vm.host]
    if not sources:
        return _Place(seen.state, seen.words, vm.host, seen.stays, seen.idle)
    if seen.state not in _STILL:
        return _Place(seen.state, seen.words, sources[0], idle=seen.idle, coming=vm.host)
    words = f"{seen.words}, about to change hosts"
    return _Place(VmState.BUSY, words, sources[0], coming=vm.host)


def _charges(hosts: Iterable[HostRow]) -> Mapping[int, list[int]]:
    """Return by VM id the hosts that count the VM."""
    hosts_of_vm: dict[int, list[int]] = {}
    for host in hosts:
        for vm in host.vms:
            hosts_of_vm.setdefault(vm, []).append(host.id)
    return hosts_of_vm


def _keys(vms: Sequence[VmRow], done: Sequence[VmRow]) -> Mapping[OwnedKey, int]:
    """Return the first VM with each key, by key and owner.

    Users may copy a key into other VMs' templates. Only a copy in a VM of the same owner counts.
    """
    vm_of_key: dict[OwnedKey, int] = {}
    for vm in sorted((*vms, *done), key=lambda vm: vm.id):
        key = vm.attributes.get(KEY)
        if key:
            vm_of_key.setdefault((key, vm.owner), vm.id)
    return vm_of_key


def _observation(
    pools: Pools,
    vms: Sequence[VmRow],
    hosts: Sequence[HostRow],
    places: Sequence[_Place],
    keys: Mapping[OwnedKey, int],
    messages: Mapping[int, str],
    judged: Feasibility,
    at_s: float,
) -> Observation:
    estate = pools.known.estate
    load = [pools.load.get(host.id, _NEVER) for host in hosts]
    # Users that are not read would look removed.
    users = () if estate.users_in_part else estate.users.values()
    return Observation(
        at_s=at_s,
        host_id=_ints(host.id for host in hosts),
        host_name=tuple(host.name for host in hosts),
        host_cluster=_ints(host.cluster for host in hosts),
        host_state=_ints(host_state(host.state) for host in hosts),
        host_capacity=_pairs(_capacities(hosts, vms)),
        host_used=_pairs((host_load.cpu, host_load.memory_mib) for host_load in load),
        vm_id=_ints(vm.id for vm in vms),
        vm_name=tuple(vm.name for vm in vms),
        vm_state=_ints(place.state for place in places),
        vm_words=tuple(place.words for place in places),
        vm_host=_ints(place.host for place in places),
        vm_owner=_ints(vm.owner for vm in vms),
        vm_group=_ints(vm.group for vm in vms),
        vm_size=_pairs((vm.size_cores * _UNITS_PER_CORE, vm.memory_mib) for vm in vms),
        vm_reserved=_pairs((vm.cpu * _UNITS_PER_CORE, vm.memory_mib) for vm in vms),
        vm_vcpus=_ints(vm.vcpus for vm in vms),
        vm_movable=[vm.movable for vm in vms],
        attributes={vm.id: vm.attributes for vm in vms if vm.attributes},
        keys=keys,
        ailing=pools.ailing,
        pin_policy=frozenset(vm.id for vm in vms if vm.pinned),
        constraints=judged.constraints,
        vm_boots_mib=np.array([vm.boots_mib for vm in vms], dtype=np.float64),
        vm_priority=np.array([vm.priority for vm in vms], dtype=np.float64),
        vm_leaves=np.array([vm.leaves for vm in vms], dtype=bool),
        vm_stays=np.array([place.stays for place in places], dtype=bool),
        vm_idle=np.array([place.idle for place in places], dtype=bool),
        vm_coming=_ints(place.coming for place in places),
        messages=messages,
        vm_error={vm.id: vm.error for vm in vms if vm.error},
        by_record={vm.id: vm.by_record for vm in vms if vm.by_record},
        cluster_name=estate.clusters,
        group_name=estate.group_names,
        owner_name={user.id: user.name for user in users},
        owner_group={user.id: user.groups[0] for user in users if user.groups},
        host_trouble={host.id: why for host in hosts if (why := trouble(host)) is not None},
        balanced_clusters=frozenset(
            cluster
            for cluster, words in pools.known.cluster_words.items()
            if words.get(AUTOMATION, ["manual"])[0] in _BALANCES
        ),
        records=Records(
            seq=_ints(vm.record.seq for vm in vms),
            ran_from_s=_ints(vm.record.ran_from_s for vm in vms),
            ran_until_s=_ints(vm.record.ran_until_s for vm in vms),
        ),
        ended={vm.id: vm.record for vm in pools.done},
        host_goods={host.id: goods for host in hosts if (goods := _goods(host.facts.values))},
        host_traits=host_traits_of(hosts, estate.clusters),
        **_disks(vms, estate),
    )


def _disks(vms: Sequence[VmRow], estate: SiteFacts) -> dict[str, Any]:
    """Return the size of each VM's disks, and whether its host shares their storage with others.

    Disks that stay in their image datastore are shared. Without a host, or if the datastore is
    hidden from the daemon, disks count as shared.
    """
    local = {store.id for store in estate.datastores if not store.shared}
    shared = np.ones(len(vms), dtype=bool)
    if local:
        for row, vm in enumerate(vms):
            is_local = vm.stay is not None and vm.stay.datastore in local
            shared[row] = not (is_local and vm.wants.system_mib)
    sizes_mib = (vm.wants.disk_mib for vm in vms)
    return {
        "vm_disk_mib": np.fromiter(sizes_mib, dtype=np.float64, count=len(vms)),
        "vm_shared_disk": shared,
    }


def trouble(host: HostRow) -> str | None:
    """Return the state and error of a host that OpenNebula can't monitor, None if it can."""
    name = TROUBLED.get(host.state)
    if name is None or sleeps_quietly(host):
        return None
    error = " ".join((host.facts.values.get("ERROR") or [""])[-1].split())[:_LONGEST_ERROR]
    return f"{name}: {error}" if error else name


def _goods(values: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
    """Return the capacities of further goods that a host or its cluster sets in its template."""
    return {good: values[name][0] for name, good in _GOODS.items() if name in values}


def _capacities(hosts: Sequence[HostRow], vms: Sequence[VmRow]) -> Iterable[tuple[float, float]]:
    """Yield each host's CPU and memory for the VMs that could be read.

    A host may also run VMs that are unreadable or hidden from the daemon. They take the amount by
    which oned's count for the host exceeds the sizes of the known VMs.
    """
    sizes = {vm.id: (vm.cpu * _UNITS_PER_CORE, vm.memory_mib) for vm in vms}
    for host in hosts:
        cpu, memory_mib = host.cpu, host.memory_mib
        if not all(vm in sizes for vm in host.vms):
            known = [sizes[vm] for vm in host.vms if vm in sizes]
            cpu -= max(host.charged_cpu - sum(size[0] for size in known), 0.0)
            memory_mib -= max(host.charged_mib - sum(size[1] for size in known), 0.0)
        yield max(cpu, 0.0), max(memory_mib, 0.0)


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)


def _pairs(values: Iterable[tuple[float, float]]) -> Floats:
    """Return pairs as an array, built value by value: converting a list blocks all threads."""
    return np.fromiter(chain.from_iterable(values), dtype=np.float64).reshape(-1, 2)
