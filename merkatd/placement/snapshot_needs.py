"""The parts of the snapshot that a strategy needs, and where an administrator fills them."""

from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet

import numpy as np

from merkatd.cluster import Bools, Snapshot
from merkatd.placement.contract import Need, StrategyEntry


class UnfilledNeedError(ValueError):
    """The cloud does not fill a part of the snapshot that a strategy needs."""


def _in_markets(snapshot: Snapshot) -> Bools:
    """Return [hosts]: whether the host belongs to a market."""
    inside: Bools = snapshot.hosts.market >= 0
    return inside


_FILLED: Mapping[Need, Callable[[Snapshot], bool]] = {
    Need.DOMAINS: lambda snapshot: any(
        bool((pairs[_in_markets(snapshot), 0] >= 0).any())
        for pairs in snapshot.hosts.domains.values()
    ),
    Need.TOPOLOGY: lambda snapshot: snapshot.hosts.topology.shape[1] > 0,
    Need.HISTORY: lambda snapshot: (
        snapshot.history is not None
        and not bool(np.isnan(snapshot.history.hosts[:, _in_markets(snapshot)]).all())
    ),
}
"""Whether the snapshot has each part. Tenants declare jobs, services and replicated tasks with
their platforms, at any time, so a cloud without any at this moment fills these tables, too."""

ATTRIBUTES: Mapping[Need, str] = {
    Need.JOBS: "platform templates with a table [job]; empty without any",
    Need.SERVICES: "platform templates with a table [service]; empty without any",
    Need.REPLICATED: "platform templates with a table [replicated]; empty without any",
    Need.DOMAINS: "MERKAT_NETWORK_DOMAIN or MERKAT_POWER_DOMAIN in the templates of the hosts",
    Need.TOPOLOGY: "MERKAT_TOPOLOGY in the templates of the hosts",
    Need.HISTORY: "the use of VMs and hosts, which the daemon measures itself",
}
"""Where each part comes from."""

HOST_ATTRIBUTES: Mapping[Need, frozenset[str]] = {
    Need.DOMAINS: frozenset({"MERKAT_NETWORK_DOMAIN", "MERKAT_POWER_DOMAIN"})
}
"""The attributes of hosts of which a market's hosts must have one, for parts without a default."""


def is_filled(snapshot: Snapshot, need: Need) -> bool:
    """Return whether the snapshot of one market has this part; one without hosts lacks nothing."""
    return not _in_markets(snapshot).any() or need not in _FILLED or _FILLED[need](snapshot)


def unfilled(snapshot: Snapshot, needs: Collection[Need]) -> tuple[Need, ...]:
    """Return the needed parts that this snapshot lacks, in a fixed order."""
    return tuple(need for need in Need if need in needs and not is_filled(snapshot, need))


def require_needs(
    entry: StrategyEntry, snapshot: Snapshot, beside: AbstractSet[Need] = frozenset()
) -> None:
    """Raise UnfilledNeedError if the snapshot lacks parts that the strategy needs.

    `beside` are parts that are not checked.
    """
    lacking = unfilled(snapshot, entry.needs - beside)
    if lacking:
        parts = "; ".join(f"{need} ({ATTRIBUTES[need]})" for need in lacking)
        raise UnfilledNeedError(f"strategy {entry.name} needs parts that the cloud lacks: {parts}")
