"""What each group of tenants has of the cloud, as metrics: what a tenant's page shows. Pure.

Groups are OpenNebula's, made by administrators: there are as many as there are projects or
departments, never as many as users or VMs.
"""

from collections.abc import Iterator

import numpy as np
from prometheus_client.core import GaugeMetricFamily

from merkatd.api.metrics.units import UNITS
from merkatd.cluster import Floats, Ints, VmState
from merkatd.scheduler.observation.observed import Seen
from merkatd.scheduler.phases.announce import Announcement


def by_group(announcement: Announcement) -> Iterator[GaugeMetricFamily]:
    """VMs, bids, what was given for them and what that costs, of each group with VMs."""
    seen, decision = announcement.seen, announcement.decided.decision
    vms = seen.snapshot.vms
    groups, owner = np.unique(_group_of(seen), return_inverse=True)
    known = seen.observation.group_name
    names = [known.get(group, str(group)) for group in groups.tolist()]
    counts = GaugeMetricFamily(
        "merkat_group_vms", "VMs of a group, by state", labels=("group", "state")
    )
    for state in VmState:
        held = np.bincount(owner[vms.state == state], minlength=len(groups))
        for name, count in zip(names, held.tolist(), strict=True):
            counts.add_metric((name, state.name.lower()), count)
    yield counts
    for number, resource in enumerate(seen.snapshot.resources):
        unit = UNITS[resource]
        amount = decision.allocations[:, number] * unit.scale
        yield _summed(
            f"merkat_group_{resource}_allocated_{unit.name}",
            "What the VMs of a group were given",
            names,
            owner,
            amount,
        )
    yield _summed(
        "merkat_group_bids_credits",
        "What a group bids in all, in credits a period",
        names,
        owner,
        vms.bid.sum(axis=1),
    )
    price = np.zeros_like(decision.allocations)
    priced = vms.market >= 0
    price[priced] = np.nan_to_num(decision.prices[vms.market[priced]], posinf=0.0)
    yield _summed(
        "merkat_group_cost_credits",
        "What a whole period of what a group was given costs at the announced prices",
        names,
        owner,
        (decision.allocations * price).sum(axis=1),
    )


def _group_of(seen: Seen) -> Ints:
    """By row of the snapshot; -1 where OpenNebula shows none."""
    ids, groups = seen.observation.vm_id, seen.observation.vm_group
    found = np.full(len(seen.snapshot.vms), -1)
    if len(ids):
        at = np.minimum(np.searchsorted(ids, seen.snapshot.vms.id), len(ids) - 1)
        there = ids[at] == seen.snapshot.vms.id
        found[there] = groups[at[there]]
    return found


def _summed(
    name: str, help_text: str, names: list[str], owner: Ints, amount: Floats
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help_text, labels=("group",))
    sums = np.bincount(owner, weights=amount, minlength=len(names))
    for group, value in zip(names, sums.tolist(), strict=True):
        family.add_metric((group,), value)
    return family
