"""A cloud with placement requirements and facts that a test sets."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import numpy as np

from merkatd.cluster import Step
from merkatd.opennebula.constraints import judge_feasibility
from merkatd.opennebula.pools.constraint_facts import (
    DiskLocation,
    HostFacts,
    RoleMember,
    SiteFacts,
    VmRequirements,
)
from merkatd.scheduler.base.ports import CloudPort, Histories, Observation, StepReply
from tests.opennebula.constraints.clouds import Host, Vm

Change = Callable[[Observation], Observation]


class ConstrainedCloud:
    """Implement `ports.Cloud` with another cloud and the test's facts."""

    def __init__(self, cloud: CloudPort) -> None:
        self._cloud = cloud
        self.wants: dict[int, VmRequirements] = {}
        """The requirements by VM id."""
        self.members: dict[int, RoleMember] = {}
        self.facts: dict[int, HostFacts] = {}
        """The facts by host id."""
        self.estate = SiteFacts()
        self.more: dict[str, Any] = {}
        """Further fields of the observation, or functions that compute them from it."""
        self.shown: dict[int, str] = {}
        """The messages that owners see, by VM id."""

    async def observe(self) -> Observation:
        """Return the other cloud's observation with all requirements applied."""
        seen = await self._cloud.observe()
        hosts = [
            Host(host, name, self.facts.get(host, HostFacts(host, cluster, {"NAME": [name]})))
            for host, name, cluster in zip(
                seen.host_id.tolist(), seen.host_name, seen.host_cluster.tolist(), strict=True
            )
        ]
        vms = [
            Vm(
                vm,
                owner,
                group,
                self.wants.get(vm, VmRequirements()),
                self.members.get(vm),
                _stay(host),
            )
            for vm, owner, group, host in zip(
                seen.vm_id.tolist(),
                seen.vm_owner.tolist(),
                seen.vm_group.tolist(),
                seen.vm_host.tolist(),
                strict=True,
            )
        ]
        more = {
            name: value(seen) if callable(value) else value for name, value in self.more.items()
        }
        judged = judge_feasibility(vms, hosts, self.estate)
        messages = {vm: text for vm, text in self.shown.items() if text}
        return replace(seen, **{"constraints": judged.constraints, "messages": messages, **more})

    async def histories(self, vms: Collection[int], since_s: float) -> Histories:
        """Return the other cloud's histories."""
        return await self._cloud.histories(vms, since_s)

    async def send(self, step: Step) -> StepReply:
        """Send one step."""
        return await self._cloud.send(step)

    async def tell(self, vm: int, message: str) -> None:
        """Show a message to the VM's owner."""
        self.shown[vm] = message
        await self._cloud.tell(vm, message)


def _stay(host: int) -> DiskLocation | None:
    return None if host < 0 else DiskLocation(0, running=True)


def flags(*vms: int) -> Callable[[Observation], Any]:
    """Return a function that flags these VMs in an observation."""
    return lambda seen: np.isin(seen.vm_id, vms)
