"""Limit orders as tenants state them, their results, and the terms of their VMs for a period."""

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from merkatd.cluster.columns import Bools, Floats, Ints, read_only
from merkatd.cluster.snapshot import Snapshot
from merkatd.cluster.vms import Vms, VmState

LEAST_LIMIT = 1e-6
"""The ledger's smallest unit: the limit of an order that should not run."""
_MEMORY = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOrder:
    """A limit order of a tenant, and the outcome of the latest period."""

    id: int
    owner: int
    vms: tuple[int, ...]
    """The ids of its VMs, ascending; only the order of a platform may have none."""
    limit: float
    """The most credits a period for all its VMs together."""
    least_run_s: float = 0.0
    """The time after each start for which `factor` applies."""
    factor: float = 1.0
    """The multiple of the limit that applies for `least_run_s`."""
    stated_s: float
    runs: bool = False
    since_s: float | None = None
    """The time of the last change of `runs`; None if it never ran."""
    cost: float | None = None
    """The credits a period that it pays, or would pay; None if unknown."""
    why: str = ""
    platform: int | None = None
    """The platform that states it, if any."""

    def __post_init__(self) -> None:
        lacks = not self.vms and self.platform is None
        if lacks or any(a >= b for a, b in zip(self.vms, self.vms[1:], strict=False)):
            raise self._wrong("vms", "different ids in ascending order", self.vms)
        if not (math.isfinite(self.limit) and self.limit > 0):
            raise self._wrong("limit", "a finite number above 0", self.limit)
        if not (math.isfinite(self.least_run_s) and self.least_run_s >= 0):
            raise self._wrong("least_run_s", "a finite number of at least 0", self.least_run_s)
        if not (math.isfinite(self.factor) and self.factor >= 1):
            raise self._wrong("factor", "a finite number of at least 1", self.factor)
        if self.cost is not None and not (math.isfinite(self.cost) and self.cost >= 0):
            raise self._wrong("cost", "a finite number of at least 0, or None", self.cost)

    def _wrong(self, name: str, accepted: str, value: object) -> ValueError:
        return ValueError(f"limit order {self.id}: {name} must be {accepted} (got {value})")

    def limit_at(self, now_s: float) -> float:
        """Return the limit in force: for `least_run_s` after a start it is larger."""
        is_new = self.runs and self.rest_s(now_s) > 0
        return self.limit * self.factor if is_new else self.limit

    def rest_s(self, now_s: float) -> float:
        """Return the rest of the least run, which is all of it before a start.

        A start that a wrong clock dated far into the future is no new one.
        """
        if not self.runs or self.since_s is None:
            return self.least_run_s
        return max(self.least_run_s - abs(now_s - self.since_s), 0.0)

    def displaced_s(self, now_s: float) -> float:
        """Return the time since it was displaced, or stated if it never ran; 0 while it runs."""
        if self.runs:
            return 0.0
        return abs(now_s - (self.stated_s if self.since_s is None else self.since_s))

    def with_vms(self, vms: tuple[int, ...]) -> "LimitOrder":
        """Return the order with these VMs.

        An order that had no VMs, or has none now, does not run, whatever was its last outcome.
        """
        if vms and self.vms:
            return replace(self, vms=vms)
        return replace(self, vms=vms, runs=False, since_s=None, cost=None, why="")

    def after(self, outcome: "OrderOutcome", at_s: float) -> "LimitOrder":
        """Return the order after a period that was decided at this time."""
        since_s = self.since_s if self.runs == outcome.runs else at_s
        return replace(self, runs=outcome.runs, since_s=since_s, cost=outcome.cost, why=outcome.why)


