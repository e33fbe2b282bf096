"""What each VM has made of an application, and when the share of a whole cluster is made.

A monitor tells of VMs that run. One that is away may have more to do than those; one whose program
powers it off at its end has nothing to do any more.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Final

from controllers.applications.application_progress import Progress
from controllers.applications.market_position import UNKNOWN, UnresponsiveVms
from controllers.measurements import ENDED, MADE
from merkatd.protocol.platform_messages import News

"""How a monitor names the iterations that the log of one VM tells of,"""
"""and the exit code of one whose program has ended well."""
_COMING: Final = frozenset({"pending", "busy"})
Made = tuple[int, int]
"""Iterations that a VM has made, and could have made at the next look."""


@dataclass(frozen=True, slots=True)
class WorkShare:
    """That of one cluster."""

    logs: int = 0
    """So many of its VMs had a log at once, at the most."""
    made: Mapping[int, Made] = field(default_factory=dict)

    def after(self, values: Mapping[str, float], steps: int) -> "WorkShare":
        """When its monitor has told more; what has ended well has made all `steps`."""
        told = {vm: int(count) for vm, count in _of_vms(values, MADE).items()}
        made = dict(self.made)
        for vm, count in told.items():
            before = self.made.get(vm, (count, count))[0]
            made[vm] = count, count + max(count - before, 1)
        made |= dict.fromkeys(_of_vms(values, ENDED), (steps, steps))
        return WorkShare(max(self.logs, len(told)), made)

    def over(self, cluster: str, news: News, steps: int) -> AbstractSet[int]:
        """Those of its VMs that have made all, or could have before they went off."""
        found = set()
        for one in news.vms:
            made, could = self.made.get(one.vm, (0, 0))
            runs = one.state in {"running", "pending", UNKNOWN}
            if one.cluster == cluster and not one.leaving and (made if runs else could) >= steps:
                found.add(one.vm)
        return found

    def complete(
        self, cluster: str, news: News, steps: int, missed: AbstractSet[int], *, told_of_all: bool
    ) -> bool:
        """Whether as many VMs as ever had a log have made all, and none is still to come.

        `missed` have never answered. Where a monitor tells nothing of each VM, it must have told
        of all.
        """
        mine = [one for one in news.vms if one.cluster == cluster and not one.leaving]
        size, over = news.sizes.get(cluster, len(mine)), self.over(cluster, news, steps)
        absent = {one.vm for one in mine if one.vm in missed and one.state == "running"}
        if not self.logs:
            return told_of_all and not absent
        coming = absent | {one.vm for one in mine if one.state in _COMING}
        whole = len(mine) >= size and coming <= over
        return whole and len(over) >= min(self.logs, size)

    def least(self, cluster: str, news: News) -> int:
        """What the slowest of its VMs has made: one that is still to come has made nothing."""
        there = [one.vm for one in news.vms if one.cluster == cluster and not one.leaving]
        made = [self.made[vm][0] for vm in there if vm in self.made]
        return min(made) if len(made) >= max(self.logs, 1) else 0


@dataclass(frozen=True, slots=True)
class Shares:
    """Those of all clusters whose monitors tell of each VM."""

    by_cluster: Mapping[str, WorkShare] = field(default_factory=dict)

    @classmethod
    def of(cls, memory: Mapping[str, Any]) -> "Shares":
        """As they were kept."""
        return cls({name: _read(one) for name, one in memory.items()})

    def kept(self, present: AbstractSet[int] | None = None) -> dict[str, Any]:
        """For a controller's memory: where `present` are given, of these VMs alone."""
        return {
            name: {
                "logs": one.logs,
                "made": {
                    str(vm): list(made)
                    for vm, made in one.made.items()
                    if present is None or vm in present
                },
            }
            for name, one in self.by_cluster.items()
        }

    def after(self, cluster: str, values: Mapping[str, float], steps: int) -> "Shares":
        """When the monitor of a cluster has told more."""
        return Shares({**self.by_cluster, cluster: self.share(cluster).after(values, steps)})

    def share(self, cluster: str) -> WorkShare:
        """That of a cluster."""
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
        """These parts: one that is over in the VMs that run is as far as those that are away.

        `whole`: all VMs of the platform run now.
        """
        found = dict(parts)
        for name, one in parts.items():
            share, missed = self.share(name), {*map(int, absent.by_cluster.get(name, ()))}
            told_of_all = whole or (one.whole and one.seen_s < news.at_s)
            if not one.over(steps) or share.complete(
                name, news, steps, missed, told_of_all=told_of_all
            ):
                continue
            least = share.least(name, news) if share.logs else one.done
            found[name] = replace(one, done=min(least, steps - 1), exit=one.exit or None)
        return found

    def over(self, news: News, steps: int) -> AbstractSet[int]:
        """VMs of all clusters that have nothing to do any more."""
        return {vm for name, one in self.by_cluster.items() for vm in one.over(name, news, steps)}


def _of_vms(values: Mapping[str, float], prefix: str) -> dict[int, float]:
    """By VM, what a monitor names so."""
    found = {}
    for name, value in values.items():
        vm = name.removeprefix(prefix)
        if vm != name and vm.isdecimal():
            found[int(vm)] = value
    return found


def _read(kept: Mapping[str, Any]) -> WorkShare:
    made = {int(vm): (int(done), int(could)) for vm, (done, could) in kept["made"].items()}
    return WorkShare(int(kept["logs"]), made)
