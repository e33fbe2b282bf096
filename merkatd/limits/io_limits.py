"""Network and disk shares to what hosts are told: a hard limit for each VM, which is its share.

What a VM may send is limited, and what it may receive to the same; reading and writing are
limited together. Nobody is cut off: a VM whose share is less than a Mbit/s or a MiB/s gets that
much, the only way in which the limits of a host can exceed its shares.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from merkatd.cluster import Bools, Floats, Ints, Snapshot, Throttle
from merkatd.cluster.columns import NOWHERE
from merkatd.limits import limit_reasons
from merkatd.limits.enforced_limits import BEYOND, DISK, NETWORK, EnforcedLimits
from merkatd.limits.occupancy import Occupancy

PER_UNIT: Mapping[str, int] = MappingProxyType({NETWORK: 125, DISK: 1024})
"""What hosts count in: kB/s, of which 125 are a Mbit/s, and KiB/s."""

LEAST_UNITS = 1
"""Nobody gets less."""

_BAND_PART = 0.02
"""A limit stays while it is within this part of the one wanted."""
_ROUNDING = 1e-6
_FIELDS = {NETWORK: "network_kb_s", DISK: "disk_kib_s"}


def io_rates(share: Floats, resource: str) -> Ints:
    """[vms]: the limit that is such a share, in what hosts count in, rounded down."""
    units = np.maximum(share, LEAST_UNITS)
    limit: Ints = np.floor(units * PER_UNIT[resource] + _ROUNDING).astype(np.int64)
    return limit


def throttle_steps(
    snapshot: Snapshot, scene: Occupancy, allocations: Floats, in_force: EnforcedLimits
) -> Iterator[Throttle]:
    """Where a limit is off and can be set; after the step that brings a VM, in any case."""
    goods = [name for name in PER_UNIT if name in snapshot.resources]
    if not goods:
        return
    wanted: dict[str, Ints] = {}
    due: dict[str, Bools] = {}
    arrives = np.zeros(len(snapshot.vms), dtype=bool)
    arrives[list(scene.arrival)] = True
    for resource in goods:
        limit = io_rates(allocations[:, snapshot.resources.index(resource)], resource)
        there = in_force.throttled(resource)
        off = np.abs(there - limit) > _BAND_PART * limit
        wanted[resource] = limit
        due[resource] = scene.told & (there != BEYOND) & (off | arrives)
    bids = _bids(snapshot, scene)
    for row in np.flatnonzero(np.logical_or.reduce(list(due.values()))).tolist():
        host, arrival = int(scene.then[row]), scene.arrival.get(row)
        said = [name for name in goods if due[name][row]]
        limits: dict[str, Any] = {_FIELDS[name]: int(wanted[name][row]) for name in said}
        reasons = [
            limit_reasons.why_share(
                snapshot,
                row,
                host,
                float(allocations[row, snapshot.resources.index(name)]),
                float(bids[host, snapshot.resources.index(name)]),
                name,
            )
            for name in said
        ]
        yield Throttle(
            period=snapshot.period,
            vm=int(snapshot.vms.id[row]),
            after=(arrival.id,) if arrival else (),
            reason="; ".join(reasons),
            **limits,
        )


def _bids(snapshot: Snapshot, scene: Occupancy) -> Floats:
    """[hosts, resources]: all bids on each host once the plan is carried out."""
    vms = snapshot.vms
    there = scene.bidding & (vms.market != NOWHERE) & (scene.then != NOWHERE)
    sums = np.zeros((len(snapshot.hosts), len(snapshot.resources)))
    np.add.at(sums, scene.then[there], vms.bid[there])
    return sums
