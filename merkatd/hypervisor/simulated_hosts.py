"""The hosts of the embedded cloud: limits and use of many guests in one call."""

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import reduce
from itertools import islice
from typing import Any

import numpy as np

from merkatd.base.clock import Executor, Inline
from merkatd.base.deferreds import few_at_once
from merkatd.cluster import Balloon, Floats, Ints, Limit, OnHost, Pin, Throttle
from merkatd.cluster.columns import NO_HOST
from merkatd.limits import LEAST_QUOTA_US, UNSET, Cores, EnforcedLimits, Topology
from merkatd.opennebula.rpc.client import Client
from merkatd.opennebula.rpc.errors import OneError
from merkatd.scheduler.base.ports import (
    CloudUnreachableError,
    FullSize,
    GuestUse,
    HostReachability,
    Observation,
    ReleaseResult,
)

HostStep = OnHost

_VMS_PER_CALL = 250
_AT_ONCE = 8
"""The most calls of one kind at once."""
_PERIOD_US = 100_000
"""The period of the embedded hosts' quotas."""
_NO_QUOTA = -1
_RATES = {"network": "network_kb_s", "disk": "disk_kib_s"}
"""The hosts' names for the limits of the other goods."""
_OWN_SHARES_PER_UNIT = 10.24
_LEAST_SHARES = 2


