"""The contract of all strategies: what each declares, and the function that decides.

A strategy is a pure function `strategy(snapshot, settings, memory, random) -> Decision`, and an
entry in the registry that says what the daemon must know to run it. `docs/strategies.md` describes
how to write one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Protocol, TypeVar

import numpy as np

from merkatd.cluster import Decision, Floats, Snapshot
from merkatd.market.price import PriceRule
from merkatd.placement.base.host_shares import SUM_OF_SHORTFALLS
from merkatd.placement.base.repeatable_random import repeatable_random

Settings = TypeVar("Settings", contravariant=True)  # noqa: PLC0105 - one word for one thing

PARAMETER = "parameter"
"""The key of a field's metadata that holds its `StrategyParameter`."""


class Allocation(StrEnum):
    """The origin of the allocations that the daemon enforces."""

    SHARES = "shares"
    """The market divides each host by bids among the VMs that the strategy placed there."""
    OWN = "own"
    """The strategy's allocations are enforced as they are."""


class Charge(StrEnum):
    """What VMs pay for."""

    SHARES = "shares"
    """For allocated amounts, at the market's price."""
    USE = "use"
    """For used CPU, at the spending rate of the VM's group."""
    NONE = "none"
    """Nothing: bids have no effect."""


IN_WORDS: Mapping[str, Mapping[str, str]] = {
    "allocates": {
        Allocation.SHARES: "bids divide the hosts on which it places VMs",
        Allocation.OWN: "it states what each VM gets, independent of bids",
    },
    "charges": {
        Charge.SHARES: "VMs pay for what they are allocated, at the market's price",
        Charge.USE: "VMs pay for the CPU that they use, at their group's spending rate",
        Charge.NONE: "VMs pay nothing",
    },
}
"""What the values of a declaration mean, for administrators."""


class Need(StrEnum):
    """A part of the snapshot that not every cloud fills."""

    JOBS = "jobs"
    SERVICES = "services"
    REPLICATED = "replicated"
    DOMAINS = "domains"
    TOPOLOGY = "topology"
    HISTORY = "history"


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyParameter:
    """The unit and the range of a setting, and whether a tuner may change it."""

    unit: str
    """The unit in words; empty for a plain number."""
    least: float = 0.0
    most: float
    tunable: bool = True


def parameter(
    default: Any, *, unit: str = "", least: float = 0.0, most: float, tunable: bool = True
) -> Any:
    """Return a field of a strategy's settings, with its unit and range."""
    described = StrategyParameter(unit=unit, least=least, most=most, tunable=tunable)
    return field(default=default, metadata={PARAMETER: described})


class Strategy(Protocol[Settings]):
    """A pure function from a snapshot to a decision.

    `memory` is what this version of the strategy returned in the market's last decision, and empty
    without one. Randomness comes from `random` alone.
    """

    def __call__(
        self,
        snapshot: Snapshot,
        settings: Settings,
        memory: Mapping[str, Any],
        random: np.random.Generator,
    ) -> Decision:
        """Return the steps, allocations and prices for this snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """The settings of a market's price."""

    rule: PriceRule = PriceRule.CLEARING
    reserve: Mapping[str, float] = field(default_factory=dict)
    """The least price by resource; 0 for a missing resource."""
    whole_bids: bool = False
    """Whether each bid counts in full, even if its VM can't use all that it buys: the paper's rule
    to the letter, only for its experiments."""

    def reserve_prices(self, resources: tuple[str, ...]) -> Floats:
        """Return [resources]: the reserve prices in the snapshot's order."""
        return np.array([self.reserve.get(name, 0.0) for name in resources])


def with_pricing(settings: Any, pricing: Pricing) -> Any:
    """Return a strategy's settings with the prices of a market, if prices mean anything to it."""
    if any(setting.name == "pricing" for setting in fields(settings)):
        return replace(settings, pricing=pricing)
    return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveLimits:
    """The limits on migrations that a strategy declares; without any of them by default.

    The conformance suite checks that its decisions keep them.
    """

    most: Callable[[Any, int], int] | None = None
    """Function from the settings and the number of the market's VMs to the most migrations in a
    period."""
    hold_s: Callable[[Any], float] | None = None
    """Function from the settings to the seconds for which a migrated VM stays, unless it must leave
    its host."""
    settings: frozenset[str] = frozenset()
    """The names of the settings on which these limits depend."""


UNLIMITED_MOVES = MoveLimits()
"""The declaration of a strategy that may migrate any number of VMs at any time."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a decision means for an application."""

    words: str
    """A verb phrase about the application, without names of others."""
    utility: float | None = None
    """Its utility, if the strategy knows one."""
    payers: tuple[int, ...] = ()
    """By number: the applications that would have less if it got what its goal takes."""


ExplainApplications = Callable[[Snapshot, Any, Mapping[str, Any]], Mapping[int, Standing]]
"""Function from the arguments of a decision to the standings of applications, by number."""


@dataclass(frozen=True, slots=True)
class StrategyEntry:
    """What a strategy declares."""

    name: str
    summary: str
    settings: type[Any]
    """A frozen dataclass with a default for each field: `parameter`, a choice, or `pricing`."""
    strategy: Strategy[Any]
    moves: MoveLimits = field(kw_only=True)
    """Its limits on migrations, which each entry states."""
    allocates: Allocation = Allocation.SHARES
    charges: Charge = Charge.SHARES
    needs: frozenset[Need] = frozenset()
    """The parts of the snapshot without which the strategy can't decide."""
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
    explain: ExplainApplications | None = None
    """Function to what the same decision means for each application; None if bids explain it."""

    @property
    def defaults(self) -> Any:
        """Return the default settings."""
        return self.settings()

    @property
    def by_use(self) -> bool:
        """Return whether its markets sell used CPU instead of shares."""
        return self.charges is Charge.USE

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
        chosen = self.defaults if settings is None else settings
        drawn = repeatable_random(0, snapshot.period, "") if random is None else random
        return self.strategy(snapshot, chosen, memory or {}, drawn)
