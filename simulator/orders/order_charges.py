"""Charges of limit orders in virtual time, by the daemon's own rules and history records."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from merkatd.cluster import ACTIVE, Bools, Decision, Floats, Ints, Snapshot, VmState
from merkatd.cluster.columns import is_one_of
from merkatd.cluster.orders import with_order_terms
from merkatd.scheduler.base.last_records import LastRecords
from merkatd.scheduler.base.settings import Rhythm
from merkatd.scheduler.charging.charged_span import ChargedSpan
from merkatd.scheduler.clearing.cleared_room import ClearedRoom
from merkatd.scheduler.clearing.clearing_columns import (
    LastClearing,
    clearing_columns,
    room_columns,
)
from merkatd.scheduler.observation.looks import Look
from merkatd.scheduler.observation.running_time import at_least, seconds_run
from simulator.orders.simulated_vms import Life, SimulatedVms


@dataclass(frozen=True, slots=True, eq=False)
class DecidedPeriod:
    """What the charge of a period needs: the columns that the daemon stores with a decision."""

    look: Look
    owner: Ints
    cost: Floats
    """[vms, resources]: credits per interval."""
    bid: Floats
    """[vms, resources]"""
    allocation: Floats
    """[vms, resources]"""
    market: Ints
    price: Floats
    """[markets, resources]"""
    placed: Bools
    rests: Bools
    orders: Mapping[str, Any]
    """The columns about limit orders."""

    @property
    def columns(self) -> Mapping[str, Any]:
        """Return the columns that the next period needs."""
        look = self.look
        return {
            "vm": look.vm,
            "runs": look.runs,
            "placed": self.placed,
            "bid": self.bid,
            "allocation": self.allocation,
            "market": self.market,
            "price": self.price,
            "seen_s": np.array([look.at_s]),
            **self.orders,
        }

    @property
    def room(self) -> ClearedRoom:
        """Return the room that was cleared for limit orders."""
        return ClearedRoom.stored(self.orders, self.bid.shape[1])


def decided_period(
    seen: Snapshot,
    decision: Decision,
    vms: SimulatedVms,
    records: LastRecords,
    last: LastClearing,
    interval_s: float,
) -> DecidedPeriod:
    """Return what the charge of a decision needs."""
    state = with_order_terms(seen, decision.order_terms).vms.state
    given = (decision.allocations > 0).any(axis=1)
    owner = vms.owner[seen.vms.id]
    orders = clearing_columns(seen, decision, last.weights_age_s)
    return DecidedPeriod(
        look=Look(seen.now_s, seen.vms.id, is_one_of(state, ACTIVE), records),
        owner=owner,
        cost=np.nan_to_num(orders.get("order_cost", np.zeros_like(seen.vms.bid))),
        bid=seen.vms.bid,
        allocation=decision.allocations,
        market=seen.vms.market,
        price=decision.prices,
        placed=(state == VmState.PENDING) & given,
        rests=state == VmState.POWERED_OFF,
        orders={**orders, **room_columns(seen, decision, owner, last.room, interval_s)},
    )


def charge(period: DecidedPeriod, vms: SimulatedVms, now_s: float, rhythm: Rhythm) -> Ints:
    """Return [owners]: micro-credits for the time from a decision until now."""
    ids, look = period.look.vm, period.look
    life = vms.life[ids]
    boots = life == Life.BOOTS
    runs = np.isin(life, (Life.RUNS, Life.SAVES, Life.MOVES))
    now = Look(now_s, ids[life != Life.GONE], runs[life != Life.GONE], vms.records(ids))
    passed_s = now_s - look.at_s
    ran = at_least(seconds_run(look, now, {}, period.placed), rhythm.least_charge_s, passed_s)
    # A placed VM without a guest by now keeps its room from others.
    waited = period.placed & boots
    ran = np.where(waited & (ran <= 0), passed_s, ran)
    most_s = rhythm.most_periods_charged * rhythm.interval_s
    ran, charged_s = np.minimum(ran, most_s), min(passed_s, most_s)
    rested = np.where(period.rests, np.maximum(charged_s - ran, 0.0), 0.0)
    span = ChargedSpan(look.at_s, rhythm.interval_s, rhythm.most_periods_charged)
    owed = span.owed(period.cost, ran[:, np.newaxis])
    if rested.any():
        owed = owed + span.owed(period.cost, rested[:, np.newaxis])
    room = period.room
    room_s = room.owed_s(charged_s, rhythm.interval_s, ids, ran + rested)
    cleared = span.owed(room.cost, room_s[:, np.newaxis])
    payers = np.concatenate([period.owner, room.account])
    amounts = np.concatenate([owed.sum(axis=1), cleared.sum(axis=1)])
    owners: Ints = np.bincount(payers, amounts).astype(np.int64)
    return owners
