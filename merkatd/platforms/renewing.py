"""VMs that failed, or that OpenNebula refuses to make: which are made anew, which are given up."""

from collections import Counter
from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from merkatd.database import doings, fleets
from merkatd.database.doings import Doing
from merkatd.database.fleets import Member
from merkatd.database.platforms import Platform
from merkatd.platforms.fleet import MOST_REFUSALS, Counts, Sight
from merkatd.platforms.life import UP_OR_COMING, State
from merkatd.platforms.passing import MANAGER, resized
from merkatd.platforms.replacing import Failures, exhausted, replaced


def failures_of(
    platform: Platform, failures: Mapping[tuple[int, str], Sequence[float]]
) -> dict[str, Failures]:
    """By cluster, when VMs of a platform had failed, of those of all platforms."""
    return {
        cluster: Failures(tuple(at_s))
        for (owner, cluster), at_s in failures.items()
        if owner == platform.id
    }


def failing_now(
    members: Sequence[Member], sight: Sight, failures: Mapping[str, Failures], at_s: float
) -> str:
    """Of a cluster of which too many have failed: what is the matter with the last one."""
    failed = _failed(members, sight)
    over = exhausted(failures, at_s)
    return next(
        (f"VM {vm} is {words}" for name in over for _, vm, words in failed.get(name, [])), ""
    )


def made_anew(
    connection: sa.Connection,
    platform: Platform,
    members: Sequence[Member],
    sight: Sight,
    failures: Mapping[str, Failures],
    at_s: float,
    interval_s: float,
) -> frozenset[str]:
    """Keys of those that have failed and are made anew now; it is written down why."""
    if State(platform.state) not in UP_OR_COMING:
        return frozenset()
    found = replaced(_failed(members, sight), failures, at_s, interval_s)
    keys = frozenset(one.key for one in found)
    fleets.fail(connection, keys, at_s)
    for one in found:
        doing = Doing(platform=platform.id, at_s=at_s, who=MANAGER, what="replace", text=one.text)
        doings.add(connection, doing)
    return keys


def without_refused(
    connection: sa.Connection,
    platform: Platform,
    members: Sequence[Member],
    counted: Counts,
    sight: Sight,
    at_s: float,
) -> tuple[Platform, Sequence[Member]]:
    """One that runs goes on without the VMs that OpenNebula refuses to make."""
    if not counted.trouble or State(platform.state) not in UP_OR_COMING:
        return platform, members
    refused = sight.refused or {}
    given_up = [
        one
        for one in members
        if one.vm is None and refused.get(one.key, (0, ""))[0] >= MOST_REFUSALS
    ]
    fleets.lose(connection, [one.key for one in given_up], at_s)
    fewer = Counter(one.cluster for one in given_up if not one.leaving)
    sizes = {name: max(size - fewer[name], 0) for name, size in platform.sizes.items()}
    doing = Doing(
        platform=platform.id,
        at_s=at_s,
        who=MANAGER,
        what="size",
        text=f"goes on without {len(given_up)} VMs: {counted.trouble}",
        refused=True,
    )
    keys = {one.key for one in given_up}
    left = [one for one in members if one.key not in keys]
    return resized(connection, platform, sizes, doing), left


def _failed(members: Sequence[Member], sight: Sight) -> dict[str, list[tuple[str, int, str]]]:
    """By cluster, those that have failed: key, id and OpenNebula's word for it."""
    found: dict[str, list[tuple[str, int, str]]] = {}
    for one in members:
        if one.vm in sight.failed and one.vm is not None and not one.leaving:
            found.setdefault(one.cluster, []).append((one.key, one.vm, sight.failed[one.vm]))
    return found