class EmbeddedHypervisors:
    """Implements `merkatd.scheduler.base.ports.HypervisorPort`."""

    def __init__(
        self,
        client: Client,
        topologies: Mapping[int, Topology] | None = None,
        *,
        vms_per_call: int = _VMS_PER_CALL,
        executor: Executor | None = None,
    ) -> None:
        """`topologies` are of the hosts on which virtual CPUs are to be pinned.

        Loops over all VMs run on `executor`, or inline without one.
        """
        self._client = client
        self._topologies = dict(topologies or {})
        self._vms_per_call = vms_per_call
        self._aside = (executor or Inline()).run

    def topologies(self) -> Mapping[int, Topology]:
        """Return the topologies by host id."""
        return self._topologies

    def meet(self, seen: Observation) -> None:
        """Do nothing: all hosts are reached the same way."""

    def reach(self) -> HostReachability:
        """Report no host as away: a failed call reads no host at all."""
        return HostReachability()

    async def read(self, vms: Mapping[int, int], *, to_show: bool = False) -> GuestUse:
        """Return use and limits of these VMs, without those that are not on their hosts.

        Raise CloudUnreachableError if the cloud does not answer.
        """
        del to_show
        chunks = await self._aside(lambda: list(_chunks(sorted(vms), self._vms_per_call)))
        tables = await few_at_once((self._read(chunk) for chunk in chunks), _AT_ONCE)
        return await self._aside(lambda: _use(tables, vms))

    async def runs(self, hosts: Collection[int]) -> Mapping[int, Mapping[int, int]]:
        """Return the runs of all hosts from one call. Raise CloudUnreachableError."""
        try:
            answer = await self._client.call("embedded.limits.runs", sorted(hosts))
        except OneError as error:
            raise CloudUnreachableError(f"the hosts can't be read: {error}") from error
        return await self._aside(lambda: _runs(answer))

    async def apply(self, steps: Sequence[HostStep]) -> Mapping[str, str]:
        """Set limits; return the reasons of the steps that failed, by step id.

        The steps of one VM are sent together. If the host refuses them, each step is tried
        alone, so that an invalid step does not block the others.
        """
        by_vm = await self._aside(lambda: _by_vm(steps))
        refused = await self._set(by_vm)
        again = await self._aside(lambda: _alone(by_vm, refused)) if refused else []
        for (step,) in again:
            del refused[step.id]
        # Steps of one VM are sent one after another: the later step must win.
        while again:
            turn = {steps[0].vm: steps for steps in reversed(again)}
            refused |= await self._set(list(turn.values()))
            again = [steps for steps in again if turn[steps[0].vm] is not steps]
        return refused

    async def release(self, vms: Sequence[FullSize]) -> Mapping[int, ReleaseResult]:
        """Give guests the limits that they have when they start."""
        chunks = list(_chunks(vms, self._vms_per_call))
        answers = await few_at_once((self._release(chunk) for chunk in chunks), _AT_ONCE)
        return reduce(dict.__or__, answers, {})

    async def _release(self, vms: Sequence[FullSize]) -> dict[int, ReleaseResult]:
        wanted = {
            str(vm.vm): {
                "vcpu_quota": _NO_QUOTA,
                "global_quota": _NO_QUOTA,
                "cpu_shares": max(math.ceil(vm.cpu_units * _OWN_SHARES_PER_UNIT), _LEAST_SHARES),
                "pins": [[] for _ in range(vm.vcpus)],
                "memory_mib": vm.memory_mib,
                **dict.fromkeys(_RATES.values(), _NO_QUOTA),
            }
            for vm in vms
        }
        try:
            refused = await self._client.call("embedded.limits.set", wanted)
        except (OneError, CloudUnreachableError) as error:
            return {vm.vm: ReleaseResult("", str(error)) for vm in vms}
        return {
            vm.vm: ReleaseResult("", str(refused[str(vm.vm)]))
            if str(vm.vm) in refused
            else ReleaseResult("no CPU quota and OpenNebula's CPU weight, full memory, no pins")
            for vm in vms
        }

    async def _read(self, vms: Sequence[int]) -> Mapping[str, Any]:
        try:
            answer = await self._client.call("embedded.limits.table", list(vms))
        except OneError as error:
            raise CloudUnreachableError(f"the hosts can't be read: {error}") from error
        try:
            table: dict[str, Any] = json.loads(answer)
        except (TypeError, ValueError) as error:
            raise CloudUnreachableError("embedded.limits.table: expected JSON") from error
        return table

    async def _set(self, groups: Sequence[Sequence[HostStep]]) -> dict[str, str]:
        """Set the limits of each group's VM; a VM has at most one group."""
        chunks = list(_chunks(groups, self._vms_per_call))
        answers = await few_at_once((self._set_some(chunk) for chunk in chunks), _AT_ONCE)
        return {step: why for answer in answers for step, why in answer.items()}

    async def _set_some(self, groups: Sequence[Sequence[HostStep]]) -> dict[str, str]:
        wanted = await self._aside(
            lambda: {
                str(group[0].vm): {name: value for step in group for name, value in _asked(step)}
                for group in groups
            }
        )
        try:
            refused = await self._client.call("embedded.limits.set", wanted)
        except (OneError, CloudUnreachableError) as error:
            return {step.id: str(error) for group in groups for step in group}
        return {
            step.id: str(refused[str(step.vm)])
            for group in groups
            for step in group
            if str(step.vm) in refused
        }


