"""VMs that a decision leaves out: they get no other place.

The VMs of a limit order start together. So if one that waits is left out, all that wait are.

# Note [Orders that wait for memory]

An order may have to wait until balloons have made room on the hosts that it takes. It keeps these
hosts meanwhile, although its VMs don't start. If it counted as absent instead, an order that it has
displaced would start in its room again, would be displaced again as soon as it runs, and so on for
ever. Example: an order of 3 VMs with 1,700 MiB each displaces one of 3 VMs with 1,024 MiB from a
host of 8,192 MiB, on which a VM that bids holds 5,120 MiB. The balloon of that VM shrinks for some
periods, and then the order starts.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from merkatd.cluster.columns import NO_ROW, is_one_of
from merkatd.cluster.plan import Deploy, Migrate, Plan
from merkatd.cluster.snapshot import Snapshot


def with_orders_postponed(
    snapshot: Snapshot, late: AbstractSet[int], plan: Plan
) -> tuple[Snapshot, Mapping[int, int]]:
    """Return the cloud in which the orders of these waiting VMs start later, on their hosts.

    The second value are these hosts in the plan, by id of the VMs that wait in these orders.
    """
    vms, orders = snapshot.vms, snapshot.orders
    waits = np.flatnonzero((vms.order != NO_ROW) & vms.waiting)
    postponed = orders.postponed.copy()
    postponed[vms.order[waits[is_one_of(vms.id[waits], late)]]] = True
    gangs = set(vms.id[waits[postponed[vms.order[waits]]]].tolist())
    hosts = {step.vm: step.host for step in plan.of(Deploy) if step.vm in gangs}
    return replace(snapshot, orders=replace(orders, postponed=postponed)), hosts


def without_starting_orders(snapshot: Snapshot) -> tuple[Snapshot, Mapping[int, str]]:
    """Return the cloud in which no limit order starts, and the reasons by id of the waiting VMs.

    Orders that are postponed keep their hosts.
    """
    vms = snapshot.vms
    waits = np.flatnonzero((vms.order != NO_ROW) & vms.waiting)
    waits = waits[~snapshot.orders.postponed[vms.order[waits]]]
    if not len(waits):
        return snapshot, {}
    placeable = vms.placeable.copy()
    placeable[waits] = False
    reasons = dict.fromkeys(vms.id[waits].tolist(), "its limit order waits until others have hosts")
    return replace(snapshot, vms=replace(vms, placeable=placeable)), reasons


def without_places(snapshot: Snapshot, late: AbstractSet[int]) -> Snapshot:
    """Return the cloud in which these VMs get no other place."""
    if not late:
        return snapshot
    vms = snapshot.vms
    out = is_one_of(vms.id, late | waiting_with(snapshot, late).keys())
    changed = replace(vms, placeable=vms.placeable & ~out, movable=vms.movable & ~out)
    return replace(snapshot, vms=changed)


def waiting_with(snapshot: Snapshot, late: AbstractSet[int]) -> dict[int, int]:
    """Return the further VMs that wait in limit orders of these VMs, each with one of these VMs."""
    vms = snapshot.vms
    waits = np.flatnonzero((vms.order != NO_ROW) & vms.waiting)
    if not len(waits):
        return {}
    out = is_one_of(vms.id[waits], late)
    first = dict(zip(vms.order[waits[out]].tolist(), vms.id[waits[out]].tolist(), strict=True))
    others = waits[~out]
    pairs = zip(vms.id[others].tolist(), vms.order[others].tolist(), strict=True)
    return {vm: first[order] for vm, order in pairs if order in first}


def with_their_orders(snapshot: Snapshot, late: Mapping[int, str]) -> dict[int, str]:
    """Return these VMs, each with its reason, and the further VMs that wait in their orders."""
    others = waiting_with(snapshot, late.keys())
    return {vm: f"its limit order waits with VM {first}" for vm, first in others.items()} | {**late}


def with_fewer_migrations(snapshot: Snapshot, plan: Plan, most: int) -> Snapshot | None:
    """Return the cloud in which only the plan's best migrations can be made; None if all can."""
    moves = plan.of(Migrate)
    if len(moves) <= most:
        return None
    best = sorted(moves, key=lambda step: (-step.gain, step.vm))[:most]
    vms = snapshot.vms
    movable = vms.movable & is_one_of(vms.id, [step.vm for step in best])
    return replace(snapshot, vms=replace(vms, movable=movable))
