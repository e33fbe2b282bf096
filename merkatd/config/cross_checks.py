"""What no single key can be wrong about, but several together."""

from collections.abc import Iterator
from dataclasses import dataclass

from merkatd.config.configuration import Config
from merkatd.config.errors import KeyPath
from merkatd.config.process_sections import CloudKind, CloudMode

MOST_CREDITS = 4e12
"""In micro-credits this still fits into the ledger's 64 bits, with one to spare."""

LONGEST_SOCKET = 107
"""Bytes that Linux has for the path of a socket."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Keys that don't go together; the first is the one to look at."""

    keys: tuple[KeyPath, ...]
    message: str


def conflicts(config: Config) -> Iterator[Conflict]:
    """Everything that doesn't go together."""
    yield from _period(config)
    yield from _markets(config)
    yield from _goods(config)
    yield from _money(config)
    yield from _socket(config)


def _period(config: Config) -> Iterator[Conflict]:
    period = config.period
    if period.step_limit_s < period.interval_s:
        yield Conflict(
            (("period", "step_limit"), ("period", "interval")),
            "must be at least period.interval: a step is confirmed by the next observation",
        )
    if config.cloud.call_limit_s > period.step_limit_s:
        yield Conflict(
            (("cloud", "call_limit"), ("period", "step_limit")),
            "must be at most period.step_limit: a step is not given up before it is answered",
        )
    if period.in_flight_per_host > period.in_flight:
        yield Conflict(
            (("period", "in_flight_per_host"), ("period", "in_flight")),
            f"must be at most period.in_flight, which is {period.in_flight}",
        )


def _markets(config: Config) -> Iterator[Conflict]:
    if not config.markets:
        yield Conflict((("market",),), "holds no market: write at least [market.default]")
    owners: dict[int | str | None, str] = {}
    for name, market in config.markets.items():
        listed: list[int | str | None] = [
            *sorted(market.clusters or ()),
            *sorted(market.cluster_names or ()),
        ]
        for cluster in (None,) if market.has_the_rest else listed:
            owner = owners.setdefault(cluster, name)
            if owner != name:
                what = "what no other market has" if cluster is None else f"cluster {cluster}"
                key = "cluster_names" if isinstance(cluster, str) else "clusters"
                yield Conflict(
                    (("market", name, key), ("market", owner, key)),
                    f"{what} belongs to market {owner!r} already",
                )


def _goods(config: Config) -> Iterator[Conflict]:
    for name, market in config.markets.items():
        groups = {good: 0.0 for bid in market.group_bids.values() for good in bid}
        said = {
            "default_bid": market.default_bid,
            "group_bids": groups,
            "reserve_prices": market.reserve_prices,
        }
        for key, by_resource in said.items():
            for good in sorted(by_resource.keys() - set(config.goods.resources)):
                yield Conflict(
                    (("market", name, key), ("goods", good)),
                    f"speaks of {good}, which is not traded: goods.{good} must be true for that",
                )


def _money(config: Config) -> Iterator[Conflict]:
    if config.money.supply > MOST_CREDITS:
        yield Conflict(
            (("money", "supply"),), f"must be at most {MOST_CREDITS:g}: the ledger can't hold more"
        )
    if 0 < config.money.supply < config.money.starting_credits:
        yield Conflict(
            (("money", "starting_credits"), ("money", "supply")), "must be at most money.supply"
        )
    if config.money.policy.enabled and not config.money.supply:
        yield Conflict(
            (("money", "policy", "enabled"), ("money", "supply")),
            "needs money.supply: what there is for each tenant can't follow prices",
        )


def _socket(config: Config) -> Iterator[Conflict]:
    for key, path in (
        (("daemon", "control_socket"), config.control_socket),
        (("driver", "socket"), config.driver_socket),
    ):
        if len(str(path).encode()) > LONGEST_SOCKET:
            yield Conflict(
                (key, ("daemon", "state_directory")),
                f"is too long for a socket with its directory ({path}):"
                f" at most {LONGEST_SOCKET} bytes",
            )
    if config.control_socket == config.driver_socket:
        yield Conflict(
            (("driver", "socket"), ("daemon", "control_socket")),
            "must be another path than daemon.control_socket",
        )
    if config.cloud.mode is CloudMode.DRIVER and config.cloud.kind is CloudKind.EMBEDDED:
        yield Conflict(
            (("cloud", "mode"), ("cloud", "kind")),
            "must be 'daemon': the embedded cloud runs no scheduler driver",
        )
