"""The strategies by name, and the warm-up of their compiled code."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from merkatd.cluster import Decision, Floats, Orders, Snapshot
from merkatd.cluster.columns import NO_ROW
from merkatd.cluster.snapshot_json import loads
from merkatd.placement.base.host_shares import LARGEST_LACK, SUM_OF_SHORTFALLS
from merkatd.placement.base.repeatable_random import repeatable_random
from merkatd.placement.base.strategy import Strategy
from merkatd.placement.groups import GroupSettings, groups
from merkatd.placement.groups.cpu_use import limited_to_use, with_leftovers
from merkatd.placement.market.orders.order_clearing import decide_with_orders
from merkatd.placement.tabu.paper import MarketSettings, paper
from merkatd.placement.tabu.tabu import TabuSettings, harm_of, tabu

DEFAULT = "tabu"


@dataclass(frozen=True, slots=True)
class StrategyEntry:
    """A strategy and its default settings."""

    name: str
    summary: str
    settings: Any
    strategy: Strategy[Any]
    by_use: bool = False
    """Whether markets of this strategy charge for used CPU, at each group's spending rate, instead
    of for allocated CPU."""
    harm: Callable[[Any], int] = lambda _settings: SUM_OF_SHORTFALLS
    """Function from the settings to the measure of harm for halves of plans."""
    as_planned: bool = False
    """Whether half of a plan may do as much harm as the whole plan (the plan has another goal)."""
    version: int = 1
    """The version of the strategy's memory; a strategy never gets that of another version."""
    scene: Callable[[Snapshot], Snapshot] = lambda snapshot: snapshot
    """Function to the cloud as the strategy sees it; whole and partial plans are judged by it."""
    shares: Callable[[Snapshot, Decision], Floats] = lambda _snapshot, decision: (
        decision.allocations
    )
    """Function to the allocations that the market gives VMs in that scene."""

    def decide(
        self,
        snapshot: Snapshot,
        settings: Any = None,
        memory: Mapping[str, Any] | None = None,
        random: np.random.Generator | None = None,
    ) -> Decision:
        """Run the strategy; the same arguments give the same decision.

        The settings are the strategy's defaults if `settings` is None, and the random numbers those
        of the snapshot's period in an unnamed market if `random` is None.
        """
        chosen = self.settings if settings is None else settings
        drawn = repeatable_random(0, snapshot.period, "") if random is None else random
        if not (snapshot.vms.order != NO_ROW).any():
            return self.strategy(snapshot, chosen, memory or {}, drawn)
        return decide_with_orders(
            snapshot,
            chosen.pricing,
            lambda seen: self.strategy(seen, chosen, memory or {}, drawn),
        )


STRATEGIES: Mapping[str, StrategyEntry] = {
    entry.name: entry
    for entry in (
        StrategyEntry(
            "tabu",
            "least shortfall weighed by bids, few migrations, even loads (the default)",
            TabuSettings(),
            tabu,
            harm=harm_of,
        ),
        StrategyEntry(
            "paper",
            "Algorithm 1 of the Merkat paper, exactly",
            MarketSettings(),
            paper,
            harm=lambda _settings: LARGEST_LACK,
        ),
        StrategyEntry(
            "groups",
            "VMs in groups of equal price, a group a host, regrouped only when requests change",
            GroupSettings(),
            groups,
            by_use=True,
            as_planned=True,
            scene=limited_to_use,
            shares=with_leftovers,
        ),
    )
}


def strategy_named(name: str) -> StrategyEntry:
    """Return the strategy of this name; the KeyError for an unknown name lists the known names."""
    if name not in STRATEGIES:
        raise KeyError(f"unknown strategy {name!r}: expected one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name]


_SMALL = """
{"merkat_snapshot": 1, "now_s": 0, "period": 0, "resources": ["cpu"],
 "markets": [{"name": "m"}],
 "hosts": [%s],
 "vms": [%s]}
"""
_HOST = '{"id": %d, "name": "%d", "market": "m", "capacity": {"cpu": 100}}'
_VM = '{"id": %d, "host": %s, "state": "%s", "market": "m", "bid": {"cpu": %d}, "cap": {"cpu": 60}}'


def warm_up(entry: StrategyEntry) -> None:
    """Run the strategy on small clouds that exercise all of its compiled code."""
    for hosts, vms in ((2, 4), (8, 24)):
        rows = [_VM % (at, '"0"', "running", 1 + at % 3) for at in range(vms)]
        rows.append(_VM % (vms, "null", "pending", 2))
        text = _SMALL % (",".join(_HOST % (at, at) for at in range(hosts)), ",".join(rows))
        snapshot = loads(text)
        entry.decide(snapshot)
        # One order starts beside its VM that runs, and the other one fits on no hosts.
        order = np.full(vms + 1, NO_ROW)
        order[[0, vms]], order[1:4] = 0, 1
        ordered = replace(
            snapshot, vms=replace(snapshot.vms, order=order), orders=Orders(id=np.arange(2))
        )
        entry.decide(ordered)
