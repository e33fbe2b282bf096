"""Hosts without limits from the daemon: it places, prices and charges their VMs, no more.

Only OpenNebula's own CPU shares divide a host among its guests, and their use is unknown. This
suits a first look at a cloud, and clouds whose hosts the daemon can't reach.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from merkatd.cluster import Ints, OnHost
from merkatd.limits import EnforcedLimits, Topology
from merkatd.scheduler.base.ports import (
    FullSize,
    GuestUse,
    HostReachability,
    Observation,
    ReleaseResult,
)

_WHY = "merkatd sets no limits (hypervisor.kind = none)"


class UntouchedHypervisors:
    """Implements `merkatd.scheduler.base.ports.HypervisorPort`."""

    def __init__(self) -> None:
        self._hosts: tuple[int, ...] = ()

    def meet(self, seen: Observation) -> None:
        """Store the hosts' ids: `read` reports them all as away."""
        self._hosts = tuple(seen.host_id.tolist())

    async def read(self, vms: Mapping[int, int], *, to_show: bool = False) -> GuestUse:
        """Return no guests, and every host as away."""
        del to_show
        no_ids: Ints = np.zeros(0, dtype=np.int64)
        no_values = np.zeros(0)
        in_force = EnforcedLimits(
            vcpu_quota_us=no_ids,
            global_quota_us=no_ids,
            shares=no_ids,
            memory_mib=no_ids,
            used_mib=no_values,
            balloon=np.zeros(0, dtype=bool),
            pin_policy=np.zeros(0, dtype=bool),
        )
        away = dict.fromkeys((*self._hosts, *vms.values()), _WHY)
        return GuestUse(no_ids, no_values, no_values, no_values, in_force, away)

    async def runs(self, hosts: Collection[int]) -> Mapping[int, Mapping[int, int]]:
        """Return nothing, without a call to a host."""
        del hosts
        return {}

    async def apply(self, steps: Sequence[OnHost]) -> Mapping[str, str]:
        """Refuse all steps; the plan has none, as all hosts are away."""
        return dict.fromkeys((step.id for step in steps), _WHY)

    def topologies(self) -> Mapping[int, Topology]:
        """Return nothing: no virtual CPU is pinned."""
        return {}

    def reach(self) -> HostReachability:
        """Report no host as away: the daemon calls none of them."""
        return HostReachability()

    async def release(self, vms: Sequence[FullSize]) -> Mapping[int, ReleaseResult]:
        """Report that no limits were ever set."""
        return {vm.vm: ReleaseResult("no limits were ever set") for vm in vms}
