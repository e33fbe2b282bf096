"""The hosts that an administrator ordered Merkat to drain: every strategy empties them."""

from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from merkatd.cluster import HostState, Step
from merkatd.scheduler.ports import Cloud, Histories, Observation, Reply


class Draining:
    """A cloud some of whose hosts are being drained: implements `ports.Cloud`."""

    def __init__(self, cloud: Cloud, drained: Callable[[], AbstractSet[int]]) -> None:
        """`drained` gives the ids of those hosts."""
        self._cloud = cloud
        self._drained = drained

    async def observe(self) -> Observation:
        """As the cloud shows itself, but for those hosts' states. Raises UnreachableError."""
        seen = await self._cloud.observe()
        reached = seen.host_state != int(HostState.OFF)
        leaving = np.isin(seen.host_id, sorted(self._drained())) & reached
        if not leaving.any():
            return seen
        return replace(seen, host_state=np.where(leaving, int(HostState.DRAINED), seen.host_state))

    async def histories(self, vms: Collection[int], since_s: float) -> Histories:
        """Read the history records of these VMs."""
        return await self._cloud.histories(vms, since_s)

    async def send(self, step: Step) -> Reply:
        """Ask for one step."""
        return await self._cloud.send(step)

    async def tell(self, vm: int, message: str) -> None:
        """Show a message to the VM's owner."""
        await self._cloud.tell(vm, message)
