"""Decide: strategies on the snapshot, shares to limits, and all of it written down first."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from twisted.logger import Logger

from merkatd.cluster import Decision, Deploy, Migrate, OnHost, Plan, Snapshot, VmState
from merkatd.cluster.plan import Step
from merkatd.database.base.transactions import Trying
from merkatd.database.scheduler import period_store
from merkatd.database.scheduler.journal import Recorded
from merkatd.limits import Limits
from merkatd.limits import decide as decide_limits
from merkatd.scheduler.charging.used_cpu import CPU, by_use
from merkatd.scheduler.context import World
from merkatd.scheduler.observation.bidders import outside
from merkatd.scheduler.observation.memory_in_use import told
from merkatd.scheduler.observation.observed import Seen
from merkatd.scheduler.observation.snapshot_builder import MEMORY
from merkatd.scheduler.phases.decision_record import record_decision
from merkatd.scheduler.phases.market_decisions import decide_markets
from merkatd.scheduler.phases.permission import ALL, Leave, with_fewer_moves
from merkatd.scheduler.phases.scarcity import within_memory, within_stock
from merkatd.scheduler.phases.withheld_moves import meanwhile, withheld
from merkatd.scheduler.terms.affordability import beside
from merkatd.scheduler.terms.creation_turns import in_turn
from merkatd.scheduler.terms.failed_migrations import failing_to_leave

_log = Logger()


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


async def decide(
    world: World, seen: Seen, unpaid: AbstractSet[int] = frozenset(), leave: Leave = ALL
) -> Decided:
    """Nothing is sent before this has returned: every step is in the journal by then.

    VMs that have not paid for too long are suspended, and what is proposed besides is done; all
    as far as there is leave to do it.
    """
    asked = Trying(world.database) if leave.mode.watches else world.database
    proposed = in_turn(await world.proposals(asked, seen), world.rhythm.new_vms)
    seen = left_alone(seen, proposed)
    label = "+".join(market.strategy for market in world.markets)
    memory = await world.database.read(lambda connection: period_store.memory(connection, label))
    decision, limits = await world.executor.run(
        lambda: with_leave(world, seen, memory, unpaid, proposed, leave)
    )
    at_s = world.now()
    recorded = await world.database.run(
        lambda connection: record_decision(
            connection, world, seen, label, decision, limits, leave, at_s
        )
    )
    return Decided(decision, limits, recorded)


def with_leave(
    world: World,
    seen: Seen,
    memory: Mapping[str, Any],
    unpaid: AbstractSet[int],
    proposed: Sequence[Step],
    leave: Leave,
) -> tuple[Decision, Limits]:
    """What is worked out with no more moves than may be made."""
    decision, limits = worked_out(world, seen, memory, unpaid, proposed)
    fewer = with_fewer_moves(seen, decision.plan, leave)
    if fewer is None:
        return decision, limits
    return worked_out(world, fewer, memory, unpaid, proposed)


def worked_out(
    world: World,
    seen: Seen,
    memory: Mapping[str, Any],
    unpaid: AbstractSet[int] = frozenset(),
    proposed: Sequence[Step] = (),
) -> tuple[Decision, Limits]:
    """The pure part: every market by its own strategy, then limits for all.

    Everything is decided anew where a host has no memory for its arrivals, now or later.
    """

    def attempt(snapshot: Snapshot, coming: Mapping[int, int]) -> tuple[Decision, Limits]:
        now = replace(seen, snapshot=snapshot)
        return _worked_out(world, now, memory, unpaid, proposed, coming)

    return within_memory(seen.snapshot, attempt)


def _worked_out(
    world: World,
    seen: Seen,
    memory: Mapping[str, Any],
    unpaid: AbstractSet[int],
    proposed: Sequence[Step],
    coming: Mapping[int, int],
) -> tuple[Decision, Limits]:
    """One round. `coming`: by VM id, the hosts where room is made for VMs that stay for now."""
    snapshot, rules = seen.snapshot, seen.observation.constraints
    decision = within_stock(
        snapshot,
        lambda one: decide_markets(world, one, seen.in_force, memory, unpaid, proposed),
        None if rules is None else rules.stock,
    )
    later = withheld(world, snapshot, decision.plan)
    decision = replace(
        decision,
        reasons=_reasons(world, seen, decision),
        allocations=meanwhile(world, snapshot, decision, later),
    )
    topologies = world.hypervisors.topologies()
    charged = by_use(world.markets, snapshot.vms.market)
    rate = np.where(charged, snapshot.vms.bid[:, CPU], np.nan)
    limits = decide_limits(
        snapshot,
        decision,
        seen.in_force,
        topologies,
        world.limits,
        rate,
        None if seen.in_use is None else seen.in_use.keeps,
        coming,
        later,
    )
    return decision, _on_hosts_that_answer(limits, seen)


def left_alone(seen: Seen, proposed: Sequence[Step]) -> Seen:
    """Return the same cloud, in which no strategy places or moves a VM with a proposed step."""
    if not proposed:
        return seen
    vms = seen.snapshot.vms
    spoken_for = np.isin(vms.id, [step.vm for step in proposed])
    waits = spoken_for & (vms.state == int(VmState.PENDING))
    vms = replace(
        vms,
        movable=vms.movable & ~spoken_for,
        state=np.where(waits, int(VmState.ABSENT), vms.state),
    )
    return replace(seen, snapshot=replace(seen.snapshot, vms=vms))


def _reasons(world: World, seen: Seen, decision: Decision) -> Mapping[int, str]:
    """Return what owners are told; texts that fail cost no decision."""
    try:
        return _why(world, seen, decision)
    except Exception:  # noqa: BLE001 - the decision does not depend on them
        _log.failure("Not all reasons can be told; all that was decided is done")
        return decision.reasons


def _why(world: World, seen: Seen, decision: Decision) -> Mapping[int, str]:
    """Why VMs wait, or shrink; a requirement's own words say more than a strategy can."""
    rules = seen.observation.constraints
    known = {} if rules is None else rules.unplaceable
    said = {vm: known.get(vm, why) for vm, why in decision.reasons.items()}
    if seen.in_use is not None:
        uses = told(seen.snapshot.vms.id, seen.in_use, decision.allocations[:, MEMORY])
        said |= beside(said, uses)
    said |= failing_to_leave(seen.snapshot, seen.moves)
    return {**said, **outside(seen.observation, seen.snapshot.vms.market, world.markets)}


def _on_hosts_that_answer(limits: Limits, seen: Seen) -> Limits:
    """Return the limits without steps of VMs that are on hosts without an answer, or go there."""
    if not seen.use.away:
        return limits
    away = np.isin(seen.observation.vm_host, list(seen.use.away))
    vms = set(seen.observation.vm_id[away].tolist())
    arrivals = {
        step.id
        for step in limits.plan
        if isinstance(step, Deploy | Migrate) and step.host in seen.use.away
    }
    kept = [
        step
        for step in limits.plan
        if not isinstance(step, OnHost) or not (step.vm in vms or arrivals & set(step.after))
    ]
    return replace(limits, plan=Plan(tuple(kept)))
