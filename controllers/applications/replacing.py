"""VMs that are of no use: those that never answered their monitor, and those that went out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from controllers.parameters import number
from merkatd.platforms.ports import ClusterTerms, VmNow

ABSENT: Final = "absent/"
"""How a monitor names what it tells of such a VM: for how many seconds it has run unanswering."""
OFF: Final = "powered_off"
MOST: Final = 2
"""So many of a cluster are replaced at once: where none answers, VMs are not what is broken."""


@dataclass(frozen=True, slots=True)
class Absent:
    """By cluster and VM, for how long it has been missed."""

    by_cluster: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, memory: Mapping[str, Any]) -> "Absent":
        """As it was kept."""
        return cls(dict(memory))

    def after(self, cluster: str, values: Mapping[str, float]) -> "Absent":
        """When the cluster's monitor has told more: it names all that it misses each time."""
        missed = {
            name.removeprefix(ABSENT): seconds
            for name, seconds in values.items()
            if name.startswith(ABSENT)
        }
        return Absent({**self.by_cluster, cluster: missed})

    def kept(self) -> dict[str, Any]:
        """For a controller's memory."""
        return {name: dict(missed) for name, missed in self.by_cluster.items()}

    def to_replace(self, terms: ClusterTerms, vms: Iterable[VmNow]) -> tuple[int, ...]:
        """Those of the cluster's VMs that were missed for too long, the longest missed first.

        One that is leaving already is not named again.
        """
        limit_s = number(terms.monitor.parameters if terms.monitor else {}, "boot_limit_s")
        missed = self.by_cluster.get(terms.name, {})
        running = {
            one.vm
            for one in vms
            if one.cluster == terms.name and one.state == "running" and not one.leaving
        }
        late = {
            int(vm): seconds
            for vm, seconds in missed.items()
            if seconds >= limit_s and int(vm) in running
        }
        return tuple(sorted(late, key=lambda vm: (-late[vm], vm))[:MOST])


def overdue(
    missed: Iterable[int], since: Mapping[str, float], at_s: float, limit_s: float
) -> tuple[dict[str, float], tuple[int, ...]]:
    """Since when each has been missed, for a controller's memory; those missed for too long.

    These begin anew: whoever is still there after so long again is named again.
    """
    known = {vm: since.get(str(vm), at_s) for vm in missed}
    late = sorted(vm for vm, since_s in known.items() if abs(at_s - since_s) >= limit_s)[:MOST]
    return {str(vm): at for vm, at in known.items() if vm not in late}, tuple(late)
