"""What the period is told: its rhythm, its patience, its markets."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from merkatd.placement.strategy import Pricing

RESOURCES = ("cpu", "memory")
"""What is traded: CPU in percent of a core, memory in MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """When things happen, and when they are given up."""

    interval_s: float = 60.0
    """From the start of one period to the start of the next."""
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
    most_periods_charged: float = 2.0
    """A charge is for the time that really passed, but for no more than so many periods."""
    keep_allocations: int = 10_080
    """For how many periods allocations, memories and ended steps are kept (seven days)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """One market: where it is, how it decides, what it costs."""

    name: str = "default"
    clusters: frozenset[int] | None = None
    """OpenNebula's cluster ids; None: every cluster that no other market has."""
    strategy: str = "tabu"
    pricing: Pricing = field(default_factory=Pricing)
    default_bid: Mapping[str, float] = field(default_factory=lambda: {"cpu": 1.0, "memory": 1.0})
    """What a VM bids of which nobody said anything."""
    floor_part: float = 0.25
    """The part of its memory that a VM can't live without, until its use is known."""
    floor_margin: float = 0.15
    """What is added to the memory a VM uses, as a part of it, to make its floor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """The thin first form of the currency: what there is, and what everybody starts with."""

    supply: float = 1e12
    """Credits in the treasury of a new database."""
    starting_credits: float = 1e6
    """What a tenant's account is opened with."""
