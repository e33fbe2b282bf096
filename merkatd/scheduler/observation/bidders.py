"""The bidders: each VM's bids, market, floor and cap from its template, with defaults.

Only an administrator takes a VM out of the market: with a host in another cluster, or with the VM's
group (`excluded_groups`). Tenants may change their VMs' templates at any time, so no attribute of a
VM takes it out. Its limits would be lifted, and nothing would be charged.

MERKAT_BID_CPU and MERKAT_BID_MEMORY are credits per period. MERKAT_MIN_CPU and MERKAT_MAX_CPU are
percent of a core, MERKAT_MIN_MEMORY and MERKAT_MAX_MEMORY MiB. If network and disk are traded, the
same attributes exist for NETWORK (Mbit/s) and DISK (MiB/s). The form MERKAT = [ BID_CPU = ..., ...
] is equivalent; the adapter converts it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

import numpy as np

from merkatd.cluster import Bools, Floats, HostState, Ints, VmState
from merkatd.cluster.columns import NO_HOST, NO_MARKET, NO_ROW, is_one_of, row_of
from merkatd.scheduler.base.ports import Observation
from merkatd.scheduler.base.settings import RESOURCES, MarketRules
from merkatd.scheduler.traits.template_values import checked_number
from merkatd.scheduler.traits.vm_traits import NO_TRAITS, VmTraits, stated_traits


def markets_of_hosts(seen: Observation, markets: Sequence[MarketRules]) -> Ints:
    """[hosts + 1]: the market of each host; the last row gives NO_HOST no market."""
    market_of_host = np.full(len(seen.host_cluster) + 1, NO_MARKET)
    for row, market in enumerate(markets):
        if market.has_the_rest:
            market_of_host[:-1][market_of_host[:-1] == NO_MARKET] = row
    for row, market in enumerate(markets):
        clusters = set(market.clusters or ())
        named = market.cluster_names or frozenset()
        clusters.update(cluster for cluster, name in seen.cluster_name.items() if name in named)
        market_of_host[:-1][is_one_of(seen.host_cluster, clusters)] = row
    return market_of_host


def markets_of_vms(
    seen: Observation, host: Ints, host_market: Ints, markets: Sequence[MarketRules]
) -> Ints:
    """[vms]: the market of each VM: its host's, or the one that it waits for.

    NO_MARKET if that market excludes the VM's group, or if no market has a host for it.
    """
    market_of_vm = np.where(host != NO_HOST, host_market[host], _wanted(seen, host_market, markets))
    for row, market in enumerate(markets):
        for name in market.excluded_groups or ():
            market_of_vm[(market_of_vm == row) & _in_group(seen, name)] = NO_MARKET
    return market_of_vm


def _wanted(seen: Observation, host_market: Ints, markets: Sequence[MarketRules]) -> Ints:
    """Return the market that a VM names, or else the first one with a host that may take it."""
    names = {market.name: row for row, market in enumerate(markets)}
    market_of_vm = _first_possible(seen, host_market, len(markets))
    for vm, attributes in seen.attributes.items():
        named = names.get(attributes.get("MERKAT_MARKET", ""))
        if named is not None and (row := row_of(seen.vm_id, vm)) is not None:
            market_of_vm[row] = named
    return market_of_vm


def _first_possible(seen: Observation, host_market: Ints, markets: int) -> Ints:
    constraints = seen.constraints
    first = np.zeros(len(seen.vm_id), dtype=np.int64)
    if constraints is None or not len(constraints.allowed):
        return first
    inside = np.array([host_market[:-1] == row for row in range(markets)])
    on = seen.host_state != int(HostState.OFF)
    # [classes, markets]: prefer a market with a host that is on; a host that is off may return.
    there = (constraints.allowed[:, np.newaxis, :] & inside & on).any(axis=2)
    ever = (constraints.allowed[:, np.newaxis, :] & inside).any(axis=2)
    of_class = np.where(
        there.any(axis=1),
        there.argmax(axis=1),
        np.where(ever.any(axis=1), ever.argmax(axis=1), NO_MARKET),
    )
    # A VM that no host at all may take waits here, and its owner is told why.
    of_class[~constraints.allowed.any(axis=1)] = 0
    classed = constraints.vm_class != NO_ROW
    first[classed] = of_class[constraints.vm_class[classed]]
    return first


def outside_markets(
    seen: Observation, market: Ints, markets: Sequence[MarketRules]
) -> Mapping[int, str]:
    """Return reasons, by id, for VMs that may only use hosts without a market."""
    waiting = (seen.vm_state == int(VmState.PENDING)) & (market == NO_MARKET)
    for name in {name for market in markets for name in market.excluded_groups or ()}:
        waiting &= ~_in_group(seen, name)
    why = "all hosts it may use are in clusters without a market; Merkat leaves it alone"
    return dict.fromkeys(seen.vm_id[waiting].tolist(), why)


def bids(
    seen: Observation,
    latest_bids: Mapping[int, Mapping[str, float]],
    markets: Sequence[MarketRules],
    market: Ints,
    resources: Sequence[str] = RESOURCES,
) -> Floats:
    """[vms, resources]: the most recent bids, or else the defaults of the VM's group or market."""
    defaults = [_amounts(resources, market.default_bid, {}) for market in markets]
    bid = np.array([*defaults, [0.0] * len(resources)])[market]
    for row, rules in enumerate(markets):
        for name, given in rules.group_bids.items():
            amounts = _amounts(resources, given, rules.default_bid)
            bid[(market == row) & _in_group(seen, name)] = amounts
    for row, vm in enumerate(seen.vm_id.tolist()):
        latest = latest_bids.get(vm)
        if latest is not None:
            bid[row] = [latest.get(name, bid[row, at]) for at, name in enumerate(resources)]
    bid[market == NO_MARKET] = 0.0
    by_use = np.array([*(market.by_use for market in markets), False])[market]
    return _following_the_rate(bid, by_use, resources)


