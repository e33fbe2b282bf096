"""Hosts that are left alone: VMs are placed, priced and charged, and limited by nobody.

Guests are told apart by OpenNebula's own CPU shares only, and what they use is not known. For a
first look at a cloud, and for clouds without hosts that could be asked.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from merkatd.cluster import Ints, OnHost
from merkatd.limits import EnforcedLimits, Topology
from merkatd.scheduler.base.ports import FullSize, GuestUse, HostReachability, Observation, Released

_WHY = "limits are set by nobody (hypervisor.kind = none)"


class UntouchedHypervisors:
    """Implements `merkatd.scheduler.base.ports.HypervisorPort`."""

    def __init__(self) -> None:
        self._hosts: tuple[int, ...] = ()

    def meet(self, seen: Observation) -> None:
        """Remember the hosts: none of them is told anything."""
        self._hosts = tuple(seen.host_id.tolist())

    async def read(self, vms: Mapping[int, int]) -> GuestUse:
        """Nothing is known of any VM, and nobody may be told anything."""
        nobody: Ints = np.zeros(0, dtype=np.int64)
        nothing = np.zeros(0)
        in_force = EnforcedLimits(
            vcpu_quota_us=nobody,
            global_quota_us=nobody,
            shares=nobody,
            memory_mib=nobody,
            used_mib=nothing,
            balloon=np.zeros(0, dtype=bool),
            pin_policy=np.zeros(0, dtype=bool),
        )
        away = dict.fromkeys((*self._hosts, *vms.values()), _WHY)
        return GuestUse(nobody, nothing, nothing, nothing, in_force, away)

    async def runs(self, hosts: Collection[int]) -> Mapping[int, Mapping[int, int]]:
        """No host is asked."""
        del hosts
        return {}

    async def apply(self, steps: Sequence[OnHost]) -> Mapping[str, str]:
        """None is decided for hosts that are away."""
        return dict.fromkeys((step.id for step in steps), _WHY)

    def topologies(self) -> Mapping[int, Topology]:
        """No virtual CPU is pinned."""
        return {}

    def reach(self) -> HostReachability:
        """Nothing is amiss with hosts that are not to be asked."""
        return HostReachability()

    async def release(self, vms: Sequence[FullSize]) -> Mapping[int, Released]:
        """Nothing was ever set."""
        return {vm.vm: Released("nothing was ever set on it") for vm in vms}
