"""Deciding: shares and steps by the strategies, limits from shares, all stored before acting."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import numpy as np
from twisted.logger import Logger

from merkatd.cluster import Decision, OfHost, Plan, Snapshot
from merkatd.cluster.columns import is_one_of
from merkatd.cluster.left_out import without_places
from merkatd.cluster.orders import with_order_terms
from merkatd.cluster.plan import Step
from merkatd.database.base.transactions import DryRunTransactions
from merkatd.database.scheduler.journal import Recorded
from merkatd.database.scheduler.order_store import Mode
from merkatd.limits import LimitPlan
from merkatd.limits import plan_limits as decide_limits
from merkatd.limits.cpu_limits import (
    UNITS_PER_CORE,
    least_units,
    quotas_in_force,
    unchanged_units,
)
from merkatd.placement.changes.plan_changes import without_hosts
from merkatd.placement.changes.withheld_moves import (
    allocations_beside_leaving,
    allocations_until_moved,
    vms_with_advance_quotas,
    withheld_vms,
)
from merkatd.placement.markets_in_turn import DecisionBasis, with_possible_steps
from merkatd.scheduler.charging.used_cpu import CPU, is_charged_by_use
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.bidders import outside_markets
from merkatd.scheduler.observation.memory_in_use import owner_messages
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.observation.snapshot_builder import MEMORY
from merkatd.scheduler.phases.decision_record import record_decision
from merkatd.scheduler.phases.market_decisions import (
    DecisionStart,
    decide_markets,
    decision_basis_of,
    read_start,
)
from merkatd.scheduler.phases.permission import EVERYTHING_PERMITTED, Permission, with_fewer_moves
from merkatd.scheduler.phases.scarcity import within_capacity, within_memory
from merkatd.scheduler.terms.affordability import messages_after_reasons
from merkatd.scheduler.terms.claims_elsewhere import vms_with_lost_claims
from merkatd.scheduler.terms.creation_turns import take_turns
from merkatd.scheduler.terms.failed_migrations import (
    failing_to_leave,
    failing_to_stop,
    held_switches,
)

_log = Logger()


@dataclass(frozen=True, slots=True, eq=False)
class FreeDecision:
    """The decision of a period that may use all steps, also those without an approval."""

    decision: Decision
    limits: LimitPlan
    start: DecisionStart


@dataclass(frozen=True, slots=True, eq=False)
class PeriodDecision:
    """The decision of a period: steps, shares, prices and limits."""

    decision: Decision
    limits: LimitPlan
    recorded: Recorded
    start: DecisionStart
    """What it began with."""
    basis: DecisionBasis
    """What it depended on besides the snapshot."""
    messages: Mapping[int, str] = field(default_factory=dict)
    """By VM id: a message for its owner that is no reason of the decision."""
    proposed_from: Snapshot | None = None
    """The cloud from which steps were proposed, if none was approved; None outside of mode ask."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that are in the journal and may be sent."""
        return self.recorded.recorded


async def decide(
    context: PeriodContext,
    seen: Observed,
    unpaid: AbstractSet[int] = frozenset(),
    leave: Permission = EVERYTHING_PERMITTED,
    free: FreeDecision | None = None,
) -> PeriodDecision:
    """Decide and store the decision; every step is in the journal before this returns.

    The decision suspends VMs of late payers, and includes the proposed steps, as far as permitted.
    After a free decision it begins with the same, and its strategies remember the free one.
    """
    asked = DryRunTransactions(context.database) if leave.mode.watches else context.database
    proposed = take_turns(await context.proposals(asked, seen), context.rhythm.new_vms)
    seen = without_moving_proposed(seen, proposed)
    label = "+".join(market.strategy for market in context.markets)
    start = await start_of(context, leave.mode) if free is None else free.start
    basis = decision_basis_of(context, start)
    decision, limits = await context.executor.run(
        lambda: within_permission(context, seen, start, unpaid, proposed, leave)
    )
    if free is not None:
        decision = replace(decision, memory=free.decision.memory)
    at_s = context.now()
    recorded = await context.database.run(
        lambda connection: record_decision(
            connection, context, seen, label, decision, limits, leave, at_s
        )
    )
    return PeriodDecision(decision, limits, recorded, start, basis)


async def start_of(context: PeriodContext, mode: Mode) -> DecisionStart:
    """Return what a decision in this mode begins with."""
    return await context.database.read(
        lambda connection: read_start(connection, context.markets, mode)
    )


async def decide_freely(
    context: PeriodContext, observed: Observed, unpaid: AbstractSet[int], mode: Mode
) -> FreeDecision:
    """Return the decision that may use all steps; it is not stored."""
    start = await start_of(context, mode)
    decision, limits = await context.executor.run(
        lambda: decided_unstored(context, observed, start, unpaid)
    )
    return FreeDecision(decision, limits, start)


def within_permission(
    context: PeriodContext,
    observed: Observed,
    start: DecisionStart,
    unpaid: AbstractSet[int],
    proposed: Sequence[Step],
    leave: Permission,
) -> tuple[Decision, LimitPlan]:
    """Decide with at most the permitted number of migrations."""
    decision, limits = decided_unstored(context, observed, start, unpaid, proposed)
    fewer = with_fewer_moves(observed, decision.plan, leave)
    if fewer is None:
        return decision, limits
    return decided_unstored(context, fewer, start, unpaid, proposed)


def decided_unstored(
    context: PeriodContext,
    observed: Observed,
    start: DecisionStart,
    unpaid: AbstractSet[int] = frozenset(),
    proposed: Sequence[Step] = (),
) -> tuple[Decision, LimitPlan]:
    """Decide without storing: each market by its own strategy, then the limits of all VMs.

    The decision is repeated while a host lacks memory for its arrivals.
    """

    def attempt(snapshot: Snapshot, coming: Mapping[int, int]) -> tuple[Decision, LimitPlan]:
        now = replace(observed, snapshot=snapshot)
        return _worked_out(context, now, start, unpaid, proposed, coming)

    return within_memory(observed.snapshot, attempt)


