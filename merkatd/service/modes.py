"""The service of modes: the mode, the plan that waits for approval, another scheduler's choices."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import sqlalchemy as sa
from twisted.logger import Logger

from merkatd.cluster import Deploy, Migrate, Stop
from merkatd.database.scheduler import comparison_store, limit_order_store, plan_store
from merkatd.database.scheduler.order_store import Mode, Order
from merkatd.database.scheduler.plan_store import STANDING, PlanState, StoredPlan
from merkatd.scheduler.execution.plan_reversal import LeftOutStep, reversal_of
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.arguments import one_of, whole
from merkatd.service.base.callers import Caller, require_admin
from merkatd.service.base.errors import ConflictError, InvalidRequestError, TryAgainError
from merkatd.service.proposals.standing_plans import StandingPlan, standing_plan_of

_log = Logger()
_MODES = ("configured", *Mode)
MOST_COMPARISONS = 10_000
_MOST_NAMED = 10
"""The most steps that a refusal names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeState:
    """The mode, and the plan that waits in it."""

    mode: str
    ordered: str | None
    """The mode that an order set instead of the configured mode."""
    configured: str
    waiting_plan: int | None
    most_moves: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedVm:
    """A placement or move of another scheduler, with Merkat's choice."""

    at_s: float
    period: int
    vm: int
    name: str
    source: str | None
    theirs: str | None
    ours: str | None
    same: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerDifferences:
    """How often another scheduler and Merkat chose alike, and the newest choices."""

    compared: int
    same: int
    moved: int
    moved_alike: int
    ours_alone: int
    would_move: int | None
    """The migrations that Merkat would order now, in the mode `shadow`."""
    vms: Sequence[ComparedVm]


