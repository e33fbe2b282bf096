"""The sections of the daemon's interfaces: tenants, browsers, Prometheus, controllers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from merkatd.api.http import settings as xmlrpc
from merkatd.api.http.forwarded_addresses import is_invalid_network
from merkatd.api.metrics import settings as metrics
from merkatd.bus import settings as bus
from merkatd.config.setting_schema import SettingRules
from merkatd.web import settings as web

_HOST_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}", re.ASCII)


def _networks(names: frozenset[str] | None) -> str | None:
    wrong = next(filter(is_invalid_network, sorted(names or ())), None)
    if wrong is None:
        return None
    return f"must list addresses or networks, as in ['127.0.0.1', '10.0.0.0/8'] (got {wrong!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Api(xmlrpc.ApiSettings):
    """The tenants' XML-RPC interface."""

    RULES: ClassVar[Mapping[str, SettingRules]] = {
        "port": SettingRules(most=65_535),
        "body_mib": SettingRules(above=0, most=64),
        "depth": SettingRules(least=2, most=100),
        "connections": SettingRules(least=1, most=65_535),
        "connections_per_address": SettingRules(least=1),
        "in_flight": SettingRules(least=1),
        "unknown_in_flight": SettingRules(least=1),
        "trusted_proxies": SettingRules(check=_networks),
        "call_s": SettingRules(above=0),
        "answer_s": SettingRules(above=0),
        "idle_s": SettingRules(above=0),
        "user_calls": SettingRules(above=0),
        "address_calls": SettingRules(above=0),
        "user_orders": SettingRules(least=1),
        "burst_s": SettingRules(above=0),
    }


def _host_names(names: frozenset[str] | None) -> str | None:
    wrong = next((name for name in sorted(names or ()) if not _HOST_NAME.fullmatch(name)), None)
    if wrong is None:
        return None
    return f"must list names or addresses without a port, as in ['market.example'] (got {wrong!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Web(web.WebSettings):
    """The web page, for browsers. It calls the tenants' interface, so it needs `api.enabled`."""

    RULES: ClassVar[Mapping[str, SettingRules]] = {
        "port": SettingRules(most=65_535),
        "hosts": SettingRules(check=_host_names),
        "trusted_proxies": SettingRules(check=_networks),
        "session_s": SettingRules(above=0),
        "session_idle_s": SettingRules(above=0),
        "sessions_per_user": SettingRules(least=1, most=1_000),
        "listeners": SettingRules(least=0),
        "listeners_per_user": SettingRules(least=0),
    }


def _bus_endpoint(value: str) -> str | None:
    if not value or re.fullmatch(r"tcp://(127\.\d+\.\d+\.\d+|\[::1\]):\*", value, re.ASCII):
        return None
    return 'must be empty, or a loopback address with port *, for example "tcp://127.0.0.1:*"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics(metrics.MetricsSettings):
    """Metrics for Prometheus (/metrics) and the health of the daemon (/healthz), over HTTP."""

    RULES: ClassVar[Mapping[str, SettingRules]] = {"port": SettingRules(least=0, most=65535)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bus(bus.BusSettings):
    """The controller processes of virtual platforms: their connections, restarts and limits."""

    RULES: ClassVar[Mapping[str, SettingRules]] = {
        "endpoint": SettingRules(check=_bus_endpoint),
        "beat_s": SettingRules(above=0),
        "silence_s": SettingRules(above=0),
        "messages": SettingRules(above=0),
        "messages_at_once": SettingRules(least=1),
        "traffic_mib": SettingRules(above=0),
        "traffic_at_once_mib": SettingRules(least=1),
        "restart_least_s": SettingRules(above=0),
        "restart_most_s": SettingRules(above=0),
        "restart_tries": SettingRules(least=0),
        "memory_mib": SettingRules(least=64),
        "cpu_s": SettingRules(least=1),
        "files": SettingRules(least=32),
        "log_mib": SettingRules(above=0),
        "logs": SettingRules(least=1, most=100),
        "tenant_processes": SettingRules(least=1),
        "tenant_memory_mib": SettingRules(least=1),
        "ssh_port": SettingRules(least=1, most=65535),
        "ssh_pool": SettingRules(least=1, most=200),
        "ssh_connect_s": SettingRules(above=0),
        "ssh_command_s": SettingRules(above=0),
    }