def _chunks(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def _by_vm(steps: Sequence[HostStep]) -> list[list[HostStep]]:
    by_vm: dict[int, list[HostStep]] = {}
    for step in steps:
        by_vm.setdefault(step.vm, []).append(step)
    return list(by_vm.values())


def _alone(by_vm: Sequence[Sequence[HostStep]], refused: Mapping[str, str]) -> list[list[HostStep]]:
    """Return each refused step of a VM with several of them."""
    return [[step] for steps in by_vm if len(steps) > 1 for step in steps if step.id in refused]


def _asked(step: HostStep) -> Iterator[tuple[str, Any]]:
    """Yield a step's limits under the names of the embedded hosts."""
    match step:
        case Limit():
            yield "vcpu_quota", _quota(step.vcpu_quota_us, step.quota_period_us)
            yield "global_quota", _quota(step.global_quota_us, step.quota_period_us)
            yield "cpu_shares", step.shares
        case Pin():
            yield "pins", [list(cores) for cores in step.cores]
        case Balloon():
            yield "memory_mib", step.memory_mib
        case Throttle():
            rates = {name: getattr(step, name) for name in _RATES.values()}
            yield from ((name, rate) for name, rate in rates.items() if rate is not None)


def _quota(quota_us: int | None, period_us: int) -> int:
    if quota_us is None or quota_us == UNSET:
        return _NO_QUOTA
    return max(quota_us * _PERIOD_US // period_us, LEAST_QUOTA_US)


def _runs(answer: Any) -> dict[int, dict[int, int]]:
    try:
        table: dict[str, dict[str, int]] = json.loads(answer)
    except (TypeError, ValueError) as error:
        raise CloudUnreachableError("embedded.limits.runs: expected JSON") from error
    return {int(host): {int(vm): run for vm, run in there.items()} for host, there in table.items()}


def _use(tables: Sequence[Mapping[str, Any]], vms: Mapping[int, int]) -> GuestUse:
    """Return the tables' columns in the order given, without VMs that are on other hosts."""
    vm_id, host = _whole(tables, "vm"), _whole(tables, "host")
    here = host == _ints([vms.get(vm, NO_HOST) for vm in vm_id.tolist()])
    vm_ids = vm_id[here]
    used_mib = _numbers(tables, "used_mib")[here]
    dirty_mib_s = _numbers(tables, "dirty_mib_s")[here]
    pins = {int(vm): _cores(pins) for table in tables for vm, pins in table["pins"].items()}
    there = set(vm_ids.tolist())
    return GuestUse(
        vm_id=vm_ids,
        cpu_s=_numbers(tables, "cpu_s")[here],
        held_mib=_numbers(tables, "balloon_mib")[here],
        used_mib=used_mib,
        in_force=EnforcedLimits(
            vcpu_quota_us=_set_or_not(_whole(tables, "vcpu_quota")[here]),
            global_quota_us=_set_or_not(_whole(tables, "global_quota")[here]),
            shares=_whole(tables, "cpu_shares")[here],
            memory_mib=_whole(tables, "memory_mib")[here],
            used_mib=used_mib,
            balloon=np.ones(len(vm_ids), dtype=bool),
            # Only merkatd pins embedded guests: oned pins none of them.
            pin_policy=np.zeros(len(vm_ids), dtype=bool),
            pins={vm: cores for vm, cores in pins.items() if vm in there and any(cores)},
            further={
                good: _set_or_not(_whole(tables, name)[here]) for good, name in _RATES.items()
            },
        ),
        run=_whole(tables, "run")[here],
        dirty_mib_s=None if np.isnan(dirty_mib_s).all() else dirty_mib_s,
    )


def _whole(tables: Sequence[Mapping[str, Any]], name: str) -> Ints:
    return _ints([value for table in tables for value in table[name]])


def _numbers(tables: Sequence[Mapping[str, Any]], name: str) -> Floats:
    return np.array([value for table in tables for value in table[name]], dtype=np.float64)


def _set_or_not(limit: Ints) -> Ints:
    return np.where(limit > 0, limit, UNSET)


def _cores(pins: Sequence[Sequence[int]]) -> Cores:
    return tuple(tuple(cores) for cores in pins)


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


class EmbeddedPower:
    """Switches the hosts of the embedded cloud; implements `PowerPort`."""

    def __init__(self, client: Client, patterns: Collection[str]) -> None:
        """`patterns` are of the names of hosts that may be switched off."""
        self._client = client
        self._patterns = tuple(patterns)

    def serves(self, host: str) -> bool:
        """Return whether a pattern matches the host's name."""
        return any(fnmatchcase(host, pattern) for pattern in self._patterns)

    async def sleep(self, host: int, name: str) -> str:
        """Switch a host off; return why it failed, "" if it did not."""
        return await self._switched("embedded.host.sleep", host, name)

    async def wake(self, host: int, name: str) -> str:
        """Switch a host on; return why it failed, "" if it did not."""
        return await self._switched("embedded.host.wake", host, name)

    async def _switched(self, method: str, host: int, name: str) -> str:
        try:
            await self._client.call(method, host, about=f"host {name}")
        except OneError as error:
            return str(error)
        return ""
