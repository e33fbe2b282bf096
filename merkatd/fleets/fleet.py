"""The state of a fleet's VMs: which are running, being created, refused or gone."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from merkatd.cluster import VmState
from merkatd.database.fleets.fleet_store import Refusals
from merkatd.database.fleets.group_vm_store import GroupMember

MOST_REFUSALS = 3
"""The number of refusals after which the creation of a VM is given up."""


@dataclass(frozen=True, slots=True)
class FleetView:
    """The VMs of all fleets in a period."""

    period: int
    states: Mapping[int, VmState]
    """States by VM id; VMs with a step in progress are BUSY."""
    ailing: AbstractSet[int]
    """VMs that exist but can't be read."""
    creating: AbstractSet[str]
    """Keys of the VMs that are being created."""
    refused: Mapping[str, Refusals]
    """Refused creations by key: their number and OpenNebula's reason."""
    deaf: AbstractSet[int] = frozenset()
    """VMs whose guests don't shut down, however often they are asked to."""

    def is_gone(self, one: GroupMember) -> bool:
        """Return whether the VM has ended, or was given up before it was created."""
        if one.vm is None:
            return one.create_key not in self.creating and (
                one.leaving or self.why_never(one) is not None
            )
        return one.vm not in self.states and one.vm not in self.ailing

    def why_never(self, one: GroupMember) -> str | None:
        """Return why the VM's creation was given up, None if it was not."""
        refused = self.refused.get(one.create_key, Refusals())
        return refused.why if one.vm is None and refused.times >= MOST_REFUSALS else None


@dataclass(frozen=True, slots=True)
class FleetCounts:
    """The numbers of a fleet's VMs."""

    running: Mapping[str, int]
    """Running VMs by cluster, without those that are about to be ended."""
    kept: Mapping[str, int]
    """Remaining VMs by cluster, without those that are about to be ended."""
    active: int
    """The number of VMs that run, wait for a host or are being created."""
    left: int
    """The number of VMs that are not gone."""
    trouble: str = ""
    """Why VMs can't be created; empty if they can."""