def _worked_out(
    context: PeriodContext,
    observed: Observed,
    start: DecisionStart,
    unpaid: AbstractSet[int],
    proposed: Sequence[Step],
    coming: Mapping[int, int],
) -> tuple[Decision, LimitPlan]:
    """Decide once. `coming`: by VM id, hosts that make room for VMs which stay for now."""
    snapshot, rules = observed.snapshot, observed.observation.constraints
    decision = within_capacity(
        snapshot,
        lambda snapshot: _with_possible_steps(
            context,
            observed,
            snapshot,
            decide_markets(context, snapshot, observed.in_force, start, unpaid, proposed),
            proposed,
        ),
        None if rules is None else rules.stock,
        lambda plan: _must_stay(context, observed, plan),
    )
    snapshot = with_order_terms(snapshot, decision.order_terms)
    later = withheld_vms(context.markets, snapshot, decision.plan, one_wave=context.handing)
    decision = replace(
        decision,
        reasons=_reasons(context, observed, decision),
        allocations=allocations_until_moved(context.markets, snapshot, decision, later),
    )
    quota = quotas_in_force(observed.in_force, snapshot.vms.vcpus, context.limits.cpu)
    decision = replace(
        decision,
        allocations=allocations_beside_leaving(context.markets, snapshot, decision, later, quota),
    )
    topologies = context.hypervisors.topologies()
    charged = is_charged_by_use(context.markets, snapshot.vms.market)
    rate = np.where(charged, snapshot.vms.bid[:, CPU], np.nan)
    limits = decide_limits(
        snapshot,
        decision,
        observed.in_force,
        topologies,
        context.limits,
        rate,
        None if observed.in_use is None else observed.in_use.keeps,
        coming,
        later,
    )
    return decision, _on_hosts_that_answer(limits, observed)


def _with_possible_steps(
    context: PeriodContext,
    observed: Observed,
    snapshot: Snapshot,
    decision: Decision,
    proposed: Sequence[Step],
) -> Decision:
    """Return the decision without steps of strategies that can't be done now."""
    steps = (stored.step for stored in observed.verdicts.waiting)
    busy = {step.host for step in steps if isinstance(step, OfHost)}
    held = held_switches(observed.moves.switches, observed.observation.at_s, context.rhythm)
    entries = [market.entry for market in context.markets]
    vms = [step.vm for step in proposed]
    return with_possible_steps(snapshot, entries, decision, vms, busy, held)


def _must_stay(context: PeriodContext, observed: Observed, plan: Plan) -> AbstractSet[int]:
    """Return the ids of VMs that would lose claims by the plan, or leave with large quotas."""
    snapshot, settings = observed.snapshot, context.limits.cpu
    vcpus, there = snapshot.vms.vcpus, observed.in_force
    quota = quotas_in_force(there, vcpus, settings)
    # A guest that has just started has no quota yet, and can use its full size.
    starts = np.isnan(quota) & ~np.isnan(there.used_mib)
    quota[starts] = UNITS_PER_CORE * vcpus[starts]
    least, band = least_units(vcpus, settings), unchanged_units(quota, settings)
    advance = vms_with_advance_quotas(snapshot, quota, least, band, plan)
    claims = observed.claims
    if claims is None:
        return advance
    return advance | vms_with_lost_claims(context, snapshot, claims.kept, plan)


def without_moving_proposed(observed: Observed, proposed: Sequence[Step]) -> Observed:
    """Return the cloud in which no strategy places or moves a VM with a proposed step.

    The other VMs of a waiting limit order wait with such a VM.
    """
    ids = frozenset(step.vm for step in proposed)
    return replace(observed, snapshot=without_places(observed.snapshot, ids))


def _reasons(context: PeriodContext, observed: Observed, decision: Decision) -> Mapping[int, str]:
    """Return the messages for owners; an error in a text does not cost the decision."""
    try:
        return _why(context, observed, decision)
    except Exception:  # noqa: BLE001 - the decision does not depend on them
        _log.failure("Some reasons could not be composed; the decision is carried out anyway")
        return decision.reasons


def _why(context: PeriodContext, observed: Observed, decision: Decision) -> Mapping[int, str]:
    """Return why VMs wait or shrink; a requirement's text replaces the strategy's reason."""
    rules = observed.observation.constraints
    known = {} if rules is None else rules.unplaceable
    reasons = {vm: known.get(vm, why) for vm, why in decision.reasons.items()}
    if observed.in_use is not None:
        uses = owner_messages(
            observed.snapshot.vms.id, observed.in_use, decision.allocations[:, MEMORY]
        )
        reasons |= messages_after_reasons(reasons, uses)
    reasons |= failing_to_leave(observed.snapshot, observed.moves)
    words = observed.observation.vm_words
    stuck = failing_to_stop(observed.snapshot, observed.moves, decision.order_terms, words)
    reasons |= messages_after_reasons(reasons, stuck)
    return {
        **reasons,
        **outside_markets(observed.observation, observed.snapshot.vms.market, context.markets),
    }


def _on_hosts_that_answer(limits: LimitPlan, observed: Observed) -> LimitPlan:
    """Return the limits without steps of VMs that are on hosts without an answer, or go there."""
    hosts = observed.use.away
    if not hosts:
        return limits
    seen = observed.observation
    vms = set(seen.vm_id[is_one_of(seen.vm_host, hosts)].tolist())
    return replace(limits, plan=without_hosts(limits.plan, hosts, vms))
