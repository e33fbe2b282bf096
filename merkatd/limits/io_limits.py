"""Network and disk limits: a hard limit for each VM, equal to its share.

Sending and receiving have the same limit each; reads and writes share a limit. No VM is cut off: a
share of less than a Mbit/s or a MiB/s is raised to that. Only so can the limits of a host exceed
its shares.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from merkatd.cluster import Bools, Floats, Ints, Snapshot, Throttle
from merkatd.cluster.columns import NO_HOST, NO_MARKET
from merkatd.limits import limit_reasons
from merkatd.limits.enforced_limits import BEYOND, DISK, NETWORK, EnforcedLimits
from merkatd.limits.occupancy import Occupancy

PER_UNIT: Mapping[str, int] = MappingProxyType({NETWORK: 125, DISK: 1024})
"""Units of hosts per unit of shares: 125 kB/s per Mbit/s, 1024 KiB/s per MiB/s."""

LEAST_UNITS = 1
"""Least limit of a VM."""

_BAND_PART = 0.02
"""Difference from the wanted limit, as a part of it, that needs no step."""
_ROUNDING = 1e-6
_FIELDS = {NETWORK: "network_kb_s", DISK: "disk_kib_s"}


def io_rates(share: Floats, resource: str) -> Ints:
    """Return [vms]: the limits that equal the shares, in units of hosts, rounded down."""
    units = np.maximum(share, LEAST_UNITS)
    limit: Ints = np.floor(units * PER_UNIT[resource] + _ROUNDING).astype(np.int64)
    return limit


def throttle_steps(
    snapshot: Snapshot, occupancy: Occupancy, allocations: Floats, in_force: EnforcedLimits
) -> Iterator[Throttle]:
    """Yield a step for each VM whose limit differs and can be set, and for each VM that arrives.

    Steps of arriving VMs come after the step that brings the VM.
    """
    goods = [name for name in PER_UNIT if name in snapshot.resources]
    if not goods:
        return
    wanted: dict[str, Ints] = {}
    due: dict[str, Bools] = {}
    arrives = np.zeros(len(snapshot.vms), dtype=bool)
    arrives[list(occupancy.arrival)] = True
    for resource in goods:
        limit = io_rates(allocations[:, snapshot.resources.index(resource)], resource)
        there = in_force.throttled(resource)
        off = np.abs(there - limit) > _BAND_PART * limit
        wanted[resource] = limit
        due[resource] = occupancy.limited & (there != BEYOND) & (off | arrives)
    bids = _bids(snapshot, occupancy)
    for row in np.flatnonzero(np.logical_or.reduce(list(due.values()))).tolist():
        host, arrival = int(occupancy.then[row]), occupancy.arrival.get(row)
        limited = [name for name in goods if due[name][row]]
        limits: dict[str, Any] = {_FIELDS[name]: int(wanted[name][row]) for name in limited}
        reasons = [
            limit_reasons.why_share(
                snapshot,
                row,
                host,
                float(allocations[row, snapshot.resources.index(name)]),
                float(bids[host, snapshot.resources.index(name)]),
                name,
            )
            for name in limited
        ]
        yield Throttle(
            period=snapshot.period,
            vm=int(snapshot.vms.id[row]),
            after=(arrival.id,) if arrival else (),
            reason="; ".join(reasons),
            **limits,
        )


def _bids(snapshot: Snapshot, occupancy: Occupancy) -> Floats:
    """Return [hosts, resources]: the sum of the bids on each host after the plan."""
    vms = snapshot.vms
    there = occupancy.bidding & (vms.market != NO_MARKET) & (occupancy.then != NO_HOST)
    sums = np.zeros((len(snapshot.hosts), len(snapshot.resources)))
    np.add.at(sums, occupancy.then[there], vms.bid[there])
    return sums
