"""Results of limit orders: which run, at what cost, and the terms of their VMs for the period."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from merkatd.cluster.columns import Bools, Floats, Ints, read_only
from merkatd.cluster.snapshot import Snapshot
from merkatd.cluster.vms import VmState

_MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class OrderOutcome:
    """The result of a limit order in a period."""

    id: int
    runs: bool
    cost: float | None
    """Credits per period while its VMs run, 0 if it waits, None if it took part in no market."""
    why: str
    """Why it waits; empty if it runs."""
    outbid: bool = False
    """Whether it waits because of higher orders or bids alone: a higher limit would start it."""


@dataclass(frozen=True, slots=True, eq=False)
class GoodsOffers:
    """The weights of goods among limit orders, and what is offered for the goods at the margin.

    Each is [markets, resources], with NaN for markets without orders.
    """

    weights: Floats
    offers: Floats


@dataclass(frozen=True, slots=True, eq=False)
class OrderTerms:
    """The terms of the VMs in limit orders, in this period: full size, or nothing."""

    rows: Ints
    """Snapshot rows of these VMs."""
    state: Ints
    """[rows]: ABSENT for a VM that waits with its order."""
    movable: Bools
    cost: Floats
    """[rows, resources]: credits per period of running."""
    priority: Floats
    """[rows]: VMs of orders are placed first, with the dearest order first of all."""
    coming: Ints
    """[rows]: snapshot row of the host on which a VM will start once others have left it, else
    NO_HOST."""
    stuck: Bools
    """Whether the VM is displaced and can't be stopped: it bids its part of the limit."""
    leaving: Ints
    """Snapshot rows of VMs that must leave their hosts, to make room for an order."""
    going: Ints
    """[leaving]: snapshot row of the host to which each of these VMs must go."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            object.__setattr__(self, entry.name, read_only(getattr(self, entry.name)))


def with_order_terms(snapshot: Snapshot, terms: OrderTerms | None) -> Snapshot:
    """Return the cloud in which VMs of orders have their full size as floor, and bid nothing.

    VMs that can't be stopped keep the memory that they hold, and their part of the limit as bid.
    """
    if terms is None:
        return snapshot
    vms, rows = snapshot.vms, terms.rows
    bid, floor, state = vms.bid.copy(), vms.floor.copy(), vms.state.copy()
    movable, priority = vms.movable.copy(), vms.priority.copy()
    bid[rows[~terms.stuck]], floor[rows], state[rows] = 0.0, vms.cap[rows], terms.state
    floor[rows[terms.stuck]] = held_amounts(snapshot, rows[terms.stuck])
    movable[rows], priority[rows] = terms.movable, terms.priority
    leaves = vms.leaves.copy()
    leaves[terms.leaving] = True
    changed = replace(
        vms,
        bid=bid,
        floor=floor,
        state=state,
        movable=movable,
        priority=priority,
        leaves=leaves,
    )
    return replace(snapshot, vms=changed)


def are_stuck(snapshot: Snapshot, rows: Ints) -> Bools:
    """Return [rows]: whether the VM can't be stopped now.

    Its owner changes it while it runs, or OpenNebula did not stop it lately.
    """
    vms = snapshot.vms
    changed = (vms.state[rows] == VmState.BUSY) & vms.stays[rows]
    stuck: Bools = changed | ((vms.state[rows] == VmState.RUNNING) & vms.stop_fails[rows])
    return stuck


def held_amounts(snapshot: Snapshot, rows: Ints) -> Floats:
    """Return [rows, resources]: the memory that these VMs hold, and nothing of other goods."""
    vms = snapshot.vms
    held: Floats = np.fmin(vms.held[rows], vms.cap[rows])
    held[:, [name != _MEMORY for name in snapshot.resources]] = 0.0
    return held


def joined_offers(parts: Sequence[GoodsOffers]) -> GoodsOffers | None:
    """Return the offers of several markets together, each for its own; None without any."""
    if not parts:
        return None
    weights, offers = parts[0].weights.copy(), parts[0].offers.copy()
    for part in parts[1:]:
        np.copyto(weights, part.weights, where=~np.isnan(part.weights))
        np.copyto(offers, part.offers, where=~np.isnan(part.offers))
    return GoodsOffers(weights, offers)


def joined(parts: Sequence[OrderTerms]) -> OrderTerms | None:
    """Return the terms of several markets together; None without any."""
    if not parts:
        return None

    def column(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    return OrderTerms(**{entry.name: column(entry.name) for entry in fields(OrderTerms)})
