"""As many VMs as wanted: new ones by key; which are lost, refused, under way or to be ended."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from merkatd.cluster import VmState
from merkatd.database.fleets.fleet_store import Refusals
from merkatd.database.fleets.group_vm_store import GroupMember

MOST_REFUSALS = 3


@dataclass(frozen=True, slots=True)
class FleetView:
    """What the period saw."""

    period: int
    states: Mapping[int, VmState]
    """By VM id; VMs with a step under way are BUSY."""
    ailing: AbstractSet[int]
    """VMs that are there, but can't be read."""
    creating: AbstractSet[str]
    """Keys of the VMs whose creation is under way."""
    refused: Mapping[str, Refusals]
    """By key: how often a creation was refused, and with what answer."""
    deaf: AbstractSet[int] = frozenset()
    """VMs whose guests go on, however often they are asked to end."""

    def is_gone(self, one: GroupMember) -> bool:
        """Whether it is over, or was given up before it was made."""
        if one.vm is None:
            return one.create_key not in self.creating and (
                one.leaving or self.why_never(one) is not None
            )
        return one.vm not in self.states and one.vm not in self.ailing

    def why_never(self, one: GroupMember) -> str | None:
        """Why OpenNebula will not make it; None where it may yet."""
        refused = self.refused.get(one.create_key, Refusals())
        return refused.why if one.vm is None and refused.times >= MOST_REFUSALS else None


@dataclass(frozen=True, slots=True)
class FleetCounts:
    """How many VMs there are."""

    running: Mapping[str, int]
    """By cluster; those that are to be ended are in none of these."""
    kept: Mapping[str, int]
    active: int
    """All that run, wait for a host, or are being made."""
    left: int
    """All that are not gone."""
    trouble: str = ""
    """Why VMs can't be made, where that is so."""
