"""Settings of the period: its rhythm, its goods and markets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from merkatd.placement.contract import (
    Allocation,
    Charge,
    Pricing,
    StrategyEntry,
    with_pricing,
)
from merkatd.placement.registry import strategy_named

RESOURCES = ("cpu", "memory")
"""The goods that are always traded: CPU in percent of a core, memory in MiB."""

FURTHER = ("network", "disk")
"""The optional goods: network in Mbit/s each way, disk in MiB/s read and written."""

ALL_GOODS = (*RESOURCES, *FURTHER)


_NEARLY = 0.9
"""The part of an interval that counts as a whole one: real intervals differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodsSettings:
    """Optional goods, and the amount of a host that does not state its own."""

    network: bool = False
    """Whether network bandwidth is traded: a VM may send its share, and receive as much."""
    disk: bool = False
    """Whether disk bandwidth is traded: a VM may read and write its share in total."""
    host_network_mbit_s: float = 1_000.0
    """A host's network bandwidth each way, unless MERKAT_NETWORK in its template states another
    (Mbit/s)."""
    host_disk_mib_s: float = 200.0
    """A host's disk bandwidth, unless MERKAT_DISK in its template states another (MiB/s)."""

    @property
    def further(self) -> tuple[str, ...]:
        """The optional goods that are traded, in their order."""
        wanted = {"network": self.network, "disk": self.disk}
        return tuple(name for name in FURTHER if wanted[name])

    @property
    def resources(self) -> tuple[str, ...]:
        """All traded goods, in the order of all columns."""
        return (*RESOURCES, *self.further)

    def of_a_host(self, name: str) -> float:
        """Return the default amount of an optional good per host."""
        return {"network": self.host_network_mbit_s, "disk": self.host_disk_mib_s}[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """Intervals, time limits and retention."""

    interval_s: float = 60.0
    """The time from the start of one period to the start of the next."""
    least_interval_s: float = 1.0
    """The least time between the starts of two periods, if an event starts the second one early.
    The pause after a period is also at least as long as the period was, up to an interval."""
    settle_s: float = 5.0
    """The daemon draws no conclusion from an unchanged VM until this time after it sent a step,
    because OpenNebula answers before the VM's state changes."""
    step_limit_s: float = 300.0
    """The time after which the daemon gives up a step whose effect it has not seen."""
    migration_limit_s: float = 1800.0
    """The same as `step_limit`, for steps that move the memory of a VM, such as migrations."""
    boot_limit_s: float = 900.0
    """The same as `step_limit`, for hosts that were woken: the time that they may take to boot."""
    shutdown_s: float = 120.0
    """The time for which a host that was switched off is not woken: while it shuts down, it would
    ignore the command."""
    in_flight: int = 16
    """The most calls for steps at the same time."""
    in_flight_per_host: int = 2
    """The most calls for steps on one host at the same time."""
    new_vms: int = 100
    """The most VMs of one owner that platforms and groups create in a period."""
    act_limit_s: float = 30.0
    """The time for which a period sends steps and waits for answers. Later answers count too."""
    tell_limit_s: float = 5.0
    """The time for which a period writes messages to VMs (SCHED_MESSAGE). The remaining VMs come
    first in the next period."""
    boot_retries: int = 1
    """The number of times the daemon restarts a VM that failed to boot, on the same host. After
    that an administrator must act."""
    most_periods_charged: float = 2.0
    """The longest time that one charge covers, in periods, for example after the daemon was
    stopped. The time beyond it is free of charge."""
    least_charge_s: float = 10.0
    """The least charged time of a VM that ran between two observations, limited to the time between
    them."""
    arrival_look_s: float = 5.0
    """After a period, the daemon looks for new guests on the hosts of managed VMs at this interval.
    A new guest gets its limits at once, even if its owner started it. 0: the next period finds new
    guests."""
    keep_allocations: int = 10_080
    """The number of intervals for which details are kept: allocations, steps and bids. The default
    is a week."""
    keep_history_s: float = 366 * 86_400.0
    """The retention time of history: prices, statements, orders, and ended platforms and groups."""

    def part_since(self, since_s: float | None, now_s: float) -> float:
        """Return the part of an interval from then until now; 1 for a whole one, or if unknown."""
        if since_s is None:
            return 1.0
        part = (now_s - since_s) / self.interval_s
        return part if 0.0 <= part < _NEARLY else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketRules:
    """One market: its clusters, its strategy, its prices."""

    name: str = "default"
    clusters: frozenset[int] | None = None
    """The ids of its clusters in OpenNebula; without ids and names, all clusters of no other
    market."""
    cluster_names: frozenset[str] | None = None
    """The names of further clusters."""
    strategy: str = "tabu"
    strategy_settings: Any = None
    """The settings of the strategy in this market, without prices; its defaults if None."""
    pricing: Pricing = field(default_factory=Pricing)
    default_bid: Mapping[str, float] = field(default_factory=lambda: {"cpu": 1.0, "memory": 1.0})
    """The bid of a VM without any other bid; 0 for resources that are left out."""
    group_bids: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The default bids of VMs of single groups, by group name."""
    excluded_groups: frozenset[str] | None = None
    """OpenNebula groups whose VMs belong to no market: they are not placed, moved, limited or
    charged, and their full size is reserved where they run. Only administrators assign groups."""
    floor_part: float = 0.25
    """The part of its memory that is a VM's floor until its use is known."""
    floor_margin: float = 0.15
    """The margin between a VM's used memory and its floor, as a part of the use."""

    @property
    def entry(self) -> StrategyEntry:
        """The market's strategy."""
        return strategy_named(self.strategy)

    @property
    def settings_in_force(self) -> Any:
        """The settings of the market's strategy, with the market's prices."""
        own = self.strategy_settings
        return with_pricing(self.entry.defaults if own is None else own, self.pricing)

    @property
    def has_the_rest(self) -> bool:
        """Whether it has all clusters that no other market has."""
        return self.clusters is None and self.cluster_names is None

    @property
    def bids_bound(self) -> bool:
        """Whether a bid buys no more than it pays for at the reserve prices.

        A VM pays its bid at most. Without this bound the smallest bid would buy all idle cores.
        """
        return self.sells_shares and not self.pricing.whole_bids

    @property
    def sells_shares(self) -> bool:
        """Whether bids divide its hosts, and VMs pay for their shares."""
        entry = self.entry
        return entry.allocates is Allocation.SHARES and entry.charges is Charge.SHARES

    @property
    def states_amounts(self) -> bool:
        """Whether its strategy states what each VM gets, so that bids have no effect."""
        return self.entry.allocates is Allocation.OWN

    @property
    def is_free(self) -> bool:
        """Whether its strategy charges nothing."""
        return self.entry.charges is Charge.NONE

    @property
    def by_use(self) -> bool:
        """Whether CPU use is charged at a spending rate, and no other resource is sold."""
        return self.entry.by_use
