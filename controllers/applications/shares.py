"""The iterations that each VM has made, and the end of a whole cluster's share of the work.

A monitor reports running VMs only. A VM that is away may have more work left than those. A VM that
its program powers off at the end has no work left.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Final

from controllers.applications.application_progress import Progress
from controllers.applications.market_position import UNKNOWN, UnresponsiveVms
from controllers.measurements import ENDED
from merkatd.protocol.measurement_names import MADE
from merkatd.protocol.platform_messages import News

_COMING: Final = frozenset({"pending", "busy"})
Made = tuple[int, int]
"""The iterations that a VM has made, and those that it may have made by the next look."""


@dataclass(frozen=True, slots=True)
class WorkShare:
    """The share of one cluster in the work."""

    logs: int = 0
    """The highest number of its VMs that had a log at the same time."""
    made: Mapping[int, Made] = field(default_factory=dict)

    def after(self, values: Mapping[str, float], steps: int) -> "WorkShare":
        """Return the share after a report; a VM that ended successfully has made all `steps`."""
        counts = {vm: int(count) for vm, count in _of_vms(values, MADE).items()}
        made = dict(self.made)
        for vm, count in counts.items():
            before = self.made.get(vm, (count, count))[0]
            made[vm] = count, count + max(count - before, 1)
        made |= dict.fromkeys(_of_vms(values, ENDED), (steps, steps))
        return WorkShare(max(self.logs, len(counts)), made)

    def over(self, cluster: str, news: News, steps: int) -> AbstractSet[int]:
        """Return its VMs that have made all iterations, or may have before their power-off."""
        complete = set()
        for vm in news.vms:
            made, could = self.made.get(vm.vm, (0, 0))
            runs = vm.state in {"running", "pending", UNKNOWN}
            if vm.cluster == cluster and not vm.leaving and (made if runs else could) >= steps:
                complete.add(vm.vm)
        return complete

    def complete(
        self, cluster: str, news: News, steps: int, missed: AbstractSet[int], *, told_of_all: bool
    ) -> bool:
        """Return whether the share is complete.

        As many VMs as ever had a log must have made all iterations, and no VM may be still coming.
        `missed` are VMs that never answered. If the monitor does not report each VM, it must have
        reported all of them together.
        """
        mine = [vm for vm in news.vms if vm.cluster == cluster and not vm.leaving]
        size, over = news.sizes.get(cluster, len(mine)), self.over(cluster, news, steps)
        absent = {vm.vm for vm in mine if vm.vm in missed and vm.state == "running"}
        if not self.logs:
            return told_of_all and not absent
        coming = absent | {vm.vm for vm in mine if vm.state in _COMING}
        whole = len(mine) >= size and coming <= over
        return whole and len(over) >= min(self.logs, size)

    def least(self, cluster: str, news: News) -> int:
        """Return the iterations of its slowest VM; a VM that is still coming has made none."""
        there = [vm.vm for vm in news.vms if vm.cluster == cluster and not vm.leaving]
        made = [self.made[vm][0] for vm in there if vm in self.made]
        return min(made) if len(made) >= max(self.logs, 1) else 0


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares of all clusters whose monitors report each VM."""

    by_cluster: Mapping[str, WorkShare] = field(default_factory=dict)

    @classmethod
    def of(cls, memory: Mapping[str, Any]) -> "Shares":
        """Restore the shares from a controller's memory."""
        return cls({name: _read(share) for name, share in memory.items()})

    def kept(self, present: AbstractSet[int] | None = None) -> dict[str, Any]:
        """Return the shares as values for a controller's memory, of the `present` VMs if given."""
        return {
            name: {
                "logs": share.logs,
                "made": {
                    str(vm): list(made)
                    for vm, made in share.made.items()
                    if present is None or vm in present
                },
            }
            for name, share in self.by_cluster.items()
        }

    def after(self, cluster: str, values: Mapping[str, float], steps: int) -> "Shares":
        """Return the shares after a report of a cluster's monitor."""
        return Shares({**self.by_cluster, cluster: self.share(cluster).after(values, steps)})

    def share(self, cluster: str) -> WorkShare:
        """Return the share of a cluster."""
        return self.by_cluster.get(cluster, WorkShare())

    def counted(
        self,
        parts: Mapping[str, Progress],
        absent: UnresponsiveVms,
        news: News,
        steps: int,
        *,
        whole: bool,
    ) -> dict[str, Progress]:
        """Return the parts, corrected for VMs that are away.

        A part that has ended in all running VMs is only as far as its VMs that are away. `whole`
        says whether all VMs of the platform run now.
        """
        parts_told = dict(parts)
        for name, progress in parts.items():
            share, missed = self.share(name), {*map(int, absent.by_cluster.get(name, ()))}
            told_of_all = whole or (progress.whole and progress.seen_s < news.at_s)
            if not progress.over(steps) or share.complete(
                name, news, steps, missed, told_of_all=told_of_all
            ):
                continue
            least = share.least(name, news) if share.logs else progress.done
            parts_told[name] = replace(
                progress, done=min(least, steps - 1), exit=progress.exit or None
            )
        return parts_told

    def over(self, news: News, steps: int) -> AbstractSet[int]:
        """Return the VMs of all clusters that have no work left."""
        return {
            vm for name, share in self.by_cluster.items() for vm in share.over(name, news, steps)
        }


def _of_vms(values: Mapping[str, float], prefix: str) -> dict[int, float]:
    """Return the measurements with this prefix, by VM id."""
    numbers = {}
    for name, value in values.items():
        vm = name.removeprefix(prefix)
        if vm != name and vm.isdecimal():
            numbers[int(vm)] = value
    return numbers


def _read(kept: Mapping[str, Any]) -> WorkShare:
    made = {int(vm): (int(done), int(could)) for vm, (done, could) in kept["made"].items()}
    return WorkShare(int(kept["logs"]), made)
