"""Charges of limit orders in virtual time, by the daemon's own rules and history records."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from merkatd.cluster import ACTIVE, Bools, Decision, Floats, Ints, Snapshot, VmState
from merkatd.cluster.columns import is_one_of
from merkatd.cluster.orders import order_costs, with_order_terms
from merkatd.scheduler.base.last_records import LastRecords
from merkatd.scheduler.base.settings import Rhythm
from merkatd.scheduler.charging.charged_span import ChargedSpan
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
    placed: Bools
    rests: Bools

    @property
    def columns(self) -> Mapping[str, Any]:
        """Return the columns that the next period compares its bids with."""
        look = self.look
        return {"vm": look.vm, "runs": look.runs, "placed": self.placed, "bid": self.bid}


def decided_period(
    seen: Snapshot, decision: Decision, vms: SimulatedVms, records: LastRecords
) -> DecidedPeriod | None:
    """Return what the charge of a decision needs; None if it has no VMs in orders."""
    if decision.order_terms is None:
        return None
    state = with_order_terms(seen, decision.order_terms).vms.state
    given = (decision.allocations > 0).any(axis=1)
    cost = order_costs(seen.vms, decision.order_terms, decision.allocations)
    return DecidedPeriod(
        look=Look(seen.now_s, seen.vms.id, is_one_of(state, ACTIVE), records),
        owner=vms.owner[seen.vms.id],
        cost=np.nan_to_num(cost),
        bid=seen.vms.bid,
        placed=(state == VmState.PENDING) & given,
        rests=state == VmState.POWERED_OFF,
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
    owners: Ints = np.bincount(period.owner, owed.sum(axis=1)).astype(np.int64)
    return owners
