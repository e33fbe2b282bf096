"""Config: all sections of the configuration, and what follows from several of them.

To add a section, list its dataclass here. Its fields become keys: a name that ends in a
unit (`_s`, `_mib`, `_us`, `_mib_s`, `_part`) takes a text with a unit, docstrings become the
comments of etc/merkatd.toml and the rows of docs/configuration.md.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from merkatd.config.sections import Cloud, Daemon, DatabaseSection, Hypervisor, Market, Period
from merkatd.config.shape import rules
from merkatd.limits.settings import LimitsSettings
from merkatd.placement.registry import STRATEGIES
from merkatd.placement.strategy import Pricing
from merkatd.scheduler.settings import Money

_SQLITE_FILE = re.compile(r"(?P<scheme>sqlite(\+\w+)?:///)(?P<file>[^/?:][^?]*)(?P<rest>\?.*)?")


def _market_name(name: str) -> str | None:
    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name, re.ASCII):
        return None
    return "is no name for a market: write 1 to 64 letters, digits, - and _"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What an administrator can choose."""

    daemon: Daemon = field(default_factory=Daemon)
    period: Period = field(default_factory=Period)
    cloud: Cloud = field(default_factory=Cloud)
    database: DatabaseSection = field(default_factory=DatabaseSection)
    hypervisor: Hypervisor = field(default_factory=Hypervisor)
    markets: Mapping[str, Market] = field(
        default_factory=lambda: {"default": Market()},
        metadata=rules(
            key="market", check_name=_market_name, without=frozenset({"name", "pricing"})
        ),
    )
    strategies: Mapping[str, Any] = field(
        default_factory=lambda: {name: entry.settings for name, entry in STRATEGIES.items()},
        # Prices are a matter of the market, whatever strategy serves it.
        metadata=rules(key="strategy", fixed=True, without=frozenset({"pricing"})),
    )
    limits: LimitsSettings = field(default_factory=LimitsSettings)
    money: Money = field(default_factory=Money)

    @property
    def state_directory(self) -> Path:
        """Where everything is kept that must outlive the daemon."""
        return self.daemon.state_directory.expanduser()

    @property
    def control_socket(self) -> Path:
        """Where the commands of the same machine reach the daemon."""
        return self.state_directory / self.daemon.control_socket.expanduser()

    @property
    def auth_file(self) -> Path:
        """The file that holds the account that Merkat acts as."""
        return self.state_directory / self.cloud.auth_file.expanduser()

    @property
    def database_url(self) -> str:
        """The URL of the database, a file of SQLite by its full path."""
        match = _SQLITE_FILE.fullmatch(self.database.url)
        if match is None or match["file"] == ":memory:":
            return self.database.url
        path = self.state_directory / match["file"]
        return f"{match['scheme']}{path}{match['rest'] or ''}"

    def priced_markets(self) -> tuple[Market, ...]:
        """The markets in the order of the file, each with its name and its prices."""
        return tuple(
            replace(
                market,
                name=name,
                pricing=Pricing(rule=market.price_rule, reserve=market.reserve_prices),
            )
            for name, market in self.markets.items()
        )
