"""Decisions of the markets: each by its own strategy, independent of failures in the others.

# Note [A strategy that fails]

If a strategy raises an error, no VM is placed or moved in its market. Its hosts are divided among
their present VMs, without a search, steps or reasons. If that fails as well, each VM keeps the
limits that are in force, and pays for them. In both cases `merkatd status` and the metrics name the
market as failed. The strategy begins the next period without its stored memory, which may be the
cause.

Example: the strategy of market `gold` raises an error. VM 7 on its host 1 keeps running there and
gets a share of host 1 for its bid. VM 8, which waits, waits for another period. Market `default`
decides as usual.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from twisted.logger import Logger

from merkatd.cluster import RESTING, Decision, Floats, Plan, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_MARKET, is_one_of
from merkatd.cluster.orders import joined, joined_offers
from merkatd.cluster.plan import Step
from merkatd.database import decision_basis
from merkatd.database.decision_basis import MemoryOwner
from merkatd.limits.cpu_limits import Quotas
from merkatd.limits.enforced_limits import CPU, MEMORY, EnforcedLimits
from merkatd.limits.io_limits import PER_UNIT
from merkatd.placement import strategy_named
from merkatd.placement.base.repeatable_random import repeatable_random
from merkatd.placement.market.settlement import stay, with_arrivals
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.terms.affordability import suspensions
from merkatd.scheduler.terms.ordered_vms import resumptions

_log = Logger()


def read_memories(
    connection: sa.Connection, markets: Sequence[MarketRules]
) -> Mapping[str, Mapping[str, Any]]:
    """Return by market what its strategy remembers of its last decision."""
    return decision_basis.memories(connection, map(_owner, markets))


def store_memories(
    connection: sa.Connection, markets: Sequence[MarketRules], period: int, decision: Decision
) -> None:
    """Store what the strategies remember of this decision."""
    after = {_owner(market): decision.memory.get(market.name, {}) for market in markets}
    decision_basis.keep(connection, period, after)


def _owner(market: MarketRules) -> MemoryOwner:
    return MemoryOwner(market.name, market.strategy, strategy_named(market.strategy).version)


def decide_markets(
    context: PeriodContext,
    snapshot: Snapshot,
    in_force: EnforcedLimits,
    memory: Mapping[str, Any],
    unpaid: AbstractSet[int],
    proposed: Sequence[Step],
) -> Decision:
    """Return one decision for all markets, each decided by its own strategy."""
    parts: list[Decision] = []
    later = snapshot
    for row, market in enumerate(context.markets):
        known = memory.get(market.name, {})
        parts.append(_decide_market(later, row, market, context, known, in_force))
        later = with_arrivals(later, parts[-1].plan)
    own = [
        *(step for part in parts for step in part.plan),
        *suspensions(snapshot, unpaid, context.money.unpaid_periods),
        *resumptions(snapshot, [step.vm for step in proposed]),
    ]
    known_ids = {step.id for step in own}
    return Decision(
        plan=Plan.ordered([*own, *(step for step in proposed if step.id not in known_ids)]),
        allocations=sum((part.allocations for part in parts), np.zeros_like(snapshot.vms.bid)),
        prices=np.stack([part.prices[row] for row, part in enumerate(parts)]),
        reasons={vm: reason for part in parts for vm, reason in part.reasons.items()},
        orders={order: its for part in parts for order, its in part.orders.items()},
        order_terms=joined([part.order_terms for part in parts if part.order_terms is not None]),
        goods_offers=joined_offers(
            [part.goods_offers for part in parts if part.goods_offers is not None]
        ),
        failed={market: why for part in parts for market, why in part.failed.items()},
        memory={
            market.name: part.memory for market, part in zip(context.markets, parts, strict=True)
        },
    )


def _decide_market(
    snapshot: Snapshot,
    row: int,
    market: MarketRules,
    context: PeriodContext,
    memory: Mapping[str, Any],
    in_force: EnforcedLimits,
) -> Decision:
    """Return one market's decision; its strategy does not see the other markets."""
    entry = strategy_named(market.strategy)
    settings = context.strategies.get(market.strategy, entry.settings)
    settings = replace(settings, pricing=market.pricing)
    snapshot = view_of_market(snapshot, row)
    random = repeatable_random(context.seed, snapshot.period, market.name)
    try:
        return entry.decide(snapshot, settings, memory, random)
    except Exception as error:  # noqa: BLE001 - an error in one market must not affect others
        _log.failure(
            "Strategy {strategy} failed: nothing is placed or moved in market {market}",
            strategy=market.strategy,
            market=market.name,
        )
        why = _words(error)
    reason = f"the strategy of market {market.name} failed: no VM is placed or moved in it now"
    try:
        decision = stay(snapshot, row, market.pricing, reason)
    except Exception as error:  # noqa: BLE001 - the same
        _log.failure(
            "The hosts of market {market} can't be divided: its VMs keep their limits",
            market=market.name,
        )
        why = f"{why}; then {_words(error)}"
        decision = _as_they_are(snapshot, row, market, context, in_force)
    return replace(decision, failed={market.name: why})


def view_of_market(snapshot: Snapshot, row: int) -> Snapshot:
    """Return the cloud as one market sees it: without the others' hosts and VMs."""
    if len(snapshot.markets) <= 1:
        return snapshot
    hosts, vms = snapshot.hosts, snapshot.vms
    return replace(
        snapshot,
        hosts=replace(hosts, market=np.where(hosts.market == row, row, NO_MARKET)),
        vms=replace(vms, market=np.where(vms.market == row, row, NO_MARKET)),
    )


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _as_they_are(
    snapshot: Snapshot,
    row: int,
    market: MarketRules,
    context: PeriodContext,
    in_force: EnforcedLimits,
) -> Decision:
    """Return a decision that gives each VM the amounts that its present limits allow."""
    vms = snapshot.vms
    mine = (vms.market == row) & (vms.host != NO_HOST)
    rests = is_one_of(vms.state, RESTING)[:, np.newaxis]
    most = np.where(rests, vms.floor, np.minimum(vms.cap, _in_force(snapshot, context, in_force)))
    reserve = market.pricing.reserve_prices(snapshot.resources)
    return Decision(
        plan=Plan(()),
        allocations=np.where(mine[:, np.newaxis], most, 0.0),
        prices=np.tile(reserve, (len(snapshot.markets), 1)),
    )


def _in_force(snapshot: Snapshot, context: PeriodContext, in_force: EnforcedLimits) -> Floats:
    """[vms, resources]: the amounts that limits allow each VM; infinite without a limit."""
    amounts = np.full(snapshot.vms.cap.shape, np.inf)
    for column, name in enumerate(snapshot.resources):
        if name == CPU:
            quota = Quotas(in_force.vcpu_quota_us, in_force.global_quota_us)
            period_us = context.limits.cpu.quota_period_us
            amounts[:, column] = quota.units(snapshot.vms.vcpus, period_us)
        else:
            there = in_force.memory_mib if name == MEMORY else in_force.throttled(name)
            limit = there / PER_UNIT.get(name, 1)
            amounts[:, column] = np.where(there > 0, limit, np.inf)
    return amounts
