"""The progress of an application with several clusters: the slowest cluster counts.

Each cluster has its own monitor. Effort is counted for all clusters together: it depends on the
allocations of all VMs of the platform.
"""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from controllers.applications.application_progress import Progress


@dataclass(frozen=True, slots=True)
class Parts:
    """The progress of each cluster, stored in the controller's memory."""

    by_cluster: Mapping[str, Progress]

    @classmethod
    def of(cls, memory: Mapping[str, Any], clusters: Collection[str]) -> "Parts":
        """Restore the progress from a memory, also from the older format without clusters."""
        if all(isinstance(value, Mapping) for value in memory.values()):
            names = dict.fromkeys((*clusters, *memory))
            return cls({name: Progress.of(memory.get(name, {})) for name in names})
        progress = Progress.of(memory)
        if len(clusters) > 1:  # of an unknown cluster: used for all until their monitors report
            progress = replace(progress, seen_s=0.0, exit=None, marks=())
        return cls(dict.fromkeys(clusters, progress))

    def kept(self) -> dict[str, Any]:
        """Return the progress as values for the controller's memory."""
        return {name: progress.kept() for name, progress in self.by_cluster.items()}

    def told_of_vms(self, at_s: float, part: float, most_s: float, *, whole: bool) -> "Parts":
        """Return all parts after news about the VMs; parts wait for each other's VMs."""
        now = self.by_cluster.items()
        return Parts(
            {name: progress.told_of_vms(at_s, part, most_s, whole=whole) for name, progress in now}
        )

    def after(
        self, cluster: str, at_s: float, values: Mapping[str, float], most_s: float
    ) -> "Parts":
        """Return all parts after a report of one cluster's monitor."""
        before = self.by_cluster.get(cluster, Progress())
        return Parts({**self.by_cluster, cluster: before.after(at_s, values, most_s)})

    def counting(self, unheard: AbstractSet[str]) -> Mapping[str, Progress]:
        """Return by cluster the parts that take part in the work.

        A cluster whose monitor has reported, but without iterations, takes no part: none of its
        VMs has a log. A cluster whose monitor is `unheard` may take part.
        """
        now = self.by_cluster.items()
        counting_now = {
            name: progress for name, progress in now if progress.reported or name in unheard
        }
        return counting_now or self.by_cluster


def slowest(parts: Iterable[Progress], steps: int, ideal_run_s: float | None) -> Progress:
    """Return the part with the most time left; a part with unknown pace counts as slowest.

    A part that has ended has no time left.
    """

    def left(progress: Progress) -> tuple[float, int]:
        if progress.over(steps):
            return 0.0, -progress.done
        work = progress.work(steps, ideal_run_s)
        known = progress.measured or ideal_run_s is not None
        return work.left * progress.pace_s(work.ideal_step_s) if known else inf, -progress.done

    return max(parts, key=left)
