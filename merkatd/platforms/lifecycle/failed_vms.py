"""VMs that failed, and VMs that OpenNebula refuses to create: replacement and giving up."""

from collections import Counter
from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from merkatd.base.quantities import duration_text
from merkatd.database.fleets import fleet_store, platform_store
from merkatd.database.fleets.fleet_store import PLATFORM_VMS, PlatformMember
from merkatd.database.fleets.platform_store import PlatformAction, PlatformRow
from merkatd.fleets.fleet import MOST_REFUSALS
from merkatd.platforms.lifecycle.fleet_plan import PlatformFleetView
from merkatd.platforms.lifecycle.new_vms import ReplacementTimes, exhausted, replaced
from merkatd.platforms.lifecycle.platform_template import PlatformTemplate
from merkatd.platforms.lifecycle.transitions import MANAGER, record_size
from merkatd.platforms.rules.lifecycle_events import UP_OR_COMING, FleetCounts, PlatformState


def failures_of(
    platform: PlatformRow, failures: Mapping[tuple[int, str], Sequence[float]]
) -> dict[str, ReplacementTimes]:
    """Return one platform's VM failures by cluster, from the failures of all platforms."""
    return {
        cluster: ReplacementTimes(tuple(at_s))
        for (owner, cluster), at_s in failures.items()
        if owner == platform.id
    }


def failing_now(
    members: Sequence[PlatformMember],
    sight: PlatformFleetView,
    failures: Mapping[str, ReplacementTimes],
    at_s: float,
) -> str:
    """Describe a failed VM of a cluster with too many failures; empty if no cluster has them."""
    failed = _failed(members, sight)
    over = exhausted(failures, at_s)
    return next(
        (f"VM {vm} is {words}" for name in over for _, vm, words in failed.get(name, [])), ""
    )


def record_replacements(
    connection: sa.Connection,
    platform: PlatformRow,
    members: Sequence[PlatformMember],
    sight: PlatformFleetView,
    failures: Mapping[str, ReplacementTimes],
    at_s: float,
    interval_s: float,
) -> frozenset[str]:
    """Record the failed VMs to replace now, and return their keys."""
    if PlatformState(platform.state) not in UP_OR_COMING:
        return frozenset()
    replacements = replaced(_failed(members, sight), failures, at_s, interval_s)
    keys = frozenset(replacement.key for replacement in replacements)
    fleet_store.mark_failed(connection, keys, at_s)
    for replacement in replacements:
        doing = PlatformAction(
            platform=platform.id, at_s=at_s, who=MANAGER, what="replace", text=replacement.text
        )
        platform_store.add_action(connection, doing)
    return keys


def without_refused(
    connection: sa.Connection,
    platform: PlatformRow,
    template: PlatformTemplate,
    members: Sequence[PlatformMember],
    counted: FleetCounts,
    sight: PlatformFleetView,
    at_s: float,
) -> tuple[PlatformRow, Sequence[PlatformMember]]:
    """Give up the additional VMs that OpenNebula refuses to a running platform.

    The platform keeps its initial VMs: the daemon retries these, and its tenant reads why they are
    refused. Return the platform and its remaining members.
    """
    if PlatformState(platform.state) not in UP_OR_COMING:
        return platform, members
    given_up = _given_up(platform, template, members, sight) if counted.trouble else []
    keys = {member.key for member in given_up}
    remaining = [member for member in members if member.key not in keys]
    _tell_refused(connection, platform, remaining, sight, at_s)
    if not given_up:
        return platform, remaining
    PLATFORM_VMS.mark_gone(connection, keys, at_s)
    fewer = Counter(member.cluster for member in given_up)
    sizes = {name: size - fewer[name] for name, size in platform.sizes.items()}
    action = PlatformAction(
        platform=platform.id,
        at_s=at_s,
        who=MANAGER,
        what="size",
        text=f"goes on without {len(given_up)} VMs: {counted.trouble}",
        refused=True,
    )
    return record_size(connection, platform, sizes, action), remaining


def _given_up(
    platform: PlatformRow,
    template: PlatformTemplate,
    members: Sequence[PlatformMember],
    sight: PlatformFleetView,
) -> list[PlatformMember]:
    """Return the newest refused VMs of each cluster beyond its least and its initial size."""
    chosen: list[PlatformMember] = []
    for cluster in template.clusters:
        spare = platform.sizes.get(cluster.name, 0) - max(cluster.least, cluster.initial)
        refused = [
            member
            for member in members
            if member.cluster == cluster.name
            and not member.leaving
            and sight.refused_to(member).times >= MOST_REFUSALS
        ]
        chosen += refused[max(len(refused) - max(spare, 0), 0) :]
    return chosen


def _tell_refused(
    connection: sa.Connection,
    platform: PlatformRow,
    members: Sequence[PlatformMember],
    sight: PlatformFleetView,
    at_s: float,
) -> None:
    refused = [member for member in members if sight.refused_to(member).times]
    if not refused:
        return
    worst = max(refused, key=lambda member: sight.refused_to(member).times)
    times, why, _ = sight.refused_to(worst)
    left_s = (sight.retry_s(worst) or sight.at_s) - sight.at_s
    again = f"in {duration_text(left_s)}" if sight.rests(worst) else "now"
    text = f"VM {worst.number} in {worst.cluster} was refused {times} times"
    text += f", and {len(refused) - 1} more were" if len(refused) > 1 else ""
    doing = PlatformAction(
        platform=platform.id,
        at_s=at_s,
        who=MANAGER,
        what="refused",
        text=f"{text}; the next attempt is {again}: {why}",
    )
    platform_store.replace_action(connection, doing)


def _failed(
    members: Sequence[PlatformMember], sight: PlatformFleetView
) -> dict[str, list[tuple[str, int, str]]]:
    """Return key, id and OpenNebula's state name of each failed VM, by cluster."""
    failed_of_cluster: dict[str, list[tuple[str, int, str]]] = {}
    for member in members:
        if member.vm in sight.failed and member.vm is not None and not member.leaving:
            failed_of_cluster.setdefault(member.cluster, []).append(
                (member.key, member.vm, sight.failed[member.vm])
            )
    return failed_of_cluster
