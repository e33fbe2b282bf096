"""VMs that are of no use: those that never answered their monitor, and those that went out.

One that is out of OpenNebula's sight may compute on, and is back once its host is seen again: it is
of no use only where that lasts far longer.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from controllers.parameters import number
from controllers.policies.draining import by_clock
from merkatd.platforms.ports import Assignment, ClusterTerms, News, VmNow

ABSENT: Final = "absent/"
"""How a monitor names what it tells of such a VM: for how many seconds it has run unanswering."""
OFF: Final = "powered_off"
UNKNOWN: Final = "unknown"
SEEN: Final = frozenset({"running", UNKNOWN})
"""States in which a worker may be at work, so that its batch system says whether it is there."""
MOST: Final = 2
"""So many of a cluster are replaced in a period for the same reason."""
_ABSENT: Final = "absent"
_GONE: Final = {
    "off": (OFF, "off_limit_s", "was found to be off"),
    "unknown": (UNKNOWN, "unknown_limit_s", "has been out of OpenNebula's sight for too long"),
}
"""By the word in a controller's memory: a state, the parameter with the longest time, and what is
told of a VM that is in it for longer."""
_GONE_S: Final = "gone_at_s"


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


class Order(NamedTuple):
    """VMs of a cluster that are to be made anew, and why."""

    cluster: str
    vms: tuple[int, ...]
    why: str


def to_make_anew(
    given: Assignment, news: News, memory: dict[str, Any], spared: AbstractSet[int] = frozenset()
) -> Iterator[Order]:
    """Those that are said to run but were never reached, and those that are gone for too long.

    Since when they are is remembered. Those `spared` have nothing to do any more.
    """
    # While a platform starts or resumes one that went out would keep it from ever running.
    up = news.state in {"starting", "running", "resuming"}
    last_s, most_s = float(memory.get(_GONE_S, news.at_s)), 2 * given.interval_s
    memory[_GONE_S] = news.at_s
    gone = []
    for word, (state, limit, why) in _GONE.items():
        missed = [
            one.vm
            for one in news.vms
            if one.state == state and up and not one.leaving and one.vm not in spared
        ]
        since = {int(vm): since_s for vm, since_s in memory.get(word, {}).items()}
        counted = by_clock(since, last_s, news.at_s, most_s)
        limit_s = number(given.parameters, limit)
        kept = {str(vm): since_s for vm, since_s in counted.items()}
        memory[word], late = overdue(missed, kept, news.at_s, limit_s)
        gone.append((late, why))
    absent = Absent.of(memory.get(_ABSENT, {}))
    for terms in given.clusters:
        mine = {one.vm for one in news.vms if one.cluster == terms.name}
        found = [(absent.to_replace(terms, news.vms), "never answered")]
        found += [(tuple(vm for vm in late if vm in mine), why) for late, why in gone]
        yield from (Order(terms.name, vms, why) for vms, why in found if vms)


def overdue(
    missed: Iterable[int], since: Mapping[str, float], at_s: float, limit_s: float
) -> tuple[dict[str, float], tuple[int, ...]]:
    """Since when each has been missed, for a controller's memory; those missed for too long.

    These begin anew: whoever is still there after so long again is named again.
    """
    known = {vm: since.get(str(vm), at_s) for vm in missed}
    late = sorted(vm for vm, since_s in known.items() if abs(at_s - since_s) >= limit_s)[:MOST]
    return {str(vm): at for vm, at in known.items() if vm not in late}, tuple(late)
