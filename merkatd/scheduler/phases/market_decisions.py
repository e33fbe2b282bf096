"""Decisions of the markets: each by its own strategy, independent of failures in the others.

# Note [A strategy that fails]

If a strategy raises an error, or its decision is wrong (`placement/decision_check.py`), no VM is
placed or moved in its market. Its hosts are divided among their present VMs, without a search,
steps or reasons. If that fails as well, each VM keeps the limits that are in force, and pays for
them. In all cases `merkatd status` and the metrics name the market as failed, and the log has the
mistake once while it lasts. The strategy begins the next period without its stored memory, which
may be the cause.

If the cloud lacks what the strategy needs, the same happens, but the strategy does not run and
keeps its memory. Example: hosts of market `gold` lose their domains for a period. Then its strategy
goes on from what it remembered before.

Example: the strategy of market `gold` raises an error. VM 7 on its host 1 keeps running there and
gets a share of host 1 for its bid. VM 8, which waits, waits for another period. Market `default`
decides as usual.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from twisted.logger import Logger

from merkatd.cluster import RESTING, Decision, Floats, Plan, Snapshot
from merkatd.cluster.columns import NO_HOST, is_one_of
from merkatd.cluster.plan import Step
from merkatd.database import decision_basis
from merkatd.database.decision_basis import MemoryOwner
from merkatd.database.scheduler import plan_store
from merkatd.database.scheduler.order_store import Mode
from merkatd.limits.cpu_limits import Quotas
from merkatd.limits.enforced_limits import CPU, MEMORY, EnforcedLimits
from merkatd.limits.io_limits import PER_UNIT
from merkatd.placement.base.repeatable_random import repeatable_random
from merkatd.placement.contract import Charge
from merkatd.placement.decision_check import WrongDecisionError, checked_decision
from merkatd.placement.market.settlement import stay
from merkatd.placement.markets_in_turn import (
    DecisionBasis,
    MarketBasis,
    decide_in_turn,
    joined_decision,
)
from merkatd.placement.snapshot_needs import UnfilledNeedError, require_needs
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.terms.affordability import suspensions
from merkatd.scheduler.terms.ordered_vms import resumptions

_log = Logger()


@dataclass(frozen=True, slots=True, eq=False)
class DecisionStart:
    """What the markets' decisions begin with, besides the cloud."""

    memories: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By market: what its strategy remembers of its last decision."""
    drawn: int | None = None
    """The period whose random numbers are drawn; None for the present one."""


def read_start(
    connection: sa.Connection, markets: Sequence[MarketRules], mode: Mode
) -> DecisionStart:
    """Return what decisions in this mode begin with.

    In mode ask, a plan that stands or was refused keeps its random numbers: the next period
    would draw another plan in place of the one that an administrator reads.
    """
    memories = decision_basis.memories(connection, map(_owner, markets), watches=mode.watches)
    drawn = plan_store.drawn_period(connection) if mode is Mode.ASK else None
    return DecisionStart(memories, drawn)


def store_memories(
    connection: sa.Connection,
    markets: Sequence[MarketRules],
    period: int,
    memories: Mapping[str, Mapping[str, Any]],
    mode: Mode,
) -> None:
    """Store what the strategies remember, by market."""
    after = {_owner(market): memories.get(market.name, {}) for market in markets}
    decision_basis.keep(connection, period, after, watches=mode.watches)


def _owner(market: MarketRules) -> MemoryOwner:
    return MemoryOwner(market.name, market.strategy, market.entry.version)


def decide_markets(
    context: PeriodContext,
    snapshot: Snapshot,
    in_force: EnforcedLimits,
    start: DecisionStart,
    unpaid: AbstractSet[int],
    proposed: Sequence[Step],
) -> Decision:
    """Return one decision for all markets, each decided by its own strategy."""

    def decide(seen: Snapshot, row: int, market: MarketRules) -> Decision:
        return _decide_market(seen, row, market, context, start, in_force)

    parts = decide_in_turn(snapshot, context.markets, decide)
    further = [
        *suspensions(snapshot, unpaid, context.money.unpaid_periods),
        *resumptions(snapshot, [step.vm for step in proposed]),
        *proposed,
    ]
    decision = joined_decision([market.name for market in context.markets], parts, further)
    return replace(decision, decided_from=snapshot)


def decision_basis_of(context: PeriodContext, start: DecisionStart) -> DecisionBasis:
    """Return what the period's decision depends on besides the snapshot."""
    return DecisionBasis(
        context.seed,
        tuple(
            MarketBasis(
                name=market.name,
                strategy=market.strategy,
                settings=market.settings_in_force,
                memory=start.memories.get(market.name, {}),
            )
            for market in context.markets
        ),
        start.drawn,
    )


