"""Cleared room: what limit orders owe for room that other VMs leave for them.

# Note [Cleared room is paid for]

If an order finds no free hosts, the decision makes other VMs leave: VMs of lower orders are saved,
VMs that bid migrate. Its own VMs start in a later period. Until then they have nothing, and would
pay nothing. Two such orders, stated and withdrawn in turns, would keep the VMs of all others saved
for free.

So an order owes its cost from the decision that clears room for it. It owes for each period until
its VMs start; they then pay as all running VMs do. And it owes for at least one whole interval from
that decision, however it leaves: withdrawn, with a limit below its cost, with VMs that ended, were
held or have another owner, with an account that can't pay its limit any more, since its VMs fit on
no hosts any more, or since a higher order displaces it. The account that paid at the decision owes
the rest.

An order that is displaced before the interval ends owes for each period until then. A higher order
does not pay in its place: it may need only a small part of the room. Otherwise an owner could clear
a host with a large order, and displace that order a second later with one of 0.03 cores. In a test
the large order then cost 0.16 credits instead of 4.

Example: an order costs 3 credits a period of 60 s. It is withdrawn in a period that begins 2 s
after the decision. It owes 0.1 credits for these 2 s, and then 2.9 for the other 58.

The rows are stored with the decision, apart from those of VMs: a VM may be gone when its row is
charged. The decision reserves what they owe. In mode ask VMs leave only if an administrator
approves it, so room costs nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any, Self

import numpy as np

from merkatd.cluster import Bools, Decision, Floats, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_ROW, is_one_of, rows_of, values_of

_NEARLY = 1.0 - 1e-9


class RoomPhase(IntEnum):
    """What became of an order for which room was cleared."""

    WAITS = 0
    """It waits until others have left, and owes for the time of the period."""
    STARTED = 1
    """Its VMs started, or higher bids or orders displaced it. It owes for what its VMs don't pay of
    the interval."""
    LEFT = 2
    """It left too early, and owes for the rest of an interval."""


@dataclass(frozen=True, slots=True, eq=False)
class ClearedRoom:
    """The VMs of limit orders for which room was cleared, one row each."""

    vm: Ints
    order: Ints
    """The ids of their orders."""
    account: Ints
    phase: Ints
    since_s: Floats
    """The time of the decision that cleared the room."""
    rest: Floats
    """The part of an interval that it owes after it left, or would owe if it left now."""
    whole_cost: Floats
    """The cost of its order."""
    bundle: Floats
    """[rows, resources]: the sizes of all VMs of its order together."""
    cost: Floats
    """[rows, resources]: credits per period."""

    @classmethod
    def none(cls, resources: int) -> Self:
        """Return no rows."""
        ids, numbers = np.zeros(0, dtype=np.int64), np.zeros(0)
        amounts = np.zeros((0, resources))
        return cls(ids, ids, ids, ids, numbers, numbers, numbers, amounts, amounts)

    @classmethod
    def stored(cls, arrays: Mapping[str, Any], resources: int) -> Self:
        """Return the rows among a decision's stored columns."""
        if "room_vm" not in arrays or arrays["room_cost"].shape[1] != resources:
            return cls.none(resources)
        return cls(**{entry.name: arrays[f"room_{entry.name}"] for entry in fields(cls)})

    def columns(self) -> Mapping[str, Any]:
        """Return the columns that a decision stores, if there are any rows."""
        if not len(self.vm):
            return {}
        return {f"room_{entry.name}": getattr(self, entry.name) for entry in fields(self)}

    def at(self, rows: Ints | Bools) -> Self:
        """Return only these rows."""
        return replace(
            self, **{entry.name: getattr(self, entry.name)[rows] for entry in fields(self)}
        )

    def owed_s(self, passed_s: float, interval_s: float, vm: Ints, paid_s: Floats) -> Floats:
        """Return [rows]: the time to charge, after a period that lasted `passed_s`.

        `paid_s` is the time that VMs pay for themselves, by `vm`.
        """
        rest_s = self.rest * interval_s
        own_s = values_of(vm, paid_s, self.vm, 0.0)
        lacking_s = np.maximum(np.minimum(rest_s, passed_s) - own_s, 0.0)
        by_phase = [
            self.phase == RoomPhase.WAITS,
            self.phase == RoomPhase.STARTED,
        ]
        seconds: Floats = np.select(by_phase, [passed_s, lacking_s], default=rest_s)
        return seconds

    def most_owed(self, most_periods: float) -> Floats:
        """Return [rows, resources]: the most credits that it owes after a period."""
        periods = np.where(self.phase == RoomPhase.WAITS, most_periods, self.rest)
        return self.cost * periods[:, np.newaxis]


ROOM_COLUMNS = frozenset(f"room_{entry.name}" for entry in fields(ClearedRoom))
"""The names of the stored columns."""


