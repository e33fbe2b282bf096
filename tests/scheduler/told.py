"""A cloud whose users and administrators say who may be where, as a test has them say it."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import numpy as np

from merkatd.cluster import Step
from merkatd.opennebula.constraints import judge
from merkatd.opennebula.pools.constraint_facts import Estate, Facts, Member, Stay, Wants
from merkatd.scheduler.base.ports import Cloud, Histories, Observation, Reply
from tests.opennebula.honour.clouds import Host, Vm

Change = Callable[[Observation], Observation]


class Told:
    """Implements `ports.Cloud`: another cloud, and what is said there."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self.wants: dict[int, Wants] = {}
        """By VM,"""
        self.members: dict[int, Member] = {}
        self.facts: dict[int, Facts] = {}
        """by host."""
        self.estate = Estate()
        self.more: dict[str, Any] = {}
        """Other fields of the observation, or functions that make them of it."""
        self.shown: dict[int, str] = {}
        """By VM: what its owner sees."""

    async def observe(self) -> Observation:
        """As the cloud is, with all that was said judged."""
        seen = await self._cloud.observe()
        hosts = [
            Host(host, name, self.facts.get(host, Facts(host, cluster, {"NAME": [name]})))
            for host, name, cluster in zip(
                seen.host_id.tolist(), seen.host_name, seen.host_cluster.tolist(), strict=True
            )
        ]
        vms = [
            Vm(vm, owner, group, self.wants.get(vm, Wants()), self.members.get(vm), _stay(host))
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
        judged = judge(vms, hosts, self.estate)
        messages = {vm: text for vm, text in self.shown.items() if text}
        return replace(seen, **{"constraints": judged.constraints, "messages": messages, **more})

    async def histories(self, vms: Collection[int], since_s: float) -> Histories:
        """Of the other cloud."""
        return await self._cloud.histories(vms, since_s)

    async def send(self, step: Step) -> Reply:
        """Ask for one step."""
        return await self._cloud.send(step)

    async def tell(self, vm: int, message: str) -> None:
        """Show a message to the VM's owner."""
        self.shown[vm] = message
        await self._cloud.tell(vm, message)


def _stay(host: int) -> Stay | None:
    return None if host < 0 else Stay(0, running=True)


def flags(*vms: int) -> Callable[[Observation], Any]:
    """[vms]: true for these."""
    return lambda seen: np.isin(seen.vm_id, vms)
