"""The strategies by name, each with its settings and what it is good for in a sentence."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from merkatd.cluster import Decision, Floats, Snapshot
from merkatd.placement.groups import GroupSettings, groups
from merkatd.placement.groups.computing import computing, with_leftovers
from merkatd.placement.onehost import LARGEST_LACK, SUM_OF_SHORTFALLS
from merkatd.placement.paper import paper
from merkatd.placement.strategy import MarketSettings, Strategy
from merkatd.placement.tabu import TabuSettings, harm_of, tabu

DEFAULT = "tabu"


@dataclass(frozen=True, slots=True)
class Entry:
    """A strategy and what it is told when nobody says otherwise."""

    name: str
    summary: str
    settings: Any
    strategy: Strategy[Any]
    by_use: bool = False
    """A market that it places pays for CPU that was used, at each group's spending rate, instead of
    for what was given."""
    harm: Callable[[Any], int] = lambda _settings: SUM_OF_SHORTFALLS
    """By the settings: the measure by which halves of plans are judged."""
    as_planned: bool = False
    """Whether a half may do as much harm as the whole plan, which has another measure."""
    scene: Callable[[Snapshot], Snapshot] = lambda snapshot: snapshot
    """Returns the cloud as the strategy sees it: by that its plans are judged, whole or in part."""
    shares: Callable[[Snapshot, Decision], Floats] = lambda _snapshot, decision: (
        decision.allocations
    )
    """Returns what VMs get, where the decision has what the market gives them in that scene."""

    def decide(
        self,
        snapshot: Snapshot,
        rng: np.random.Generator,
        memory: Mapping[str, Any] | None = None,
        settings: Any = None,
    ) -> Decision:
        """Run the strategy, with its default settings where none are given."""
        chosen = self.settings if settings is None else settings
        return self.strategy(snapshot, chosen, memory or {}, rng)


STRATEGIES: Mapping[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            "tabu",
            "least shortfall weighed by bids, few migrations, even loads (the default)",
            TabuSettings(),
            tabu,
            harm=harm_of,
        ),
        Entry(
            "paper",
            "Algorithm 1 of the Merkat paper, exactly",
            MarketSettings(),
            paper,
            harm=lambda _settings: LARGEST_LACK,
        ),
        Entry(
            "groups",
            "VMs in groups of equal price, a group a host, regrouped only when requests change",
            GroupSettings(),
            groups,
            by_use=True,
            as_planned=True,
            scene=computing,
            shares=with_leftovers,
        ),
    )
}


def strategy_named(name: str) -> Entry:
    """The strategy of this name; KeyError names those there are."""
    if name not in STRATEGIES:
        raise KeyError(f"no strategy is called {name!r}; there are: {', '.join(STRATEGIES)}")
    return STRATEGIES[name]
