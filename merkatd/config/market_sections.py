"""The sections about what is traded, where, at which price, and for which money."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from merkatd.config.errors import closest
from merkatd.config.setting_schema import SettingRules, rules
from merkatd.currency import income
from merkatd.currency import settings as currency
from merkatd.market.price import PriceRule
from merkatd.placement.registry import DEFAULT, STRATEGIES
from merkatd.scheduler.base import settings
from merkatd.scheduler.base.settings import ALL_GOODS


def _known_strategy(name: str) -> str | None:
    return None if name in STRATEGIES else f"is no strategy; {closest(name, STRATEGIES)}"


def _known_resources(given: Mapping[str, float]) -> str | None:
    for name in given:
        if name not in ALL_GOODS:
            return f"{name!r} is no resource; {closest(name, ALL_GOODS)}"
    return None


def _known_resources_each(given: Mapping[str, Mapping[str, float]]) -> str | None:
    return next(filter(None, map(_known_resources, given.values())), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketSection(settings.MarketRules):
    """A set of clusters with a price of its own."""

    RULES: ClassVar[Mapping[str, SettingRules]] = {
        "default_bid": SettingRules(check=_known_resources),
        "group_bids": SettingRules(check=_known_resources_each),
    }

    clusters: frozenset[int] | None = None
    """OpenNebula's cluster ids; an empty list, and no names either, stands for every cluster that
    no other market has."""
    cluster_names: frozenset[str] | None = None
    """More clusters, by their names."""
    strategy: str = field(default=DEFAULT, metadata=rules(check=_known_strategy))
    """What places its VMs: one of the strategies that have a section below."""
    price_rule: PriceRule = PriceRule.CLEARING
    """clearing: what a unit costs the bids that set the level, without floors. paper: the sum of
    all bids over the capacity. Under both a bid counts only as far as its VM could use what it
    buys, and a VM never pays more than its bid, or than its floor costs at the reserve price where
    that is more."""
    reserve_prices: Mapping[str, float] = field(
        default_factory=lambda: {"cpu": 0.0001, "memory": 0.00001},
        metadata=rules(check=_known_resources),
    )
    """The least price by resource, in credits per unit and period, 0 for one that is left out. A
    unit is a hundredth of a core, or a MiB. A floor costs at least this much: at 0 a VM that bids
    nothing holds its floor for nothing. A bid buys no more than it pays for at these prices, also
    where there is enough for all: a bid of 1 at most 100 cores or 97 GiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodsSection(settings.GoodsSettings):
    """What is traded besides CPU and memory."""

    RULES: ClassVar[Mapping[str, SettingRules]] = {
        "host_network_mbit_s": SettingRules(above=0),
        "host_disk_mib_s": SettingRules(above=0),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyPolicySection(income.SupplyPolicy):
    """The supply follows prices: lowered where they rise for long, raised where they fall."""

    RULES: ClassVar[Mapping[str, SettingRules]] = {
        "days": SettingRules(least=1, most=365),
        "drift_part": SettingRules(above=0),
        "step_part": SettingRules(above=0),
        "most_times": SettingRules(least=1),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneySection(currency.MoneySettings):
    """The currency: how much there is, and when it goes where."""

    RULES: ClassVar[Mapping[str, SettingRules]] = {
        "renewal_s": SettingRules(above=0),
        "replenishment_s": SettingRules(above=0),
        "unpaid_periods": SettingRules(least=1),
    }

    policy: SupplyPolicySection = field(default_factory=SupplyPolicySection)
    """When the supply is changed, and by how much."""
