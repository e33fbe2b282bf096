"""The strategies by name, and the warm-up of their compiled code."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from merkatd.cluster import Orders
from merkatd.cluster.columns import NO_ROW
from merkatd.cluster.snapshot_json import loads
from merkatd.placement.base.host_shares import LARGEST_LACK
from merkatd.placement.baselines.best_fit_market import best_fit
from merkatd.placement.baselines.easy_queue import easy
from merkatd.placement.baselines.edf_queue import edf
from merkatd.placement.baselines.fcfs_queue import fcfs
from merkatd.placement.baselines.ffd_sum_market import ffd_sum
from merkatd.placement.baselines.first_fit_market import first_fit
from merkatd.placement.baselines.random_fit_market import random_fit
from merkatd.placement.baselines.size_fitting import Baseline, BaselineSettings, baseline
from merkatd.placement.baselines.worst_fit_market import worst_fit
from merkatd.placement.contract import (
    UNLIMITED_MOVES,
    Allocation,
    Charge,
    MoveLimits,
    Need,
    StrategyEntry,
)
from merkatd.placement.groups import GroupSettings, groups
from merkatd.placement.groups.cpu_use import limited_to_use, with_leftovers
from merkatd.placement.made_up_needs import with_needs
from merkatd.placement.market.orders.order_clearing import clearing_orders
from merkatd.placement.pack.pack import PackSettings, pack
from merkatd.placement.tabu.paper import MarketSettings, paper
from merkatd.placement.tabu.tabu import TabuSettings, harm_of, tabu
from merkatd.placement.utility.application_words import explain_applications
from merkatd.placement.utility.utility_strategy import UtilitySettings, utility

DEFAULT = "tabu"

BASELINES: Mapping[str, tuple[Baseline, str]] = {
    "first-fit": (first_fit, "each new VM on the first host with room for its size"),
    "best-fit": (best_fit, "each new VM on the fullest host with room for its size"),
    "worst-fit": (worst_fit, "each new VM on the emptiest host with room for its size"),
    "random-fit": (random_fit, "each new VM on any host with room for its size"),
    "ffd-sum": (ffd_sum, "the largest new VM first, on the first of the largest hosts with room"),
    "fcfs": (fcfs, "in order of arrival; a VM without room keeps later ones waiting"),
    "easy": (easy, "in order of arrival; VMs that do not delay the first that waits pass it"),
    "edf": (edf, "the new VM whose job has the earliest deadline first"),
}
"""By name: strategies that know no bids, for comparisons. Bids divide the hosts."""
_PART_OF_VMS = MoveLimits(
    most=lambda settings, vms: settings.m_max(vms),
    settings=frozenset({"m_max_part", "m_max_least"}),
)

_ENTRIES = {
    entry.name: entry
    for entry in (
        StrategyEntry(
            "tabu",
            "least shortfall weighed by bids, few migrations, even loads (the default)",
            TabuSettings,
            clearing_orders(tabu),
            moves=replace(
                _PART_OF_VMS,
                hold_s=lambda settings: settings.hold_s,
                settings=_PART_OF_VMS.settings | {"hold_s"},
            ),
            harm=harm_of,
        ),
        StrategyEntry(
            "paper",
            "Algorithm 1 of the Merkat paper, exactly",
            MarketSettings,
            clearing_orders(paper),
            moves=_PART_OF_VMS,
            harm=lambda _settings: LARGEST_LACK,
        ),
        StrategyEntry(
            "groups",
            "VMs in groups of equal price, a group a host, regrouped only when requests change",
            GroupSettings,
            clearing_orders(groups),
            moves=UNLIMITED_MOVES,
            charges=Charge.USE,
            as_planned=True,
            scene=limited_to_use,
            shares=with_leftovers,
        ),
        StrategyEntry(
            "pack",
            "new VMs on the fullest host that has room, no migrations for gain",
            PackSettings,
            clearing_orders(pack),
            moves=MoveLimits(
                most=lambda settings, _vms: settings.m_max, settings=frozenset({"m_max"})
            ),
        ),
        StrategyEntry(
            "utility",
            "jobs and services about equally satisfied, by their goals, without bids",
            UtilitySettings,
            utility,
            moves=MoveLimits(
                most=lambda settings, _vms: settings.most_moves,
                hold_s=lambda settings: settings.hold_s,
                settings=frozenset({"most_moves", "hold_s"}),
            ),
            allocates=Allocation.OWN,
            charges=Charge.NONE,
            needs=frozenset({Need.JOBS, Need.SERVICES}),
            explain=explain_applications,
        ),
        *(
            StrategyEntry(
                name,
                f"baseline: {what}",
                BaselineSettings,
                clearing_orders(baseline(place)),
                moves=MoveLimits(
                    most=lambda settings, _vms: settings.m_max, settings=frozenset({"m_max"})
                ),
            )
            for name, (place, what) in BASELINES.items()
        ),
    )
}
STRATEGIES: Mapping[str, StrategyEntry] = _ENTRIES


def add_strategy(entry: StrategyEntry) -> None:
    """Add a strategy to those of this process. Raise ValueError if its name is taken."""
    if entry.name in _ENTRIES:
        raise ValueError(f"there is already a strategy {entry.name!r}")
    _ENTRIES[entry.name] = entry


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
    """Run the strategy on small clouds that exercise all of its compiled code.

    The clouds have made-up values in the parts that the strategy needs.
    """
    for hosts, vms in ((2, 4), (8, 24)):
        rows = [_VM % (at, '"0"', "running", 1 + at % 3) for at in range(vms)]
        rows.append(_VM % (vms, "null", "pending", 2))
        text = _SMALL % (",".join(_HOST % (at, at) for at in range(hosts)), ",".join(rows))
        snapshot = with_needs(loads(text), entry.needs)
        entry.decide(snapshot)
        # One order starts beside its VM that runs, and the other one fits on no hosts.
        order = np.full(vms + 1, NO_ROW)
        order[[0, vms]], order[1:4] = 0, 1
        ordered = replace(
            snapshot, vms=replace(snapshot.vms, order=order), orders=Orders(id=np.arange(2))
        )
        entry.decide(ordered)
