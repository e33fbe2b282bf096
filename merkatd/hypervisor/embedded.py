"""The hosts of the embedded cloud: limits and readings of many guests in one call."""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import islice
from typing import Any

import numpy as np

from merkatd.cluster import Balloon, Floats, Ints, Limit, Pin
from merkatd.limits import LEAST_QUOTA_US, UNSET, Cores, InForce, Topology
from merkatd.opennebula.client import Client
from merkatd.opennebula.errors import OneError
from merkatd.opennebula.waiting import in_parallel
from merkatd.scheduler.ports import UnreachableError, Use

HostStep = Limit | Pin | Balloon

_VMS_PER_CALL = 250
_PERIOD_US = 100_000
"""What the embedded hosts' quotas are a part of."""
_NO_QUOTA = -1


class EmbeddedHypervisors:
    """Implements `merkatd.scheduler.ports.Hypervisors`."""

    def __init__(
        self,
        client: Client,
        topologies: Mapping[int, Topology] | None = None,
        *,
        vms_per_call: int = _VMS_PER_CALL,
    ) -> None:
        """`topologies` are of the hosts on which virtual CPUs are to be pinned."""
        self._client = client
        self._topologies = dict(topologies or {})
        self._vms_per_call = vms_per_call

    def topologies(self) -> Mapping[int, Topology]:
        """By host id."""
        return self._topologies

    async def read(self, vms: Mapping[int, int]) -> Use:
        """Use and limits of these VMs; those that are not on their hosts are left out.

        Raises UnreachableError.
        """
        chunks = _chunks(sorted(vms), self._vms_per_call)
        answers = await in_parallel(self._read(chunk) for chunk in chunks)
        found = {int(vm): usage for answer in answers for vm, usage in answer.items()}
        return _use({vm: found[vm] for vm in sorted(found) if found[vm]["host"] == vms.get(vm)})

    async def apply(self, steps: Sequence[HostStep]) -> Mapping[str, str]:
        """Set limits; by step id, why it could not be done, for those that could not.

        The steps of one VM go together. Where the host refuses them each is tried alone, so
        that a wrong one keeps back no other.
        """
        by_vm: dict[int, list[HostStep]] = {}
        for step in steps:
            by_vm.setdefault(step.vm, []).append(step)
        refused = await self._set(list(by_vm.values()))
        alone = [[step] for one in by_vm.values() if len(one) > 1 for step in one]
        again = [one for one in alone if one[0].id in refused]
        for (step,) in again:
            del refused[step.id]
        # One after another where they are of one VM: the later one is the newer word.
        while again:
            turn = {one[0].vm: one for one in reversed(again)}
            refused |= await self._set(list(turn.values()))
            again = [one for one in again if turn[one[0].vm] is not one]
        return refused

    async def _read(self, vms: Sequence[int]) -> Mapping[str, Any]:
        try:
            answer = await self._client.call("embedded.limits.read", list(vms))
        except OneError as error:
            raise UnreachableError(f"the hosts can't be read: {error}") from error
        if not isinstance(answer, dict):
            raise UnreachableError("embedded.limits.read: a struct was expected")
        return answer

    async def _set(self, groups: Sequence[Sequence[HostStep]]) -> dict[str, str]:
        """Set what each group asks of its VM; no VM comes twice."""
        chunks = list(_chunks(groups, self._vms_per_call))
        answers = await in_parallel(self._set_some(chunk) for chunk in chunks)
        return reduce(dict.__or__, answers, {})

    async def _set_some(self, groups: Sequence[Sequence[HostStep]]) -> dict[str, str]:
        wanted = {
            str(group[0].vm): {name: value for step in group for name, value in _asked(step)}
            for group in groups
        }
        try:
            refused = await self._client.call("embedded.limits.set", wanted)
        except (OneError, UnreachableError) as error:
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


def _asked(step: HostStep) -> Iterator[tuple[str, Any]]:
    """What a step asks for, in the words of the embedded hosts."""
    match step:
        case Limit():
            yield "vcpu_quota", _quota(step.vcpu_quota_us, step.quota_period_us)
            yield "global_quota", _quota(step.global_quota_us, step.quota_period_us)
            yield "cpu_shares", step.shares
        case Pin():
            yield "pins", [list(cores) for cores in step.cores]
        case Balloon():
            yield "memory_mib", step.memory_mib


def _quota(quota_us: int | None, period_us: int) -> int:
    if quota_us is None or quota_us == UNSET:
        return _NO_QUOTA
    return max(quota_us * _PERIOD_US // period_us, LEAST_QUOTA_US)


def _use(found: Mapping[int, Mapping[str, Any]]) -> Use:
    """Columns of what the hosts told, in the order given."""
    told = list(found.values())
    limits = [usage["limits"] for usage in told]
    return Use(
        vm_id=_ints(list(found)),
        cpu_s=_floats([usage["cpu_s"] for usage in told]),
        held_mib=_floats([usage["balloon_mib"] for usage in told]),
        used_mib=_floats([usage["used_mib"] for usage in told]),
        in_force=InForce(
            vcpu_quota_us=_ints([_set_or_not(limit["vcpu_quota"]) for limit in limits]),
            global_quota_us=_ints([_set_or_not(limit["global_quota"]) for limit in limits]),
            shares=_ints([limit["cpu_shares"] for limit in limits]),
            memory_mib=_ints([limit["memory_mib"] for limit in limits]),
            used_mib=_floats([usage["used_mib"] for usage in told]),
            balloon=np.ones(len(told), dtype=bool),
            # Embedded guests have no pins but ours: oned pins none of them.
            pin_policy=np.zeros(len(told), dtype=bool),
            pins={
                vm: pins
                for vm, limit in zip(found, limits, strict=True)
                if any(pins := _cores(limit["pins"]))
            },
        ),
    )


def _set_or_not(quota: int) -> int:
    return quota if quota > 0 else UNSET


def _cores(pins: Sequence[Sequence[int]]) -> Cores:
    return tuple(tuple(cores) for cores in pins)


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _floats(values: Sequence[float]) -> Floats:
    return np.array(values, dtype=np.float64)
