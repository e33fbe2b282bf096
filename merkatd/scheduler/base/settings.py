"""What the period is told: its rhythm, its patience, its markets."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from merkatd.database.scheduler.order_store import Mode
from merkatd.placement.base.strategy import Pricing
from merkatd.placement.registry import strategy_named

RESOURCES = ("cpu", "memory")
"""What is traded: CPU in percent of a core, memory in MiB."""

FURTHER = ("network", "disk")
"""What is traded too where that is wanted: Mbit/s each way, and MiB/s read and written."""

ALL_GOODS = (*RESOURCES, *FURTHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodsSettings:
    """What is traded besides CPU and memory, and what of it a host has that does not say so."""

    network: bool = False
    """Whether network bandwidth is traded: what a VM may send, and as much that it may receive."""
    disk: bool = False
    """Whether disk bandwidth is traded: what a VM may read and write together."""
    host_network_mbit_s: float = 1_000.0
    """What a host has for its VMs each way, unless MERKAT_NETWORK in its template says other
    Mbit/s."""
    host_disk_mib_s: float = 200.0
    """What a host has for its VMs, unless MERKAT_DISK in its template says other MiB/s."""

    @property
    def further(self) -> tuple[str, ...]:
        """The goods besides CPU and memory, in their order."""
        wanted = {"network": self.network, "disk": self.disk}
        return tuple(name for name in FURTHER if wanted[name])

    @property
    def resources(self) -> tuple[str, ...]:
        """All that is traded, in the order of all columns."""
        return (*RESOURCES, *self.further)

    def of_a_host(self, name: str) -> float:
        """What a host has of one of the further goods."""
        return {"network": self.host_network_mbit_s, "disk": self.host_disk_mib_s}[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """When things happen, and when they are given up."""

    interval_s: float = 60.0
    """From the start of one period to the start of the next."""
    least_interval_s: float = 5.0
    """Where something happened a period begins early, but no sooner than this after the last."""
    settle_s: float = 5.0
    """OpenNebula answers before a VM's state moves: for so long after a step was sent, a VM
    that looks as before proves nothing."""
    step_limit_s: float = 300.0
    """After which a step that was not seen to happen is given up,"""
    migration_limit_s: float = 1800.0
    """and one that carries a VM's memory."""
    in_flight: int = 16
    """The most calls for steps at a time,"""
    in_flight_per_host: int = 2
    """and the most that concern one host."""
    new_vms: int = 100
    """The most VMs of one owner that are made in a period, for platforms and groups."""
    act_limit_s: float = 30.0
    """How long a period sends steps and waits for answers; later ones are taken when they come."""
    tell_limit_s: float = 5.0
    """How long a period writes messages to VMs (SCHED_MESSAGE). The VMs that are left come first
    in the next period."""
    boot_retries: int = 1
    """How often a VM that failed to boot is started once more, where it is. After that somebody
    has to see to it."""
    most_periods_charged: float = 2.0
    """A charge is for the time that really passed, but for no more than so many periods."""
    least_charge_s: float = 10.0
    """A VM that ran at all between two observations is charged for so long at least, and for no
    longer than the time between them."""
    arrival_look_s: float = 5.0
    """After a period, hosts of managed VMs are asked this often which guests began to run. As soon
    as a VM runs it gets its limits, also when its owner starts it anew. 0: no sooner than in the
    next period."""
    keep_allocations: int = 10_080
    """For how many intervals details are kept: allocations, steps, words of bids (seven days)."""
    keep_history_s: float = 366 * 86_400.0
    """How long history is kept: prices, statements, orders, and platforms and groups that ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingSettings:
    """How much of what is decided is done."""

    mode: Mode = Mode.ON
    """dry: nothing is done, and everything says so. shadow: nothing is done either, and it is
    kept where another scheduler places VMs elsewhere. ask: VMs are placed, moved and suspended
    once an administrator has approved of the plan; limits are set without asking. on: all is
    done. `merkatd mode` orders another one, which then holds until it takes that back."""
    quiet_periods: int = 0
    """For how many periods few VMs are moved: after a start, a pause, or a change of mode to
    on."""
    quiet_migrations: int = 2
    """How many VMs are moved in each of these, those first that gain most. VMs that wait are
    placed all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketRules:
    """One market: where it is, how it decides, what it costs."""

    name: str = "default"
    clusters: frozenset[int] | None = None
    """OpenNebula's cluster ids; None, and no names either: every cluster that no other market
    has."""
    cluster_names: frozenset[str] | None = None
    """More clusters, by their names."""
    strategy: str = "tabu"
    pricing: Pricing = field(default_factory=Pricing)
    default_bid: Mapping[str, float] = field(default_factory=lambda: {"cpu": 1.0, "memory": 1.0})
    """What a VM bids of which nobody said anything; 0 for what is left out."""
    group_bids: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The same for VMs of single groups, by the group's name."""
    excluded_groups: frozenset[str] | None = None
    """OpenNebula's groups whose VMs belong to no market: they are not placed, moved, limited or
    charged, and where they run their full size is reserved. Group membership is an administrator's
    to give."""
    floor_part: float = 0.25
    """The part of its memory that a VM can't live without, until its use is known."""
    floor_margin: float = 0.15
    """What is added to the memory a VM uses, as a part of it, to make its floor."""

    @property
    def has_the_rest(self) -> bool:
        """Whether it has every cluster that no other market has."""
        return self.clusters is None and self.cluster_names is None

    @property
    def bids_bound(self) -> bool:
        """Whether a bid buys no more than it pays for at the reserve prices.

        A VM pays its bid at most. Without this bound the smallest bid would buy all idle cores.
        """
        return not (self.pricing.whole_bids or self.by_use)

    @property
    def by_use(self) -> bool:
        """Whether CPU that was used is charged, at a spending rate, and nothing else is sold."""
        return strategy_named(self.strategy).by_use
