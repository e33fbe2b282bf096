"""From what the pools showed to an observation: columns, and where each VM really is."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from merkatd.cluster import Floats, Ints, VmState
from merkatd.opennebula.host_pool import HostRow, Load
from merkatd.opennebula.states import Look, host_state, look
from merkatd.opennebula.vm_pool import KEY, NOWHERE, VmRow
from merkatd.scheduler.ports import Observation

_UNITS_PER_CORE = 100
_STILL = frozenset({VmState.RUNNING, VmState.SUSPENDED, VmState.POWERED_OFF})
_NEVER = Load(np.nan, np.nan)


@dataclass(frozen=True, slots=True)
class Pools:
    """Everything that was read. The hosts were read after the VMs."""

    vms: Sequence[VmRow]
    done: Sequence[VmRow]
    """The last ones that are done."""
    ailing: Mapping[int, str]
    hosts: Sequence[HostRow]
    load: Mapping[int, Load]


@dataclass(frozen=True, slots=True)
class Shown:
    """What has to be known of the last observation when something is sent."""

    newest: int
    """The highest VM id that was seen."""
    keys: Mapping[str, int]
    messages: Mapping[int, str]
    """By VM id, where there is one."""


class Observed(NamedTuple):
    """An observation, and what is kept of it."""

    observation: Observation
    shown: Shown


def observed(pools: Pools, at_s: float) -> Observed:
    """Put it together."""
    vms = sorted(pools.vms)
    hosts = sorted(pools.hosts)
    charged_on = _charges(hosts)
    places = [_place(vm, charged_on.get(vm.id, ())) for vm in vms]
    keys = _keys(vms, pools.done)
    return Observed(
        _observation(pools, vms, hosts, places, keys, at_s),
        Shown(
            newest=max((vm.id for vm in (*pools.vms, *pools.done)), default=-1),
            keys=keys,
            messages={vm.id: vm.message for vm in vms if vm.message},
        ),
    )


class _Place(NamedTuple):
    state: VmState
    words: str
    host: int


def _place(vm: VmRow, charged_on: Sequence[int]) -> _Place:
    """The VM's state, and the host that it is on.

    A pool shows one history record: from the moment at which a migration is asked for that is
    the target's, and the state goes on being RUNNING for a while. But the host that the VM
    comes from goes on counting it among its own until it has left. Hosts are read after VMs:
    a VM that still stands only where its record says has arrived, or has never been asked to go.
    """
    seen: Look = look(vm.state, vm.life)
    if not seen.charged:
        return _Place(seen.state, seen.words, NOWHERE)
    sources = [host for host in charged_on if host != vm.host]
    if not sources:
        return _Place(seen.state, seen.words, vm.host)
    if seen.state not in _STILL:
        return _Place(seen.state, seen.words, sources[0])
    return _Place(VmState.BUSY, f"{seen.words}, about to change its host", sources[0])


def _charges(hosts: Iterable[HostRow]) -> Mapping[int, list[int]]:
    """By VM id, the hosts that count it."""
    found: dict[int, list[int]] = {}
    for host in hosts:
        for vm in host.vms:
            found.setdefault(vm, []).append(host.id)
    return found


def _keys(vms: Sequence[VmRow], done: Sequence[VmRow]) -> Mapping[str, int]:
    """Of a key that was copied into another VM's template the first VM is the owner."""
    found: dict[str, int] = {}
    for vm in sorted((*vms, *done), key=lambda vm: vm.id):
        key = vm.attributes.get(KEY)
        if key:
            found.setdefault(key, vm.id)
    return found


def _observation(
    pools: Pools,
    vms: Sequence[VmRow],
    hosts: Sequence[HostRow],
    places: Sequence[_Place],
    keys: Mapping[str, int],
    at_s: float,
) -> Observation:
    load = [pools.load.get(host.id, _NEVER) for host in hosts]
    return Observation(
        at_s=at_s,
        host_id=_ints(host.id for host in hosts),
        host_name=tuple(host.name for host in hosts),
        host_cluster=_ints(host.cluster for host in hosts),
        host_state=_ints(host_state(host.state) for host in hosts),
        host_capacity=_pairs((host.cpu, host.memory_mib) for host in hosts),
        host_used=_pairs(load),
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
    )


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)


def _pairs(values: Iterable[tuple[float, float]]) -> Floats:
    found = np.array(list(values), dtype=np.float64)
    return found.reshape(-1, 2)
