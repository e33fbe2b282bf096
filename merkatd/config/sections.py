"""The sections that are not another package's settings as they are: values with defaults."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from merkatd.config.problems import closest
from merkatd.config.shape import Rules, rules
from merkatd.market.price import PriceRule
from merkatd.placement.registry import DEFAULT, STRATEGIES
from merkatd.scheduler import settings
from merkatd.scheduler.settings import RESOURCES, Rhythm

DATABASES = ("sqlite", "mysql", "mariadb")


class LogLevel(StrEnum):
    """The least important events that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"
    CRITICAL = "critical"


class CloudKind(StrEnum):
    """Which cloud is managed."""

    EMBEDDED = "embedded"
    OPENNEBULA = "opennebula"


class HypervisorKind(StrEnum):
    """What sets limits on hosts."""

    EMBEDDED = "embedded"


def _known_strategy(name: str) -> str | None:
    return None if name in STRATEGIES else f"is no strategy; {closest(name, STRATEGIES)}"


def _known_resources(given: Mapping[str, float]) -> str | None:
    for name in given:
        if name not in RESOURCES:
            return f"{name!r} is no resource; {closest(name, RESOURCES)}"
    return None


def _known_database(url: str) -> str | None:
    scheme, separator, _ = url.partition("://")
    if separator and scheme.split("+", maxsplit=1)[0] in DATABASES:
        return None
    return (
        "must be a database URL, for example 'sqlite:///merkat.db' or"
        " 'mysql+pymysql://merkat@db.example/merkat'"
    )


def _web_address(endpoint: str) -> str | None:
    if re.fullmatch(r"https?://[^\s/]+\S*", endpoint):
        return None
    return "must be an address, for example 'http://127.0.0.1:2633/RPC2'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """The process."""

    state_directory: Path = Path("~/.local/state/merkat")
    """Where everything is kept that must outlive the daemon. Paths elsewhere that don't start
    with a slash start here."""
    log_level: LogLevel = LogLevel.INFO
    """The least important events that are written."""
    control_socket: Path = Path("control.sock")
    """Where the commands of the same machine reach the daemon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period(Rhythm):
    """The loop: observe, decide, act, charge, tell."""

    RULES: ClassVar[Mapping[str, Rules]] = {
        "interval_s": Rules(above=0),
        "step_limit_s": Rules(above=0),
        "in_flight": Rules(least=1),
        "in_flight_per_host": Rules(least=1),
        "keep_allocations": Rules(least=1),
        "migration_limit_s": Rules(above=0),
        "most_periods_charged": Rules(least=1),
    }

    grace_s: float = 30.0
    """How long a daemon that is told to end waits for the work in hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """The cloud that is managed: one of the daemon's own, simulated, or OpenNebula."""

    kind: CloudKind = CloudKind.EMBEDDED
    """Which of the two."""
    endpoint: str = field(default="http://127.0.0.1:2633/RPC2", metadata=rules(check=_web_address))
    """OpenNebula's XML-RPC address. Of no meaning to the embedded cloud, like the next two."""
    auth_file: Path = Path("~/.one/one_auth")
    """The file that holds user:password of the account that Merkat acts as."""
    call_limit_s: float = field(default=30.0, metadata=rules(above=0))
    """How long the answer to one call may take."""
    hosts: int = field(default=10, metadata=rules(least=1, most=100_000))
    """How many hosts the embedded cloud starts with; this and what follows is for it alone."""
    host_cores: int = field(default=8, metadata=rules(least=1))
    """Cores of each host."""
    host_memory_mib: int = field(default=16_384, metadata=rules(least=1))
    """Memory of each host."""
    seed: int = 1
    """Of all its randomness: with the same seed the same things happen."""
    speed: float = field(default=1.0, metadata=rules(above=0))
    """How many of its seconds pass in one of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSection:
    """Where periods, steps, bids and accounts are kept."""

    url: str = field(
        default="sqlite:///merkat.db",
        metadata=rules(check=_known_database, secret=True),
        repr=False,
    )
    """SQLite, MySQL or MariaDB. A file of SQLite is in the state directory unless its path
    starts with a slash, which makes four of them: sqlite:////var/lib/merkat.db."""
    pool_size: int = field(default=4, metadata=rules(least=1, most=100))
    """The most transactions at a time, each with a thread and a connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Market(settings.Market):
    """A set of clusters with a price of its own."""

    RULES: ClassVar[Mapping[str, Rules]] = {"default_bid": Rules(check=_known_resources)}

    clusters: frozenset[int] | None = None
    """OpenNebula's cluster ids; an empty list stands for every cluster that no other market has."""
    strategy: str = field(default=DEFAULT, metadata=rules(check=_known_strategy))
    """What places its VMs: one of the strategies that have a section below."""
    price_rule: PriceRule = PriceRule.PAPER
    """paper: the sum of all bids over the capacity. clearing: what a unit costs the bids that
    set the level, so that nobody pays more than their bid."""
    reserve_prices: Mapping[str, float] = field(
        default_factory=lambda: dict.fromkeys(RESOURCES, 0.0),
        metadata=rules(check=_known_resources),
    )
    """The least price by resource, in credits per unit and period, 0 for one that is left out. A
    unit is a hundredth of a core, or a MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypervisor:
    """What sets limits on hosts."""

    kind: HypervisorKind = HypervisorKind.EMBEDDED
    """embedded: the simulated hosts of the embedded cloud."""
