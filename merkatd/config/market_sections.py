"""The sections of the markets: goods, clusters, prices, money."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from merkatd.config.errors import closest
from merkatd.config.setting_schema import SettingRules, rules
from merkatd.currency import income
from merkatd.currency import settings as currency
from merkatd.market.price import PriceRule
from merkatd.placement.registry import DEFAULT, STRATEGIES
from merkatd.scheduler.base import settings
from merkatd.scheduler.base.settings import ALL_GOODS


def _known_strategy(name: str) -> str | None:
    return None if name in STRATEGIES else f"is not a known strategy; {closest(name, STRATEGIES)}"


def _known_resources(given: Mapping[str, float]) -> str | None:
    for name in given:
        if name not in ALL_GOODS:
            return f"{name!r} is not a resource; {closest(name, ALL_GOODS)}"
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
    """The market's clusters, by OpenNebula's cluster ids. A market with neither ids nor names has
    all clusters that no other market lists."""
    cluster_names: frozenset[str] | None = None
    """More clusters of the market, by their names."""
    strategy: str = field(default=DEFAULT, metadata=rules(check=_known_strategy))
    """The strategy that places the market's VMs, by the name of its section below. To change keys
    of that section for this market alone, write them in a section [market.NAME.settings]."""
    settings: Mapping[str, Any] = field(
        default_factory=dict,
        metadata=rules(
            chosen_by="strategy",
            among={name: entry.settings for name, entry in STRATEGIES.items()},
            without=frozenset({"pricing"}),
        ),
    )
    """The settings of the strategy that differ in this market."""
    price_rule: PriceRule = PriceRule.CLEARING
    """clearing: the price per unit at which the VMs, without floors, buy exactly the capacity.
    paper: the sum of all bids divided by the capacity. Under both rules a bid counts only as far
    as its VM can use the resources that it buys. A VM never pays more than the higher of its bid
    and the price of its floor at the reserve price."""
    reserve_prices: Mapping[str, float] = field(
        default_factory=lambda: {"cpu": 0.0001, "memory": 0.00001},
        metadata=rules(check=_known_resources),
    )
    """The reserve price of each resource, in credits per unit and period; 0 for a missing resource.
    A unit is a hundredth of a core, or a MiB. A floor costs at least its reserve price; at 0, a VM
    with a bid of 0 gets its floor free of charge. Even without competition, a bid buys at most what
    it pays for at these prices: by default a bid of 1 buys at most 100 cores or 97 GiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodsSection(settings.GoodsSettings):
    """The goods that are traded besides CPU and memory."""

    RULES: ClassVar[Mapping[str, SettingRules]] = {
        "host_network_mbit_s": SettingRules(above=0),
        "host_disk_mib_s": SettingRules(above=0),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyPolicySection(income.SupplyPolicy):
    """The supply policy: lower the supply after prices rose for long, raise it after they fell."""

    RULES: ClassVar[Mapping[str, SettingRules]] = {
        "days": SettingRules(least=1, most=365),
        "drift_part": SettingRules(above=0),
        "step_part": SettingRules(above=0),
        "most_times": SettingRules(least=1),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneySection(currency.MoneySettings):
    """The currency: its supply, and the times of renewal and replenishment."""

    RULES: ClassVar[Mapping[str, SettingRules]] = {
        "renewal_s": SettingRules(above=0),
        "replenishment_s": SettingRules(above=0),
        "unpaid_periods": SettingRules(least=1),
    }

    policy: SupplyPolicySection = field(default_factory=SupplyPolicySection)
    """The times and the amounts of changes to the supply."""
