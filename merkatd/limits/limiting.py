"""Limit steps: a quota and a weight for each VM that has other ones, or that arrives."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

import numpy as np

from merkatd.cluster import Bools, Floats, Ints, Limit, Snapshot
from merkatd.limits import words
from merkatd.limits.cpu import differs, quotas, weights
from merkatd.limits.in_force import CPU, InForce
from merkatd.limits.scene import Scene
from merkatd.limits.settings import CpuSettings
from merkatd.market.view import NOWHERE


def limit_steps(
    snapshot: Snapshot,
    scene: Scene,
    share: Floats,
    pinned: AbstractSet[int],
    in_force: InForce,
    settings: CpuSettings,
) -> Iterator[Limit]:
    """Where the quota or the weight is off; after the step that brings a VM, in any case.

    `share` is in percent of a core, for each VM; `pinned` are the rows of VMs that are pinned
    once all steps are taken.
    """
    vms, hosts = snapshot.vms, len(snapshot.hosts)
    bids_here = scene.bidding & (vms.market != NOWHERE) & (scene.then != NOWHERE)
    bid = np.where(bids_here, vms.bid[:, snapshot.resources.index(CPU)], 0.0)
    bids = np.bincount(scene.then[bids_here], bid[bids_here], hosts)
    whole = in_force.pin_policy | _marked(pinned, len(vms))
    quota = quotas(share, vms.vcpus, whole, settings.quota_period_us)
    weight = weights(bid, scene.then, hosts)
    due = differs(quota, weight, vms.vcpus, in_force, settings)
    arrives = _marked(scene.arrival.keys(), len(vms))
    for row in np.flatnonzero(scene.told & (due.quota | due.weight | arrives)).tolist():
        host = int(scene.then[row])
        arrival = scene.arrival.get(row)
        yield Limit(
            period=snapshot.period,
            vm=int(vms.id[row]),
            vcpu_quota_us=_or_none(quota.vcpu_us, row),
            global_quota_us=_or_none(quota.global_us, row),
            quota_period_us=settings.quota_period_us,
            shares=int(weight[row]),
            after=(arrival.id,) if arrival else (),
            reason=words.why_limit(
                snapshot,
                row,
                host,
                float(share[row]),
                float(bids[host]),
                only_weight=not (due.quota[row] or arrival),
            ),
        )


def _marked(rows: AbstractSet[int], count: int) -> Bools:
    marked = np.zeros(count, dtype=bool)
    marked[np.fromiter(rows, dtype=np.int64, count=len(rows))] = True
    return marked


def _or_none(quota_us: Ints, row: int) -> int | None:
    """None where the VM has no quota of this kind."""
    return int(quota_us[row]) if quota_us[row] > 0 else None