def _decide_market(
    snapshot: Snapshot,
    row: int,
    market: MarketRules,
    context: PeriodContext,
    start: DecisionStart,
    in_force: EnforcedLimits,
) -> Decision:
    """Return one market's decision; its strategy does not see the other markets."""
    drawn = snapshot.period if start.drawn is None else start.drawn
    random = repeatable_random(context.seed, drawn, market.name)
    memory = start.memories.get(market.name, {})
    kept: Mapping[str, Any] = {}
    try:
        require_needs(market.entry, snapshot)
        made = market.entry.decide(snapshot, market.settings_in_force, memory, random)
        return _free_of_charge(market, row, checked_decision(snapshot, row, made))
    except Exception as error:  # noqa: BLE001 - an error in one market must not affect others
        if isinstance(error, UnfilledNeedError):
            kept = memory
        _log_mistake(context, market, snapshot.period, error)
        why = _words(error)
    reason = f"the strategy of market {market.name} failed: no VM is placed or moved in it now"
    try:
        decision = stay(snapshot, row, market.pricing, reason)
    except Exception as error:  # noqa: BLE001 - the same
        mistake = f"not divided: {type(error).__name__}"
        if context.failed_markets.note(market.name, mistake, snapshot.period):
            _log.failure(
                "The hosts of market {market} can't be divided: its VMs keep their limits",
                market=market.name,
            )
        why = f"{why}; then {_words(error)}"
        decision = _as_they_are(snapshot, row, market, context, in_force)
    return replace(decision, failed={market.name: why}, memory=kept)


def _free_of_charge(market: MarketRules, row: int, decision: Decision) -> Decision:
    """Return a decision without prices if the market's strategy charges nothing."""
    if market.entry.charges is not Charge.NONE:
        return decision
    prices = decision.prices.copy()
    prices[row] = 0.0
    return replace(decision, prices=prices)


def _log_mistake(
    context: PeriodContext, market: MarketRules, period: int, error: Exception
) -> None:
    """Log a wrong decision and what the cloud lacks in words, another error with its place."""
    wrong = error if isinstance(error, WrongDecisionError) else None
    lacks = isinstance(error, UnfilledNeedError)
    mistake = type(error).__name__ if wrong is None else wrong.mistake
    if not context.failed_markets.note(market.name, str(error) if lacks else mistake, period):
        return
    if lacks:
        _log.error(
            "Nothing is placed or moved in market {market}: {why}",
            market=market.name,
            why=str(error),
        )
        return
    if wrong is not None:
        _log.error(
            "Strategy {strategy} made a wrong decision: nothing is placed or moved in market"
            " {market}: {why}",
            strategy=market.strategy,
            market=market.name,
            why=str(wrong),
        )
        return
    _log.failure(
        "Strategy {strategy} failed: nothing is placed or moved in market {market}",
        strategy=market.strategy,
        market=market.name,
    )


def _words(error: Exception) -> str:
    if isinstance(error, WrongDecisionError):
        return f"its decision is wrong: {error}"
    if isinstance(error, UnfilledNeedError):
        return str(error)
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