def still_owed(arrays: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a decision's columns without the rows that were charged to the end."""
    if "room_vm" not in arrays:
        return arrays
    room = ClearedRoom.stored(arrays, arrays["room_cost"].shape[1])
    others = {name: values for name, values in arrays.items() if name not in ROOM_COLUMNS}
    return {**others, **room.at(room.phase != RoomPhase.LEFT).columns()}


def cleared_room(
    snapshot: Snapshot,
    decision: Decision,
    accounts: Ints,
    last: ClearedRoom,
    interval_s: float,
) -> ClearedRoom:
    """Return the rows after a decision; `last` are those before, `accounts` the payers by VM."""
    last = last.at(last.phase != RoomPhase.LEFT)
    scene = _Scene.of(snapshot, decision)
    new = _waiting(scene, accounts, last)
    kept = replace(last, phase=_phases(scene, last))
    again = np.isin(kept.vm, new.vm) & (kept.phase != RoomPhase.LEFT)
    together = _joined(kept.at(~again), new)
    passed_s = np.maximum(snapshot.now_s - together.since_s, 0.0)
    together = replace(together, rest=np.maximum(1.0 - passed_s / interval_s, 0.0))
    return together.at((together.phase == RoomPhase.WAITS) | (together.rest > 0))


@dataclass(frozen=True, slots=True, eq=False)
class _Scene:
    """A decision, and the VMs that take part in it with limit orders."""

    snapshot: Snapshot
    decision: Decision
    rows: Ints
    """Snapshot rows of these VMs."""
    coming: Ints
    """[rows]: the hosts on which they start once others have left."""
    cost: Floats
    """[rows, resources]: credits per period."""
    limit: Floats
    """[orders + 1]: the limits in force; 0 in the last row, for no order."""
    bundle: Floats
    """[orders + 1, resources]"""

    @classmethod
    def of(cls, snapshot: Snapshot, decision: Decision) -> "_Scene":
        """Return the scene of a decision."""
        vms, terms = snapshot.vms, decision.order_terms
        none = np.zeros(0, dtype=np.int64)
        rows = none if terms is None else terms.rows
        coming = none if terms is None else terms.coming
        cost = np.zeros((0, len(snapshot.resources))) if terms is None else terms.cost
        limit = np.zeros(len(snapshot.orders) + 1)
        np.add.at(limit, vms.order[rows], vms.bid[rows].sum(axis=1))
        bundle = np.zeros((len(limit), len(snapshot.resources)))
        np.add.at(bundle, vms.order[rows], vms.cap[rows])
        return cls(snapshot, decision, rows, coming, cost, limit, bundle)


def _waiting(scene: _Scene, accounts: Ints, last: ClearedRoom) -> ClearedRoom:
    """Return the VMs that start once others have left."""
    snapshot = scene.snapshot
    waits = np.flatnonzero(scene.coming != NO_HOST)
    rows = scene.rows[waits]
    order = snapshot.vms.order[rows]
    # An order that was displaced and clears room again makes others leave again.
    waited = last.at(last.phase == RoomPhase.WAITS)
    pairs = zip(waited.vm.tolist(), waited.order.tolist(), strict=True)
    before = dict(zip(pairs, waited.since_s.tolist(), strict=True))
    vm, ids = snapshot.vms.id[rows], snapshot.orders.id[order]
    new = zip(vm.tolist(), ids.tolist(), strict=True)
    costs = [scene.decision.orders[id_].cost or 0.0 for id_ in ids.tolist()]
    return ClearedRoom(
        vm=vm,
        order=ids,
        account=accounts[rows],
        phase=np.full(len(rows), int(RoomPhase.WAITS)),
        since_s=np.array([before.get(pair, snapshot.now_s) for pair in new]),
        rest=np.ones(len(rows)),
        whole_cost=np.array(costs),
        bundle=scene.bundle[order],
        cost=scene.cost[waits],
    )


def _phases(scene: _Scene, last: ClearedRoom) -> Ints:
    """Return the phases of these rows."""
    vms, decision = scene.snapshot.vms, scene.decision
    row = rows_of(vms.id, last.vm)
    order = np.append(vms.order, NO_ROW)[row]
    same = (order != NO_ROW) & (np.append(scene.snapshot.orders.id, NO_ROW)[order] == last.order)
    takes_part = same & is_one_of(row, scene.rows)
    outcomes = [decision.orders.get(id_) for id_ in last.order.tolist()]
    runs = np.array([its is not None and its.runs for its in outcomes], dtype=bool)
    outbid = np.array([its is not None and its.outbid for its in outcomes], dtype=bool)
    pays = scene.limit[order] >= last.whole_cost * _NEARLY
    is_as_large = (scene.bundle[order] <= last.bundle / _NEARLY).all(axis=1)
    market = np.append(vms.market, NO_ROW)[row]
    failed = [name in decision.failed for name in scene.snapshot.markets.name]
    undecided = same & np.array([*failed, False], dtype=bool)[market]
    stays = takes_part & (runs | (outbid & pays & is_as_large))
    phases: Ints = np.select(
        [undecided, stays],
        [last.phase, int(RoomPhase.STARTED)],
        default=int(RoomPhase.LEFT),
    )
    return phases


def _joined(first: ClearedRoom, second: ClearedRoom) -> ClearedRoom:
    both = {
        entry.name: np.concatenate([getattr(first, entry.name), getattr(second, entry.name)])
        for entry in fields(ClearedRoom)
    }
    return ClearedRoom(**both)
