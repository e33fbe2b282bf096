"""Conflicts between keys of the configuration that are valid each on its own."""

from collections.abc import Iterator
from dataclasses import dataclass

from merkatd.config.configuration import Config
from merkatd.config.errors import KeyPath
from merkatd.config.process_sections import CloudKind, CloudMode
from merkatd.currency.credits import MOST_CREDITS

LONGEST_SOCKET = 107
"""The most bytes that Linux allows for the path of a socket."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A conflict between keys; the message is about the first key."""

    keys: tuple[KeyPath, ...]
    message: str


def conflicts(config: Config) -> Iterator[Conflict]:
    """Yield every conflict in the configuration."""
    yield from _period(config)
    yield from _markets(config)
    yield from _goods(config)
    yield from _money(config)
    yield from _socket(config)
    yield from _power(config)


def _period(config: Config) -> Iterator[Conflict]:
    period = config.period
    if period.step_limit_s < period.interval_s:
        yield Conflict(
            (("period", "step_limit"), ("period", "interval")),
            "must be at least period.interval: the next observation confirms a step",
        )
    if config.cloud.call_limit_s > period.step_limit_s:
        yield Conflict(
            (("cloud", "call_limit"), ("period", "step_limit")),
            "must be at most period.step_limit: a step must not expire before its call is answered",
        )
    if period.in_flight_per_host > period.in_flight:
        yield Conflict(
            (("period", "in_flight_per_host"), ("period", "in_flight")),
            f"must be at most period.in_flight ({period.in_flight})",
        )


def _power(config: Config) -> Iterator[Conflict]:
    power = config.power
    if not power.hosts or config.cloud.kind is CloudKind.EMBEDDED:
        return
    for key, command in (("sleep", power.sleep), ("wake", power.wake)):
        if not command:
            yield Conflict(
                (("power", key), ("power", "hosts")),
                "must be a command if power.hosts names hosts: they would not sleep or not wake",
            )


def _markets(config: Config) -> Iterator[Conflict]:
    if not config.markets:
        yield Conflict((("market",),), "must define at least one market: add [market.default]")
    owners: dict[int | str | None, str] = {}
    for name, market in config.markets.items():
        listed: list[int | str | None] = [
            *sorted(market.clusters or ()),
            *sorted(market.cluster_names or ()),
        ]
        for cluster in (None,) if market.has_the_rest else listed:
            owner = owners.setdefault(cluster, name)
            if owner != name:
                what = "the set of all other clusters" if cluster is None else f"cluster {cluster}"
                key = "cluster_names" if isinstance(cluster, str) else "clusters"
                yield Conflict(
                    (("market", name, key), ("market", owner, key)),
                    f"{what} already belongs to market {owner!r}",
                )


def _goods(config: Config) -> Iterator[Conflict]:
    for name, market in config.markets.items():
        groups = {good: 0.0 for bid in market.group_bids.values() for good in bid}
        by_setting = {
            "default_bid": market.default_bid,
            "group_bids": groups,
            "reserve_prices": market.reserve_prices,
        }
        for key, by_resource in by_setting.items():
            for good in sorted(by_resource.keys() - set(config.goods.resources)):
                yield Conflict(
                    (("market", name, key), ("goods", good)),
                    f"must not name {good}, which is not traded: set goods.{good} to true",
                )


def _money(config: Config) -> Iterator[Conflict]:
    if config.money.supply > MOST_CREDITS:
        yield Conflict(
            (("money", "supply"),),
            f"must be at most {MOST_CREDITS:,.0f}, the capacity of the ledger",
        )
    if 0 < config.money.supply < config.money.starting_credits:
        yield Conflict(
            (("money", "starting_credits"), ("money", "supply")), "must be at most money.supply"
        )
    if config.money.policy.enabled and not config.money.supply:
        yield Conflict(
            (("money", "policy", "enabled"), ("money", "supply")),
            "needs a money.supply above 0: at 0 each tenant gets the fixed starting_credits",
        )


def _socket(config: Config) -> Iterator[Conflict]:
    for key, path in (
        (("daemon", "control_socket"), config.control_socket),
        (("driver", "socket"), config.driver_socket),
    ):
        if len(str(path).encode()) > LONGEST_SOCKET:
            yield Conflict(
                (key, ("daemon", "state_directory")),
                f"must be a shorter path: a socket has at most {LONGEST_SOCKET} bytes with its"
                f" directory (got {path})",
            )
    if config.control_socket == config.driver_socket:
        yield Conflict(
            (("driver", "socket"), ("daemon", "control_socket")),
            "must differ from daemon.control_socket",
        )
    if config.cloud.mode is CloudMode.DRIVER and config.cloud.kind is CloudKind.EMBEDDED:
        yield Conflict(
            (("cloud", "mode"), ("cloud", "kind")),
            "must be 'daemon': the embedded cloud has no scheduler driver",
        )
