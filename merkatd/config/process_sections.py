"""The sections of the process, its periods, its cloud, its database and its hosts."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from merkatd.config.setting_schema import SettingRules, rules
from merkatd.config.socket_path import CONTROL_SOCKET, STATE_DIRECTORY
from merkatd.hypervisor.libvirt.host.settings import LibvirtSettings, command_error, pattern_error
from merkatd.hypervisor.power_commands import PowerSettings
from merkatd.scheduler.base.acting_settings import ActingSettings as _Acting
from merkatd.scheduler.base.settings import Rhythm
from merkatd.scheduler.base.traits import FailureSettings

DATABASES = ("sqlite", "mysql", "mariadb")


class LogLevel(StrEnum):
    """The lowest level of events that the daemon logs."""

    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"
    CRITICAL = "critical"


class CloudKind(StrEnum):
    """The kind of the managed cloud."""

    EMBEDDED = "embedded"
    OPENNEBULA = "opennebula"


class CloudMode(StrEnum):
    """The process that deploys and migrates VMs: the daemon, or OpenNebula with its driver."""

    DAEMON = "daemon"
    DRIVER = "driver"


class HypervisorKind(StrEnum):
    """The kind of hosts on which the daemon sets limits."""

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
    return "must be an HTTP address, for example 'http://127.0.0.1:2633/RPC2'"


def _publisher(endpoint: str) -> str | None:
    if not endpoint or re.fullmatch(r"(tcp://[^\s/]+:\d+|ipc://\S+)", endpoint):
        return None
    return "must be a ZeroMQ address, for example 'tcp://127.0.0.1:2101'"


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSection:
    """The daemon's process: its files and its log."""

    state_directory: Path = STATE_DIRECTORY
    """The directory of all files that must outlive the daemon. All other relative paths in this
    configuration start here."""
    log_level: LogLevel = LogLevel.INFO
    """The lowest level of events that the daemon logs."""
    log_file: str = ""
    """The log file; the daemon appends to it. Empty: standard error, which systemd stores in its
    journal."""
    control_socket: Path = CONTROL_SOCKET
    """The socket where commands on the same machine reach the daemon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodSection(Rhythm):
    """The daemon's loop: observe, decide, act, charge, announce."""

    RULES: ClassVar[Mapping[str, SettingRules]] = {
        "interval_s": SettingRules(above=0),
        "least_interval_s": SettingRules(least=0.1),
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
        "boot_limit_s": SettingRules(above=0),
        "shutdown_s": SettingRules(least=0, most=3_600),
        "most_periods_charged": SettingRules(least=1),
        "least_charge_s": SettingRules(least=0),
        "arrival_look_s": SettingRules(least=0),
    }

    grace_s: float = 30.0
    """The longest time that a stopping daemon waits for the present period to finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingSection(_Acting):
    """The mode, and the part of the decisions that the daemon carries out."""

    RULES: ClassVar[Mapping[str, SettingRules]] = {
        "quiet_periods": SettingRules(least=0),
        "quiet_migrations": SettingRules(least=0),
    }

    quiet_periods: int = 3
    """The number of periods with few migrations after a start, after a pause, and after the mode
    changes to on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudSection:
    """The managed cloud: an OpenNebula installation, or a cloud that the daemon simulates."""

    kind: CloudKind = CloudKind.EMBEDDED
    """embedded: the simulated cloud. opennebula: an OpenNebula installation."""
    mode: CloudMode = CloudMode.DAEMON
    """daemon: Merkat deploys and migrates VMs itself. driver: OpenNebula (7.0 or newer) does, and
    asks Merkat's scheduler driver for plans."""
    endpoint: str = field(default="", metadata=rules(check=_web_address))
    """OpenNebula's XML-RPC address. Empty: the value of ONE_XMLRPC, else of ~/.one/one_endpoint,
    else http://localhost:2633/RPC2. Only `kind = "opennebula"` uses this key and the next four
    keys."""
    authorities: str = ""
    """A PEM file with the CA certificates to trust for an https address. Empty: the system's CA
    certificates. The daemon rejects a server without a valid certificate."""
    auth_file: str = ""
    """The file with the login (user:password) of Merkat's OpenNebula account. Empty: the file that
    ONE_AUTH names, else ~/.one/one_auth."""
    events_endpoint: str = field(default="", metadata=rules(check=_publisher))
    """The address where OpenNebula's hook manager publishes events, for example
    tcp://127.0.0.1:2101: a period then starts early after an event. Empty: changes in OpenNebula
    wait for the next period."""
    call_limit_s: float = field(default=30.0, metadata=rules(above=0))
    """The longest time that the daemon waits for the answer of OpenNebula to a call."""
    hosts: int = field(default=10, metadata=rules(least=1, most=100_000))
    """The number of hosts with which the embedded cloud starts. Only `kind = "embedded"` uses this
    key and the keys below."""
    host_cores: int = field(default=8, metadata=rules(least=1))
    """The number of cores of each host."""
    host_memory_mib: int = field(default=16_384, metadata=rules(least=1))
    """The memory of each host."""
    host_link_mbit_s: float = field(default=10_000.0, metadata=rules(above=0))
    """The speed of each host's link."""
    host_idle_watts: float = field(default=80.0, metadata=rules(least=0))
    """The power that each host draws without any load."""
    host_full_watts: float = field(default=160.0, metadata=rules(least=0))
    """The power that each host draws at full load, and while it starts."""
    host_start_s: float = field(default=60.0, metadata=rules(least=0))
    """The time that each host needs to start after it slept or lost its power."""
    seed: int = 1
    """The seed of the random numbers of the embedded cloud: the same seed gives the same events."""
    speed: float = field(default=1.0, metadata=rules(above=0))
    """The number of simulated seconds that pass in a real second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailuresSection(FailureSettings):
    """The failures to expect, in failures a year, for strategies that spread VMs over domains."""

    RULES: ClassVar[Mapping[str, SettingRules]] = {
        name: SettingRules(least=0, most=100_000)
        for name in ("host_per_year", "network_per_year", "power_per_year")
    }


def _power_command(command: str) -> str | None:
    try:
        words = shlex.split(command)
        of_each = {
            tuple(word.format(host=f"node{id_}", id=id_) for word in words) for id_ in (1, 2)
        }
    except (KeyError, IndexError, ValueError, AttributeError, TypeError):
        of_each = set()
    # A command that is the same for all hosts switches the wrong one, perhaps the daemon's.
    if len(of_each) > 1 or not command:
        return None
    return "must be a command with {host} or {id} where the host's name or id belongs"


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerSection(PowerSettings):
    """Hosts that may sleep while a strategy does not need them, and the commands for it."""

    RULES: ClassVar[Mapping[str, SettingRules]] = {
        "sleep": SettingRules(check=_power_command),
        "wake": SettingRules(check=_power_command),
        "limit_s": SettingRules(above=0, most=3_600),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSection:
    """The scheduler driver that OpenNebula (7.0 or newer) runs."""

    socket: Path = Path("driver.sock")
    """The socket where the driver reaches the daemon."""
    group: str = ""
    """The group whose users may use the socket; needed if OpenNebula and the daemon run as
    different users. Empty: only the daemon's own user."""
    deadline_s: float = field(default=10.0, metadata=rules(above=0))
    """The longest time that the driver waits for a plan. Without a plan it places no VM until
    OpenNebula asks again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSection:
    """The database of periods, steps, bids and accounts."""

    url: str = field(
        default="sqlite:///merkat.db",
        metadata=rules(check=_known_database, secret=True),
        repr=False,
    )
    """The database's URL: SQLite, MySQL or MariaDB. An SQLite file is in the state directory unless
    its path starts with a slash; then the URL has four: sqlite:////var/lib/merkat.db."""
    pool_size: int = field(default=4, metadata=rules(least=1, most=100))
    """The most transactions at a time, each with a thread and a connection. Periods and the lease
    have two more connections of their own."""


