"""Config: all sections of the configuration, and the values derived from several of them.

To add a section, list its dataclass here. Its fields become keys. The value of a field whose name
ends in a unit (`_s`, `_mib`, `_us`, `_mib_s`, `_part`) is a text with a unit. The docstrings
become the comments of etc/merkatd.toml and the rows of docs/configuration.md.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from merkatd.config.interface_sections import Api, Bus, Metrics, Web
from merkatd.config.market_sections import GoodsSection, MarketSection, MoneySection
from merkatd.config.process_sections import (
    ActingSection,
    CloudSection,
    DaemonSection,
    DatabaseSection,
    DriverSection,
    FailuresSection,
    Hypervisor,
    PeriodSection,
    PowerSection,
)
from merkatd.config.setting_schema import rules
from merkatd.config.socket_path import control_socket
from merkatd.limits.settings import LimitsSettings
from merkatd.opennebula.rpc import credentials
from merkatd.placement.contract import Charge, Pricing
from merkatd.placement.registry import STRATEGIES

_SQLITE_FILE = re.compile(r"(?P<scheme>sqlite(\+\w+)?:///)(?P<file>[^/?:][^?]*)(?P<rest>\?.*)?")


def _market_name(name: str) -> str | None:
    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name, re.ASCII):
        return None
    return "is not a valid market name: use 1 to 64 letters, digits, - and _"


def _reserve(market: MarketSection) -> Mapping[str, float]:
    """Return the reserve prices; a strategy that charges nothing has none."""
    return {} if market.entry.charges is Charge.NONE else market.reserve_prices


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of a daemon, as the administrator chose them."""

    daemon: DaemonSection = field(default_factory=DaemonSection)
    period: PeriodSection = field(default_factory=PeriodSection)
    acting: ActingSection = field(default_factory=ActingSection)
    cloud: CloudSection = field(default_factory=CloudSection)
    failures: FailuresSection = field(default_factory=FailuresSection)
    power: PowerSection = field(default_factory=PowerSection)
    driver: DriverSection = field(default_factory=DriverSection)
    api: Api = field(default_factory=Api)
    web: Web = field(default_factory=Web)
    database: DatabaseSection = field(default_factory=DatabaseSection)
    hypervisor: Hypervisor = field(default_factory=Hypervisor)
    goods: GoodsSection = field(default_factory=GoodsSection)
    markets: Mapping[str, MarketSection] = field(
        default_factory=lambda: {"default": MarketSection()},
        metadata=rules(
            key="market",
            check_name=_market_name,
            without=frozenset({"name", "pricing", "strategy_settings"}),
        ),
    )
    strategies: Mapping[str, Any] = field(
        default_factory=lambda: {name: entry.defaults for name, entry in STRATEGIES.items()},
        # The market sets its prices, not its strategy.
        metadata=rules(key="strategy", fixed=True, without=frozenset({"pricing"})),
    )
    limits: LimitsSettings = field(default_factory=LimitsSettings)
    money: MoneySection = field(default_factory=MoneySection)
    bus: Bus = field(default_factory=Bus)
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def state_directory(self) -> Path:
        """Return the directory of all files that must outlive the daemon."""
        return self.daemon.state_directory.expanduser()

    @property
    def control_socket(self) -> Path:
        """Return the path of the socket where commands on this machine reach the daemon."""
        return control_socket(self.daemon.state_directory, self.daemon.control_socket)

    @property
    def log_file(self) -> Path | None:
        """Return the path of the log file, None for standard error."""
        return self._file(self.daemon.log_file)

    @property
    def driver_socket(self) -> Path:
        """Return the path of the socket where OpenNebula's scheduler driver reaches the daemon."""
        return self.state_directory / self.driver.socket.expanduser()

    @property
    def auth_file(self) -> Path:
        """Return the file with the login of Merkat's OpenNebula account."""
        return credentials.auth_file(self._file(self.cloud.auth_file), os.environ, Path.home())

    @property
    def endpoint(self) -> str:
        """Return OpenNebula's XML-RPC address."""
        return credentials.endpoint(self.cloud.endpoint, os.environ, Path.home())

    @property
    def authorities(self) -> Path | None:
        """Return the file of trusted CA certificates for OpenNebula, None for the system's."""
        return self._file(self.cloud.authorities)

    def _file(self, name: str) -> Path | None:
        return self.state_directory / Path(name).expanduser() if name else None

    @property
    def api_settings(self) -> Api:
        """Return the settings of the tenants' interface, with the full paths of its files."""
        certificate, key = self._certificate(self.api)
        return replace(self.api, certificate=certificate, key=key)

    @property
    def web_settings(self) -> Web:
        """Return the settings of the web page, with the full paths of its files."""
        certificate, key = self._certificate(self.web)
        return replace(self.web, certificate=certificate, key=key)

    def _certificate(self, section: Api | Web) -> tuple[str, str]:
        def path_of(name: str) -> str:
            return str(self.state_directory / Path(name).expanduser()) if name else ""

        return path_of(section.certificate), path_of(section.key)

    @property
    def database_url(self) -> str:
        """Return the URL of the database; an SQLite file has its full path."""
        match = _SQLITE_FILE.fullmatch(self.database.url)
        if match is None or match["file"] == ":memory:":
            return self.database.url
        path = self.state_directory / match["file"]
        return f"{match['scheme']}{path}{match['rest'] or ''}"

    def priced_markets(self) -> tuple[MarketSection, ...]:
        """Return the markets in the order of the file, with names, prices and strategies' settings.

        The default bid for network or disk is 1 if the good is traded and `default_bid` omits it:
        a VM that bids 0 for it gets almost nothing.
        """
        further = dict.fromkeys(self.goods.further, 1.0)
        return tuple(
            replace(
                market,
                name=name,
                default_bid={**further, **market.default_bid},
                strategy_settings=replace(self.strategies[market.strategy], **market.settings),
                pricing=Pricing(rule=market.price_rule, reserve=_reserve(market)),
            )
            for name, market in self.markets.items()
        )
