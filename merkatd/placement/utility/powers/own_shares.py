"""The amounts that `utility` states for VMs: its powers as CPU, and even shares of the rest."""

from dataclasses import replace

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import NO_HOST
from merkatd.placement.utility.utility_market import UtilityMarket


def own_shares(market: UtilityMarket, place: Ints, power: Floats, plain_part: float) -> Floats:
    """Return [vms, resources]: the amounts of all VMs in these places.

    `power` is the CPU of VMs of jobs and services. Plain VMs get a part of their size before, if
    floors leave room for it, and later more of the rest. All other resources are divided by size.
    """
    view, there = market.view, np.flatnonzero(place != NO_HOST)
    amounts: Floats = replace(view, floor=market.floor).on_hosts(place).allocation
    cpu = np.zeros(len(place))
    if len(there):
        cpu[there] = _cpu_of(market, place, there, power, plain_part)
    amounts[:, market.cpu] = cpu
    return amounts


def _cpu_of(
    market: UtilityMarket, place: Ints, there: Ints, power: Floats, plain_part: float
) -> Floats:
    """Return the CPU of the VMs `there`: floors, then jobs and services, then plain VMs."""
    host, plain, hosts = place[there], market.plain[there], len(market.view.hosts)
    capacity = market.view.capacity[:, market.cpu]
    floor, size = market.floor[there, market.cpu], market.view.size[there, market.cpu]
    floors = _total(host, floor, hosts)
    given: Floats = floor * _part(capacity, floors)[host]
    left = np.maximum(capacity - floors, 0.0)
    for wanted in (
        np.where(plain, plain_part * size, np.minimum(power[there], _least(market, there))),
        np.where(plain, 0.0, power[there]),
        np.where(plain, size, 0.0),
    ):
        more = np.maximum(np.minimum(wanted, size) - np.maximum(given, floor), 0.0)
        total = _total(host, more, hosts)
        added = more * _part(left, total)[host]
        given = given + added
        left = np.maximum(left - _total(host, added, hosts), 0.0)
    return given


def _least(market: UtilityMarket, there: Ints) -> Floats:
    """Return the least powers of the VMs `there`."""
    least: Floats = market.table.low[there]
    return least


def _total(host: Ints, amounts: Floats, hosts: int) -> Floats:
    """Return [hosts]: the sum of the amounts there."""
    total = np.zeros(hosts)
    np.add.at(total, host, amounts)
    return total


def _part(available: Floats, wanted: Floats) -> Floats:
    """Return the available part of an amount, at most 1."""
    return np.divide(available, wanted, out=np.ones_like(available), where=wanted > available)
