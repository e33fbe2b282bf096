"""A cloud whose users and administrators say who may be where, as a test has them say it."""

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


class Told:
    """Implements `ports.Cloud`: another cloud, and what is said there."""

    def __init__(self, cloud: CloudPort) -> None:
        self._cloud = cloud
        self.wants: dict[int, VmRequirements] = {}
        """By VM,"""
        self.members: dict[int, RoleMember] = {}
        self.facts: dict[int, HostFacts] = {}
        """by host."""
        self.estate = SiteFacts()
        self.more: dict[str, Any] = {}
        """Other fields of the observation, or functions that make them of it."""
        self.shown: dict[int, str] = {}
        """By VM: what its owner sees."""

    async def observe(self) -> Observation:
        """As the cloud is, with all that was said judged."""
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
        """Of the other cloud."""
        return await self._cloud.histories(vms, since_s)

    async def send(self, step: Step) -> StepReply:
        """Ask for one step."""
        return await self._cloud.send(step)

    async def tell(self, vm: int, message: str) -> None:
        """Show a message to the VM's owner."""
        self.shown[vm] = message
        await self._cloud.tell(vm, message)


def _stay(host: int) -> DiskLocation | None:
    return None if host < 0 else DiskLocation(0, running=True)


def flags(*vms: int) -> Callable[[Observation], Any]:
    """[vms]: true for these."""
    return lambda seen: np.isin(seen.vm_id, vms)
