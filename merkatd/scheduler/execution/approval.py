"""Approval: in mode ask, VMs are placed, moved and suspended after an administrator's approval.

Each period decides twice. The free decision may use all steps; those without an approval become the
standing plan. The restricted decision may only use approved steps: so each step is judged again in
the present cloud before it is sent, and limits are set for the present cloud. The plan stands until
a different one results. Refused or skipped steps are not proposed again on their own. An approved
plan is in force until all of it was sent, or until no more of it is possible. After a crash of the
daemon the next one continues it.

# Note [Memory in mode ask]

A strategy decides once a period, and remembers what it proposed: the memory of the free decision is
stored. The restricted decision begins with the same memory and the same random numbers, and its own
memory is dropped, since it knows nothing of the proposed places. Strategy `groups`, for example,
would take the present hosts for the ones that its groups want, and propose no better ones.

A plan that stands or was refused keeps its random numbers: both decisions draw those of the period
that made it (`plans.drawn`), until it is done. With numbers of their own, a strategy that draws
hosts would propose another plan each period, and approvals would come too late. Example: period 7
proposes plan 3, VM 5 on host 2. Periods 8 and 9 draw the numbers of period 7, so plan 3 still
stands when the administrator approves it. Period 10 starts VM 5 on host 2, which ends plan 3, and
period 11 draws its own numbers.

# Note [Room for orders in mode ask]

The restricted decision does not see VMs that wait without an approval. So it would never save or
migrate a VM to make room for a limit order that waits: that order starts in a later plan, when the
room is there. The approved steps that make room are therefore taken from the free decision. The VMs
of an order are approved together (`service/modes.py`). Example: order 2 displaces order 1. Plan 5
saves the VMs of order 1. After its approval, plan 6 starts those of order 2.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import sqlalchemy as sa
from twisted.logger import Logger

from merkatd.cluster import Decision, Migrate, Step, Stop
from merkatd.cluster.columns import NO_ROW, is_one_of, row_of
from merkatd.database.scheduler import plan_store
from merkatd.database.scheduler.order_store import Mode
from merkatd.database.scheduler.plan_store import Key, PlanState, ProposedStep, StoredPlan
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.execution.delegation import HandoverRequest, restricted_to_request
from merkatd.scheduler.execution.plan_effects import Proposal, asked_steps, bare, with_effects
from merkatd.scheduler.execution.plan_reversal import possible_steps
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.phases.decide import FreeDecision, PeriodDecision
from merkatd.scheduler.phases.permission import Permission

_log = Logger()

_MOST_LINES = 20
"""The most steps of a plan for which the log has a line."""


@dataclass(frozen=True, slots=True)
class Approved:
    """The approved steps of a period."""

    plan: StoredPlan | None
    steps: tuple[ProposedStep, ...] = ()
    """The steps of the plan that are approved and not sent yet."""

    @property
    def leave(self) -> Permission:
        """The permission for these steps."""
        return Permission(Mode.ASK, approved=frozenset(step.key for step in self.steps))

    @property
    def undone(self) -> frozenset[int]:
        """The ids of the VMs that a reversal moves back."""
        if self.plan is None or self.plan.reverses is None:
            return frozenset()
        return frozenset(step.vm for step in self.steps)

    def unpaid(self, unpaid: AbstractSet[int]) -> frozenset[int]:
        """Return those of these VMs whose suspension is approved."""
        return frozenset(unpaid & {step.vm for step in self.steps if step.kind == "suspend"})

    def possible(self, observed: Observed) -> "Approved":
        """Return only steps whose VMs are where the plan expects them, if it is a reversal."""
        if self.plan is None or self.plan.reverses is None:
            return self
        there = possible_steps(self.plan, observed)
        return replace(self, steps=tuple(step for step in self.steps if step.vm in there))

    def scene(self, observed: Observed, asked: HandoverRequest | None) -> Observed:
        """Return the cloud in which only these VMs can be placed and moved.

        If OpenNebula carries out steps itself, only VMs that it `asked` about are included.
        """
        hosts = {
            step.vm: frozenset({step.host} if step.source is None else {step.host, step.source})
            for step in self.steps
            if step.host is not None
        }
        if asked is None:
            return restricted_to_request(observed, HandoverRequest(hosts=hosts))
        both = {vm: hosts.get(vm, frozenset()) & given for vm, given in asked.hosts.items()}
        return restricted_to_request(observed, replace(asked, hosts=both))


async def approved_plan(context: PeriodContext) -> Approved:
    """Return the approved steps that may be done now."""

    def read(connection: sa.Connection) -> Approved:
        plan = plan_store.newest(connection)
        if plan is None or plan.state is not PlanState.APPROVED:
            return Approved(None)
        sent = plan_store.results_by_step(connection, plan)
        left = [step for step in plan.steps if not step.skipped and step.key not in sent]
        return Approved(plan, tuple(left))

    return await context.database.read(read)


@dataclass(frozen=True, slots=True)
class OrderRoom:
    """Approved steps that make room for limit orders that wait."""

    stops: tuple[Stop, ...] = ()
    leaving: frozenset[int] = frozenset()
    """The ids of VMs whose migration makes room."""

    async def proposals(self, _database: object, _observed: Observed) -> Sequence[Step]:
        """Return the stops."""
        return self.stops

    def in_scene(self, observed: Observed) -> Observed:
        """Return the cloud in which these VMs must leave their hosts."""
        if not self.leaving:
            return observed
        vms = observed.snapshot.vms
        leaves = vms.leaves | is_one_of(vms.id, self.leaving)
        snapshot = replace(observed.snapshot, vms=replace(vms, leaves=leaves))
        return replace(observed, snapshot=snapshot)


def room_for_orders(observed: Observed, given: Approved, free: FreeDecision) -> OrderRoom:
    """Return the approved steps that make room for limit orders, if they are still right.

    The VMs of a reversal leave their hosts as well.
    """
    vms, approved = observed.snapshot.vms, given.leave.approved
    makes_room = any(step.kind in {Stop.kind, Migrate.kind} for step in given.steps)
    if not makes_room or not ((vms.order != NO_ROW) & vms.waiting).any():
        return OrderRoom(leaving=given.undone)
    decision, terms = free.decision, free.decision.order_terms
    leaving = frozenset(() if terms is None else vms.id[terms.leaving].tolist())
    moves = {step.vm for step in decision.plan.of(Migrate) if plan_store.key_of(step) in approved}
    stops = [step for step in decision.plan.of(Stop) if plan_store.key_of(step) in approved]
    return OrderRoom(tuple(stops), (leaving & moves) | given.undone)


async def propose_plan(
    context: PeriodContext,
    observed: Observed,
    given: Approved,
    decided: PeriodDecision,
    free: FreeDecision,
    postponed: AbstractSet[str] = frozenset(),
) -> StoredPlan | None:
    """Return the standing plan after this period: the approved one, the same one, or a new one.

    `postponed` are the ids of the decided steps that were not sent.
    """
    plan = given.plan
    if plan is not None and not await _over(context, observed, plan, given, decided, postponed):
        return plan
    under_way = {
        plan_store.thing_of(step)
        for step in (*decided.steps, *(stored.step for stored in observed.verdicts.waiting))
    }
    newest = await context.database.read(plan_store.newest)

    def work() -> Proposal:
        steps = asked_steps(free, under_way)
        wanted = bare(steps)
        if not steps or (newest is not None and _stays(newest, wanted, observed)):
            return wanted
        return with_effects(context, observed, free, steps)

    wanted = await context.executor.run(work)
    return await context.database.run(
        lambda connection: _stand(connection, context, observed, wanted, free.start.drawn)
    )


async def _over(
    context: PeriodContext,
    observed: Observed,
    plan: StoredPlan,
    given: Approved,
    decided: PeriodDecision,
    postponed: AbstractSet[str],
) -> bool:
    """Return whether nothing more of a plan is possible; then store its end."""
    why = await context.executor.run(lambda: _left(observed, plan, given, decided, postponed))
    if why is None:
        return False

    def store(connection: sa.Connection) -> None:
        became: dict[Key, str] = why
        plan_store.finish(
            connection, plan, became | plan_store.results_by_step(connection, plan), context.now()
        )

    await context.database.run(store)
    await context.executor.run(lambda: _log_left(plan, why))
    return True


def _left(
    observed: Observed,
    plan: StoredPlan,
    given: Approved,
    decided: PeriodDecision,
    postponed: AbstractSet[str],
) -> dict[Key, str] | None:
    """Return why each of the other steps of a plan is not done; None if more is possible."""
    of_plan = {plan_store.thing_of(step) for step in plan.steps}
    sent = [step for step in decided.steps if step.id not in postponed]
    new = {plan_store.key_of(step) for step in sent} & {step.key for step in given.steps}
    waiting = observed.verdicts.waiting
    under_way = any(plan_store.thing_of(stored.step) in of_plan for stored in waiting)
    left = [step for step in given.steps if step.key not in new]
    if left and (new or under_way):
        return None
    reverses = plan.reverses is not None
    return {
        step.key: _why_not(observed, step, decided.decision, reverses=reverses) for step in left
    }


def _log_left(plan: StoredPlan, why: Mapping[Key, str]) -> None:
    """Log why steps of a plan are not done; the plan itself has the reasons of all."""
    left = [step for step in plan.steps if step.key in why]
    for step in left[:_MOST_LINES]:
        _log.info(
            "Plan {plan}: {kind} of {thing} {id} is not done: {why}",
            plan=plan.id,
            kind=step.kind,
            thing=plan_store.thing_of(step)[0],
            id=plan_store.thing_of(step)[1],
            why=why[step.key],
        )
    if len(left) > _MOST_LINES:
        _log.info(
            "Plan {plan}: {count} more steps are not done; `merkatd plan show` has the reasons",
            plan=plan.id,
            count=len(left) - _MOST_LINES,
        )


def _why_not(
    observed: Observed, step: ProposedStep, decision: Decision, *, reverses: bool = False
) -> str:
    """Return why an approved step is not done after all."""
    thing, id_ = plan_store.thing_of(step)
    if thing == "host":
        left = decision.left_hosts.get(-1 if id_ is None else id_)
        return f"not done: {left or 'its strategy no longer wants it'}"
    row = row_of(observed.observation.vm_id, step.vm)
    if row is None:
        return "not done: the VM is gone"
    if reverses and observed.observation.vm_host[row] != step.source:
        return "not done: the VM is elsewhere by now"
    if step.vm in decision.reasons:
        return f"not done: {decision.reasons[step.vm]}"
    words = observed.observation.vm_words[row]
    return f"not done: it gains too little now, or is impossible while the VM is {words}"


def _stand(
    connection: sa.Connection,
    context: PeriodContext,
    observed: Observed,
    wanted: Proposal,
    drawn: int | None,
) -> StoredPlan | None:
    """Store the wanted plan unless another one stays."""
    present = plan_store.newest_locked(connection)
    if present is not None and _stays(present, wanted, observed):
        return present if present.state in plan_store.STANDING else None
    if present is None and not wanted.steps:
        return None
    plan_store.put(
        connection, observed.period, wanted.steps, context.now(), drawn, wanted.shortfalls
    )
    return plan_store.newest(connection) if wanted.steps else None


def _stays(present: StoredPlan, wanted: Proposal, observed: Observed) -> bool:
    """Return whether the newest plan stays: it equals the wanted one, or an answer settled it.

    A reversal that waits stays as long as one of its steps is possible.
    """
    if present.state is PlanState.APPROVED:  # approved since this period began
        return True
    if present.state is not PlanState.WAITING:
        return wanted.keys <= present.declined
    if present.reverses is not None:
        return bool(possible_steps(present, observed))
    return wanted.keys == {step.key for step in present.steps}