@dataclass(frozen=True, slots=True, eq=False)
class StatedOrders:
    """The limit orders in force, and the prices that were announced last."""

    orders: Sequence[LimitOrder] = ()
    prices: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By market and resource."""
    unordered: AbstractSet[int] = frozenset()
    """The ids of VMs that wait until their platform states its order."""
    saved: AbstractSet[int] = frozenset()
    """The ids of VMs that the scheduler has saved, or is saving."""


NO_ORDERS = StatedOrders()


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
    size: Floats
    """[rows, resources]: what each VM gets: its full size, or what it had if it is displaced."""
    cost: Floats
    """[rows, resources]: credits per period of running."""
    priority: Floats
    """[rows]: VMs of orders are placed first, with the dearest order first of all."""
    coming: Ints
    """[rows]: snapshot row of the host on which a VM will start once others have left it, else
    NO_HOST."""
    priced: Bools
    """Whether it is displaced and not being saved: it pays the market price, at most `most`."""
    most: Floats
    """[rows, resources]"""
    lingers: Bools
    """Whether it is displaced, and on its host for a while: it bids its part of the limit."""
    stuck: Bools
    """Whether it is displaced and can't be stopped."""
    least: Floats
    """[rows, resources]: the reserve price of the memory that the VM holds."""
    leaving: Ints
    """Snapshot rows of VMs that must leave their hosts, to make room for an order."""
    going: Ints
    """[leaving]: snapshot row of the host to which each of these VMs must go."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            object.__setattr__(self, entry.name, read_only(getattr(self, entry.name)))


def with_order_terms(snapshot: Snapshot, terms: OrderTerms | None) -> Snapshot:
    """Return the cloud in which VMs of orders have their sizes as floors, and bid nothing.

    Displaced VMs that linger keep the memory that they hold, and their part of the limit as bid.
    """
    if terms is None:
        return snapshot
    vms, rows = snapshot.vms, terms.rows
    bid, floor, placeable = vms.bid.copy(), vms.floor.copy(), vms.placeable.copy()
    movable, priority = vms.movable.copy(), vms.priority.copy()
    bid[rows[~terms.lingers]], floor[rows] = 0.0, terms.size
    placeable[rows] &= terms.state != VmState.ABSENT
    lingering = rows[terms.lingers]
    floor[lingering] = held_amounts(snapshot, lingering)
    movable[rows], priority[rows] = terms.movable, terms.priority
    leaves = vms.leaves.copy()
    leaves[terms.leaving] = True
    changed = replace(
        vms,
        bid=bid,
        floor=floor,
        placeable=placeable,
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


def sizes_until_left(snapshot: Snapshot, rows: Ints) -> Floats:
    """Return [rows, resources]: what displaced VMs have until they have left.

    That is what they had before: their full size if their orders ran, else what their bids bought.
    """
    vms = snapshot.vms
    size: Floats = vms.cap[rows]
    if vms.kept.shape[1]:
        had = np.where(np.isnan(vms.kept[rows]), size, vms.kept[rows])
        size = np.fmin(np.fmax(had, held_amounts(snapshot, rows)), size)
    return size


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


def order_costs(vms: Vms, terms: OrderTerms, allocations: Floats, prices: Floats) -> Floats:
    """Return [vms, resources]: credits per period of each VM in an order; NaN for other VMs.

    Until displaced VMs have left, the VMs of running orders may get less than their full size, and
    pay for as much. Those that are displaced and not being saved pay the market price of what they
    get. VMs that start or migrate can't get new limits, and pay for all that they have.
    """
    size, given = terms.size, allocations[terms.rows]
    part = np.divide(given, size, out=np.ones_like(size), where=size > 0)
    costs = np.full(vms.cap.shape, np.nan)
    costs[terms.rows] = terms.cost * np.minimum(part, 1.0)
    rows, least = terms.rows[terms.priced], terms.least[terms.priced]
    fixed = vms.starts[rows] | ((vms.state[rows] == VmState.BUSY) & ~vms.stays[rows])
    taken = np.where(fixed[:, np.newaxis], size[terms.priced], allocations[rows])
    price = np.where(taken > 0, prices[vms.market[rows]], 0.0)
    costs[rows] = np.maximum(_at_most(price * taken, terms.most[terms.priced]), least)
    return costs


def _at_most(worth: Floats, most: Floats) -> Floats:
    """Return amounts of credits, [rows, resources], lowered so that their sums are at most these.

    The worth is infinite where floors took all of a good: then all of `most` is due.
    """
    whole, limit = worth.sum(axis=1), most.sum(axis=1)
    known = np.isfinite(whole) & (whole > 0)
    part = np.divide(limit, whole, out=np.ones_like(limit), where=known)
    paid = np.where(np.isfinite(worth), worth, 0.0) * np.minimum(part, 1.0)[:, np.newaxis]
    return np.where(np.isfinite(whole)[:, np.newaxis], paid, most)


def joined(parts: Sequence[OrderTerms]) -> OrderTerms | None:
    """Return the terms of several markets together; None without any."""
    if not parts:
        return None

    def column(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    return OrderTerms(**{entry.name: column(entry.name) for entry in fields(OrderTerms)})
