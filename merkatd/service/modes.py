"""The service of modes: the mode, the plan that waits for approval, another scheduler's choices."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import sqlalchemy as sa

from merkatd.cluster import Deploy, Migrate, Stop
from merkatd.database.scheduler import comparison_store, limit_order_store, plan_store
from merkatd.database.scheduler.order_store import Mode, Order
from merkatd.database.scheduler.plan_store import STANDING, PlanState, StoredPlan
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.arguments import one_of, whole
from merkatd.service.base.callers import Caller, require_admin
from merkatd.service.base.errors import ConflictError, InvalidRequestError

_MODES = ("configured", *Mode)
MOST_COMPARISONS = 10_000


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
class StandingStep:
    """A step of a plan that needs an approval."""

    number: int
    kind: str
    vm: int
    name: str | None
    source: str | int | None
    """The name of the host that the VM would leave, or its id if its name is not known."""
    host: str | int | None
    """The host to which the VM would go."""
    reason: str
    skipped: bool
    """Whether the approval left the step out."""
    became: str | None
    """The outcome of the step, if known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingPlan:
    """A plan that needs an approval, in any state."""

    plan: int
    period: int
    at_s: float
    state: str
    who: str | None
    """The user that approved or rejected it."""
    steps: Sequence[StandingStep]


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
            newest = plan_store.newest(connection)
            plan = None if newest is None else plan_store.get(connection, newest.id)
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

    async def _shown(self, plan: StoredPlan) -> StandingPlan:
        """Return a plan, with the names of the hosts and VMs that the latest period saw.

        A plan can have thousands of steps, so this runs outside the reactor.
        """
        return await self._scheduler.world.executor.run(lambda: self._named(plan))

    def _named(self, plan: StoredPlan) -> StandingPlan:
        hosts, vms = self._names()
        return StandingPlan(
            plan=plan.id,
            period=plan.period,
            at_s=plan.made_s,
            state=str(plan.state),
            who=plan.who,
            steps=[
                StandingStep(
                    number=number,
                    kind=step.kind,
                    vm=step.vm,
                    name=vms.get(step.vm),
                    source=hosts.get(step.source, step.source),
                    host=hosts.get(step.host, step.host),
                    reason=step.reason,
                    skipped=step.skipped,
                    became=step.became,
                )
                for number, step in enumerate(plan.steps, start=1)
            ],
        )

    def _names(self) -> tuple[Mapping[int | None, str], Mapping[int, str]]:
        latest = self._scheduler.latest
        if latest is None:
            return {}, {}
        seen = latest.seen.observation
        return (
            dict(zip(seen.host_id.tolist(), seen.host_name, strict=True)),
            dict(zip(seen.vm_id.tolist(), seen.vm_name, strict=True)),
        )


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
