"""How far each cluster of an application is, each by its own monitor: the slowest one counts.

Effort is counted for all of them together: it is what the VMs of the whole platform have.
"""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from controllers.applications.application_progress import Progress


@dataclass(frozen=True, slots=True)
class Parts:
    """The progress of each cluster; a controller keeps it in its memory."""

    by_cluster: Mapping[str, Progress]

    @classmethod
    def of(cls, memory: Mapping[str, Any], clusters: Collection[str]) -> "Parts":
        """As it was kept: by cluster, or, as it once was, that of the last one to tell."""
        if all(isinstance(one, Mapping) for one in memory.values()):
            names = dict.fromkeys((*clusters, *memory))
            return cls({name: Progress.of(memory.get(name, {})) for name in names})
        last = Progress.of(memory)
        if len(clusters) > 1:  # of one of them: it stands for all until a monitor tells
            last = replace(last, seen_s=0.0, exit=None, marks=())
        return cls(dict.fromkeys(clusters, last))

    def kept(self) -> dict[str, Any]:
        """For a controller's memory."""
        return {name: one.kept() for name, one in self.by_cluster.items()}

    def told_of_vms(self, at_s: float, part: float, most_s: float, *, whole: bool) -> "Parts":
        """When news have told of the VMs of all of them: a part waits for the VMs of another."""
        now = self.by_cluster.items()
        return Parts({name: one.told_of_vms(at_s, part, most_s, whole=whole) for name, one in now})

    def after(
        self, cluster: str, at_s: float, values: Mapping[str, float], most_s: float
    ) -> "Parts":
        """When the monitor of one has told more."""
        before = self.by_cluster.get(cluster, Progress())
        return Parts({**self.by_cluster, cluster: before.after(at_s, values, most_s)})

    def counting(self, unheard: AbstractSet[str]) -> Mapping[str, Progress]:
        """By cluster, those that have a part in the work: an `unheard` monitor may tell of one too.

        Where a monitor was heard and tells of no iterations there are none, as where no VM of a
        cluster has a log.
        """
        now = self.by_cluster.items()
        told = {name: one for name, one in now if one.told or name in unheard}
        return told or self.by_cluster


def slowest(parts: Iterable[Progress], steps: int, ideal_run_s: float | None) -> Progress:
    """The one that has most time left to go; before all, one whose pace is not known.

    One that is over has none left.
    """

    def left(one: Progress) -> tuple[float, int]:
        if one.over(steps):
            return 0.0, -one.done
        work = one.work(steps, ideal_run_s)
        known = one.measured or ideal_run_s is not None
        return work.left * one.pace_s(work.ideal_step_s) if known else inf, -one.done

    return max(parts, key=left)
