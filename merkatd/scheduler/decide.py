"""Decide: strategies on the snapshot, shares to limits, and all of it written down first."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sqlalchemy as sa

from merkatd.cluster import Balloon, Decision, Limit, Pin, Plan, Snapshot, VmState
from merkatd.cluster.steps import Step
from merkatd.database import allocations, journal, periods, prices
from merkatd.database.journal import Recorded
from merkatd.limits import Limits
from merkatd.limits import decide as decide_limits
from merkatd.placement import strategy_named
from merkatd.scheduler.observe import Seen
from merkatd.scheduler.settings import Market
from merkatd.scheduler.world import World

NOWHERE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """What is to be done, and what everybody gets and pays."""

    decision: Decision
    limits: Limits
    recorded: Recorded

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that are in the journal and may be sent."""
        return self.recorded.recorded


async def decide(world: World, seen: Seen) -> Decided:
    """Nothing is sent before this has returned: every step is in the journal by then."""
    label = "+".join(market.strategy for market in world.markets)
    memory = await world.database.read(lambda connection: periods.memory(connection, label))
    decision, limits = await world.executor.run(lambda: worked_out(world, seen, memory))
    recorded = await world.database.run(
        lambda connection: _store(connection, world, seen, label, decision, limits)
    )
    return Decided(decision, limits, recorded)


def worked_out(world: World, seen: Seen, memory: Mapping[str, Any]) -> tuple[Decision, Limits]:
    """The pure part: every market by its own strategy, then limits for all."""
    snapshot = seen.snapshot
    parts = [
        _decide_market(snapshot, row, market, world, memory.get(market.name, {}))
        for row, market in enumerate(world.markets)
    ]
    decision = Decision(
        plan=Plan.ordered([step for part in parts for step in part.plan]),
        allocations=sum((part.allocations for part in parts), np.zeros_like(snapshot.vms.bid)),
        prices=np.stack([part.prices[row] for row, part in enumerate(parts)]),
        reasons={vm: reason for part in parts for vm, reason in part.reasons.items()},
        memory={
            market.name: part.memory for market, part in zip(world.markets, parts, strict=True)
        },
    )
    topologies = world.hypervisors.topologies()
    return decision, decide_limits(snapshot, decision, seen.in_force, topologies, world.limits)


def _decide_market(
    snapshot: Snapshot, row: int, market: Market, world: World, memory: Mapping[str, Any]
) -> Decision:
    """One market's decision; the others' hosts and VMs are not there for it."""
    entry = strategy_named(market.strategy)
    settings = world.strategies.get(market.strategy, entry.settings)
    settings = replace(settings, pricing=market.pricing)
    if len(snapshot.markets) > 1:
        hosts, vms = snapshot.hosts, snapshot.vms
        snapshot = replace(
            snapshot,
            hosts=replace(hosts, market=np.where(hosts.market == row, row, NOWHERE)),
            vms=replace(vms, market=np.where(vms.market == row, row, NOWHERE)),
        )
    return entry.decide(snapshot, world.rng, memory, settings)


def _of_this_period(plan: Plan) -> list[Step]:
    """All but what hosts are told once a VM has arrived: the next period sees it and does that."""
    arrivals = {step.id for step in plan if not isinstance(step, Limit | Pin | Balloon)}
    kept: list[Step] = []
    later: set[str] = set()
    for step in plan:
        if isinstance(step, Limit | Pin | Balloon) and (arrivals | later) & set(step.after):
            later.add(step.id)
        else:
            kept.append(step)
    return kept


def _store(
    connection: sa.Connection,
    world: World,
    seen: Seen,
    label: str,
    decision: Decision,
    limits: Limits,
) -> Recorded:
    snapshot = seen.snapshot
    at_s = world.now()
    recorded = journal.record(connection, _of_this_period(limits.plan), at_s)
    runs = np.isin(snapshot.vms.state, (VmState.RUNNING, VmState.BUSY))
    allocations.store(
        connection,
        seen.period,
        {
            "vm": snapshot.vms.id,
            "market": snapshot.vms.market,
            "owner": snapshot.vms.owner,
            "bid": snapshot.vms.bid,
            "allocation": decision.allocations,
            "price": decision.prices,
            "runs": runs & (seen.observation.vm_host >= 0),
        },
    )
    by_market = {
        market.name: dict(zip(snapshot.resources, row.tolist(), strict=True))
        for market, row in zip(world.markets, decision.prices, strict=True)
    }
    prices.store(connection, seen.period, by_market)
    periods.decided(connection, seen.period, at_s, label, decision.memory)
    return recorded
