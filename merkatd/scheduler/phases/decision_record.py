"""The stored record of a decision: its steps, its prices, and the columns for its charge."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from twisted.logger import Logger

from merkatd import ledger
from merkatd.cluster import ACTIVE, Decision, Ints, Sleep, Snapshot, VmState, Wake
from merkatd.cluster.columns import NO_HOST, is_one_of
from merkatd.cluster.orders import with_order_terms
from merkatd.database.ledger import account_store
from merkatd.database.scheduler import (
    journal,
    limit_order_store,
    period_store,
    price_store,
)
from merkatd.database.scheduler.journal import Recorded
from merkatd.database.scheduler.order_store import Mode
from merkatd.limits import LimitPlan
from merkatd.placement.changes.plan_changes import of_this_period, permitted_steps
from merkatd.scheduler.base.settings import ALL_GOODS, GoodsSettings
from merkatd.scheduler.charging import held_memory, unlimited_time
from merkatd.scheduler.charging.charged_span import MAX_OWED, whole
from merkatd.scheduler.charging.charged_time import columns_of
from merkatd.scheduler.charging.contended_parts import contended
from merkatd.scheduler.charging.means_at_rest import with_means
from merkatd.scheduler.charging.owed_amounts import most_owed, terms_of
from merkatd.scheduler.charging.used_cpu import columns_for_charge, is_charged_by_use
from merkatd.scheduler.clearing.clearing_columns import clearing_columns, room_columns
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation import guest_starts, looks
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.phases.market_decisions import store_memories
from merkatd.scheduler.phases.permission import Permission
from merkatd.scheduler.terms.ordered_vms import funded_periods, outcomes_of_all, vms_of_undecided

_log = Logger()


def _goods(goods: GoodsSettings) -> Mapping[str, Ints]:
    """Return the column of traded goods, if optional goods are traded."""
    if not goods.further:
        return {}
    return {"goods": np.array([ALL_GOODS.index(name) for name in goods.resources])}


def _with_least_runs(
    context: PeriodContext,
    snapshot: Snapshot,
    decision: Decision,
    payers: Ints,
    most: Mapping[int, int],
) -> Mapping[int, int]:
    """Return the reservations by account, with the least runs of the limit orders that run."""
    go_on = vms_of_undecided(snapshot, decision) & is_one_of(snapshot.vms.state, ACTIVE)
    rows, terms = np.flatnonzero(go_on), decision.order_terms
    if terms is not None:
        runs = {order for order, outcome in decision.orders.items() if outcome.runs}
        placed = is_one_of(snapshot.orders.id[snapshot.vms.order[terms.rows]], runs)
        rows = np.concatenate([rows, terms.rows[placed]])
    if not len(rows):
        return most
    longest = context.rhythm.most_periods_charged
    times = funded_periods(snapshot, context.rhythm.interval_s, longest)
    further = whole(snapshot.vms.bid[rows].sum(axis=1) * (times[rows] - 1.0) * longest)
    totals = dict(most)
    for account, amount in zip(payers[rows].tolist(), further.tolist(), strict=True):
        if account >= 0:
            totals[account] = min(totals.get(account, 0) + amount, MAX_OWED)
    return totals


def record_decision(
    connection: sa.Connection,
    context: PeriodContext,
    observed: Observed,
    label: str,
    decision: Decision,
    limits: LimitPlan,
    leave: Permission,
    at_s: float,
) -> Recorded:
    """Store the decision once; a repeated call returns the recorded steps."""
    if not leave.mode.watches:
        account_store.lock_books(connection)
    steps = permitted_steps(of_this_period(limits.plan), leave.given)
    recorded = journal.record(connection, steps, at_s)
    if period_store.decided_at(connection, observed.period, at_s):
        return recorded
    snapshot = with_order_terms(observed.snapshot, decision.order_terms)
    seen = replace(observed, snapshot=snapshot)
    # The bid of a VM in a limit order stays its part of the limit.
    arrays: Mapping[str, Any] = {
        **_columns_for_charge(connection, context, seen, decision, limits),
        "bid": observed.snapshot.vms.bid,
    }
    if leave.mode is Mode.ON:
        room, each_s = observed.room, context.rhythm.interval_s
        payers = arrays["account"]
        cleared = room_columns(observed.snapshot, decision, payers, room, each_s)
        arrays = {**arrays, **cleared}
    by_market = {
        market.name: dict(zip(snapshot.resources, row.tolist(), strict=True))
        for market, row in zip(context.markets, decision.prices, strict=True)
    }
    price_store.store_prices(connection, observed.period, by_market)
    period, memory = observed.period, decision.memory
    store_memories(connection, context.markets, period, memory, leave.mode)
    if leave.mode.watches:
        period_store.watched(connection, observed.period, at_s, label)
    else:
        most = most_owed(arrays, context.markets, context.rhythm.most_periods_charged)
        most = _with_least_runs(context, observed.snapshot, decision, arrays["account"], most)
        ledger.reserve(connection, observed.period, most, at_s)
        arrays = with_means(connection, context, arrays)
        look = observed.observation
        pending = look.vm_id[look.vm_state == VmState.PENDING]
        outcomes = outcomes_of_all(snapshot, pending, decision)
        limit_order_store.record_outcomes(connection, outcomes, at_s)
        period_store.decided(connection, observed.period, at_s, label)
    if leave.mode is Mode.ON:
        carry_out_wishes(connection, context, decision, observed.period, at_s)
    price_store.store_allocations(connection, observed.period, arrays)
    return recorded


def carry_out_wishes(
    connection: sa.Connection, context: PeriodContext, decision: Decision, period: int, at_s: float
) -> None:
    """Scale applications as the strategies wish; what can't be done for strategies is logged.

    A refusal is logged once, until the step or the wish is done or refused for another reason.
    """
    is_new = context.refusals.note
    for host, why in _refused_on_hosts(decision).items():
        if is_new(("host", host), why):
            _log.info("The strategy's step on host {host} is not done: {why}", host=host, why=why)
    if not decision.wishes:
        return
    refused = context.scale(connection, context.markets, decision.wishes, period, at_s)
    for wish, why in zip(decision.wishes, refused, strict=True):
        if is_new((wish.market, wish.application), why):
            _log.info(
                "Market {market} wishes {replicas} VMs for application {application}: {why}",
                market=wish.market,
                replicas=wish.replicas,
                application=wish.application,
                why=why,
            )


def _refused_on_hosts(decision: Decision) -> Mapping[int, str]:
    """Return why steps on hosts are not done, by host id; "" for hosts with a step that is."""
    plan = decision.plan
    done = [*(step.host for step in plan.of(Sleep)), *(step.host for step in plan.of(Wake))]
    return {**dict.fromkeys(done, ""), **decision.left_hosts}


def _columns_for_charge(
    connection: sa.Connection,
    context: PeriodContext,
    observed: Observed,
    decision: Decision,
    limits: LimitPlan,
) -> Mapping[str, Any]:
    """Return the columns for the period's charge, including the payer of each VM."""
    vms, market = observed.snapshot.vms, observed.snapshot.vms.market
    runs = is_one_of(vms.state, ACTIVE)
    placed = (vms.state == VmState.PENDING) & (decision.allocations > 0).any(axis=1)
    payers = ledger.payers(connection, vms.owner.tolist(), vms.application.tolist())
    newest = (
        price_store.newest(connection) if is_charged_by_use(context.markets, market).any() else None
    )
    last = None if newest is None else columns_of(connection, newest)
    return {
        "vm": vms.id,
        "market": market,
        "owner": vms.owner,
        "application": vms.application,
        "account": np.array(payers, dtype=np.int64),
        "floor": vms.floor,
        "bid": vms.bid,
        "vcpus": vms.vcpus,
        "host": np.append(observed.snapshot.hosts.id, NO_HOST)[vms.host],
        "allocation": decision.allocations,
        "price": decision.prices,
        "runs": runs & (observed.observation.vm_host >= 0),
        "placed": placed,
        "seen_s": np.array([observed.snapshot.now_s]),
        "contended": contended(observed.snapshot, decision),
        **looks.records_column(observed.observation),
        **columns_for_charge(observed, context.markets, last),
        **held_memory.held_memory(observed.snapshot, limits),
        **held_memory.resumable(
            observed.snapshot,
            decision.prices,
            None if observed.claims is None else observed.claims.kept,
        ),
        **_goods(context.goods),
        **clearing_columns(observed.snapshot, decision, observed.weights_age_s),
        **terms_of(context.markets, observed.snapshot.resources),
        **guest_starts.start_columns(observed),
        **unlimited_time.unlimited_column(observed),
    }