def _uris(patterns: Mapping[str, str]) -> str | None:
    return next(filter(None, map(pattern_error, patterns.values())), None)


# Without slots: Python takes only one class with slots as a base.
@dataclass(frozen=True, kw_only=True)
class HypervisorKinds:
    """The hypervisors of the hosts, and their addresses."""

    kind: HypervisorKind = HypervisorKind.EMBEDDED
    """embedded: the simulated hosts of the embedded cloud. libvirt: KVM, LXC and Xen hosts; only
    these use the keys below. none: the daemon sets no limits, and VMs have OpenNebula's own CPU
    shares."""
    uri: str = field(
        default="qemu+ssh://oneadmin@{host}/system", metadata=rules(check=pattern_error)
    )
    """The libvirt address of a host: {host} is its name, {id} its id, {cluster} the id of its
    cluster."""
    uris: Mapping[str, str] = field(default_factory=dict, metadata=rules(check=_uris))
    """The libvirt addresses of hosts whose names match a pattern; the first match applies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypervisor(LibvirtSettings, HypervisorKinds):
    """The hypervisors, through which the daemon sets limits on hosts."""

    RULES: ClassVar[Mapping[str, SettingRules]] = {
        "threads": SettingRules(least=1, most=1_000),
        "call_limit_s": SettingRules(above=0),
        "period_limit_s": SettingRules(above=0),
        "keepalive_s": SettingRules(least=1),
        "retry_least_s": SettingRules(above=0),
        "retry_most_s": SettingRules(above=0),
        "check_every": SettingRules(least=1),
        "balloon_stats_s": SettingRules(least=1),
        "xen_command": SettingRules(check=command_error),
    }
