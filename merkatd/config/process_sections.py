"""The sections about the process, its rhythm, its cloud, its database and its hosts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from merkatd.config.setting_schema import SettingRules, rules
from merkatd.config.socket_path import CONTROL_SOCKET, STATE_DIRECTORY
from merkatd.hypervisor.libvirt.host.settings import LibvirtSettings, wrong_command, wrong_pattern
from merkatd.scheduler.base.settings import ActingSettings as _Acting
from merkatd.scheduler.base.settings import Rhythm

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


class CloudMode(StrEnum):
    """Who carries out deployments and migrations."""

    DAEMON = "daemon"
    DRIVER = "driver"


class HypervisorKind(StrEnum):
    """What sets limits on hosts."""

    EMBEDDED = "embedded"
    LIBVIRT = "libvirt"
    NONE = "none"


def _known_database(url: str) -> str | None:
    scheme, separator, _ = url.partition("://")
    if separator and scheme.split("+", maxsplit=1)[0] in DATABASES:
        return None
    return (
        "must be a database URL, for example 'sqlite:///merkat.db' or"
        " 'mysql+pymysql://merkat@db.example/merkat'"
    )


def _web_address(endpoint: str) -> str | None:
    if not endpoint or re.fullmatch(r"https?://[^\s/]+\S*", endpoint):
        return None
    return "must be an address, for example 'http://127.0.0.1:2633/RPC2'"


def _publisher(endpoint: str) -> str | None:
    if not endpoint or re.fullmatch(r"(tcp://[^\s/]+:\d+|ipc://\S+)", endpoint):
        return None
    return "must be an address of ZeroMQ, for example 'tcp://127.0.0.1:2101'"


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSection:
    """The process."""

    state_directory: Path = STATE_DIRECTORY
    """Where everything is kept that must outlive the daemon. Paths elsewhere that don't start
    with a slash start here."""
    log_level: LogLevel = LogLevel.INFO
    """The least important events that are written."""
    log_file: str = ""
    """The file to which they are written, behind what is there already. Empty: standard error,
    which systemd keeps in its journal."""
    control_socket: Path = CONTROL_SOCKET
    """Where the commands of the same machine reach the daemon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodSection(Rhythm):
    """The loop: observe, decide, act, charge, tell."""

    RULES: ClassVar[Mapping[str, SettingRules]] = {
        "interval_s": SettingRules(above=0),
        "least_interval_s": SettingRules(above=0),
        "step_limit_s": SettingRules(above=0),
        "act_limit_s": SettingRules(above=0),
        "tell_limit_s": SettingRules(above=0),
        "boot_retries": SettingRules(least=0, most=100),
        "in_flight": SettingRules(least=1),
        "in_flight_per_host": SettingRules(least=1),
        "new_vms": SettingRules(least=1),
        "keep_allocations": SettingRules(least=1),
        "keep_history_s": SettingRules(least=86_400),
        "migration_limit_s": SettingRules(above=0),
        "most_periods_charged": SettingRules(least=1),
        "least_charge_s": SettingRules(least=0),
        "arrival_look_s": SettingRules(least=0),
    }

    grace_s: float = 30.0
    """How long a daemon that is told to end waits for the work in hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingSection(_Acting):
    """How much of what is decided is done."""

    RULES: ClassVar[Mapping[str, SettingRules]] = {
        "quiet_periods": SettingRules(least=0),
        "quiet_migrations": SettingRules(least=0),
    }

    quiet_periods: int = 3
    """For how many periods few VMs are moved: after a start, a pause, or a change of mode to
    on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudSection:
    """The cloud that is managed: one of the daemon's own, simulated, or OpenNebula."""

    kind: CloudKind = CloudKind.EMBEDDED
    """Which of the two."""
    mode: CloudMode = CloudMode.DAEMON
    """daemon: Merkat deploys and migrates by itself. driver: from OpenNebula 7.0 on, OpenNebula
    does, and asks Merkat's scheduler driver for plans."""
    endpoint: str = field(default="", metadata=rules(check=_web_address))
    """OpenNebula's XML-RPC address. Empty: what ONE_XMLRPC says, else ~/.one/one_endpoint, else
    http://localhost:2633/RPC2. Of no meaning to the embedded cloud, like the next four."""
    authorities: str = ""
    """A file with the certificates of those who may vouch for an https address, in PEM. Empty:
    those that the system trusts. A server for which nobody vouches is not spoken to."""
    auth_file: str = ""
    """The file that holds user:password of the account that Merkat acts as. Empty: the file that
    ONE_AUTH names, else ~/.one/one_auth."""
    events_endpoint: str = field(default="", metadata=rules(check=_publisher))
    """Where OpenNebula's hook manager publishes events, such as tcp://127.0.0.1:2101: a period
    begins early where something happened. Empty: periods begin by the clock alone."""
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
class DriverSection:
    """The scheduler driver that OpenNebula runs from 7.0 on."""

    socket: Path = Path("driver.sock")
    """Where it reaches the daemon."""
    group: str = ""
    """The group whose users may use the socket, where OpenNebula runs as another user than the
    daemon. Empty: only the daemon's own user."""
    deadline_s: float = field(default=10.0, metadata=rules(above=0))
    """How long it waits for a plan; after that nothing is placed until OpenNebula asks again."""


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
    """The most transactions at a time, each with a thread and a connection. Periods and the lease
    have two more of their own."""


def _uris(patterns: Mapping[str, str]) -> str | None:
    return next(filter(None, map(wrong_pattern, patterns.values())), None)


# Without slots: Python takes only one class with slots as a base.
@dataclass(frozen=True, kw_only=True)
class HypervisorKinds:
    """What sets limits on hosts, and where they are."""

    kind: HypervisorKind = HypervisorKind.EMBEDDED
    """embedded: the simulated hosts of the embedded cloud. libvirt: KVM, LXC and Xen hosts; what
    follows is for these. none: hosts are left alone, and VMs with OpenNebula's own CPU shares."""
    uri: str = field(
        default="qemu+ssh://oneadmin@{host}/system", metadata=rules(check=wrong_pattern)
    )
    """Where libvirt answers on a host: {host} is its name, {id} its id, {cluster} the id of its
    cluster."""
    uris: Mapping[str, str] = field(default_factory=dict, metadata=rules(check=_uris))
    """The same for hosts of certain names, by patterns of them; the first that fits counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypervisor(LibvirtSettings, HypervisorKinds):
    """What sets limits on hosts."""

    RULES: ClassVar[Mapping[str, SettingRules]] = {
        "threads": SettingRules(least=1, most=1_000),
        "call_limit_s": SettingRules(above=0),
        "period_limit_s": SettingRules(above=0),
        "keepalive_s": SettingRules(least=1),
        "retry_least_s": SettingRules(above=0),
        "retry_most_s": SettingRules(above=0),
        "check_every": SettingRules(least=1),
        "balloon_stats_s": SettingRules(least=1),
        "xen_command": SettingRules(check=wrong_command),
    }