def _following_the_rate(bid: Floats, by_use: Bools, resources: Sequence[str]) -> Floats:
    """Apply a spending rate: memory has no bid, and the other goods' bids equal the CPU rate."""
    for at, name in enumerate(resources):
        if name != "cpu":
            rate = 0.0 if name == "memory" else bid[by_use, resources.index("cpu")]
            bid[by_use, at] = rate
    return bid


def _amounts(
    resources: Sequence[str], given: Mapping[str, float], instead: Mapping[str, float]
) -> list[float]:
    return [given.get(name, instead.get(name, 0.0)) for name in resources]


def _in_group(seen: Observation, name: str) -> Bools:
    groups = [group for group, its in seen.group_name.items() if its == name]
    return is_one_of(seen.vm_group, groups)


MANAGED = "MERKAT_MANAGED"
"""A former attribute to exclude a VM; it has no effect, and the owner gets a message."""


@dataclass(frozen=True, slots=True)
class TemplateBids:
    """The bids, floors and caps of a template, by resource, and the mistakes in it."""

    bid: Mapping[str, float]
    least: Mapping[str, float]
    most: Mapping[str, float]
    problems: tuple[str, ...]
    """Messages with the attribute, its value and the accepted values."""
    traits: VmTraits = NO_TRAITS


def template_bids(attributes: Mapping[str, str], resources: tuple[str, ...]) -> TemplateBids:
    """Read the attributes of one VM; invalid ones are left out and reported."""
    problems: list[str] = []
    amounts: dict[str, dict[str, float]] = {"BID": {}, "MIN": {}, "MAX": {}}
    for name, what, resource in _names(resources):
        if name in attributes:
            value = checked_number(attributes, name, problems)
            if value is not None:
                amounts[what][resource] = value
    for resource, least in list(amounts["MIN"].items()):
        most = amounts["MAX"].get(resource, math.inf)
        if least > most:
            name = resource.upper()
            problems.append(
                f"MERKAT_MIN_{name} must be at most MERKAT_MAX_{name} = {most:g} (got {least:g})"
            )
            amounts["MIN"][resource] = most
    if MANAGED in attributes:
        problems.append(
            f"{MANAGED} = {attributes[MANAGED][:40]!r} has no effect: only an administrator takes"
            " VMs out of the market, by their group or their host's cluster"
        )
    traits = stated_traits(attributes, problems)
    return TemplateBids(amounts["BID"], amounts["MIN"], amounts["MAX"], tuple(problems), traits)


@cache
def _names(resources: tuple[str, ...]) -> tuple[tuple[str, str, str], ...]:
    """Return all possible attributes, each with its kind and its resource."""
    return tuple(
        (f"MERKAT_{what}_{resource.upper()}", what, resource)
        for what in ("BID", "MIN", "MAX")
        for resource in resources
    )


def text_hash(attributes: Mapping[str, str]) -> str:
    """Return a hash that changes when a bid in the template changes."""
    pairs = sorted((name, value) for name, value in attributes.items() if "_BID_" in name)
    return blake2b(repr(pairs).encode(), digest_size=8).hexdigest()