class ModeService:
    """The modes and plans of the daemon; orders are for administrators."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def mode(self) -> ModeState:
        """Return the mode and the number of the waiting plan."""
        scheduler = self._scheduler
        plan = await scheduler.world.database.read(plan_store.newest)
        waits = plan is not None and plan.state is PlanState.WAITING
        return ModeState(
            mode=str(scheduler.mode),
            ordered=None if scheduler.ordered is None else str(scheduler.ordered),
            configured=str(scheduler.world.acting.mode),
            waiting_plan=plan.id if plan is not None and waits else None,
            most_moves=scheduler.leave.moves,
        )

    async def set_mode(self, caller: Caller, mode: str, by: str) -> bool:
        """Set the mode from the next period on; return whether this changed it."""
        require_admin(caller, "ADMIN MODE")
        wanted = one_of({"to": mode}, "to", _MODES)
        changed = await self._scheduler.order(Order(f"mode {wanted}"), by, by=caller.origin)
        self._scheduler.wake()
        return changed

    async def standing_plan(self, caller: Caller) -> StandingPlan:
        """Return the newest plan, in any state. Raise ConflictError if there is none."""
        require_admin(caller, "ADMIN PLAN")

        def read(connection: sa.Connection) -> StoredPlan | None:
            newest = plan_store.newest(connection)
            return None if newest is None else plan_store.with_results(connection, newest)

        plan = await self._scheduler.world.database.read(read)
        if plan is None:
            hint = "" if self._scheduler.mode is Mode.ASK else "; only the mode ask makes plans"
            raise ConflictError(f"there is no plan yet{hint}")
        return await self._shown(plan)

    async def approve(
        self, caller: Caller, by: str, plan: int | None, skipped: AbstractSet[int]
    ) -> StandingPlan:
        """Approve the waiting plan without some of its steps; `plan` must be its number or None.

        The VMs of a limit order start and stop together: skipping one skips them all.
        """
        require_admin(caller, "ADMIN PLAN")
        mode = self._scheduler.mode
        if mode is not Mode.ASK:
            raise ConflictError(f"plans can be approved only in mode ask (the mode is {mode})")

        def give(connection: sa.Connection, waiting: StoredPlan) -> None:
            strange = sorted(skipped - set(range(1, len(waiting.steps) + 1)))
            if strange:
                raise InvalidRequestError(
                    f"skip: plan {waiting.id} has no step {strange[0]}; its steps are 1 to"
                    f" {len(waiting.steps)}"
                )
            at_s = self._scheduler.world.now()
            every = frozenset(skipped) | _of_same_orders(connection, waiting, skipped)
            plan_store.approve(connection, waiting, every, by, at_s)

        return await self._answered(plan, give)

    async def refuse(self, caller: Caller, by: str, plan: int | None) -> StandingPlan:
        """Reject the waiting plan; the daemon does not propose the same plan again."""
        require_admin(caller, "ADMIN PLAN")

        def give(connection: sa.Connection, waiting: StoredPlan) -> None:
            plan_store.refuse(connection, waiting, by, self._scheduler.world.now())

        return await self._answered(plan, give)

    async def reverse(self, caller: Caller, by: str, plan: int | None) -> StandingPlan:
        """Propose a plan that undoes an executed one, by default the newest.

        It replaces the waiting plan, and needs an approval like any other.
        """
        require_admin(caller, "ADMIN PLAN")
        scheduler, wanted = self._scheduler, whole({"plan": plan}, "plan")
        mode, latest = scheduler.mode, scheduler.latest
        if mode is not Mode.ASK:
            raise ConflictError(f"plans can be reversed only in mode ask (the mode is {mode})")
        if latest is None:
            raise TryAgainError("no period has ended yet: try again in a moment")
        database = scheduler.world.database
        done = await database.read(lambda connection: _executed(connection, wanted))
        undone = await scheduler.world.executor.run(lambda: reversal_of(done, latest.seen))
        if not undone.steps:
            why = "; ".join(left.text for left in undone.left_out[:_MOST_NAMED])
            more = len(undone.left_out) - _MOST_NAMED
            raise ConflictError(
                f"no step of plan {done.id} can be reversed{f': {why}' if why else ''}"
                f"{f'; and {more} more' if more > 0 else ''}"
            )

        def work(connection: sa.Connection) -> StoredPlan | None:
            newest = plan_store.newest_locked(connection)
            if newest is not None and newest.state is PlanState.APPROVED:
                raise ConflictError(f"plan {newest.id} is under way; reverse a plan after its end")
            waits = newest is not None and newest.state is PlanState.WAITING
            if newest is not None and waits and newest.reverses == done.id:
                raise ConflictError(f"plan {newest.id}, which reverses plan {done.id}, waits")
            now_s = scheduler.world.now()
            plan_store.put(connection, latest.period, undone.steps, now_s, reverses=done.id)
            _log.info("Plan {plan} is to be reversed, by {by}", plan=done.id, by=by)
            return plan_store.newest(connection)

        proposed = await database.run(work)
        if proposed is None:  # it was stored in the same transaction
            raise ConflictError("the plan was replaced: try again")
        return await self._shown(proposed, undone.left_out)

    async def differences(self, caller: Caller, limit: int) -> SchedulerDifferences:
        """Return another scheduler's placements and moves, newest first, with Merkat's choices."""
        require_admin(caller, "ADMIN PLAN")
        most = min(limit, MOST_COMPARISONS)
        comparisons, agreed = await self._scheduler.world.database.read(
            lambda connection: (
                comparison_store.recent(connection, most),
                comparison_store.agreement(connection),
            )
        )
        latest = self._scheduler.latest
        moves = 0 if latest is None else len(latest.decided.decision.plan.of(Migrate))
        return SchedulerDifferences(
            compared=agreed.placed,
            same=agreed.placed_alike,
            moved=agreed.moved,
            moved_alike=agreed.moved_alike,
            ours_alone=agreed.ours_alone,
            would_move=moves if self._scheduler.mode is Mode.SHADOW else None,
            vms=[
                ComparedVm(
                    at_s=comparison.at_s,
                    period=comparison.period,
                    vm=comparison.vm,
                    name=comparison.name,
                    source=comparison.source,
                    theirs=comparison.theirs,
                    ours=comparison.ours,
                    same=comparison.same,
                    why=comparison.why,
                )
                for comparison in comparisons
            ],
        )

    async def _answered(
        self, plan: int | None, give: Callable[[sa.Connection, StoredPlan], None]
    ) -> StandingPlan:
        """Approve or reject the waiting plan."""
        wanted = whole({"plan": plan}, "plan")

        def work(connection: sa.Connection) -> StoredPlan:
            plan = plan_store.newest_locked(connection)
            if plan is None or plan.state not in STANDING:
                raise ConflictError("no plan waits for approval")
            if wanted not in {None, plan.id}:
                raise ConflictError(f"plan {wanted} is no longer current: plan {plan.id} is")
            if plan.state is not PlanState.WAITING:
                raise ConflictError(f"plan {plan.id} was already approved by {plan.who}")
            give(connection, plan)
            return plan_store.get(connection, plan.id) or plan

        answered = await self._scheduler.world.database.run(work)
        self._scheduler.wake()
        return await self._shown(answered)

    async def _shown(self, plan: StoredPlan, left_out: Sequence[LeftOutStep] = ()) -> StandingPlan:
        """Return a plan, with the names of the hosts and VMs that the latest period saw."""
        latest = self._scheduler.latest
        return await self._scheduler.world.executor.run(
            lambda: standing_plan_of(plan, latest, left_out)
        )


def _executed(connection: sa.Connection, wanted: int | None) -> StoredPlan:
    """Return an executed plan, by default the newest. Raise ConflictError."""
    if wanted is None:
        plan = plan_store.newest_done(connection)
        if plan is None:
            raise ConflictError("no plan has been executed yet")
    else:
        plan = plan_store.get(connection, wanted)
        if plan is None:
            raise ConflictError(f"there is no plan {wanted}")
        if plan.state is not PlanState.DONE:
            raise ConflictError(f"plan {wanted} was not executed: it is {plan.state}")
    return plan_store.with_results(connection, plan)


def _of_same_orders(
    connection: sa.Connection, plan: StoredPlan, skipped: AbstractSet[int]
) -> frozenset[int]:
    """Return the numbers of the steps that start or stop a limit order with a skipped step."""
    steps = {
        number: step
        for number, step in enumerate(plan.steps, start=1)
        if step.kind in {Deploy.kind, Stop.kind}
    }
    orders = limit_order_store.of_vms(connection, {step.vm for step in steps.values()})
    gangs = {
        number: (step.kind, orders[step.vm].id)
        for number, step in steps.items()
        if step.vm in orders
    }
    split = {gangs[number] for number in skipped & gangs.keys()}
    return frozenset(number for number, gang in gangs.items() if gang in split)
