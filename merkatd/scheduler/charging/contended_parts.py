"""Contended shares of hosts: charged until the next period can give them to other VMs.

# Note [Paid until the next period]

A VM pays for the time that it ran. That is not enough if its neighbours need its share: their
limits leave room for it until the next period decides again. Consider a guest that runs for only
five seconds of each period, fails while it boots, or is terminated right after the observation. It
would keep most of a host from its neighbours for a tenth of the price.

So the VM pays for its share until the next period, running or not, for each good that another
bidding VM on the host lacks. Example: a host has 8 cores, and five VMs with bids of 20 get 1.6
cores each. One of them is powered off 5 s after the observation. Its four neighbours have only 6.4
cores until the next period, at the end of the minute, so the VM pays for 60 s. On a host with idle
cores it pays for 10 s, the least charge. A VM lacks only what its bid would buy at the reserve
price: otherwise a tiny bid for a whole host would make all its neighbours pay for 60 s.

A VM pays only for events that its owner can cause. A failed host, or a deployment that OpenNebula
refused, is not the owner's fault. (For refusals that the owner causes, see
`refused_deployments.py`.) The next period often begins early once such a guest is gone
(`guest_watch.py`), so an honest owner pays for seconds, not for a minute.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from merkatd.cluster import Bools, Decision, Floats, HostState, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_MARKET, is_one_of
from merkatd.limits.occupancy import occupancy_of
from merkatd.market.market_view import affordable
from merkatd.scheduler.base.ports import Observation

_ENOUGH = 0.98
"""The part of its cap from which on a VM counts as satisfied."""

Arrays = Mapping[str, Any]


def contended(snapshot: Snapshot, decision: Decision) -> Bools:
    """[vms, resources]: whether the VM has a share that another bidding VM on its host lacks."""
    vms, given = snapshot.vms, decision.allocations
    scene = occupancy_of(snapshot, decision.plan)
    there = ((scene.then != NO_HOST) & scene.bidding & (vms.market != NO_MARKET))[:, np.newaxis]
    lacks = there & (vms.bid > 0) & (given < _wishes(snapshot) * _ENOUGH)
    lacking = np.zeros((len(snapshot.hosts) + 1, given.shape[1]), dtype=np.int64)
    np.add.at(lacking, scene.then, lacks)
    contends: Bools = there & (given > 0) & (lacking[scene.then] > lacks)
    return contends


def _wishes(snapshot: Snapshot) -> Floats:
    """[vms, resources]: how much each VM can use, as far as its bid pays the reserve price."""
    vms, reserve = snapshot.vms, np.nan_to_num(snapshot.markets.reserve)
    if reserve.shape[1] == 0:
        return vms.cap
    none = np.zeros((1, reserve.shape[1]))
    return affordable(vms.cap, vms.floor, vms.bid, np.vstack([reserve, none])[vms.market])


def seconds_by_good(
    arrays: Arrays, seen: Observation, ran_s: Floats, passed_s: float, waited: Bools
) -> Floats:
    """[vms, resources]: the time for which each VM's share is paid, if it ran for `ran_s`.

    `waited`: whether the VM was placed, and its host had it, but it did not run.
    """
    seconds = np.broadcast_to(ran_s[:, np.newaxis], arrays["bid"].shape)
    if "contended" not in arrays:
        return seconds.copy()
    placed = arrays["placed"] & ((ran_s > 0) | waited)
    kept = (arrays["runs"] | placed) & ~_host_failed(arrays["vm"], seen)
    return np.where(arrays["contended"] & kept[:, np.newaxis], passed_s, seconds)


def _host_failed(vms: Ints, seen: Observation) -> Bools:
    """[vms]: whether the VM is on a host that is off."""
    off = seen.host_id[seen.host_state == HostState.OFF]
    lost: Bools = is_one_of(vms, seen.vm_id[is_one_of(seen.vm_host, off)])
    return lost
