"""A strategy that reads every part of the snapshot that it needs, and fails without it."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from merkatd.cluster import Decision, Snapshot
from merkatd.placement.contract import Need, StrategyEntry
from merkatd.placement.registry import STRATEGIES

ALL_NEEDS = frozenset(Need)


def needy(needs: Collection[Need] = ALL_NEEDS, plain: str = "paper") -> StrategyEntry:
    """Return a registered strategy that also reads these parts, and counts its periods."""
    entry = STRATEGIES[plain]

    def strategy(
        snapshot: Snapshot, settings: Any, memory: Mapping[str, Any], random: np.random.Generator
    ) -> Decision:
        for need in needs:
            _read(snapshot, need)
        made = entry.strategy(snapshot, settings, {}, random)
        return replace(made, memory={"periods": memory.get("periods", 0) + 1})

    return replace(entry, name="needy", needs=frozenset(needs), strategy=strategy)


def _read(snapshot: Snapshot, need: Need) -> None:
    """Look at the part as a strategy does that trusts its entry."""
    mine = snapshot.hosts.market >= 0
    if need in {Need.JOBS, Need.SERVICES, Need.REPLICATED}:
        numbers = getattr(snapshot, need.value).application
        np.isin(snapshot.vms.application, numbers)
    elif not mine.any():
        return
    elif need is Need.DOMAINS:
        pairs = np.concatenate([pairs[mine, 0] for pairs in snapshot.hosts.domains.values()])
        assert pairs[pairs >= 0].min() >= 0
    elif need is Need.TOPOLOGY:
        assert snapshot.hosts.topology[mine, -1].max() >= 0
    else:
        history = snapshot.history
        assert history is not None
        known = history.hosts[:, mine]
        assert known[~np.isnan(known)].max() >= 0
